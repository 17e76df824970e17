package program

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Paths of what a mask may name as a whole.
const (
	rulesField     = "commission_rules"
	recurringField = rulesField + ".recurring"
)

// firstRules are the defaults with what the request says instead. The amount
// that is given tells the type; a type that is given demands its amount, since
// nobody who chose one by name wants a number of ours.
func firstRules(rules *affiliatev1.CommissionRules, found *affiliate.Violations) affiliate.Rules {
	if rules == nil {
		return affiliate.DefaultRules()
	}
	patch := heldChanges(rules, found)
	if !patch.Type.Given && patch.FlatCents.Given && !patch.RateBps.Given {
		patch.Type = affiliate.Set(affiliate.Flat)
	}
	made, wrong := affiliate.DefaultRules().Patch(patch)
	*found = append(*found, wrong...)
	if patch.Type.Given && made.Type == affiliate.Percentage && !patch.RateBps.Given {
		found.Add(rulesField+".percentage", "is required when {commission_rules.commission_type} is percentage")
	}
	return made
}

// rulesPatchOf reads the part of a mask about commission_rules. The path of a
// whole object merges what the object holds, or, without an object, goes back to
// the defaults. What is wrong with the values has been refused before.
func rulesPatchOf(rules *affiliatev1.CommissionRules, paths []string) affiliate.RulesPatch {
	whole, recurring := slices.Contains(paths, rulesField), slices.Contains(paths, recurringField)
	patch := rulesChanges(rules, func(path string) bool {
		full := rulesField + "." + path
		merged := whole || recurring && strings.HasPrefix(full, recurringField+".")
		return slices.Contains(paths, full) || merged && holds(rules, path)
	}, new(affiliate.Violations))
	patch.Reset = whole && rules == nil
	patch.Recurring.Reset = recurring && rules.GetRecurring() == nil
	return patch
}

// heldChanges makes changes of all that the rules hold.
func heldChanges(rules *affiliatev1.CommissionRules, found *affiliate.Violations) affiliate.RulesPatch {
	return rulesChanges(rules, func(path string) bool { return holds(rules, path) }, found)
}

// holds reports whether the field at a path is there; the unspecified value of
// an enum and an empty list count as absent.
func holds(rules *affiliatev1.CommissionRules, path string) bool {
	m := rules.ProtoReflect()
	for {
		name, rest, nested := strings.Cut(path, ".")
		field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if !nested || !m.Has(field) {
			return m.Has(field)
		}
		m, path = m.Get(field).Message(), rest
	}
}

// rulesChanges makes changes of the fields that named reports by their paths
// inside the rules; a named field that the message does not hold is cleared.
func rulesChanges(rules *affiliatev1.CommissionRules, named func(path string) bool, found *affiliate.Violations) affiliate.RulesPatch {
	var patch affiliate.RulesPatch
	if rules == nil {
		rules = &affiliatev1.CommissionRules{}
	}
	if named("commission_type") {
		patch.Type = word[affiliate.CommissionType](server.Word(rules.GetCommissionType()))
	}
	if named("percentage") {
		patch.RateBps = optional(server.OptionalBasisPoints(rules.Percentage, rulesField+".percentage", found))
	}
	if named("flat_amount_cents") {
		patch.FlatCents = optional(rules.FlatAmountCents)
	}
	if named("hold_period_days") {
		patch.HoldDays = number(rules.HoldPeriodDays)
	}
	if named("auto_approval") {
		patch.AutoApproval = optional(rules.AutoApproval)
	}
	if named("net_basis") {
		patch.NetBasis = word[affiliate.NetBasis](server.Word(rules.GetNetBasis()))
	}
	patch.Recurring = recurringChanges(rules.GetRecurring(), named)
	if named("later_percentage") {
		patch.LaterRateBps = optional(server.OptionalBasisPoints(rules.LaterPercentage, rulesField+".later_percentage", found))
	}
	if named("min_order_cents") {
		patch.MinOrderCents = optional(rules.MinOrderCents)
	}
	if named("cap_cents") {
		patch.CapCents = optional(rules.CapCents)
	}
	if named("tiers") {
		patch.Tiers = affiliate.Set(tiersOf(rules.GetTiers(), found))
	}
	if named("products") {
		patch.Products = affiliate.Set(productsOf(rules.GetProducts(), found))
	}
	if named("events") {
		patch.Events = affiliate.Set(eventsOf(rules.GetEvents(), found))
	}
	return patch
}

func recurringChanges(recurring *affiliatev1.Recurring, named func(path string) bool) affiliate.RecurringPatch {
	var patch affiliate.RecurringPatch
	if recurring == nil {
		recurring = &affiliatev1.Recurring{}
	}
	if named("recurring.enabled") {
		patch.Once = affiliate.Set(recurring.Enabled != nil && !recurring.GetEnabled())
	}
	if named("recurring.max_months") {
		patch.MaxMonths = number(recurring.MaxMonths)
	}
	if named("recurring.max_payments") {
		patch.MaxPayments = number(recurring.MaxPayments)
	}
	return patch
}

func tiersOf(tiers []*affiliatev1.Tier, found *affiliate.Violations) []affiliate.Tier {
	out := make([]affiliate.Tier, len(tiers))
	for i, tier := range tiers {
		path := fmt.Sprintf("%s.tiers[%d].percentage", rulesField, i)
		out[i] = affiliate.Tier{MinConversions: tier.MinConversions, MinRevenueCents: tier.MinRevenueCents}
		if bps := server.OptionalBasisPoints(tier.Percentage, path, found); bps != nil {
			out[i].RateBps = *bps
		} else if tier.Percentage == nil {
			found.Add(path, affiliate.IsRequired)
		}
	}
	return out
}

func productsOf(products []*affiliatev1.ProductRate, found *affiliate.Violations) []affiliate.ProductRate {
	out := make([]affiliate.ProductRate, len(products))
	for i, product := range products {
		rate := server.RateFields(product.Percentage, product.FlatAmountCents, fmt.Sprintf("%s.products[%d].", rulesField, i), found)
		out[i] = affiliate.ProductRate{ProductID: product.GetProductId(), Rate: rate}
	}
	return out
}

func eventsOf(events []*affiliatev1.EventRate, found *affiliate.Violations) []affiliate.EventRate {
	out := make([]affiliate.EventRate, len(events))
	for i, event := range events {
		rate := server.RateFields(event.Percentage, event.FlatAmountCents, fmt.Sprintf("%s.events[%d].", rulesField, i), found)
		out[i] = affiliate.EventRate{EventType: affiliate.EventType(server.Word(event.GetEventType())), Rate: rate}
	}
	return out
}
