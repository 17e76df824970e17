package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	processorpg "github.com/tributary-hq/tributary/storage/postgres/processor"
)

// Processor returns the store of package processor.
func Processor(db *postgres.DB) processor.Store { return processorStore{processorpg.NewStore(db)} }

type processorStore struct{ *processorpg.Store }

func (s processorStore) InTx(ctx context.Context, fn func(tx processor.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *processorpg.Tx) error { return fn(tx) })
}
