package promocode

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.CreatePromoCodeRequest:
		if !promocode.ValidPromoCode(conversion.FoldPromoCode(req.GetCode())) {
			found.Add("code", fmt.Sprintf("must have 1 to %d visible characters without spaces", promocode.MaxPromoCode))
		}
		if code := conversion.FoldPromoCode(req.GetCode()); req.GetSyncToProcessor() && promocode.ValidPromoCode(code) && !promocode.ValidProcessorCode(code) {
			found.Add("code", "must have only letters, digits and dashes when {sync_to_processor} is true")
		}
		checkDiscount(req, &found)
		switch end := req.GetExpiresAt(); {
		case end == nil:
		case !end.IsValid():
			found.Add("expires_at", affiliate.MustBeTimestamp)
		case !toMillis(end).After(s.currentTime()):
			found.Add("expires_at", affiliate.MustBeInFuture)
		}
	case *affiliatev1.UpdatePromoCodeRequest:
		server.CheckMask(req, &found)
		if end := req.GetExpiresAt(); end != nil && !end.IsValid() {
			found.Add("expires_at", affiliate.MustBeTimestamp)
		}
	}
	return found
}

// checkDiscount validates the value and the currency of a discount, which depend on the
// type of the discount. The annotations in the proto file reject values that are invalid
// for all types, for example negative values.
func checkDiscount(req *affiliatev1.CreatePromoCodeRequest, found *affiliate.Violations) {
	if req.DiscountValue == nil {
		found.Add("discount_value", affiliate.IsRequired)
	}
	value := req.GetDiscountValue()
	switch req.GetDiscountType() {
	case affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE:
		if _, ok := server.BasisPoints(value); !ok {
			found.Add("discount_value", "must be from 0 to 100 with at most 2 decimals when {discount_type} is percentage")
		}
		if req.Currency != nil {
			found.Add("currency", "must be absent when {discount_type} is percentage")
		}
	case affiliatev1.DiscountType_DISCOUNT_TYPE_FIXED:
		// Comparisons with NaN are false, so the negation rejects NaN.
		if !(value == math.Trunc(value) && value <= affiliate.MaxAmountCents) {
			found.Add("discount_value", "must be a whole number of minor units when {discount_type} is fixed")
		}
		if _, ok := affiliate.ParseCurrency(req.GetCurrency()); req.Currency != nil && !ok {
			found.Add("currency", affiliate.MustBeCurrency)
		}
	case affiliatev1.DiscountType_DISCOUNT_TYPE_UNSPECIFIED:
	}
}
