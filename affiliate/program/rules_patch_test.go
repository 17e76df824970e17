package program

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
)

func genChange[T any](t *rapid.T, name string, value *rapid.Generator[T]) affiliate.Change[T] {
	switch rapid.IntRange(0, 2).Draw(t, name) {
	case 0:
		return affiliate.Change[T]{}
	case 1:
		return affiliate.Clear[T]()
	}
	return affiliate.Set(value.Draw(t, name+" value"))
}

func genRulesPatch(t *rapid.T) RulesPatch {
	return RulesPatch{
		Reset:        rapid.Bool().Draw(t, "reset"),
		Type:         genChange(t, "type", rapid.SampledFrom([]CommissionType{Percentage, Flat})),
		RateBps:      genChange(t, "rate", rapid.Int64Range(0, affiliate.WholeBps)),
		FlatCents:    genChange(t, "flat", rapid.Int64Range(0, affiliate.MaxAmountCents)),
		HoldDays:     genChange(t, "hold", rapid.IntRange(0, 180)),
		AutoApproval: genChange(t, "auto", rapid.Bool()),
		NetBasis:     genChange(t, "basis", rapid.SampledFrom([]NetBasis{Gross, NetOfTax})),
		Recurring: RecurringPatch{
			Reset:            rapid.Bool().Draw(t, "reset recurring"),
			FirstPaymentOnly: genChange(t, "once", rapid.Bool()),
			MaxMonths:        genChange(t, "months", rapid.IntRange(1, 120)),
			MaxPayments:      genChange(t, "payments", rapid.IntRange(1, 1000)),
		},
		LaterRateBps:  genChange(t, "later", rapid.Int64Range(0, affiliate.WholeBps)),
		MinOrderCents: genChange(t, "order", rapid.Int64Range(0, affiliate.MaxAmountCents)),
		CapCents:      genChange(t, "cap", rapid.Int64Range(0, affiliate.MaxAmountCents)),
		Tiers:         genChange(t, "tiers", rapid.SliceOfN(genTier, 0, 3)),
		Products:      genChange(t, "products", rapid.SliceOfN(genProduct, 0, 3)),
		Events:        genChange(t, "events", rapid.SliceOfN(genEvent, 0, 3)),
	}
}

// The generators sometimes return invalid values: both or none of two alternatives, or
// the same key twice.
var (
	genAmount = rapid.Ptr(rapid.Int64Range(0, 4), true)
	genRate   = rapid.Custom(func(t *rapid.T) Rate { return Rate{genAmount.Draw(t, "bps"), genAmount.Draw(t, "cents")} })
	genTier   = rapid.Custom(func(t *rapid.T) Tier {
		return Tier{genAmount.Draw(t, "conversions"), genAmount.Draw(t, "revenue"), rapid.Int64Range(0, affiliate.WholeBps).Draw(t, "rate")}
	})
	genProduct = rapid.Custom(func(t *rapid.T) ProductRate {
		return ProductRate{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "product"), genRate.Draw(t, "rate")}
	})
	genEvent = rapid.Custom(func(t *rapid.T) EventRate {
		return EventRate{rapid.SampledFrom([]affiliate.EventType{affiliate.Purchase, affiliate.Renewal, affiliate.Signup}).Draw(t, "event"), genRate.Draw(t, "rate")}
	})
)

// hasValidLists is an independent check of the lists in rules.
func hasValidLists(r Rules) bool {
	conversions, revenue := []int64{}, []int64{}
	for _, tier := range r.Tiers {
		if tier.MinConversions != nil {
			conversions = append(conversions, *tier.MinConversions)
		}
		if tier.MinRevenueCents != nil {
			revenue = append(revenue, *tier.MinRevenueCents)
		}
	}
	hasOneValue := func(rate Rate) bool { return (rate.Bps == nil) != (rate.FlatCents == nil) }
	products, events := map[string]bool{}, map[affiliate.EventType]bool{}
	for _, product := range r.Products {
		products[product.ProductID] = true
		if !hasOneValue(product.Rate) {
			return false
		}
	}
	for _, event := range r.Events {
		events[event.EventType] = true
		if !hasOneValue(event.Rate) && event.Rate != (Rate{}) {
			return false
		}
	}
	distinct := func(thresholds []int64) bool {
		return slices.IsSorted(thresholds) && len(slices.Compact(slices.Clone(thresholds))) == len(r.Tiers)
	}
	return (len(r.Tiers) == 0 || len(revenue) == 0 && distinct(conversions) || len(conversions) == 0 && distinct(revenue)) &&
		len(products) == len(r.Products) && len(events) == len(r.Events)
}

