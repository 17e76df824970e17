package affiliate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// CommissionType says how a commission is computed.
type CommissionType string

// The two types.
const (
	Percentage CommissionType = "percentage"
	Flat       CommissionType = "flat"
)

// NetBasis says what is taken off the amount before a percentage is applied.
type NetBasis string

// The bases, each taking off what the one before it does and one thing more.
const (
	Gross                  NetBasis = "gross"
	NetOfTax               NetBasis = "net_of_tax"
	NetOfTaxShipping       NetBasis = "net_of_tax_shipping"
	NetOfTaxShippingAndFee NetBasis = "net_of_tax_shipping_fees"
)

// Rules are a programme's commission rules. A change makes a new version; a
// commission keeps the version that made it.
type Rules struct {
	Type CommissionType `json:"commission_type"`
	// RateBps is in basis points, 0 to 10,000; set for Percentage only.
	RateBps *int64 `json:"rate_bps,omitempty"`
	// FlatCents is in minor units of the programme's currency; set for Flat only.
	FlatCents    *int64   `json:"flat_amount_cents,omitempty"`
	HoldDays     int      `json:"hold_period_days"` // 0 to 180
	AutoApproval bool     `json:"auto_approval"`
	NetBasis     NetBasis `json:"net_basis"`
	// Recurring bounds for how long a customer's payments earn.
	Recurring Recurring `json:"recurring,omitzero"`
	// LaterRateBps replaces the programme's own rate from a customer's second
	// payment on; nil: the same rate.
	LaterRateBps *int64 `json:"later_rate_bps,omitempty"`
	// MinOrderCents and CapCents are in minor units of the programme's currency;
	// nil: none.
	MinOrderCents *int64 `json:"min_order_cents,omitempty"`
	CapCents      *int64 `json:"cap_cents,omitempty"`
	// Tiers ascend by their threshold and all have the same kind of it.
	Tiers    []Tier        `json:"tiers,omitempty"`
	Products []ProductRate `json:"products,omitempty"`
	// Events are those that earn; none: purchase and renewal.
	Events []EventRate `json:"events,omitempty"`
}

// Recurring bounds for how long a customer's payments earn. The zero value is
// no bound.
type Recurring struct {
	// Once: only the first payment earns.
	Once bool `json:"once,omitempty"`
	// MaxMonths counts from the first payment, MaxPayments includes it; nil: no
	// limit.
	MaxMonths   *int `json:"max_months,omitempty"`
	MaxPayments *int `json:"max_payments,omitempty"`
}

// Rate is what a sale pays where something more specific than the programme
// decides: exactly one of the two is set.
type Rate struct {
	Bps       *int64 `json:"rate_bps,omitempty"`          // basis points, 0 to 10,000
	FlatCents *int64 `json:"flat_amount_cents,omitempty"` // minor units of the programme's currency
}

// Tier is a rate by what a partner has brought before: exactly one of the two
// thresholds is set.
type Tier struct {
	MinConversions  *int64 `json:"min_conversions,omitempty"`
	MinRevenueCents *int64 `json:"min_revenue_cents,omitempty"`
	RateBps         int64  `json:"rate_bps"`
}

// ProductRate is the rate of one product; a flat one pays for each unit.
type ProductRate struct {
	ProductID string `json:"product_id"`
	Rate
}

// EventRate says that an event earns. A Rate that is zero is the programme's.
type EventRate struct {
	EventType EventType `json:"event_type"`
	Rate
}

// RulesVersion is one version of a programme's rules.
type RulesVersion struct {
	Version int
	Rules   Rules
	At      time.Time // since when it was in force
	By      UserID
}

// DefaultRules pay 20 percent of the gross amount after 30 days, by themselves
// (DECISIONS.md section 6).
func DefaultRules() Rules {
	rate := int64(2000)
	return Rules{Type: Percentage, RateBps: &rate, HoldDays: 30, AutoApproval: true, NetBasis: Gross}
}

