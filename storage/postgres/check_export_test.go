package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
)

// FindRatesSQL is the statement that reads exchange rates. A test checks its query plan.
const FindRatesSQL = findRates

// ChecksIn runs all checks of CheckAccounts in the transaction tx.
var ChecksIn = runChecks

// ForeignRates returns the exchange rates that a decision about the conversion uses,
// and the number of statements that read them.
func (s *Store) ForeignRates(ctx context.Context, c conversion.Conversion, in attribution.Inputs) (map[string]attribution.FXRate, int, error) {
	batch := &pgx.Batch{}
	queueRates(batch, c, &in)
	statements := batch.Len()
	err := s.pool.SendBatch(ctx, batch).Close()
	return in.Rates, statements, err
}
