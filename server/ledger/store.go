package ledger

import (
	"context"
	"iter"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store reads and adds ledger entries in the database. The errors with an API error code
// are of type *affiliate.Error.
type Store interface {
	// Ledger reads one page of a participant's entries, newest first. It also returns the
	// number of entries that match the filter, up to affiliate.MaxTotal, and the
	// participant's balance in each currency. The balances do not depend on the filter.
	// Errors: NOT_FOUND.
	Ledger(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, filter affiliate.LedgerFilter, page affiliate.Page) ([]affiliate.LedgerEntry, int64, []affiliate.LedgerBalance, error)
	// AddLedgerEntry stores an entry and its audit record. If an earlier request with the
	// same Idempotency-Key has stored the entry, AddLedgerEntry returns that entry, and
	// replayed is true. Errors: IDEMPOTENCY_KEY_REUSED, NOT_FOUND, PARTICIPANT_ERASED,
	// PERIOD_CLOSED.
	AddLedgerEntry(ctx context.Context, e affiliate.ManualEntry) (entry affiliate.LedgerEntry, replayed bool, err error)
	// LedgerStatement returns the totals and one page of the balances at the end of the
	// filter's period. Errors: NOT_FOUND for the programme.
	LedgerStatement(ctx context.Context, scope affiliate.Scope, filter affiliate.BalanceFilter, page affiliate.Page) (affiliate.LedgerStatement, error)
	// ExportLedger returns the opening balances and then the entries of a period, oldest
	// first, from one snapshot of the database. The period has both bounds. The iteration
	// uses a database connection until it ends. An error is the last element. Errors:
	// SERVICE_UNAVAILABLE if too many exports are running.
	ExportLedger(ctx context.Context, scope affiliate.Scope, program *affiliate.ProgramID, period affiliate.Period) iter.Seq2[affiliate.LedgerLine, error]
	// BeginLedgerExport checks the programme of an export and adds its record to the audit
	// log. Errors: NOT_FOUND for the programme.
	BeginLedgerExport(ctx context.Context, scope affiliate.Scope, program *affiliate.ProgramID, line affiliate.AuditLine) error
	// PartnerLedger reads one page of a partner's entries in the mode, newest first. A
	// partner has one participant for each joined programme, and the page contains
	// entries of all these participants. PartnerLedger also returns the number of entries
	// that match the filter, up to affiliate.MaxTotal, and the partner's balance in each
	// currency. If the filter names a programme, the balances include only the entries of
	// this programme. The other fields of the filter do not change the balances.
	PartnerLedger(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.LedgerFilter, page affiliate.Page) ([]affiliate.PartnerLedgerEntry, int64, []affiliate.LedgerBalance, error)
}
