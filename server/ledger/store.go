package ledger

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is the part of the database that the service uses. A method that refuses a
// request returns an *affiliate.Error.
type Store interface {
	// Ledger reads one page of a participant's entries, newest first, and counts all
	// entries that match the filter, up to affiliate.MaxTotal. The balances, one per
	// currency, do not depend on the filter. Errors: NOT_FOUND.
	Ledger(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, filter affiliate.LedgerFilter, page affiliate.Page) ([]affiliate.LedgerEntry, int64, []affiliate.LedgerBalance, error)
	// AddLedgerEntry stores an entry and its audit record. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED.
	AddLedgerEntry(ctx context.Context, e affiliate.ManualEntry) (affiliate.LedgerEntry, error)
	// PartnerLedger does the same as Ledger for all participations of a partner in the
	// mode. The balances cover the programmes that the filter selects.
	PartnerLedger(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.LedgerFilter, page affiliate.Page) ([]affiliate.PartnerLedgerEntry, int64, []affiliate.LedgerBalance, error)
}
