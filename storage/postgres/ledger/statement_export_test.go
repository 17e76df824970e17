package ledger

import "github.com/tributary-hq/tributary/storage/postgres"

// Statements about the ledger whose query plans the tests check.
const (
	LedgerStatementSQL = ledgerStatement
	LedgerOpeningSQL   = ledgerOpening
	ExportPlanSQL      = postgres.ExportPlan
)

// LedgerExportSQL is the statement that reads the entries of an export.
var LedgerExportSQL = ledgerExport
