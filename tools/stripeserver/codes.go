package stripeserver

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// promotionText matches the codes that Stripe accepts.
var promotionText = regexp.MustCompile(`^[A-Za-z0-9-]{1,500}$`)

// createCoupon processes POST /v1/coupons.
func (s *Server) createCoupon(c call) answer {
	if a, ok := knownParams(c.params, "amount_off", "applies_to", "currency", "duration", "duration_in_months", "id",
		"max_redemptions", "metadata", "name", "percent_off", "redeem_by"); !ok {
		return a
	}
	hasAmount, hasPercent := text(c.params, "amount_off") != "", text(c.params, "percent_off") != ""
	duration := text(c.params, "duration")
	if duration == "" {
		duration = "once"
	}
	switch {
	case hasAmount == hasPercent:
		return invalid("", "You must pass either `percent_off` or `amount_off`, but not both.")
	case hasAmount && text(c.params, "currency") == "":
		return invalid("currency", "You must pass a `currency` with `amount_off`.")
	case (duration == "repeating") != (text(c.params, "duration_in_months") != ""):
		return invalid("duration_in_months", "You must pass `duration_in_months` if and only if `duration` is `repeating`.")
	}
	if percent := optionalNumber(c.params["percent_off"]); hasPercent && (number(percent) <= 0 || number(percent) > 100) {
		return invalid("percent_off", "Invalid percent_off: must be greater than 0 and at most 100.")
	}
	id := text(c.params, "id")
	if id == "" {
		id = newCode()
	}
	if _, exists := s.objects[id]; exists {
		return failure(http.StatusBadRequest, apiError{Code: "resource_already_exists", Param: "id", Message: "Coupon already exists."})
	}
	coupon := map[string]any{
		"id": id, "object": "coupon", "amount_off": optionalNumber(c.params["amount_off"]), "created": time.Now().Unix(),
		"currency": optional(strings.ToLower(text(c.params, "currency"))), "duration": duration,
		"duration_in_months": optionalNumber(c.params["duration_in_months"]), "livemode": c.live,
		"max_redemptions": optionalNumber(c.params["max_redemptions"]), "metadata": metadata(nil, c.params),
		"name": optional(c.params["name"]), "percent_off": optionalNumber(c.params["percent_off"]),
		"redeem_by": optionalNumber(c.params["redeem_by"]), "times_redeemed": 0, "valid": true,
	}
	if applies, ok := c.params["applies_to"].(map[string]any); ok {
		coupon["applies_to"] = map[string]any{"products": texts(applies["products"])}
	}
	s.put(deepCopy(coupon))
	return s.respond(coupon, c.params)
}

// removeCoupon processes DELETE /v1/coupons/{id}. The promotion codes of the coupon become
// inactive.
func (s *Server) removeCoupon(c call) answer {
	if _, a, ok := s.find(c); !ok {
		return a
	}
	for _, o := range s.matching(resourceOf("promotion_code"), map[string]any{"coupon": c.id}) {
		o.fields["active"] = false
	}
	return s.removeObject(c)
}

// createPromotionCode processes POST /v1/promotion_codes. stripe-mock has checked that the
// promotion has a type.
func (s *Server) createPromotionCode(c call) answer {
	if a, ok := knownParams(c.params, "active", "code", "customer", "expires_at", "max_redemptions", "metadata", "promotion", "restrictions"); !ok {
		return a
	}
	couponID := idOf(at(c.params, "promotion", "coupon"))
	if coupon, found := s.objects[couponID]; !found || coupon.fields["object"] != "coupon" {
		return missing(http.StatusBadRequest, "coupon", "promotion[coupon]", couponID)
	}
	code := text(c.params, "code")
	if code == "" {
		code = newCode()
	}
	if !promotionText.MatchString(code) {
		return invalid("code", "A promotion code can only contain letters, digits and dashes.")
	}
	active := c.params["active"] != "false"
	if a, ok := s.checkUnique("", code, text(c.params, "customer")); active && !ok {
		return a
	}
	promotionCode := map[string]any{
		"id": newID("promo_"), "object": "promotion_code", "active": active, "code": code, "created": time.Now().Unix(),
		"customer": optional(c.params["customer"]), "customer_account": nil,
		"expires_at": optionalNumber(c.params["expires_at"]), "livemode": c.live,
		"max_redemptions": optionalNumber(c.params["max_redemptions"]), "metadata": metadata(nil, c.params),
		"promotion": map[string]any{"coupon": couponID, "type": "coupon"}, "restrictions": restrictions(c.params),
		"times_redeemed": 0,
	}
	s.put(deepCopy(promotionCode))
	return s.respond(promotionCode, c.params)
}

// updatePromotionCode processes POST /v1/promotion_codes/{id}.
func (s *Server) updatePromotionCode(c call) answer {
	promotionCode, a, ok := s.find(c)
	if !ok {
		return a
	}
	if a, ok := knownParams(c.params, "active", "metadata"); !ok {
		return a
	}
	switch c.params["active"] {
	case "true":
		if a, ok := s.checkUnique(c.id, text(promotionCode, "code"), idOf(promotionCode["customer"])); !ok {
			return a
		}
		promotionCode["active"] = true
	case "false":
		promotionCode["active"] = false
	}
	promotionCode["metadata"] = metadata(promotionCode["metadata"], c.params)
	return s.retrieve(c)
}

// checkUnique checks that no other active promotion code for the customer has the same
// text. The case does not matter.
func (s *Server) checkUnique(id, code, customer string) (a answer, ok bool) {
	for _, o := range s.matching(resourceOf("promotion_code"), map[string]any{"code": code, "active": "true"}) {
		if text(o.fields, "id") != id && idOf(o.fields["customer"]) == customer {
			return invalid("", fmt.Sprintf("An active promotion code with `code: %s` already exists.", code)), false
		}
	}
	return answer{}, true
}

func restrictions(params map[string]any) map[string]any {
	given, _ := params["restrictions"].(map[string]any)
	return map[string]any{
		"first_time_transaction":  given["first_time_transaction"] == "true",
		"minimum_amount":          optionalNumber(given["minimum_amount"]),
		"minimum_amount_currency": optional(given["minimum_amount_currency"]),
	}
}

// optionalNumber returns a parameter that is a number, or nil if it is absent or empty.
// stripe-mock has checked that it is a number.
func optionalNumber(value any) any {
	n, err := strconv.ParseFloat(idOf(value), 64)
	if err != nil {
		return nil
	}
	return n
}

// newCode returns a random text for a coupon or a promotion code without one.
func newCode() string { return strings.ToUpper(newID("")[:8]) }
