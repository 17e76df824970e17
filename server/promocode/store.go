package promocode

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. What a person changed is audited, published and taken to the
// edge directory in the transaction of the change.
type Store interface {
	// PromoCodes reads one page of a programme's promo codes, newest first, and
	// counts all pages. With a search it counts up to affiliate.MaxSearchTotal, with
	// another filter up to affiliate.MaxTotal. Errors: NOT_FOUND for the programme
	// and the participant.
	PromoCodes(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.PromoCodeFilter, page affiliate.Page) ([]affiliate.PromoCode, int64, error)
	// PromoCode reads one promo code. Errors: NOT_FOUND.
	PromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID) (affiliate.PromoCode, error)
	// CreatePromoCode gives a participant a code. A fixed discount without Currency
	// is in the programme's. Errors: NOT_FOUND for the programme, VALIDATION_ERROR
	// for the participant, PROGRAM_STATE_INVALID, PARTICIPANT_ERASED,
	// PROMO_CODE_TAKEN.
	CreatePromoCode(ctx context.Context, c affiliate.PromoCode, by affiliate.Actor) (affiliate.PromoCode, error)
	// UpdatePromoCode changes what the patch names; a patch that changes nothing
	// leaves no trace. Errors: NOT_FOUND, PARTICIPANT_ERASED.
	UpdatePromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID, patch affiliate.PromoCodePatch, at time.Time, by affiliate.Actor) (affiliate.PromoCode, error)
	// DeletePromoCode forgets a code, whose name is free then. Errors: NOT_FOUND.
	DeletePromoCode(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID, at time.Time, by affiliate.Actor) error

	// PartnerPromoCodes reads one page of a partner's promo codes, newest first, and
	// counts all pages up to affiliate.MaxTotal; a nil programme is any.
	PartnerPromoCodes(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page) ([]affiliate.PromoCode, int64, error)
}
