package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/ledger"
)

// Statements about the ledger whose query plans the tests check.
const (
	LedgerStatementSQL = ledgerStatement
	LedgerOpeningSQL   = ledgerOpening
	LedgerExportSQL    = ledgerExport
	ExportPlanSQL      = exportPlan
)

// AddToLedger adds entries and updates the balances, as every transaction that writes to the
// ledger does.
func (tx *Tx) AddToLedger(ctx context.Context, entries ...ledger.Entry) error {
	batch := &pgx.Batch{}
	queueLedger(batch, randomSlot(), entries...)
	return tx.SendBatch(ctx, batch).Close()
}
