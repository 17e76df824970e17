package stripe_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

func TestCreatePromotionCode(t *testing.T) {
	expires := time.Unix(monday, 999_999_999)
	for name, test := range map[string]struct {
		code       promocode.PromoCode
		wantCoupon object
		wantCode   string
		wantExpiry any
		wantLimit  any
	}{
		"percentage": {
			code:       promocode.PromoCode{Code: "anna-10", DiscountType: promocode.DiscountPercentage, DiscountValue: 1_250},
			wantCoupon: object{"percent_off": 12.5, "amount_off": nil, "duration": "once", "name": "ANNA-10", "redeem_by": nil, "max_redemptions": nil},
			wantCode:   "ANNA-10",
		},
		"fixed, limited": {
			code:       promocode.PromoCode{Code: "b", DiscountType: promocode.DiscountFixed, DiscountValue: 500, Currency: ptr("EUR"), ExpiresAt: &expires, MaxRedemptions: ptr(int64(7))},
			wantCoupon: object{"percent_off": nil, "amount_off": 500.0, "currency": "eur", "duration": "once", "redeem_by": float64(monday), "max_redemptions": 7.0},
			wantCode:   "B", wantExpiry: float64(monday), wantLimit: 7.0,
		},
		"fixed in ISK": {
			code:       promocode.PromoCode{Code: "c", DiscountType: promocode.DiscountFixed, DiscountValue: 500, Currency: ptr("ISK")},
			wantCoupon: object{"amount_off": 50_000.0, "currency": "isk"},
			wantCode:   "C",
		},
		"long": {
			code:       promocode.PromoCode{Code: strings.Repeat("x", 100), DiscountType: promocode.DiscountPercentage, DiscountValue: 10_000},
			wantCoupon: object{"percent_off": 100.0, "name": strings.Repeat("X", 40)},
			wantCode:   strings.Repeat("X", 100),
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			ids, err := f.client.CreatePromotionCode(t.Context(), key, "job 1", test.code)
			if err != nil {
				t.Fatal(err)
			}
			coupon, _ := f.Object(ids.Coupon)
			for field, want := range test.wantCoupon {
				if coupon[field] != want {
					t.Errorf("the coupon's %s is %v, want %v", field, coupon[field], want)
				}
			}
			code, _ := f.Object(ids.PromotionCode)
			if code["code"] != test.wantCode || code["active"] != true || code["expires_at"] != test.wantExpiry || code["max_redemptions"] != test.wantLimit {
				t.Errorf("the promotion code is %v", code)
			}
			again, err := f.client.CreatePromotionCode(t.Context(), key, "job 1", test.code)
			if err != nil || again != ids {
				t.Errorf("the repeated call returned %+v, %v, want %+v", again, err, ids)
			}
			if coupons, codes := f.count(t, "/v1/coupons"), f.count(t, "/v1/promotion_codes"); coupons != 1 || codes != 1 {
				t.Errorf("%d coupons and %d promotion codes exist, want 1 and 1", coupons, codes)
			}
		})
	}
}

func TestCreatePromotionCode_RejectsInvalidDiscounts(t *testing.T) {
	f := newFixture(t)
	for name, code := range map[string]promocode.PromoCode{
		"no type":             {Code: "a", DiscountValue: 100},
		"0 %":                 {Code: "a", DiscountType: promocode.DiscountPercentage},
		"more than 100 %":     {Code: "a", DiscountType: promocode.DiscountPercentage, DiscountValue: 10_001},
		"no currency":         {Code: "a", DiscountType: promocode.DiscountFixed, DiscountValue: 100},
		"0 in Stripe's units": {Code: "a", DiscountType: promocode.DiscountFixed, DiscountValue: 49, Currency: ptr("MGA")},
	} {
		if _, err := f.client.CreatePromotionCode(t.Context(), key, "1", code); err == nil || errors.Is(err, processor.ErrUnavailable) {
			t.Errorf("%s: CreatePromotionCode returned the error %v, want that the discount is invalid", name, err)
		}
	}
	if n := len(f.Requests()); n != 0 {
		t.Errorf("%d requests were sent, want none", n)
	}
}

func TestCreatePromotionCode_AfterFailure(t *testing.T) {
	for name, fault := range map[string]stripeserver.Fault{
		"coupon lost":            {Path: "/v1/coupons", Half: true, Times: 2, AfterEffect: true},
		"promotion code lost":    {Path: "/v1/promotion_codes", Half: true, Times: 2, AfterEffect: true},
		"promotion code limited": {Path: "/v1/promotion_codes", Status: http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			fault.Method = http.MethodPost
			f.Fail(fault)
			code := promocode.PromoCode{Code: "a", DiscountType: promocode.DiscountPercentage, DiscountValue: 1_000}
			if _, err := f.client.CreatePromotionCode(t.Context(), key, "1", code); !errors.Is(err, processor.ErrUnavailable) {
				t.Fatalf("the error is %v, want ErrUnavailable", err)
			}
			if _, err := f.client.CreatePromotionCode(t.Context(), key, "1", code); err != nil {
				t.Fatal(err)
			}
			if coupons, codes := f.count(t, "/v1/coupons"), f.count(t, "/v1/promotion_codes"); coupons != 1 || codes != 1 {
				t.Errorf("%d coupons and %d promotion codes exist, want 1 and 1", coupons, codes)
			}
		})
	}
}

func TestDeactivatePromotionCode(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewPromotionCode("promo_a", nil))
	for _, id := range []string{"promo_a", "promo_a", "promo_unknown", "", "a/b"} {
		if err := f.client.DeactivatePromotionCode(t.Context(), key, id); err != nil {
			t.Errorf("DeactivatePromotionCode(%q) returned the error %v, want none", id, err)
		}
	}
	if code, _ := f.Object("promo_a"); code["active"] != false {
		t.Errorf("the promotion code is %v, want that it is not active", code)
	}
}