// The test applies random patches. The resulting rules must be valid: rules of the type
// percentage have no flat amount, and rules of the type flat have no rate. Applying the
// same patch again must not change the rules.
func TestRules_PatchKeepsRulesValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := DefaultRules()
		for range rapid.IntRange(1, 4).Draw(t, "patches") {
			patch := genRulesPatch(t)
			next, wrong := rules.Patch(patch)
			if len(wrong) > 0 {
				continue
			}
			if (next.Type == Percentage) != (next.RateBps != nil) || (next.Type == Flat) != (next.FlatCents != nil) {
				t.Fatalf("patch %+v\nof rules %+v\nreturns a rate or amount of the wrong type: %+v", patch, rules, next)
			}
			if !hasValidLists(next) || next.Recurring.FirstPaymentOnly && (next.Recurring.MaxMonths != nil || next.Recurring.MaxPayments != nil) {
				t.Fatalf("patch %+v\nof rules %+v\nreturns invalid lists or limits: %+v", patch, rules, next)
			}
			stored, err := json.Marshal(next)
			var read Rules
			if err != nil || json.Unmarshal(stored, &read) != nil || !read.Equal(next) {
				t.Fatalf("rules %+v are stored as %s, error %v, and decode to other rules", next, stored, err)
			}
			if next.NetBasis == "" || next.HoldDays < 0 || next.HoldDays > 180 {
				t.Fatalf("patch %+v\nof rules %+v\nreturns an invalid basis or hold period: %+v", patch, rules, next)
			}
			again, wrong := next.Patch(patch)
			if len(wrong) == 0 && !again.Equal(next) {
				t.Fatalf("rules %+v\nchange when patch %+v\nis applied again: %+v", next, patch, again)
			}
			rules = next
		}
	})
}

func TestRules_Patch(t *testing.T) {
	rate, flat := int64(1500), int64(700)
	percentage := Rules{Type: Percentage, RateBps: &rate, HoldDays: 10, NetBasis: NetOfTax}
	fixed := Rules{Type: Flat, FlatCents: &flat, HoldDays: 10, NetBasis: NetOfTax}
	for _, tc := range []struct {
		name  string
		from  Rules
		patch RulesPatch
		want  func(Rules) Rules
		wrong string
	}{
		{name: "nothing", from: percentage, want: func(r Rules) Rules { return r }},
		{name: "the rate", from: percentage, patch: RulesPatch{RateBps: affiliate.Set[int64](1)}, want: func(r Rules) Rules { one := int64(1); r.RateBps = &one; return r }},
		{name: "to flat", from: percentage, patch: RulesPatch{Type: affiliate.Set(Flat), FlatCents: affiliate.Set[int64](700)}, want: func(Rules) Rules { return fixed }},
		{name: "to flat, rate cleared", from: percentage, patch: RulesPatch{Type: affiliate.Set(Flat), FlatCents: affiliate.Set[int64](700), RateBps: affiliate.Clear[int64]()}, want: func(Rules) Rules { return fixed }},
		{name: "to flat without amount", from: percentage, patch: RulesPatch{Type: affiliate.Set(Flat)}, wrong: "commission_rules.flat_amount_cents"},
		{name: "to flat with a rate", from: percentage, patch: RulesPatch{Type: affiliate.Set(Flat), FlatCents: affiliate.Set[int64](700), RateBps: affiliate.Set[int64](1)}, wrong: "commission_rules.percentage"},
		{name: "flat amount set for a percentage", from: percentage, patch: RulesPatch{FlatCents: affiliate.Set[int64](700)}, wrong: "commission_rules.flat_amount_cents"},
		{name: "flat amount cleared for a percentage", from: percentage, patch: RulesPatch{FlatCents: affiliate.Clear[int64]()}, want: func(r Rules) Rules { return r }},
		{name: "rate cleared", from: percentage, patch: RulesPatch{RateBps: affiliate.Clear[int64]()}, wrong: "commission_rules.percentage"},
		{name: "to percentage", from: fixed, patch: RulesPatch{Type: affiliate.Set(Percentage), RateBps: affiliate.Set[int64](1500)}, want: func(Rules) Rules { return percentage }},
		{name: "type cleared without a rate", from: fixed, patch: RulesPatch{Type: affiliate.Clear[CommissionType]()}, wrong: "commission_rules.percentage"},
		{name: "everything else cleared", from: fixed, patch: RulesPatch{HoldDays: affiliate.Clear[int](), AutoApproval: affiliate.Clear[bool](), NetBasis: affiliate.Clear[NetBasis]()}, want: func(r Rules) Rules {
			r.HoldDays, r.AutoApproval, r.NetBasis = 30, true, NetOfTax
			return r
		}},
		{name: "reset", from: fixed, patch: RulesPatch{Reset: true}, want: func(Rules) Rules { return DefaultRules() }},
	} {
		got, wrong := tc.from.Patch(tc.patch)
		if tc.wrong != "" {
			if len(wrong) != 1 || wrong[0].Field != tc.wrong {
				t.Errorf("%s: violations %v, want one of %s", tc.name, wrong, tc.wrong)
			}
			continue
		}
		if want := tc.want(tc.from); len(wrong) > 0 || !got.Equal(want) {
			t.Errorf("%s: rules %+v, violations %v; want %+v", tc.name, got, wrong, want)
		}
	}
}

