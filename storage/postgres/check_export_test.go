package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// FindRatesSQL is the statement whose plan is asserted.
const FindRatesSQL = findRates

// ForeignRates are the rates that a decision about a conversion is given, and in
// how many statements they are read.
func (s *Store) ForeignRates(ctx context.Context, c affiliate.Conversion, in affiliate.AttributionInputs) (map[string]affiliate.FXRate, int, error) {
	batch := &pgx.Batch{}
	queueRates(batch, c, &in)
	statements := batch.Len()
	err := s.pool.SendBatch(ctx, batch).Close()
	return in.Rates, statements, err
}
