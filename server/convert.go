package server

import (
	"cmp"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Enum is a generated enum.
type Enum interface {
	~int32
	protoreflect.Enum
}

// EnumName returns the name of an enum value in package affiliate and in JSON. This is
// the proto name in lower case and without the prefix of the enum type: "pending" for
// COMMISSION_STATUS_PENDING. EnumName returns "" for the unspecified value and for
// unknown numbers.
func EnumName[E Enum](e E) string {
	if e == 0 {
		return ""
	}
	value := e.Descriptor().Values().ByNumber(e.Number())
	if value == nil {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), enumPrefix(e.Descriptor())))
}

// CheckEnum adds a violation if value is a number that the enum does not define. gRPC
// clients can send undefined numbers. In JSON requests, the gateway rejects them.
func CheckEnum[E Enum](field string, value E, found *affiliate.Violations) {
	if value != 0 && EnumName(value) == "" {
		found.Add(field, mustBeOneOf(enumNames(value.Descriptor(), "")))
	}
}

// EnumValue is the inverse of EnumName. It returns the unspecified value if the enum has
// no value with the name.
func EnumValue[E Enum, N ~string](name N) E {
	var e E
	protoName := enumPrefix(e.Descriptor()) + strings.ToUpper(string(name))
	if value := e.Descriptor().Values().ByName(protoreflect.Name(protoName)); value != nil {
		return E(value.Number())
	}
	return e
}

