package promocode

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is the part of the database that the service uses. A method that refuses a
// request returns an *affiliate.Error. A change, its audit record, its event and the job
// that updates the edge directory are stored in one transaction.
type Store interface {
	// PromoCodes reads one page of a programme's promo codes, newest first, and counts all
	// promo codes that match the filter. It counts up to affiliate.MaxSearchTotal for a
	// search, and up to affiliate.MaxTotal for another filter. Errors: NOT_FOUND for the
	// programme and the participant.
	PromoCodes(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.PromoCodeFilter, page affiliate.Page) ([]affiliate.PromoCode, int64, error)
	// PromoCode reads one promo code. Errors: NOT_FOUND.
	PromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID) (affiliate.PromoCode, error)
	// CreatePromoCode stores a promo code. If a fixed discount has no Currency, it uses the
	// programme's currency. Errors: NOT_FOUND for the programme, VALIDATION_ERROR for the
	// participant, PROGRAM_STATE_INVALID, PARTICIPANT_ERASED, PROMO_CODE_TAKEN.
	CreatePromoCode(ctx context.Context, c affiliate.PromoCode, by affiliate.Actor) (affiliate.PromoCode, error)
	// UpdatePromoCode changes the fields that the patch names. It stores nothing if the
	// patch changes nothing. Errors: NOT_FOUND, PARTICIPANT_ERASED.
	UpdatePromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID, patch affiliate.PromoCodePatch, at time.Time, by affiliate.Actor) (affiliate.PromoCode, error)
	// DeletePromoCode deletes a promo code. The same code can then be created again.
	// Errors: NOT_FOUND.
	DeletePromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID, at time.Time, by affiliate.Actor) error

	// PartnerPromoCodes reads one page of a partner's promo codes, newest first, and counts
	// all of them, up to affiliate.MaxTotal. If program is nil, it reads all programmes.
	// Errors: NOT_FOUND for the programme.
	PartnerPromoCodes(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page) ([]affiliate.PromoCode, int64, error)
}
