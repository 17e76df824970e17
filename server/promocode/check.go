package promocode

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check reports what is wrong with a request by itself and by the clock.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.CreatePromoCodeRequest:
		if !affiliate.ValidPromoCode(affiliate.FoldPromoCode(req.GetCode())) {
			found.Add("code", fmt.Sprintf("needs 1 to %d visible characters without spaces", affiliate.MaxPromoCode))
		}
		checkDiscount(req, &found)
		switch end := req.GetExpiresAt(); {
		case end == nil:
		case !end.IsValid():
			found.Add("expires_at", "must be an RFC 3339 timestamp")
		case !instant(end).After(s.at()):
			found.Add("expires_at", "must lie in the future")
		}
	case *affiliatev1.UpdatePromoCodeRequest:
		server.CheckMask(req, &found)
		if end := req.GetExpiresAt(); end != nil && !end.IsValid() {
			found.Add("expires_at", "must be an RFC 3339 timestamp")
		}
	}
	return found
}

// checkDiscount leaves numbers that no type knows to the annotations.
func checkDiscount(req *affiliatev1.CreatePromoCodeRequest, found *affiliate.Violations) {
	if req.DiscountValue == nil {
		found.Add("discount_value", "is required")
	}
	value := req.GetDiscountValue()
	switch req.GetDiscountType() {
	case affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE:
		if _, ok := server.BasisPoints(value); !ok {
			found.Add("discount_value", "must be 0 to 100 percent with at most 2 decimals")
		}
		if req.Currency != nil {
			found.Add("currency", "goes with a fixed discount only")
		}
	case affiliatev1.DiscountType_DISCOUNT_TYPE_FIXED:
		// Written so that NaN fails.
		if !(value == math.Trunc(value) && value <= affiliate.MaxAmountCents) {
			found.Add("discount_value", "must be a whole number of minor units")
		}
		if _, ok := affiliate.ParseCurrency(req.GetCurrency()); req.Currency != nil && !ok {
			found.Add("currency", "must be an ISO 4217 currency code of 3 letters")
		}
	case affiliatev1.DiscountType_DISCOUNT_TYPE_UNSPECIFIED:
	}
}
