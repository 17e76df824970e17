package promocode

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// Store reads and changes promo codes in the database. The errors with an API error code
// are of type *affiliate.Error. A change, its audit record, its event and the job that
// updates the edge directory are stored in one transaction.
type Store interface {
	// PromoCodes reads one page of a programme's promo codes, newest first, and counts
	// all promo codes that match the filter. If the filter has a search text, it stops
	// counting at affiliate.MaxSearchTotal. If the filter has only other conditions, it
	// stops counting at affiliate.MaxTotal. If the filter is empty, the number is always
	// exact. Errors: NOT_FOUND for the programme and the participant.
	PromoCodes(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter promocode.Filter, page affiliate.Page) ([]promocode.PromoCode, int64, error)
	// PromoCode reads one promo code. Errors: NOT_FOUND.
	PromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID) (promocode.PromoCode, error)
	// CreatePromoCode stores a promo code. If the discount is fixed and c.Currency is
	// nil, the discount has the programme's currency. Errors: NOT_FOUND for the
	// programme, VALIDATION_ERROR for the participant, PROGRAM_STATE_INVALID,
	// PARTICIPANT_ERASED, PROMO_CODE_TAKEN.
	CreatePromoCode(ctx context.Context, c promocode.PromoCode, by affiliate.Actor) (promocode.PromoCode, error)
	// UpdatePromoCode changes the fields that the patch names. If the fields already have
	// the new values, it stores nothing. Errors: NOT_FOUND, PARTICIPANT_ERASED.
	UpdatePromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID, patch promocode.Patch, at time.Time, by affiliate.Actor) (promocode.PromoCode, error)
	// DeletePromoCode deletes a promo code. The same code can then be created again.
	// Errors: NOT_FOUND.
	DeletePromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID, at time.Time, by affiliate.Actor) error

	// PartnerPromoCodes reads one page of a partner's promo codes, newest first, and
	// counts all promo codes of the partner, up to affiliate.MaxTotal. If program is not
	// nil, it reads and counts only the promo codes of this programme. Errors: NOT_FOUND
	// for the programme.
	PartnerPromoCodes(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page) ([]promocode.PromoCode, int64, error)
}
