package stripeserver

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v85"
)

// newCoupon creates a coupon and returns its id.
func (r running) newCoupon(t *testing.T) string {
	t.Helper()
	coupon, err := r.client(testKey, 0).V1Coupons.Create(t.Context(), &stripe.CouponCreateParams{PercentOff: stripe.Float64(12.5)})
	if err != nil {
		t.Fatal(err)
	}
	return coupon.ID
}

// promotionCode returns the form that creates a promotion code. pairs are more names and
// values.
func promotionCode(coupon, code string, pairs ...string) url.Values {
	form := url.Values{"promotion[type]": {"coupon"}, "promotion[coupon]": {coupon}, "code": {code}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

func TestCoupons_AreStored(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.client("rk_live_0123456789", 0)
	coupon, err := client.V1Coupons.Create(t.Context(), &stripe.CouponCreateParams{
		ID: stripe.String("SPRING"), AmountOff: stripe.Int64(500), Currency: stripe.String("EUR"), Name: stripe.String("Spring"),
		Duration: stripe.String("repeating"), DurationInMonths: stripe.Int64(3), MaxRedemptions: stripe.Int64(9), RedeemBy: stripe.Int64(1999999999),
	})
	if err != nil || coupon.ID != "SPRING" || coupon.AmountOff != 500 || coupon.Currency != "eur" || coupon.PercentOff != 0 ||
		coupon.Duration != "repeating" || coupon.DurationInMonths != 3 || coupon.MaxRedemptions != 9 || coupon.RedeemBy != 1999999999 ||
		coupon.Name != "Spring" || !coupon.Valid || !coupon.Livemode {
		t.Errorf("Create returned %+v and the error %v", coupon, err)
	}
	read, err := client.V1Coupons.Retrieve(t.Context(), "SPRING", nil)
	if err != nil || read.AmountOff != 500 {
		t.Errorf("Retrieve returned %+v and the error %v", read, err)
	}
	if first, second := s.newCoupon(t), s.newCoupon(t); first == second || len(first) != 8 {
		t.Errorf("the generated ids are %q and %q, want different ids of 8 characters", first, second)
	}
}

func TestCoupons_RejectsWrongParameters(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(map[string]any{"id": "TAKEN", "object": "coupon"})
	for name, test := range map[string]struct {
		form url.Values
		want string // part of the message
	}{
		"no discount":           {url.Values{"duration": {"once"}}, "either `percent_off` or `amount_off`"},
		"two discounts":         {url.Values{"percent_off": {"5"}, "amount_off": {"5"}, "currency": {"usd"}}, "either `percent_off` or `amount_off`"},
		"amount, no currency":   {url.Values{"amount_off": {"5"}}, "currency"},
		"percentage above 100":  {url.Values{"percent_off": {"100.5"}}, "percent_off"},
		"percentage of 0":       {url.Values{"percent_off": {"0"}}, "percent_off"},
		"repeating, no months":  {url.Values{"percent_off": {"5"}, "duration": {"repeating"}}, "duration_in_months"},
		"unknown duration":      {url.Values{"percent_off": {"5"}, "duration": {"always"}}, "duration"},
		"id exists":             {url.Values{"percent_off": {"5"}, "id": {"TAKEN"}}, "Coupon already exists."},
		"parameter unsupported": {url.Values{"percent_off": {"5"}, "currency_options[eur][amount_off]": {"5"}}, "currency_options"},
	} {
		got := s.do(t, http.MethodPost, "/v1/coupons", test.form)
		if got.status != http.StatusBadRequest || !strings.Contains(got.errorField("message"), test.want) {
			t.Errorf("%s: got %d %v, want 400 with %q", name, got.status, got.object, test.want)
		}
	}
}

func TestPromotionCodes_AreStoredAndDeactivated(t *testing.T) {
	t.Parallel()
	s := start(t)
	coupon := s.newCoupon(t)
	client := s.client(testKey, 0)
	params := &stripe.PromotionCodeCreateParams{
		Code: stripe.String("SPRING-20"), ExpiresAt: stripe.Int64(1999999999), MaxRedemptions: stripe.Int64(5),
		Promotion: &stripe.PromotionCodeCreatePromotionParams{Type: stripe.String("coupon"), Coupon: stripe.String(coupon)},
		Metadata:  map[string]string{"code": "7"},
	}
	params.AddExpand("promotion.coupon")
	code, err := client.V1PromotionCodes.Create(t.Context(), params)
	if err != nil || !strings.HasPrefix(code.ID, "promo_") || code.Code != "SPRING-20" || !code.Active || code.ExpiresAt != 1999999999 ||
		code.MaxRedemptions != 5 || code.Metadata["code"] != "7" || code.Promotion.Coupon.ID != coupon || code.Promotion.Coupon.PercentOff != 12.5 {
		t.Fatalf("Create returned %+v and the error %v", code, err)
	}
	updated, err := client.V1PromotionCodes.Update(t.Context(), code.ID, &stripe.PromotionCodeUpdateParams{Active: stripe.Bool(false)})
	if err != nil || updated.Active || updated.Metadata["code"] != "7" || updated.Promotion.Coupon.ID != coupon {
		t.Errorf("Update returned %+v and the error %v, want an inactive code", updated, err)
	}
	if stored, _ := s.Object(code.ID); stored["active"] != false || at(stored, "promotion", "coupon") != coupon {
		t.Errorf("the stored code is %v, want an inactive code with the id of the coupon", stored)
	}
	_, err = client.V1PromotionCodes.Update(t.Context(), "promo_none", &stripe.PromotionCodeUpdateParams{Active: stripe.Bool(false)})
	if e := stripeError(t, err); e.HTTPStatusCode != http.StatusNotFound || e.Code != stripe.ErrorCodeResourceMissing {
		t.Errorf("the error for a code that does not exist is %v, want 404 resource_missing", e)
	}
}

func TestPromotionCodes_TextIsUniqueAmongActive(t *testing.T) {
	t.Parallel()
	s := start(t)
	coupon := s.newCoupon(t)
	create := func(code string, pairs ...string) response {
		t.Helper()
		return s.do(t, http.MethodPost, "/v1/promotion_codes", promotionCode(coupon, code, pairs...))
	}
	first := create("SPRING")
	if got := create("spring"); got.status != http.StatusBadRequest || got.errorField("message") != "An active promotion code with `code: spring` already exists." {
		t.Errorf("a second code with the same text got %d %v, want 400", got.status, got.object)
	}
	if got := create("SPRING", "customer", "cus_1"); got.status != http.StatusOK {
		t.Errorf("a code of a customer got %d %v, want 200", got.status, got.object)
	}
	inactive := create("SPRING", "active", "false")
	if inactive.status != http.StatusOK || inactive.object["active"] != false {
		t.Errorf("an inactive code got %d %v, want 200", inactive.status, inactive.object)
	}
	activate := func() response {
		t.Helper()
		return s.do(t, http.MethodPost, "/v1/promotion_codes/"+idOf(inactive.object), url.Values{"active": {"true"}})
	}
	if got := activate(); got.status != http.StatusBadRequest {
		t.Errorf("a second active code got %d, want 400", got.status)
	}
	s.do(t, http.MethodPost, "/v1/promotion_codes/"+idOf(first.object), url.Values{"active": {"false"}})
	if got := activate(); got.status != http.StatusOK || got.object["active"] != true {
		t.Errorf("a code got %d %v after the other code became inactive, want 200", got.status, got.object)
	}
}

func TestPromotionCodes_RejectsWrongParameters(t *testing.T) {
	t.Parallel()
	s := start(t)
	coupon := s.newCoupon(t)
	s.Put(NewCharge("ch_1", nil))
	for name, test := range map[string]struct {
		form url.Values
		want string // part of the message
	}{
		"no promotion":           {url.Values{"code": {"A"}}, "'promotion' is required"},
		"unknown promotion type": {promotionCode(coupon, "A", "promotion[type]", "gift"), "type"},
		"coupon is missing":      {promotionCode("NONE", "A"), "No such coupon: 'NONE'"},
		"coupon is a charge":     {promotionCode("ch_1", "A"), "No such coupon: 'ch_1'"},
		"underscore":             {promotionCode(coupon, "A_B"), "letters, digits and dashes"},
		"space":                  {promotionCode(coupon, "A B"), "letters, digits and dashes"},
	} {
		got := s.do(t, http.MethodPost, "/v1/promotion_codes", test.form)
		if got.status != http.StatusBadRequest || !strings.Contains(got.errorField("message"), test.want) {
			t.Errorf("%s: got %d %v, want 400 with %q", name, got.status, got.object, test.want)
		}
	}
}

func TestCoupons_DeleteMakesPromotionCodesInactive(t *testing.T) {
	t.Parallel()
	s := start(t)
	coupon, other := s.newCoupon(t), s.newCoupon(t)
	code := s.do(t, http.MethodPost, "/v1/promotion_codes", promotionCode(coupon, "A"))
	kept := s.do(t, http.MethodPost, "/v1/promotion_codes", promotionCode(other, "B"))
	if _, err := s.client(testKey, 0).V1Coupons.Delete(t.Context(), coupon, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.get(t, "/v1/coupons/"+coupon); got.status != http.StatusNotFound {
		t.Errorf("the deleted coupon got %d, want 404", got.status)
	}
	for id, want := range map[string]bool{idOf(code.object): false, idOf(kept.object): true} {
		if got, _ := s.Object(id); got["active"] != want {
			t.Errorf("the code %v is active: %v, want %v", got["code"], got["active"], want)
		}
	}
}