// enumPrefix returns the prefix of the names of an enum's values. buf lint requires the
// prefix, for example COMMISSION_STATUS_ for the enum CommissionStatus.
func enumPrefix(d protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// Timestamp converts a time to the protobuf type.
func Timestamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

// OptionalTimestamp converts a time to the protobuf type. It returns nil if t is nil.
func OptionalTimestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// PathID parses an id in a URL path. A text that is not a UUID becomes the zero id, which no
// record has, so that the look-up of the record returns NOT_FOUND.
func PathID[I affiliate.AnyID](text string) I {
	id, _ := affiliate.ParseID[I](text)
	return id
}

// ParseOptionalID returns the id in an optional field, or nil if the field is absent. A text that is
// not a UUID becomes the zero id, which no record has.
func ParseOptionalID[I affiliate.AnyID](text *string) *I {
	return optional(text, func(text string) I { id, _ := affiliate.ParseID[I](text); return id })
}

// optional converts a value. It returns nil if value is nil.
func optional[From, To any](value *From, convert func(From) To) *To {
	if value == nil {
		return nil
	}
	converted := convert(*value)
	return &converted
}

// OptionalID returns the text of an id, or nil if id is nil.
func OptionalID[T any](id *affiliate.ID[T]) *string { return optional(id, affiliate.ID[T].String) }

// Percentage converts a rate from basis points to the percentage that the API uses. It
// returns nil if bps is nil.
func Percentage(bps *int64) *float64 {
	return optional(bps, func(bps int64) float64 { return float64(bps) / 100 })
}

// BasisPoints converts a percentage of the API to basis points, the unit of all
// calculations. ok is false if the percentage has more than 2 decimals or if its absolute
// value is more than 100.
func BasisPoints(percentage float64) (bps int64, ok bool) {
	rounded := math.Round(percentage * 100)
	// Comparisons with NaN are false, so the negation rejects NaN.
	if !(math.Abs(percentage*100-rounded) <= 1e-6) || math.Abs(rounded) > affiliate.WholeBps {
		return 0, false
	}
	return int64(rounded), true
}

// OptionalBasisPoints converts a percentage to basis points. It returns nil if percentage
// is nil. If BasisPoints rejects the percentage, OptionalBasisPoints adds a violation.
// path is the path of the request field that contains the percentage. Annotations in the
// proto files limit percentages to 100, so the violation only mentions decimals.
func OptionalBasisPoints(percentage *float64, path string, found *affiliate.Violations) *int64 {
	if percentage == nil {
		return nil
	}
	bps, ok := BasisPoints(*percentage)
	if !ok {
		found.Add(path, "must have at most 2 decimals")
	}
	return &bps
}

// Rate converts a commission rate to its message. It returns nil if r is nil.
func Rate(r *program.Rate) *affiliatev1.CommissionRate {
	if r == nil {
		return nil
	}
	return &affiliatev1.CommissionRate{Percentage: Percentage(r.Bps), FlatAmountCents: r.FlatCents}
}

// ParseRate converts a commission rate. path is the path of the request field that
// contains the rate. A rate must have either a percentage or a flat amount. If r has both
// or neither, ParseRate adds a violation. If r is nil, ParseRate returns nil.
func ParseRate(r *affiliatev1.CommissionRate, path string, found *affiliate.Violations) *program.Rate {
	if r == nil {
		return nil
	}
	rate := RateFields(r.Percentage, r.FlatAmountCents, path+".", found)
	rate.Check(path+".", found)
	return &rate
}

// RateFields converts a commission rate that is not a message of its own: percentage and
// flatCents are fields of a larger message. prefix is the path of the larger message with
// a trailing dot, or empty for the request itself. RateFields does not check that exactly
// one of the two fields is set. program.Rate.Check does this.
func RateFields(percentage *float64, flatCents *int64, prefix string, found *affiliate.Violations) program.Rate {
	return program.Rate{Bps: OptionalBasisPoints(percentage, prefix+"percentage", found), FlatCents: flatCents}
}

// Rules converts commission rules to their message. The rules can be those of a programme
// or those that are stored with a commission.
func Rules(r program.Rules) *affiliatev1.CommissionRules {
	hold, enabled := int32(r.HoldDays), !r.Recurring.FirstPaymentOnly // #nosec G115 -- at most 180
	return &affiliatev1.CommissionRules{
		CommissionType:  EnumValue[affiliatev1.CommissionType](r.Type),
		Percentage:      Percentage(r.RateBps),
		FlatAmountCents: r.FlatCents,
		HoldPeriodDays:  &hold,
		AutoApproval:    &r.AutoApproval,
		NetBasis:        EnumValue[affiliatev1.NetBasis](r.NetBasis),
		Recurring: &affiliatev1.Recurring{
			Enabled: &enabled, MaxMonths: OptionalInt32(r.Recurring.MaxMonths), MaxPayments: OptionalInt32(r.Recurring.MaxPayments),
		},
		LaterPercentage: Percentage(r.LaterRateBps),
		MinOrderCents:   r.MinOrderCents,
		CapCents:        r.CapCents,
		Tiers: ConvertAll(r.Tiers, func(tier program.Tier) *affiliatev1.Tier {
			return &affiliatev1.Tier{MinConversions: tier.MinConversions, MinRevenueCents: tier.MinRevenueCents, Percentage: Percentage(&tier.RateBps)}
		}),
		Products: ConvertAll(r.Products, func(p program.ProductRate) *affiliatev1.ProductRate {
			return &affiliatev1.ProductRate{ProductId: p.ProductID, Percentage: Percentage(p.Bps), FlatAmountCents: p.FlatCents}
		}),
		Events: ConvertAll(r.Events, func(e program.EventRate) *affiliatev1.EventRate {
			return &affiliatev1.EventRate{EventType: EnumValue[affiliatev1.EventType](e.EventType), Percentage: Percentage(e.Bps), FlatAmountCents: e.FlatCents}
		}),
	}
}

const defaultPageSize = 20

// PageOf returns the page number and the page size of a list request. The defaults are
// page 1 and defaultPageSize.
func PageOf(req interface {
	GetPage() int32
	GetPageSize() int32
},
) affiliate.Page {
	return affiliate.Page{Number: cmp.Or(int(req.GetPage()), 1), Size: cmp.Or(int(req.GetPageSize()), defaultPageSize)}
}

// OptionalString returns a pointer to s, or nil if s is empty.
func OptionalString(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// ConvertAll converts each element of a list. The result is not nil.
func ConvertAll[From, To any](list []From, convert func(From) To) []To {
	out := make([]To, len(list))
	for i, item := range list {
		out[i] = convert(item)
	}
	return out
}

// CopyShared copies each field of the message item that the message to has as well. Fields
// with the same name have the same type.
func CopyShared(to, item protoreflect.Message) {
	fields := to.Descriptor().Fields()
	item.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if shared := fields.ByName(field.Name()); shared != nil {
			to.Set(shared, value)
		}
		return true
	})
}

