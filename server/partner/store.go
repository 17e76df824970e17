package partner

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

// Store reads and changes the data of one partner in the database. The errors with an API
// error code are of type *affiliate.Error. A method with a mode reads only data of this
// mode.
type Store interface {
	// PartnerPrograms reads one page of programmes, newest first, and counts all
	// programmes that match the filter. It stops counting at affiliate.MaxSearchTotal if
	// the filter has a search text, and otherwise at affiliate.MaxTotal.
	PartnerPrograms(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter partner.ProgramFilter, page affiliate.Page) ([]partner.Program, int64, error)
	// PartnerProgram reads one programme. Errors: NOT_FOUND if the programme is not
	// public and the partner has not joined it.
	PartnerProgram(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, id affiliate.ProgramID) (partner.Program, error)
	// PartnerCommissions reads one page of commissions and counts all commissions that
	// match the filter, up to affiliate.MaxTotal. Errors: NOT_FOUND if the filter names a
	// programme that the partner has not joined.
	PartnerCommissions(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter partner.CommissionFilter, order commission.Order, page affiliate.Page) ([]partner.Commission, int64, error)
	// PartnerBalances returns, for each currency, the partner's balance and the sums of
	// the partner's pending and paid commissions.
	PartnerBalances(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode) ([]ledger.PartnerBalance, error)
	// ParticipantBalances returns the sums of PartnerBalances for one participant.
	ParticipantBalances(ctx context.Context, p participant.Ref) ([]ledger.PartnerBalance, error)
	// PartnerProfile reads the partner's profile. Errors: NOT_FOUND.
	PartnerProfile(ctx context.Context, id affiliate.UserID) (partner.Profile, error)
	// UpdatePartnerProfile changes the fields that the patch names. If the name changes,
	// it also changes the copies of the name in the partner's participants. Errors:
	// NOT_FOUND, VALIDATION_ERROR.
	UpdatePartnerProfile(ctx context.Context, id affiliate.UserID, patch partner.ProfilePatch, at time.Time, by affiliate.Actor) (partner.Profile, error)
	// SetPayoutMethod replaces the payout method. factorSince is when the second factor was
	// enabled whose code authorised the change; it is nil if the password did. Errors:
	// NOT_FOUND.
	SetPayoutMethod(
		ctx context.Context, user affiliate.UserID, account payout.SealedPayoutAccount, factorSince *time.Time, at time.Time, by affiliate.Actor,
	) (payout.Details, error)
}

// Sealer encrypts and decrypts payout accounts. Package seal implements it.
type Sealer interface {
	// Seal encrypts plain. The result can be decrypted only with the same additional data
	// (aad).
	Seal(plain, aad []byte) []byte
	// Open decrypts a result of Seal.
	Open(sealed, aad []byte) ([]byte, error)
}

// Reauthenticator checks that the caller is the owner of the account. Package account
// implements it.
type Reauthenticator interface {
	// Reauthenticate checks the code if the account has a second factor, and otherwise the
	// password. factorSince is when the second factor was enabled; nil if the account has
	// none. Errors: INVALID_CREDENTIALS, RATE_LIMIT_EXCEEDED.
	Reauthenticate(ctx context.Context, password, code string) (factorSince *time.Time, err error)
}
