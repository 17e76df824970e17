package program

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
)

// RulesPatch changes some of the rules.
type RulesPatch struct {
	// Reset replaces the rules by DefaultRules before the other changes are applied.
	Reset         bool
	Type          affiliate.Change[CommissionType]
	RateBps       affiliate.Change[int64]
	FlatCents     affiliate.Change[int64]
	HoldDays      affiliate.Change[int]
	AutoApproval  affiliate.Change[bool]
	NetBasis      affiliate.Change[NetBasis]
	Recurring     RecurringPatch
	LaterRateBps  affiliate.Change[int64]
	MinOrderCents affiliate.Change[int64]
	CapCents      affiliate.Change[int64]
	Tiers         affiliate.Change[[]Tier] // in any order
	Products      affiliate.Change[[]ProductRate]
	Events        affiliate.Change[[]EventRate]
}

// RecurringPatch changes some of the limits on recurring commissions (Recurring).
type RecurringPatch struct {
	// Reset removes all limits before the other changes are applied.
	Reset            bool
	FirstPaymentOnly affiliate.Change[bool]
	MaxMonths        affiliate.Change[int]
	MaxPayments      affiliate.Change[int]
}

// Check returns the violations of the patch that do not depend on the rules.
func (p RulesPatch) Check() affiliate.Violations {
	var found affiliate.Violations
	p.checkLists(&found)
	Recurring{}.patch(p.Recurring, &found)
	return found
}

// Patch returns r with the changes of patch. A patch that changes the type must set the
// rate or amount of the new type. The rate or amount of the old type is removed. A patch
// must not set the flat amount if the resulting type is percentage, or the rate if it is
// flat.
func (r Rules) Patch(patch RulesPatch) (Rules, affiliate.Violations) {
	var found affiliate.Violations
	if patch.Reset {
		r = DefaultRules()
	}
	before, defaults := r.Type, DefaultRules()
	r.Type = patch.Type.Apply(r.Type, defaults.Type)
	r.HoldDays = patch.HoldDays.Apply(r.HoldDays, defaults.HoldDays)
	r.AutoApproval = patch.AutoApproval.Apply(r.AutoApproval, defaults.AutoApproval)
	r.NetBasis = patch.NetBasis.Apply(r.NetBasis, defaults.NetBasis)
	r.Recurring = r.Recurring.patch(patch.Recurring, &found)
	r.LaterRateBps = patch.LaterRateBps.ApplyOptional(r.LaterRateBps)
	r.MinOrderCents = patch.MinOrderCents.ApplyOptional(r.MinOrderCents)
	r.CapCents = patch.CapCents.ApplyOptional(r.CapCents)
	patch.checkLists(&found)
	r.Tiers = sortTiers(patch.Tiers.Apply(r.Tiers, nil))
	r.Products = nilIfEmpty(patch.Products.Apply(r.Products, nil))
	r.Events = nilIfEmpty(patch.Events.Apply(r.Events, nil))

	if r.Type != before {
		r.RateBps, r.FlatCents = nil, nil
	}
	const rate, flat = "commission_rules.percentage", "commission_rules.flat_amount_cents"
	switch r.Type {
	case Percentage:
		r.RateBps, r.FlatCents = patch.RateBps.ApplyOptional(r.RateBps), nil
		if r.RateBps == nil {
			found.Add(rate, "is required when {commission_rules.commission_type} is percentage")
		}
		if patch.FlatCents.HasValue() {
			found.Add(flat, "must be absent when {commission_rules.commission_type} is percentage")
		}
	case Flat:
		r.RateBps, r.FlatCents = nil, patch.FlatCents.ApplyOptional(r.FlatCents)
		if r.FlatCents == nil {
			found.Add(flat, "is required when {commission_rules.commission_type} is flat")
		}
		if patch.RateBps.HasValue() {
			found.Add(rate, "must be absent when {commission_rules.commission_type} is flat")
		}
	}
	return r, found
}