// CheckName adds a violation if a name must not appear in mails.
func CheckName(field, name string, found *affiliate.Violations) {
	if !affiliate.PlainName(name) {
		found.Add(field, affiliate.MustBePlainName)
	}
}

// WorkspaceForRole converts a workspace to its message. The message contains only the
// fields that a member with the role may read.
func WorkspaceForRole(w account.Workspace, role affiliate.Role) *affiliatev1.Workspace {
	w = w.ForRole(role)
	return &affiliatev1.Workspace{
		Id:               w.ID.String(),
		Name:             w.Name,
		Currency:         w.Currency,
		Timezone:         w.Timezone,
		AllowedOrigins:   w.AllowedOrigins,
		OriginPolicy:     EnumValue[affiliatev1.OriginPolicy](w.OriginPolicy),
		TestMailRedirect: w.TestMailRedirect,
		PayoutApproval:   &affiliatev1.PayoutApproval{SecondPersonAboveCents: w.SecondPersonAboveCents},
		BooksClosedUntil: OptionalTimestamp(w.BooksClosedUntil),
		CreatedAt:        Timestamp(w.CreatedAt),
		UpdatedAt:        Timestamp(w.UpdatedAt),

		RequireSecondFactor: w.RequireSecondFactor,
		RetainPayeeYears:    int32(w.RetainPayeeYears), //nolint:gosec // at most 30
	}
}

// Questions converts the questions of a programme.
func Questions(questions []program.Question) []*affiliatev1.ApplicationQuestion {
	return ConvertAll(questions, func(q program.Question) *affiliatev1.ApplicationQuestion {
		return &affiliatev1.ApplicationQuestion{
			Key: q.Key, Label: q.Label, Type: EnumValue[affiliatev1.QuestionType](q.Type), Required: q.Required, Options: q.Options,
		}
	})
}

// Palette converts an accent colour. It returns nil without one.
func Palette(accent *string) *affiliatev1.AccentPalette {
	if accent == nil {
		return nil
	}
	light, dark := account.Accent(*accent)
	return &affiliatev1.AccentPalette{
		Light: &affiliatev1.AccentShade{Color: light.Color, TextColor: light.Text},
		Dark:  &affiliatev1.AccentShade{Color: dark.Color, TextColor: dark.Text},
	}
}

