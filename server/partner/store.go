package partner

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. Everything is the named partner's, in the named mode.
type Store interface {
	// PartnerPrograms reads one page, newest first, and counts all pages up to
	// affiliate.MaxTotal rows, or with a search up to affiliate.MaxSearchTotal.
	PartnerPrograms(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.PartnerProgramFilter, page affiliate.Page) ([]affiliate.PartnerProgram, int64, error)
	// PartnerProgram reads one programme that is the partner's or public. Errors:
	// NOT_FOUND.
	PartnerProgram(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, id affiliate.ProgramID) (affiliate.PartnerProgram, error)
	// PartnerCommissions reads one page and counts all pages up to
	// affiliate.MaxTotal rows; a programme that the partner does not take part
	// in has none.
	PartnerCommissions(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.PartnerCommissionFilter, order affiliate.CommissionOrder, page affiliate.Page) ([]affiliate.PartnerCommission, int64, error)
	// PartnerBalances sums what is owed and what was earned, by currency.
	PartnerBalances(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode) ([]affiliate.PartnerBalance, error)
	// PartnerStats counts the hours that begin in the period; program nil: all.
	PartnerStats(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, period affiliate.Period) (affiliate.Stats, error)
	// PartnerProfile reads the account. Errors: NOT_FOUND.
	PartnerProfile(ctx context.Context, id affiliate.UserID) (affiliate.PartnerProfile, error)
	// UpdatePartnerProfile changes what the patch names, and the name beside every
	// participation. Errors: NOT_FOUND, VALIDATION_ERROR.
	UpdatePartnerProfile(ctx context.Context, id affiliate.UserID, patch affiliate.PartnerProfilePatch, at time.Time, by affiliate.Actor) (affiliate.PartnerProfile, error)
	// SetPayoutMethod replaces the payout method. Errors: NOT_FOUND.
	SetPayoutMethod(ctx context.Context, user affiliate.UserID, account affiliate.SealedPayoutAccount, at time.Time, by affiliate.Actor) (affiliate.PayoutDetails, error)
}

// Sealer is what the service needs of the encryption keys (package seal).
type Sealer interface {
	// Seal encrypts; only with the same additional data does it open again.
	Seal(plain, aad []byte) []byte
	// Open decrypts what Seal made.
	Open(sealed, aad []byte) ([]byte, error)
}
