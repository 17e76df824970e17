package promocode

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func toProto(c promocode.PromoCode) *affiliatev1.PromoCode {
	value := float64(c.DiscountValue)
	if c.DiscountType == promocode.DiscountPercentage {
		value = *server.Percentage(&c.DiscountValue)
	}
	return &affiliatev1.PromoCode{
		Id:              c.ID.String(),
		ProgramId:       c.Program.String(),
		ProgramName:     c.ProgramName,
		ParticipantId:   c.Participant.String(),
		PartnerName:     c.PartnerName,
		Code:            c.Code,
		DiscountType:    server.EnumValue[affiliatev1.DiscountType](c.DiscountType),
		DiscountValue:   value,
		Currency:        c.Currency,
		MaxRedemptions:  c.MaxRedemptions,
		Redemptions:     c.Redemptions,
		ExpiresAt:       server.OptionalTimestamp(c.ExpiresAt),
		Active:          c.Active,
		SyncToProcessor: c.Sync,
		SyncStatus:      server.EnumValue[affiliatev1.SyncStatus](c.SyncStatus),
		CreatedAt:       server.Timestamp(c.CreatedAt),
		UpdatedAt:       server.Timestamp(c.UpdatedAt),
	}
}

func response(c promocode.PromoCode, err error) (*affiliatev1.PromoCode, error) {
	if err != nil {
		return nil, err
	}
	return toProto(c), nil
}

func listResponse(codes []promocode.PromoCode, total int64, page affiliate.Page) *affiliatev1.ListPromoCodesResponse {
	return &affiliatev1.ListPromoCodesResponse{
		Data: server.ConvertAll(codes, toProto), Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}
}

// newPromoCode converts a create request to an active promo code. Check has validated the
// request. If a fixed discount has no currency in the request, CreatePromoCode sets the
// currency.
func newPromoCode(req *affiliatev1.CreatePromoCodeRequest) promocode.PromoCode {
	c := promocode.PromoCode{
		Code:           conversion.FoldPromoCode(req.GetCode()),
		DiscountType:   promocode.DiscountType(server.EnumName(req.GetDiscountType())),
		DiscountValue:  int64(req.GetDiscountValue()),
		MaxRedemptions: req.MaxRedemptions,
		ExpiresAt:      toMillis(req.GetExpiresAt()),
		Active:         true,
		Version:        1,
	}
	if c.DiscountType == promocode.DiscountPercentage {
		c.DiscountValue, _ = server.BasisPoints(req.GetDiscountValue())
	}
	if currency, ok := affiliate.ParseCurrency(req.GetCurrency()); ok {
		c.Currency = &currency
	}
	return c.WithSync(req.GetSyncToProcessor())
}

// toMillis converts a timestamp and truncates it to milliseconds, which is the precision
// of the database. It returns nil if t is nil.
func toMillis(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime().Truncate(time.Millisecond)
	return &at
}

// patchOf returns the changes of the fields that the request's mask names. Check has
// validated the mask. If the mask names a field that is absent in the request, the change
// clears the field.
func patchOf(req *affiliatev1.UpdatePromoCodeRequest) promocode.Patch {
	var patch promocode.Patch
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "active":
			patch.Active = affiliate.Set(req.GetActive())
		case "max_redemptions":
			patch.MaxRedemptions = affiliate.Change[int64]{Given: true, Value: req.MaxRedemptions}
		case "expires_at":
			patch.ExpiresAt = affiliate.Change[time.Time]{Given: true, Value: toMillis(req.GetExpiresAt())}
		case "sync_to_processor":
			patch.Sync = affiliate.Set(req.GetSyncToProcessor())
		}
	}
	return patch
}

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
