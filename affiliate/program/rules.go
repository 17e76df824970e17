package program

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// CommissionType says how a commission is computed.
type CommissionType string

// The two types.
const (
	Percentage CommissionType = "percentage"
	Flat       CommissionType = "flat"
)

// NetBasis says which parts of the amount are deducted before a percentage is applied.
type NetBasis string

// The bases. Each basis deducts one more part of the amount than the previous basis.
const (
	Gross                  NetBasis = "gross"
	NetOfTax               NetBasis = "net_of_tax"
	NetOfTaxShipping       NetBasis = "net_of_tax_shipping"
	NetOfTaxShippingAndFee NetBasis = "net_of_tax_shipping_fees"
)

// Rules are the commission rules of a programme. Every change creates a new version. A
// commission keeps the version that it was computed with.
type Rules struct {
	Type CommissionType `json:"commission_type"`
	// RateBps is in basis points, 0 to 10,000. It is set for Percentage only.
	RateBps *int64 `json:"rate_bps,omitempty"`
	// FlatCents is in minor units of the programme's currency. It is set for Flat only.
	FlatCents    *int64   `json:"flat_amount_cents,omitempty"`
	HoldDays     int      `json:"hold_period_days"` // 0 to 180
	AutoApproval bool     `json:"auto_approval"`
	NetBasis     NetBasis `json:"net_basis"`
	// Recurring limits the number of a customer's payments that earn a commission, and
	// the time in which they earn.
	Recurring Recurring `json:"recurring,omitzero"`
	// LaterRateBps replaces RateBps or FlatCents from a customer's second payment on.
	// If it is nil, later payments have the same rate.
	LaterRateBps *int64 `json:"later_rate_bps,omitempty"`
	// MinOrderCents and CapCents are in minor units of the programme's currency. They
	// are nil if there is no minimum or cap.
	MinOrderCents *int64 `json:"min_order_cents,omitempty"`
	CapCents      *int64 `json:"cap_cents,omitempty"`
	// Tiers are sorted by their thresholds, which are all of the same kind.
	Tiers    []Tier        `json:"tiers,omitempty"`
	Products []ProductRate `json:"products,omitempty"`
	// Events lists the event types that earn. If it is empty, purchases and renewals
	// earn.
	Events []EventRate `json:"events,omitempty"`
}

// Recurring limits which of a customer's payments earn. The zero value means no limit.
type Recurring struct {
	// FirstPaymentOnly says that only the first payment earns.
	FirstPaymentOnly bool `json:"first_payment_only,omitempty"`
	// MaxMonths counts from the first payment. MaxPayments includes the first payment.
	// nil means no limit.
	MaxMonths   *int `json:"max_months,omitempty"`
	MaxPayments *int `json:"max_payments,omitempty"`
}

// Rate is a percentage or a flat amount that replaces the programme's general rate.
// Exactly one of the two fields is set.
type Rate struct {
	Bps       *int64 `db:"rate_bps" json:"rate_bps,omitempty"`                   // basis points, 0 to 10,000
	FlatCents *int64 `db:"flat_amount_cents" json:"flat_amount_cents,omitempty"` // minor units of the programme's currency
}

// Tier is a rate for partners whose earlier conversions or revenue have reached a
// threshold. Exactly one of the two thresholds is set.
type Tier struct {
	MinConversions  *int64 `json:"min_conversions,omitempty"`
	MinRevenueCents *int64 `json:"min_revenue_cents,omitempty"`
	RateBps         int64  `json:"rate_bps"`
}

// ProductRate is the rate of one product. A flat amount is paid for each unit.
type ProductRate struct {
	ProductID string `json:"product_id"`
	Rate
}

// EventRate says that an event type earns. If Rate is zero, the programme's rate
// applies.
type EventRate struct {
	EventType affiliate.EventType `json:"event_type"`
	Rate
}

// RulesVersion is one version of a programme's rules.
type RulesVersion struct {
	Version int
	Rules   Rules
	At      time.Time // when it came into force
	By      affiliate.UserID
	ByName  *string // current name; nil if the member has left
}

// DefaultRules returns the rules of a new programme: 20 percent of the amount without tax,
// approved automatically after 30 days. If a sale states no tax, nothing is deducted.
func DefaultRules() Rules {
	rate := int64(2000)
	return Rules{Type: Percentage, RateBps: &rate, HoldDays: 30, AutoApproval: true, NetBasis: NetOfTax}
}

// Equal reports whether r and other are the same rules.
func (r Rules) Equal(other Rules) bool { return reflect.DeepEqual(r, other) }

// RulesObject is Rules in the form that the API returns.
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
	ProductCount int                 `json:"product_count"` // number of all products; a long event lists only the first ones
	Events       []EventRateObject   `json:"events"`
}

