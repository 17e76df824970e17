package partner

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is the part of the database that the service uses. A method that refuses a
// request returns an *affiliate.Error. All methods read and change only data of the given
// partner, in the given mode.
type Store interface {
	// PartnerPrograms reads one page of programmes, newest first, and counts all programmes
	// that match the filter. It counts up to affiliate.MaxSearchTotal for a search,
	// otherwise up to affiliate.MaxTotal.
	PartnerPrograms(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.PartnerProgramFilter, page affiliate.Page) ([]affiliate.PartnerProgram, int64, error)
	// PartnerProgram reads one programme. Errors: NOT_FOUND if the programme is not public
	// and the partner has not joined it.
	PartnerProgram(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, id affiliate.ProgramID) (affiliate.PartnerProgram, error)
	// PartnerCommissions reads one page of commissions and counts all commissions that
	// match the filter, up to affiliate.MaxTotal. Errors: NOT_FOUND if the filter names a
	// programme that the partner has not joined.
	PartnerCommissions(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.PartnerCommissionFilter, order affiliate.CommissionOrder, page affiliate.Page) ([]affiliate.PartnerCommission, int64, error)
	// PartnerBalances returns the partner's balance and the sums of its pending and paid
	// commissions, per currency.
	PartnerBalances(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode) ([]affiliate.PartnerBalance, error)
	// PartnerStats sums the statistics of all hours that begin in the period. If program is
	// nil, it covers all programmes of the partner.
	PartnerStats(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, period affiliate.Period) (affiliate.Stats, error)
	// PartnerProfile reads the partner's profile. Errors: NOT_FOUND.
	PartnerProfile(ctx context.Context, id affiliate.UserID) (affiliate.PartnerProfile, error)
	// UpdatePartnerProfile changes the fields that the patch names. A new name is also
	// copied into the partner's participations. Errors: NOT_FOUND, VALIDATION_ERROR.
	UpdatePartnerProfile(ctx context.Context, id affiliate.UserID, patch affiliate.PartnerProfilePatch, at time.Time, by affiliate.Actor) (affiliate.PartnerProfile, error)
	// SetPayoutMethod replaces the payout method. Errors: NOT_FOUND.
	SetPayoutMethod(ctx context.Context, user affiliate.UserID, account affiliate.SealedPayoutAccount, at time.Time, by affiliate.Actor) (affiliate.PayoutDetails, error)
}

// Sealer encrypts and decrypts payout accounts. Package seal implements it.
type Sealer interface {
	// Seal encrypts plain. The result can be decrypted only with the same additional data.
	Seal(plain, aad []byte) []byte
	// Open decrypts a result of Seal.
	Open(sealed, aad []byte) ([]byte, error)
}
