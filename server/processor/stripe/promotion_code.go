package stripe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// maxCouponName is the greatest number of characters in the name of a coupon.
const maxCouponName = 40

var errNoDiscount = errors.New("stripe: the promo code has no discount that Stripe accepts")

// CreatePromotionCode makes a coupon and a promotion code. If the promotion code cannot be
// created, the coupon stays: nobody can use it, and the next call with the same idempotency
// key continues with it. Stripe remembers idempotency keys for at least 24 hours.
func (c *Client) CreatePromotionCode(ctx context.Context, key, idempotencyKey string, code promocode.PromoCode) (processor.PromoCode, error) {
	params, err := couponParams(code)
	if err != nil {
		return processor.PromoCode{}, err
	}
	api := c.api(key)
	params.SetIdempotencyKey(deriveKey(idempotencyKey, "coupon"))
	coupon, err := api.V1Coupons.Create(ctx, params)
	if err != nil {
		return processor.PromoCode{}, failure(ctx, "create a coupon", err)
	}
	codeParams := &stripe.PromotionCodeCreateParams{
		// Buyers may enter the code in upper and lower case.
		Code: stripe.String(strings.ToUpper(code.Code)),
		Promotion: &stripe.PromotionCodeCreatePromotionParams{
			Type: stripe.String(string(stripe.PromotionCodePromotionTypeCoupon)), Coupon: stripe.String(coupon.ID),
		},
		MaxRedemptions: code.MaxRedemptions,
	}
	if code.ExpiresAt != nil {
		codeParams.ExpiresAt = stripe.Int64(code.ExpiresAt.Unix())
	}
	codeParams.SetIdempotencyKey(deriveKey(idempotencyKey, "promotion_code"))
	created, err := api.V1PromotionCodes.Create(ctx, codeParams)
	if err != nil {
		return processor.PromoCode{}, failure(ctx, "create a promotion code", err)
	}
	if coupon.ID == "" || created.ID == "" {
		return processor.PromoCode{}, unavailable("create a promotion code", "the response has no id")
	}
	return processor.PromoCode{Coupon: coupon.ID, PromotionCode: created.ID}, nil
}

// couponParams returns the coupon with the discount of a promo code.
func couponParams(code promocode.PromoCode) (*stripe.CouponCreateParams, error) {
	name := []rune(strings.ToUpper(code.Code))
	params := &stripe.CouponCreateParams{
		// The discount applies to the first payment of a subscription only. The promo code
		// of a partner rewards the buyer for the first purchase, and the service redeems it
		// once per conversion.
		Duration:       stripe.String(string(stripe.CouponDurationOnce)),
		Name:           stripe.String(string(name[:min(len(name), maxCouponName)])),
		MaxRedemptions: code.MaxRedemptions,
	}
	if code.ExpiresAt != nil {
		params.RedeemBy = stripe.Int64(code.ExpiresAt.Unix())
	}
	switch code.DiscountType {
	case promocode.DiscountPercentage:
		if code.DiscountValue <= 0 || code.DiscountValue > 100_00 {
			return nil, errNoDiscount
		}
		params.PercentOff = stripe.Float64(float64(code.DiscountValue) / 100)
	case promocode.DiscountFixed:
		if code.Currency == nil {
			return nil, errNoDiscount
		}
		amount := toStripe(code.DiscountValue, *code.Currency)
		if amount <= 0 {
			return nil, errNoDiscount
		}
		params.AmountOff = stripe.Int64(amount)
		params.Currency = stripe.String(strings.ToLower(*code.Currency))
	default:
		return nil, errNoDiscount
	}
	return params, nil
}

// deriveKey returns the idempotency key for one of the requests of a call. It is a digest,
// so it fits into Stripe's limit of 255 characters.
func deriveKey(idempotencyKey, request string) string {
	digest := sha256.Sum256([]byte(request + "\x00" + idempotencyKey))
	return "tributary-" + hex.EncodeToString(digest[:])
}

// DeactivatePromotionCode makes a promotion code unusable. A code that does not exist is no
// error. The coupon stays, because buyers can use it only with the promotion code.
func (c *Client) DeactivatePromotionCode(ctx context.Context, key, id string) error {
	if !validID(id) {
		return nil
	}
	_, err := c.api(key).V1PromotionCodes.Update(ctx, id, &stripe.PromotionCodeUpdateParams{Active: stripe.Bool(false)})
	if err != nil && !isMissing(err) {
		return failure(ctx, "deactivate a promotion code", err)
	}
	return nil
}
