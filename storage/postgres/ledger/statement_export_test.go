package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Statements about the ledger whose query plans the tests check.
const (
	LedgerStatementSQL = ledgerStatement
	LedgerOpeningSQL   = ledgerOpening
	LedgerExportSQL    = ledgerExport
	ExportPlanSQL      = postgres.ExportPlan
)

// AddToLedger adds entries and updates the balances, as every transaction that writes to the
// ledger does.
func AddToLedger(ctx context.Context, tx *postgres.Tx, entries ...ledger.Entry) error {
	batch := &pgx.Batch{}
	Queue(batch, postgres.RandomSlot(), entries...)
	return tx.SendBatch(ctx, batch).Close()
}