// CommissionItem converts a commission to a list item. The field HoldActive is true if the
// hold period has not ended at the given time.
func CommissionItem(c commission.Item, now time.Time) *affiliatev1.CommissionListItem {
	return &affiliatev1.CommissionListItem{
		Id:                    c.ID.String(),
		ProgramId:             c.Program.String(),
		ProgramName:           c.ProgramName,
		ParticipantId:         c.Participant.String(),
		PartnerId:             c.Partner.String(),
		PartnerName:           c.PartnerName,
		PartnerEmail:          c.PartnerEmail,
		ConversionId:          c.Conversion.String(),
		ExternalTransactionId: c.ExternalTransactionID,
		ClickId:               OptionalID(c.Click),
		PromoCode:             c.PromoCode,
		CustomerRef:           conversion.CustomerName(c.CustomerRef, c.CustomerLabel),
		Mode:                  EnumValue[affiliatev1.Mode](c.Mode),
		Status:                EnumValue[affiliatev1.CommissionStatus](c.Status),
		CommissionType:        EnumValue[affiliatev1.CommissionType](c.Type),
		EventType:             EnumValue[affiliatev1.EventType](c.EventType),
		RateBps:               OptionalInt32(c.RateBps),
		FlatAmountCents:       c.FlatCents,
		AmountCents:           c.AmountCents,
		OriginalAmountCents:   c.OriginalAmountCents,
		ReversedAmountCents:   c.ReversedCents(),
		Currency:              c.Currency,
		BaseAmountCents:       c.BaseAmountCents,
		SaleAmountCents:       c.SaleAmountCents,
		SaleCurrency:          c.SaleCurrency,
		FxRate:                c.FXRate,
		FxDate:                optional(c.FXDate, func(t time.Time) string { return t.UTC().Format(time.DateOnly) }),
		RecurringIndex:        OptionalInt32(c.RecurringIndex),
		NeedsReview:           c.NeedsReview,
		ReviewReasons:         c.ReviewReasons,
		DisputeStatus:         EnumValue[affiliatev1.DisputeStatus](c.Dispute),
		HoldUntil:             OptionalTimestamp(c.HoldUntil),
		HoldActive:            c.HoldActive(now),
		RejectionReason:       c.RejectionReason,
		RejectionCode:         OptionalEnum[affiliatev1.RejectionCode](c.RejectionCode),
		ApprovedAt:            OptionalTimestamp(c.ApprovedAt),
		ApprovedBy:            c.ApprovedBy,
		ApprovedByName:        c.ApprovedByName,
		RejectedAt:            OptionalTimestamp(c.RejectedAt),
		PaidAt:                OptionalTimestamp(c.PaidAt),
		RefundedAt:            OptionalTimestamp(c.RefundedAt),
		PayoutId:              OptionalID(c.Payout),
		CreatedAt:             Timestamp(c.CreatedAt),
		UpdatedAt:             Timestamp(c.UpdatedAt),
	}
}

// OptionalInt32 converts a count or a rate, which are small numbers, to the int32 of the API.
// It returns nil if n is nil.
func OptionalInt32[N int | int64](n *N) *int32 {
	return optional(n, func(n N) int32 { return int32(n) })
}

// OptionalEnum returns the enum value with the given name. If name is nil, it returns the
// unspecified value, which is null in JSON responses.
func OptionalEnum[E Enum, N ~string](name *N) E {
	if name == nil {
		return 0
	}
	return EnumValue[E](*name)
}

// Calculation converts a calculation; nil stays nil.
func Calculation(c *attribution.Calculation) *affiliatev1.DecisionCalculation {
	if c == nil {
		return nil
	}
	out := &affiliatev1.DecisionCalculation{
		BaseAmountCents:  c.BaseAmountCents,
		BaseCurrency:     c.BaseCurrency,
		NetBasis:         string(c.NetBasis),
		Source:           string(c.Source),
		RateBps:          c.RateBps,
		FlatAmountCents:  c.FlatCents,
		Parts:            make([]*affiliatev1.DecisionCalculationPart, len(c.Parts)),
		FxRate:           c.FXRate,
		FxDate:           c.FXDate,
		Rounding:         c.Rounding,
		CappedAtOrderCap: c.CappedAtOrderCap,
		CappedAtBase:     c.CappedAtBase,
		AmountCents:      c.AmountCents,
		Currency:         c.Currency,
		ReviewReasons:    c.ReviewReasons,
	}
	if c.PriorTotals != nil {
		out.Brought = &affiliatev1.DecisionBrought{Conversions: c.PriorTotals.Conversions, RevenueCents: c.PriorTotals.RevenueCents}
	}
	for i, part := range c.Parts {
		out.Parts[i] = &affiliatev1.DecisionCalculationPart{
			ProductId:       part.ProductID,
			AmountCents:     part.AmountCents,
			Quantity:        part.Quantity,
			RateBps:         part.RateBps,
			FlatAmountCents: part.FlatCents,
			Source:          string(part.Source),
			LeftOut:         part.LeftOut,
		}
	}
	return out
}
