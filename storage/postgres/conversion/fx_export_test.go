package conversion

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// FindRatesSQL is the statement that reads exchange rates. A test checks its query plan.
const FindRatesSQL = findRates

// ForeignRates returns the exchange rates that a decision about the conversion uses,
// and the number of statements that read them.
func ForeignRates(ctx context.Context, db *postgres.DB, c conversion.Conversion, in attribution.Inputs) (map[string]attribution.FXRate, int, error) {
	batch := &pgx.Batch{}
	queueRates(batch, c, &in)
	statements := batch.Len()
	err := db.SendBatch(ctx, batch).Close()
	return in.Rates, statements, err
}