func TestRules_PatchRecurring(t *testing.T) {
	twelve, six := 12, 6
	bounded := Recurring{MaxMonths: &twelve, MaxPayments: &six}
	const months, payments = "commission_rules.recurring.max_months", "commission_rules.recurring.max_payments"
	for _, tc := range []struct {
		name  string
		from  Recurring
		patch RecurringPatch
		want  Recurring
		wrong []string
	}{
		{name: "nothing", from: bounded, want: bounded},
		{name: "one limit cleared", from: bounded, patch: RecurringPatch{MaxMonths: affiliate.Clear[int]()}, want: Recurring{MaxPayments: &six}},
		{name: "one limit set", patch: RecurringPatch{MaxMonths: affiliate.Set(12)}, want: Recurring{MaxMonths: &twelve}},
		{name: "reset", from: bounded, patch: RecurringPatch{Reset: true}},
		{name: "reset, then set", from: bounded, patch: RecurringPatch{Reset: true, MaxPayments: affiliate.Set(6)}, want: Recurring{MaxPayments: &six}},
		{name: "recurring disabled, limits are removed", from: bounded, patch: RecurringPatch{FirstPaymentOnly: affiliate.Set(true)}, want: Recurring{FirstPaymentOnly: true}},
		{name: "recurring disabled and limits cleared", from: bounded, patch: RecurringPatch{FirstPaymentOnly: affiliate.Set(true), MaxMonths: affiliate.Clear[int](), MaxPayments: affiliate.Clear[int]()}, want: Recurring{FirstPaymentOnly: true}},
		{name: "recurring disabled and limits set", patch: RecurringPatch{FirstPaymentOnly: affiliate.Set(true), MaxMonths: affiliate.Set(1), MaxPayments: affiliate.Set(1)}, wrong: []string{months, payments}},
		{name: "limit set while recurring is disabled", from: Recurring{FirstPaymentOnly: true}, patch: RecurringPatch{MaxPayments: affiliate.Set(1)}, wrong: []string{payments}},
		{name: "recurring enabled and limit set", from: Recurring{FirstPaymentOnly: true}, patch: RecurringPatch{FirstPaymentOnly: affiliate.Set(false), MaxPayments: affiliate.Set(6)}, want: Recurring{MaxPayments: &six}},
		{name: "recurring enabled by default", from: Recurring{FirstPaymentOnly: true}, patch: RecurringPatch{FirstPaymentOnly: affiliate.Clear[bool]()}},
	} {
		rules := DefaultRules()
		rules.Recurring = tc.from
		want := rules
		want.Recurring = tc.want
		got, wrong := rules.Patch(RulesPatch{Recurring: tc.patch})
		if !slices.Equal(violationFields(wrong), tc.wrong) || len(tc.wrong) == 0 && !got.Equal(want) {
			t.Errorf("%s: limits %+v, violations %v; want %+v, violations of %q", tc.name, got.Recurring, wrong, tc.want, tc.wrong)
		}
	}
}

