package ledger

import (
	"context"
	"iter"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
)

// Store reads and adds ledger entries in the database. The errors with an API error code
// are of type *affiliate.Error.
type Store interface {
	// Ledger reads one page of a participant's entries, newest first. It also returns the
	// number of entries that match the filter, up to affiliate.MaxTotal, and the
	// participant's balance in each currency. The balances do not depend on the filter.
	// Errors: NOT_FOUND.
	Ledger(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, filter ledger.Filter, page affiliate.Page) ([]ledger.Entry, int64, []ledger.Balance, error)
	// AddLedgerEntry stores an entry and its audit record. If an earlier request with the
	// same Idempotency-Key has stored the entry, AddLedgerEntry returns that entry, and
	// replayed is true. Errors: IDEMPOTENCY_KEY_REUSED, NOT_FOUND, PARTICIPANT_ERASED,
	// PERIOD_CLOSED.
	AddLedgerEntry(ctx context.Context, e ledger.ManualEntry) (entry ledger.Entry, replayed bool, err error)
	// LedgerStatement returns the totals and one page of the balances at the end of the
	// filter's period. Errors: NOT_FOUND for the programme.
	LedgerStatement(ctx context.Context, scope affiliate.Scope, filter ledger.BalanceFilter, page affiliate.Page) (ledger.Statement, error)
	// ExportLedger returns the opening balances and then the entries of a period, oldest
	// first, from one snapshot of the database. The period has both bounds. The iteration
	// uses a database connection until it ends. An error is the last element. Errors:
	// SERVICE_UNAVAILABLE if too many exports are running.
	ExportLedger(ctx context.Context, scope affiliate.Scope, program *affiliate.ProgramID, period affiliate.Period) iter.Seq2[ledger.Line, error]
	// BeginLedgerExport checks the programme of an export and adds its record to the audit
	// log. Errors: NOT_FOUND for the programme.
	BeginLedgerExport(ctx context.Context, scope affiliate.Scope, program *affiliate.ProgramID, line affiliate.AuditLine) error
	// PartnerLedger reads one page of a partner's entries in the mode, newest first. A
	// partner has one participant for each joined programme, and the page contains
	// entries of all these participants. PartnerLedger also returns the number of entries
	// that match the filter, up to affiliate.MaxTotal, and the partner's balance in each
	// currency. If the filter names a programme, the balances include only the entries of
	// this programme. The other fields of the filter do not change the balances.
	PartnerLedger(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter ledger.Filter, page affiliate.Page) ([]ledger.PartnerLedgerEntry, int64, []ledger.Balance, error)
}
