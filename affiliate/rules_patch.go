package affiliate

import (
	"cmp"
	"fmt"
	"slices"
)

// RulesPatch changes some of the rules.
type RulesPatch struct {
	// Reset starts from DefaultRules in place of the rules in force.
	Reset         bool
	Type          Change[CommissionType]
	RateBps       Change[int64]
	FlatCents     Change[int64]
	HoldDays      Change[int]
	AutoApproval  Change[bool]
	NetBasis      Change[NetBasis]
	Recurring     RecurringPatch
	LaterRateBps  Change[int64]
	MinOrderCents Change[int64]
	CapCents      Change[int64]
	Tiers         Change[[]Tier] // in any order
	Products      Change[[]ProductRate]
	Events        Change[[]EventRate]
}

// RecurringPatch changes some of the bounds.
type RecurringPatch struct {
	// Reset starts from no bound in place of those in force.
	Reset       bool
	Once        Change[bool]
	MaxMonths   Change[int]
	MaxPayments Change[int]
}

// Check reports what is wrong with a patch whatever the rules that it meets.
func (p RulesPatch) Check() Violations {
	var found Violations
	p.checkLists(&found)
	Recurring{}.patched(p.Recurring, &found)
	return found
}

// Patch is r changed by patch. A change of type has to bring its amount, and
// drops the other type's; an amount of the type that is not in force is refused.
func (r Rules) Patch(patch RulesPatch) (Rules, Violations) {
	var found Violations
	if patch.Reset {
		r = DefaultRules()
	}
	before, defaults := r.Type, DefaultRules()
	r.Type = patch.Type.or(r.Type, defaults.Type)
	r.HoldDays = patch.HoldDays.or(r.HoldDays, defaults.HoldDays)
	r.AutoApproval = patch.AutoApproval.or(r.AutoApproval, defaults.AutoApproval)
	r.NetBasis = patch.NetBasis.or(r.NetBasis, defaults.NetBasis)
	r.Recurring = r.Recurring.patched(patch.Recurring, &found)
	r.LaterRateBps = patch.LaterRateBps.orNil(r.LaterRateBps)
	r.MinOrderCents = patch.MinOrderCents.orNil(r.MinOrderCents)
	r.CapCents = patch.CapCents.orNil(r.CapCents)
	patch.checkLists(&found)
	r.Tiers = ascending(patch.Tiers.or(r.Tiers, nil))
	r.Products = noneAsNil(patch.Products.or(r.Products, nil))
	r.Events = noneAsNil(patch.Events.or(r.Events, nil))

	if r.Type != before {
		r.RateBps, r.FlatCents = nil, nil
	}
	const rate, flat = "commission_rules.percentage", "commission_rules.flat_amount_cents"
	switch r.Type {
	case Percentage:
		r.RateBps, r.FlatCents = patch.RateBps.orNil(r.RateBps), nil
		if r.RateBps == nil {
			found.Add(rate, "is required when {commission_rules.commission_type} is percentage")
		}
		if patch.FlatCents.sets() {
			found.Add(flat, "must be absent when {commission_rules.commission_type} is percentage")
		}
	case Flat:
		r.RateBps, r.FlatCents = nil, patch.FlatCents.orNil(r.FlatCents)
		if r.FlatCents == nil {
			found.Add(flat, "is required when {commission_rules.commission_type} is flat")
		}
		if patch.RateBps.sets() {
			found.Add(rate, "must be absent when {commission_rules.commission_type} is flat")
		}
	}
	return r, found
}

// patched is r changed by patch. Where only the first payment earns there is
// nothing to limit: turning the others off drops the limits, and a limit that is
// given is refused.
func (r Recurring) patched(patch RecurringPatch, found *Violations) Recurring {
	if patch.Reset {
		r = Recurring{}
	}
	r.Once = patch.Once.or(r.Once, false)
	r.MaxMonths = patch.MaxMonths.orNil(r.MaxMonths)
	r.MaxPayments = patch.MaxPayments.orNil(r.MaxPayments)
	if !r.Once {
		return r
	}
	const needs = "must be absent when {commission_rules.recurring.enabled} is false"
	if patch.MaxMonths.sets() {
		found.Add("commission_rules.recurring.max_months", needs)
	}
	if patch.MaxPayments.sets() {
		found.Add("commission_rules.recurring.max_payments", needs)
	}
	return Recurring{Once: true}
}

// checkLists notes what is wrong with the lists that the patch brings: a list
// replaces the one before, so nothing else decides.
func (p RulesPatch) checkLists(found *Violations) {
	checkTiers(p.Tiers.or(nil, nil), found)
	products := map[string]bool{}
	for i, product := range p.Products.or(nil, nil) {
		path := fmt.Sprintf("commission_rules.products[%d].", i)
		product.Check(path, found)
		if products[product.ProductID] {
			found.Add(path+"product_id", "must be unique in {commission_rules.products}")
		}
		products[product.ProductID] = true
	}
	events := map[EventType]bool{}
	for i, event := range p.Events.or(nil, nil) {
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

// checkTiers notes tiers that could not be put in one order.
func checkTiers(tiers []Tier, found *Violations) {
	const conversions, revenue = "min_conversions", "min_revenue_cents"
	first, firstPath := "", "" // the kind of the first tier that has one, and its path
	seen := map[int64]bool{}
	for i, tier := range tiers {
		path := fmt.Sprintf("commission_rules.tiers[%d].", i)
		kind, threshold := conversions, tier.MinConversions
		switch {
		case tier.MinConversions == nil && tier.MinRevenueCents == nil:
			found.Add(path+conversions, "is required without {"+path+revenue+"}")
			continue
		case tier.MinConversions != nil && tier.MinRevenueCents != nil:
			found.Add(path+revenue, MustNotBeWith(path+conversions))
			continue
		case tier.MinConversions == nil:
			kind, threshold = revenue, tier.MinRevenueCents
		}
		if first == "" {
			first, firstPath = kind, path+kind
		}
		if kind != first {
			found.Add(path+kind, MustNotBeWith(firstPath))
			continue
		}
		if seen[*threshold] {
			found.Add(path+kind, "must be unique in {commission_rules.tiers}")
		}
		seen[*threshold] = true
	}
}

// Check notes when a rate does not say exactly one of the two; the prefix is the
// path of what holds it, with its dot.
func (r Rate) Check(prefix string, found *Violations) {
	switch {
	case r.Bps == nil && r.FlatCents == nil:
		found.Add(prefix+"percentage", "is required without {"+prefix+"flat_amount_cents}")
	case r.Bps != nil && r.FlatCents != nil:
		found.Add(prefix+"flat_amount_cents", MustNotBeWith(prefix+"percentage"))
	}
}

// ascending is tiers in the order of their thresholds, all of one kind.
func ascending(tiers []Tier) []Tier {
	sorted := slices.SortedStableFunc(slices.Values(tiers), func(a, b Tier) int {
		return cmp.Or(cmp.Compare(deref(a.MinConversions), deref(b.MinConversions)), cmp.Compare(deref(a.MinRevenueCents), deref(b.MinRevenueCents)))
	})
	return noneAsNil(sorted)
}

// noneAsNil lets rules without a list compare equal, however that was said.
func noneAsNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
