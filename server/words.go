package server

import (
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

// Optional converts an id that may be absent.
func Optional[T any](id *affiliate.ID[T]) *string {
	if id == nil {
		return nil
	}
	s := id.String()
	return &s
}

// Rules converts commission rules: those in force, and those that a commission
// keeps.
func Rules(r affiliate.Rules) *affiliatev1.CommissionRules {
	hold := int32(r.HoldDays) // #nosec G115 -- at most 180
	out := &affiliatev1.CommissionRules{
		CommissionType:  FromWord[affiliatev1.CommissionType](r.Type),
		FlatAmountCents: r.FlatCents,
		HoldPeriodDays:  &hold,
		AutoApproval:    &r.AutoApproval,
		NetBasis:        FromWord[affiliatev1.NetBasis](r.NetBasis),
	}
	if r.RateBps != nil {
		percentage := float64(*r.RateBps) / 100
		out.Percentage = &percentage
	}
	return out
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