// patch returns r with the changes of patch. If only the first payment earns, limits on
// later payments make no sense. They are removed, and a patch that sets a limit is a
// violation.
func (r Recurring) patch(patch RecurringPatch, found *affiliate.Violations) Recurring {
	if patch.Reset {
		r = Recurring{}
	}
	r.FirstPaymentOnly = patch.FirstPaymentOnly.Apply(r.FirstPaymentOnly, false)
	r.MaxMonths = patch.MaxMonths.ApplyOptional(r.MaxMonths)
	r.MaxPayments = patch.MaxPayments.ApplyOptional(r.MaxPayments)
	if !r.FirstPaymentOnly {
		return r
	}
	const mustBeAbsent = "must be absent when {commission_rules.recurring.enabled} is false"
	if patch.MaxMonths.HasValue() {
		found.Add("commission_rules.recurring.max_months", mustBeAbsent)
	}
	if patch.MaxPayments.HasValue() {
		found.Add("commission_rules.recurring.max_payments", mustBeAbsent)
	}
	return Recurring{FirstPaymentOnly: true}
}

// checkLists adds the violations of the lists in the patch. They do not depend on the
// rules, because a list in a patch replaces the whole list.
func (p RulesPatch) checkLists(found *affiliate.Violations) {
	checkTiers(p.Tiers.Apply(nil, nil), found)
	products := map[string]bool{}
	for i, product := range p.Products.Apply(nil, nil) {
		path := fmt.Sprintf("commission_rules.products[%d].", i)
		product.Check(path, found)
		if products[product.ProductID] {
			found.Add(path+"product_id", "must be unique in {commission_rules.products}")
		}
		products[product.ProductID] = true
	}
	events := map[affiliate.EventType]bool{}
	for i, event := range p.Events.Apply(nil, nil) {
		path := fmt.Sprintf("commission_rules.events[%d].", i)
		if event.Rate != (Rate{}) {
			event.Check(path, found)
		}
		if events[event.EventType] {
			found.Add(path+"event_type", "must be unique in {commission_rules.events}")
		}
		events[event.EventType] = true
	}
}

// checkTiers adds the violations of the tiers. Each tier must have exactly one
// threshold. All thresholds must be of one kind and differ from each other, so that the
// tiers can be sorted.
func checkTiers(tiers []Tier, found *affiliate.Violations) {
	const conversions, revenue = "min_conversions", "min_revenue_cents"
	first, firstPath := "", "" // the kind of the first threshold, and the path of its field
	seen := map[int64]bool{}
	for i, tier := range tiers {
		path := fmt.Sprintf("commission_rules.tiers[%d].", i)
		kind, threshold := conversions, tier.MinConversions
		switch {
		case tier.MinConversions == nil && tier.MinRevenueCents == nil:
			found.Add(path+conversions, "is required without {"+path+revenue+"}")
			continue
		case tier.MinConversions != nil && tier.MinRevenueCents != nil:
			found.Add(path+revenue, affiliate.MustNotBeWith(path+conversions))
			continue
		case tier.MinConversions == nil:
			kind, threshold = revenue, tier.MinRevenueCents
		}
		if first == "" {
			first, firstPath = kind, path+kind
		}
		if kind != first {
			found.Add(path+kind, affiliate.MustNotBeWith(firstPath))
			continue
		}
		if seen[*threshold] {
			found.Add(path+kind, "must be unique in {commission_rules.tiers}")
		}
		seen[*threshold] = true
	}
}

// Check adds a violation if none or both of the fields are set. prefix is the path of
// the object that contains the rate, with a dot at the end.
func (r Rate) Check(prefix string, found *affiliate.Violations) {
	switch {
	case r.Bps == nil && r.FlatCents == nil:
		found.Add(prefix+"percentage", "is required without {"+prefix+"flat_amount_cents}")
	case r.Bps != nil && r.FlatCents != nil:
		found.Add(prefix+"flat_amount_cents", affiliate.MustNotBeWith(prefix+"percentage"))
	}
}

// sortTiers returns tiers sorted by their thresholds, which are all of the same kind.
func sortTiers(tiers []Tier) []Tier {
	sorted := slices.SortedStableFunc(slices.Values(tiers), func(a, b Tier) int {
		return cmp.Or(
			cmp.Compare(affiliate.OrZero(a.MinConversions), affiliate.OrZero(b.MinConversions)),
			cmp.Compare(affiliate.OrZero(a.MinRevenueCents), affiliate.OrZero(b.MinRevenueCents)))
	})
	return nilIfEmpty(sorted)
}

// nilIfEmpty returns nil for an empty list, so that rules with an empty list are equal
// to rules without a list.
func nilIfEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