// RecurringObject is Recurring in the form that the API returns.
type RecurringObject struct {
	Enabled     bool `json:"enabled"`
	MaxMonths   *int `json:"max_months"`
	MaxPayments *int `json:"max_payments"`
}

// RateObject is Rate in the form that the API returns.
type RateObject struct {
	Percentage *json.Number `json:"percentage"`
	FlatCents  *int64       `json:"flat_amount_cents"`
}

// TierObject is Tier in the form that the API returns.
type TierObject struct {
	MinConversions  *int64      `json:"min_conversions"`
	MinRevenueCents *int64      `json:"min_revenue_cents"`
	Percentage      json.Number `json:"percentage"`
}

// ProductRateObject is ProductRate in the form that the API returns.
type ProductRateObject struct {
	ProductID string `json:"product_id"`
	RateObject
}

// EventRateObject is EventRate in the form that the API returns.
type EventRateObject struct {
	EventType affiliate.EventType `json:"event_type"`
	RateObject
}

// Object returns r in the form that the API returns.
func (r Rules) Object() RulesObject {
	object := RulesObject{
		Type: r.Type, Percentage: optionalPercent(r.RateBps), FlatCents: r.FlatCents,
		HoldDays: r.HoldDays, AutoApproval: r.AutoApproval, NetBasis: r.NetBasis,
		Recurring: RecurringObject{!r.Recurring.FirstPaymentOnly, r.Recurring.MaxMonths, r.Recurring.MaxPayments},
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

// Object returns r in the form that the API returns.
func (r Rate) Object() RateObject { return RateObject{optionalPercent(r.Bps), r.FlatCents} }

func optionalPercent(rateBps *int64) *json.Number {
	if rateBps == nil {
		return nil
	}
	percentage := Percent(*rateBps)
	return &percentage
}

// Percent returns a rate in basis points as a percentage with at most two decimals.
func Percent(rateBps int64) json.Number {
	whole, cents := rateBps/100, rateBps%100
	text := strconv.FormatInt(whole, 10)
	if cents != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%02d", cents), "0")
	}
	return json.Number(text)
}

// RateText returns a rate in words, for example "20% of each sale, for 12 months". The
// parameter own is the rate of a participant or a group; nil if the rates of the programme
// apply. The parameter currency is the currency of the programme.
func (r Rules) RateText(own *Rate, currency string) string {
	rate := Rate{Bps: r.RateBps, FlatCents: r.FlatCents}
	if own != nil {
		rate = *own
	}
	of := "each " + r.earningEvent()
	if r.Recurring.FirstPaymentOnly {
		of = "a customer's first " + r.earningEvent()
	}
	var text strings.Builder
	if rate.FlatCents != nil {
		text.WriteString(affiliate.FormatMoney(affiliate.Money{Cents: *rate.FlatCents, Currency: currency}) + " for " + of)
	} else {
		text.WriteString(percentText(*rate.Bps) + " of " + of)
	}
	if own == nil {
		if r.LaterRateBps != nil && !r.Recurring.FirstPaymentOnly {
			text.WriteString(", " + percentText(*r.LaterRateBps) + " from a customer's second payment on")
		}
		if n := len(r.Tiers); n > 0 {
			text.WriteString(", " + percentText(r.Tiers[n-1].RateBps) + " after many sales")
		}
		if len(r.Products) > 0 || slices.ContainsFunc(r.Events, func(e EventRate) bool { return e.Rate != (Rate{}) }) {
			text.WriteString(", with other rates in some cases")
		}
	}
	if months := r.Recurring.MaxMonths; months != nil {
		text.WriteString(", for " + affiliate.Counted(int64(*months), "month"))
	}
	if payments := r.Recurring.MaxPayments; payments != nil {
		text.WriteString(", for at most " + affiliate.Counted(int64(*payments), "payment") + " of a customer")
	}
	return text.String()
}

// earningEvent returns the word for the events that earn.
func (r Rules) earningEvent() string {
	if len(r.Events) == 0 || slices.ContainsFunc(r.Events, func(e EventRate) bool { return e.EventType.Priced() }) {
		return "sale"
	}
	return "conversion"
}

func percentText(bps int64) string { return Percent(bps).String() + "%" }

// PaidEvents returns the event types that earn.
func (r Rules) PaidEvents() []affiliate.EventType {
	if len(r.Events) == 0 {
		return []affiliate.EventType{affiliate.Purchase, affiliate.Renewal}
	}
	paid := make([]affiliate.EventType, len(r.Events))
	for i, event := range r.Events {
		paid[i] = event.EventType
	}
	return paid
}

// Pays reports whether the rules pay for an event type.
func (r Rules) Pays(event affiliate.EventType) bool { return slices.Contains(r.PaidEvents(), event) }
