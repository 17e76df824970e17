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

// Word is the domain's word for an enum value: its name without the type's
// prefix, in lower case (COMMISSION_STATUS_PENDING is pending). The unspecified
// value has no word.
func Word[E Enum](e E) string {
	if e == 0 {
		return ""
	}
	value := e.Descriptor().Values().ByNumber(e.Number())
	if value == nil {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), enumPrefix(e.Descriptor())))
}

// CheckWord notes a number without a name, which only gRPC can carry.
func CheckWord[E Enum](field string, value E, found *affiliate.Violations) {
	if value != 0 && Word(value) == "" {
		found.Add(field, mustBeOneOf(enumWords(value.Descriptor(), "")))
	}
}

// FromWord is the enum value of a domain's word; unspecified when there is none.
func FromWord[E Enum, W ~string](word W) E {
	var e E
	name := enumPrefix(e.Descriptor()) + strings.ToUpper(string(word))
	if value := e.Descriptor().Values().ByName(protoreflect.Name(name)); value != nil {
		return E(value.Number())
	}
	return e
}

// enumPrefix is the type's name in the form that buf's lint demands of its
// values.
func enumPrefix(d protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// Timestamp converts an instant.
func Timestamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

// OptionalTimestamp converts an instant that may be absent.
func OptionalTimestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// PathID reads an id of a path; what is no UUID names nothing: NOT_FOUND.
func PathID[T any](text string) (affiliate.ID[T], error) {
	id, ok := affiliate.ParseID[T](text)
	if !ok {
		return id, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return id, nil
}

// Optional converts an id that may be absent.
func Optional[T any](id *affiliate.ID[T]) *string {
	if id == nil {
		return nil
	}
	s := id.String()
	return &s
}

// Percentage is a rate in basis points as the contract writes it, in percent.
func Percentage(bps *int64) *float64 {
	if bps == nil {
		return nil
	}
	percentage := float64(*bps) / 100
	return &percentage
}

// BasisPoints turns a percentage into the integer that all arithmetic uses; ok
// is false when that would lose something.
func BasisPoints(percentage float64) (bps int64, ok bool) {
	rounded := math.Round(percentage * 100)
	// Written so that NaN fails.
	if !(math.Abs(percentage*100-rounded) <= 1e-6) || math.Abs(rounded) > affiliate.WholeBps {
		return 0, false
	}
	return int64(rounded), true
}

// OptionalBasisPoints turns a percentage that may be absent into basis points,
// and notes under path when it has too many decimals.
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

// Rate converts a rate that may be absent.
func Rate(r *affiliate.Rate) *affiliatev1.CommissionRate {
	if r == nil {
		return nil
	}
	return &affiliatev1.CommissionRate{Percentage: Percentage(r.Bps), FlatAmountCents: r.FlatCents}
}

// RateOf reads the rate that stands at path, and notes when it does not say
// exactly one of the two. An absent one is nil.
func RateOf(r *affiliatev1.CommissionRate, path string, found *affiliate.Violations) *affiliate.Rate {
	if r == nil {
		return nil
	}
	rate := RateFields(r.Percentage, r.FlatAmountCents, path+".", found)
	rate.Check(path+".", found)
	return &rate
}

// RateFields reads a rate from the two fields that a message has for it; the
// prefix is the message's path with its dot. Whether one of the two is there is
// left to affiliate.Rate.Check.
func RateFields(percentage *float64, flatCents *int64, prefix string, found *affiliate.Violations) affiliate.Rate {
	return affiliate.Rate{Bps: OptionalBasisPoints(percentage, prefix+"percentage", found), FlatCents: flatCents}
}

// Rules converts commission rules: those in force, and those that a commission
// keeps.
func Rules(r affiliate.Rules) *affiliatev1.CommissionRules {
	hold, enabled := int32(r.HoldDays), !r.Recurring.Once // #nosec G115 -- at most 180
	out := &affiliatev1.CommissionRules{
		CommissionType:  FromWord[affiliatev1.CommissionType](r.Type),
		Percentage:      Percentage(r.RateBps),
		FlatAmountCents: r.FlatCents,
		HoldPeriodDays:  &hold,
		AutoApproval:    &r.AutoApproval,
		NetBasis:        FromWord[affiliatev1.NetBasis](r.NetBasis),
		Recurring: &affiliatev1.Recurring{
			Enabled: &enabled, MaxMonths: small(r.Recurring.MaxMonths), MaxPayments: small(r.Recurring.MaxPayments),
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
			EventType: FromWord[affiliatev1.EventType](event.EventType), Percentage: Percentage(event.Bps), FlatAmountCents: event.FlatCents,
		}
	}
	return out
}

// small fits a limit that people set into the contract's int32.
func small(n *int) *int32 {
	if n == nil {
		return nil
	}
	fits := int32(*n) // #nosec G115 -- at most 1,000
	return &fits
}

// defaultPageSize is SPEC.md section 8's.
const defaultPageSize = 20

// PageOf is the page that a list request asks for.
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

// Present is nil for the empty string, where that means absent.
func Present(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// CopyShared takes over every field of a list item: the full record has the same
// under the same numbers, which tests hold.
func CopyShared(full, item protoreflect.Message) {
	fields := full.Descriptor().Fields()
	item.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		full.Set(fields.ByNumber(field.Number()), value)
		return true
	})
}
