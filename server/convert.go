package server

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Enum is a generated enum.
type Enum interface {
	~int32
	protoreflect.Enum
}

// EnumName returns the domain's name of an enum value: the proto name in lower case and
// without the prefix of its type. For COMMISSION_STATUS_PENDING it returns "pending". It
// returns "" for the unspecified value and for unknown numbers.
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

// CheckEnum adds a violation if value is a number that the enum does not have. Only gRPC
// callers can send such a number.
func CheckEnum[E Enum](field string, value E, found *affiliate.Violations) {
	if value != 0 && EnumName(value) == "" {
		found.Add(field, mustBeOneOf(enumNames(value.Descriptor(), "")))
	}
}

// EnumValue returns the enum value with the domain's name, or the unspecified value if
// there is none.
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

// Timestamp converts a time.
func Timestamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

// OptionalTimestamp converts a time that may be nil.
func OptionalTimestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// PathID parses an id in a URL path. It returns NOT_FOUND if the text is not a UUID.
func PathID[T any](text string) (affiliate.ID[T], error) {
	id, ok := affiliate.ParseID[T](text)
	if !ok {
		return id, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return id, nil
}

// OptionalID converts an id that may be nil.
func OptionalID[T any](id *affiliate.ID[T]) *string {
	if id == nil {
		return nil
	}
	s := id.String()
	return &s
}

// Percentage converts a rate from basis points to the percentage that the API uses.
func Percentage(bps *int64) *float64 {
	if bps == nil {
		return nil
	}
	percentage := float64(*bps) / 100
	return &percentage
}

// BasisPoints converts a percentage to basis points, which all calculations use. ok is
// false if the percentage has more than 2 decimals or is above 100.
func BasisPoints(percentage float64) (bps int64, ok bool) {
	rounded := math.Round(percentage * 100)
	// The negated comparison is also true for NaN.
	if !(math.Abs(percentage*100-rounded) <= 1e-6) || math.Abs(rounded) > affiliate.WholeBps {
		return 0, false
	}
	return int64(rounded), true
}

// OptionalBasisPoints converts a percentage that may be nil to basis points. It adds a
// violation for the field path if the percentage has too many decimals.
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

// Rate converts a rate that may be nil.
func Rate(r *affiliate.Rate) *affiliatev1.CommissionRate {
	if r == nil {
		return nil
	}
	return &affiliatev1.CommissionRate{Percentage: Percentage(r.Bps), FlatAmountCents: r.FlatCents}
}

// ParseRate converts the rate in the field path. It adds a violation unless the rate has
// either a percentage or a flat amount. It returns nil if r is nil.
func ParseRate(r *affiliatev1.CommissionRate, path string, found *affiliate.Violations) *affiliate.Rate {
	if r == nil {
		return nil
	}
	rate := RateFields(r.Percentage, r.FlatAmountCents, path+".", found)
	rate.Check(path+".", found)
	return &rate
}

// RateFields converts a rate whose two fields are in a larger message. prefix is the path
// of that message with a trailing dot, or empty. RateFields does not check that exactly
// one of the fields is set; affiliate.Rate.Check does.
func RateFields(percentage *float64, flatCents *int64, prefix string, found *affiliate.Violations) affiliate.Rate {
	return affiliate.Rate{Bps: OptionalBasisPoints(percentage, prefix+"percentage", found), FlatCents: flatCents}
}

// Rules converts the commission rules of a programme or those stored with a commission.
func Rules(r affiliate.Rules) *affiliatev1.CommissionRules {
	hold, enabled := int32(r.HoldDays), !r.Recurring.Once // #nosec G115 -- at most 180
	out := &affiliatev1.CommissionRules{
		CommissionType:  EnumValue[affiliatev1.CommissionType](r.Type),
		Percentage:      Percentage(r.RateBps),
		FlatAmountCents: r.FlatCents,
		HoldPeriodDays:  &hold,
		AutoApproval:    &r.AutoApproval,
		NetBasis:        EnumValue[affiliatev1.NetBasis](r.NetBasis),
		Recurring: &affiliatev1.Recurring{
			Enabled: &enabled, MaxMonths: int32Pointer(r.Recurring.MaxMonths), MaxPayments: int32Pointer(r.Recurring.MaxPayments),
		},
		LaterPercentage: Percentage(r.LaterRateBps),
		MinOrderCents:   r.MinOrderCents,
		CapCents:        r.CapCents,
		Tiers:           make([]*affiliatev1.Tier, len(r.Tiers)),
		Products:        make([]*affiliatev1.ProductRate, len(r.Products)),
		Events:          make([]*affiliatev1.EventRate, len(r.Events)),
	}
	for i, tier := range r.Tiers {
		out.Tiers[i] = &affiliatev1.Tier{
			MinConversions: tier.MinConversions, MinRevenueCents: tier.MinRevenueCents, Percentage: Percentage(&tier.RateBps),
		}
	}
	for i, product := range r.Products {
		out.Products[i] = &affiliatev1.ProductRate{
			ProductId: product.ProductID, Percentage: Percentage(product.Bps), FlatAmountCents: product.FlatCents,
		}
	}
	for i, event := range r.Events {
		out.Events[i] = &affiliatev1.EventRate{
			EventType: EnumValue[affiliatev1.EventType](event.EventType), Percentage: Percentage(event.Bps), FlatAmountCents: event.FlatCents,
		}
	}
	return out
}

// int32Pointer converts a limit that may be nil. Validation keeps limits in range.
func int32Pointer(n *int) *int32 {
	if n == nil {
		return nil
	}
	fits := int32(*n) // #nosec G115 -- at most 1,000
	return &fits
}

// defaultPageSize is the page size if the request has none (SPEC.md section 8).
const defaultPageSize = 20

// PageOf returns the page that a list request selects.
func PageOf(req interface {
	GetPage() int32
	GetPageSize() int32
},
) affiliate.Page {
	page := affiliate.Page{Number: int(req.GetPage()), Size: int(req.GetPageSize())}
	if page.Number == 0 {
		page.Number = 1
	}
	if page.Size == 0 {
		page.Size = defaultPageSize
	}
	return page
}

// OptionalString returns nil for the empty string and a pointer to s for any other.
func OptionalString(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// CopyShared copies every field of item, a message of a list, into full, the message of
// the complete record. Both have these fields under the same numbers. Tests check this.
func CopyShared(full, item protoreflect.Message) {
	fields := full.Descriptor().Fields()
	item.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		full.Set(fields.ByNumber(field.Number()), value)
		return true
	})
}