func violationFields(found affiliate.Violations) []string {
	var names []string
	for _, v := range found {
		names = append(names, v.Field)
	}
	return names
}

func TestRules_PatchChecksLists(t *testing.T) {
	one, two, three := int64(1), int64(2), int64(3)
	conversions := func(n *int64) Tier { return Tier{MinConversions: n} }
	revenue := func(n *int64) Tier { return Tier{MinRevenueCents: n} }
	percent, fixed := Rate{Bps: &one}, Rate{FlatCents: &one}
	for _, tc := range []struct {
		name  string
		patch RulesPatch
		wrong []string
	}{
		{"tiers in any order", RulesPatch{Tiers: affiliate.Set([]Tier{conversions(&three), conversions(&one), conversions(&two)})}, nil},
		{"no threshold, and both thresholds", RulesPatch{Tiers: affiliate.Set([]Tier{{}, {MinConversions: &one, MinRevenueCents: &one}})}, []string{"commission_rules.tiers[0].min_conversions", "commission_rules.tiers[1].min_revenue_cents"}},
		{"two kinds", RulesPatch{Tiers: affiliate.Set([]Tier{revenue(&one), conversions(&two), revenue(&two), conversions(&one)})}, []string{"commission_rules.tiers[1].min_conversions", "commission_rules.tiers[3].min_conversions"}},
		{"a threshold twice", RulesPatch{Tiers: affiliate.Set([]Tier{revenue(&two), revenue(&one), revenue(&two)})}, []string{"commission_rules.tiers[2].min_revenue_cents"}},
		{"products", RulesPatch{Products: affiliate.Set([]ProductRate{{"a", percent}, {"b", fixed}})}, nil},
		{"a product twice", RulesPatch{Products: affiliate.Set([]ProductRate{{"a", percent}, {"b", percent}, {"a", fixed}})}, []string{"commission_rules.products[2].product_id"}},
		{"a product without a rate, and with two", RulesPatch{Products: affiliate.Set([]ProductRate{{ProductID: "a"}, {"b", Rate{&one, &one}}})}, []string{"commission_rules.products[0].percentage", "commission_rules.products[1].flat_amount_cents"}},
		{"events", RulesPatch{Events: affiliate.Set([]EventRate{{EventType: affiliate.Purchase}, {affiliate.Signup, fixed}, {affiliate.Lead, percent}})}, nil},
		{"an event twice", RulesPatch{Events: affiliate.Set([]EventRate{{EventType: affiliate.Purchase}, {affiliate.Purchase, fixed}})}, []string{"commission_rules.events[1].event_type"}},
		{"an event with two rates", RulesPatch{Events: affiliate.Set([]EventRate{{affiliate.Signup, Rate{&one, &one}}})}, []string{"commission_rules.events[0].flat_amount_cents"}},
		{
			"everything at once",
			RulesPatch{Tiers: affiliate.Set([]Tier{{}}), Products: affiliate.Set([]ProductRate{{ProductID: "a"}}), Events: affiliate.Set([]EventRate{{affiliate.Signup, Rate{&one, &one}}}), Recurring: RecurringPatch{FirstPaymentOnly: affiliate.Set(true), MaxMonths: affiliate.Set(1)}},
			[]string{"commission_rules.events[0].flat_amount_cents", "commission_rules.products[0].percentage", "commission_rules.recurring.max_months", "commission_rules.tiers[0].min_conversions"},
		},
	} {
		fromCheck := violationFields(tc.patch.Check())
		got, wrong := DefaultRules().Patch(tc.patch)
		fromPatch := violationFields(wrong)
		slices.Sort(fromCheck)
		slices.Sort(fromPatch)
		if !slices.Equal(fromCheck, tc.wrong) || !slices.Equal(fromPatch, tc.wrong) {
			t.Errorf("%s: violations of %q from Check and %q from Patch, want %q", tc.name, fromCheck, fromPatch, tc.wrong)
		}
		if len(wrong) == 0 && !hasValidLists(got) {
			t.Errorf("%s: the patched rules have invalid lists: %+v", tc.name, got)
		}
	}
}
