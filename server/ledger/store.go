package ledger

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error.
type Store interface {
	// Ledger reads one page of a participant's entries, newest first, counts all
	// pages up to affiliate.MaxTotal entries, and reads the balances by
	// currency, whatever the filter. Errors: NOT_FOUND.
	Ledger(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, filter affiliate.LedgerFilter, page affiliate.Page) ([]affiliate.LedgerEntry, int64, []affiliate.LedgerBalance, error)
	// AddLedgerEntry adds an entry with its audit line. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED.
	AddLedgerEntry(ctx context.Context, e affiliate.ManualEntry) (affiliate.LedgerEntry, error)
	// PartnerLedger is Ledger over a partner's participations in the mode; the
	// balances are of the programmes that the filter leaves.
	PartnerLedger(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.LedgerFilter, page affiliate.Page) ([]affiliate.PartnerLedgerEntry, int64, []affiliate.LedgerBalance, error)
}