// Equal reports whether both say the same.
func (r Rules) Equal(other Rules) bool { return reflect.DeepEqual(r, other) }

// RulesObject is Rules as the API writes them.
type RulesObject struct {
	Type         CommissionType      `json:"commission_type"`
	Percentage   *json.Number        `json:"percentage"`
	FlatCents    *int64              `json:"flat_amount_cents"`
	HoldDays     int                 `json:"hold_period_days"`
	AutoApproval bool                `json:"auto_approval"`
	NetBasis     NetBasis            `json:"net_basis"`
	Recurring    RecurringObject     `json:"recurring"`
	Later        *json.Number        `json:"later_percentage"`
	MinOrder     *int64              `json:"min_order_cents"`
	Cap          *int64              `json:"cap_cents"`
	Tiers        []TierObject        `json:"tiers"`
	Products     []ProductRateObject `json:"products"`
	ProductCount int                 `json:"product_count"` // of products, of which a long event lists the first ones
	Events       []EventRateObject   `json:"events"`
}

// RecurringObject is Recurring as the API writes it.
type RecurringObject struct {
	Enabled     bool `json:"enabled"`
	MaxMonths   *int `json:"max_months"`
	MaxPayments *int `json:"max_payments"`
}

// RateObject is Rate as the API writes it.
type RateObject struct {
	Percentage *json.Number `json:"percentage"`
	FlatCents  *int64       `json:"flat_amount_cents"`
}

// TierObject is Tier as the API writes it.
type TierObject struct {
	MinConversions  *int64      `json:"min_conversions"`
	MinRevenueCents *int64      `json:"min_revenue_cents"`
	Percentage      json.Number `json:"percentage"`
}

// ProductRateObject is ProductRate as the API writes it.
type ProductRateObject struct {
	ProductID string `json:"product_id"`
	RateObject
}

// EventRateObject is EventRate as the API writes it.
type EventRateObject struct {
	EventType EventType `json:"event_type"`
	RateObject
}

// Object is r as events carry it.
func (r Rules) Object() RulesObject {
	object := RulesObject{
		Type: r.Type, Percentage: optionalPercent(r.RateBps), FlatCents: r.FlatCents,
		HoldDays: r.HoldDays, AutoApproval: r.AutoApproval, NetBasis: r.NetBasis,
		Recurring: RecurringObject{!r.Recurring.Once, r.Recurring.MaxMonths, r.Recurring.MaxPayments},
		Later:     optionalPercent(r.LaterRateBps), MinOrder: r.MinOrderCents, Cap: r.CapCents,
		Tiers:    make([]TierObject, len(r.Tiers)),
		Products: make([]ProductRateObject, len(r.Products)), ProductCount: len(r.Products),
		Events: make([]EventRateObject, len(r.Events)),
	}
	for i, tier := range r.Tiers {
		object.Tiers[i] = TierObject{tier.MinConversions, tier.MinRevenueCents, Percent(tier.RateBps)}
	}
	for i, product := range r.Products {
		object.Products[i] = ProductRateObject{product.ProductID, product.Object()}
	}
	for i, event := range r.Events {
		object.Events[i] = EventRateObject{event.EventType, event.Object()}
	}
	return object
}

// Object is r as events carry it.
func (r Rate) Object() RateObject { return RateObject{optionalPercent(r.Bps), r.FlatCents} }

func optionalPercent(rateBps *int64) *json.Number {
	if rateBps == nil {
		return nil
	}
	percentage := Percent(*rateBps)
	return &percentage
}

// Percent is a rate in basis points as a decimal number of at most two places.
func Percent(rateBps int64) json.Number {
	whole, cents := rateBps/100, rateBps%100
	text := strconv.FormatInt(whole, 10)
	if cents != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%02d", cents), "0")
	}
	return json.Number(text)
}
