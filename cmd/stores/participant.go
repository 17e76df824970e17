package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
	accountpg "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Participant returns the store of package participant.
func Participant(store *postgres.Store) participant.Store { return participantStore{store} }

type participantStore struct{ *postgres.Store }

func (s participantStore) InTx(ctx context.Context, fn func(tx participant.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *postgres.Tx) error {
		return fn(participantTx{&accountpg.Tx{Tx: tx}, s.Enrolment(tx)})
	})
}

// participantTx is a transaction with the statements about accounts and participants.
type participantTx struct {
	*accountpg.Tx
	*postgres.EnrolmentTx
}
