package program

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Paths of whole objects in an update mask.
const (
	rulesField     = "commission_rules"
	recurringField = rulesField + ".recurring"
)

// initialRules returns the rules of a new programme: the default rules, changed by the
// fields in the request. If the request has a flat amount but neither a commission type
// nor a percentage, the type is flat. If the request has a commission type, it must also
// have the rate, because the default rate is probably not the rate that the merchant
// wants.
func initialRules(rules *affiliatev1.CommissionRules, found *affiliate.Violations) program.Rules {
	if rules == nil {
		return program.DefaultRules()
	}
	patch := presentFieldsPatch(rules, found)
	if !patch.Type.Given && patch.FlatCents.Given && !patch.RateBps.Given {
		patch.Type = affiliate.Set(program.Flat)
	}
	initial, wrong := program.DefaultRules().Patch(patch)
	*found = append(*found, wrong...)
	if patch.Type.Given && initial.Type == program.Percentage && !patch.RateBps.Given {
		found.Add(rulesField+".percentage", "is required when {commission_rules.commission_type} is percentage")
	}
	return initial
}

// rulesPatchOf returns the changes of the fields of commission_rules that the paths of
// the mask name. A path can name a whole object. The fields that are present in this
// object are then changed. If the object is absent in the request, all its fields are
// reset to their defaults. Check has rejected invalid values.
func rulesPatchOf(rules *affiliatev1.CommissionRules, paths []string) program.RulesPatch {
	wholeRules, wholeRecurring := slices.Contains(paths, rulesField), slices.Contains(paths, recurringField)
	patch := fieldsPatch(rules, func(path string) bool {
		full := rulesField + "." + path
		inWholeObject := wholeRules || wholeRecurring && strings.HasPrefix(full, recurringField+".")
		return slices.Contains(paths, full) || inWholeObject && hasField(rules, path)
	}, new(affiliate.Violations))
	patch.Reset = wholeRules && rules == nil
	patch.Recurring.Reset = wholeRecurring && rules.GetRecurring() == nil
	return patch
}

// presentFieldsPatch returns changes that set all fields that are present in rules.
func presentFieldsPatch(rules *affiliatev1.CommissionRules, found *affiliate.Violations) program.RulesPatch {
	return fieldsPatch(rules, func(path string) bool { return hasField(rules, path) }, found)
}

// hasField reports whether the field with the path is present in rules. The unspecified
// value of an enum and an empty list count as absent.
func hasField(rules *affiliatev1.CommissionRules, path string) bool {
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

// fieldsPatch returns changes of the selected fields. It calls selected with the path of
// each field, relative to the rules. A selected field that is present in rules is set,
// and a selected field that is absent is cleared.
func fieldsPatch(rules *affiliatev1.CommissionRules, selected func(path string) bool, found *affiliate.Violations) program.RulesPatch {
	var patch program.RulesPatch
	if rules == nil {
		rules = &affiliatev1.CommissionRules{}
	}
	if selected("commission_type") {
		patch.Type = setOrClearEnum[program.CommissionType](server.EnumName(rules.GetCommissionType()))
	}
	if selected("percentage") {
		patch.RateBps = setOrClear(server.OptionalBasisPoints(rules.Percentage, rulesField+".percentage", found))
	}
	if selected("flat_amount_cents") {
		patch.FlatCents = setOrClear(rules.FlatAmountCents)
	}
	if selected("hold_period_days") {
		patch.HoldDays = setOrClearInt(rules.HoldPeriodDays)
	}
	if selected("auto_approval") {
		patch.AutoApproval = setOrClear(rules.AutoApproval)
	}
	if selected("net_basis") {
		patch.NetBasis = setOrClearEnum[program.NetBasis](server.EnumName(rules.GetNetBasis()))
	}
	patch.Recurring = recurringFieldsPatch(rules.GetRecurring(), selected)
	if selected("later_percentage") {
		patch.LaterRateBps = setOrClear(server.OptionalBasisPoints(rules.LaterPercentage, rulesField+".later_percentage", found))
	}
	if selected("min_order_cents") {
		patch.MinOrderCents = setOrClear(rules.MinOrderCents)
	}
	if selected("cap_cents") {
		patch.CapCents = setOrClear(rules.CapCents)
	}
	if selected("tiers") {
		patch.Tiers = affiliate.Set(tiersOf(rules.GetTiers(), found))
	}
	if selected("products") {
		patch.Products = affiliate.Set(productsOf(rules.GetProducts(), found))
	}
	if selected("events") {
		patch.Events = affiliate.Set(eventsOf(rules.GetEvents(), found))
	}
	return patch
}

func recurringFieldsPatch(recurring *affiliatev1.Recurring, selected func(path string) bool) program.RecurringPatch {
	var patch program.RecurringPatch
	if recurring == nil {
		recurring = &affiliatev1.Recurring{}
	}
	if selected("recurring.enabled") {
		patch.FirstPaymentOnly = affiliate.Set(recurring.Enabled != nil && !recurring.GetEnabled())
	}
	if selected("recurring.max_months") {
		patch.MaxMonths = setOrClearInt(recurring.MaxMonths)
	}
	if selected("recurring.max_payments") {
		patch.MaxPayments = setOrClearInt(recurring.MaxPayments)
	}
	return patch
}

func tiersOf(tiers []*affiliatev1.Tier, found *affiliate.Violations) []program.Tier {
	out := make([]program.Tier, len(tiers))
	for i, tier := range tiers {
		path := fmt.Sprintf("%s.tiers[%d].percentage", rulesField, i)
		out[i] = program.Tier{MinConversions: tier.MinConversions, MinRevenueCents: tier.MinRevenueCents}
		if bps := server.OptionalBasisPoints(tier.Percentage, path, found); bps != nil {
			out[i].RateBps = *bps
		} else if tier.Percentage == nil {
			found.Add(path, affiliate.IsRequired)
		}
	}
	return out
}

func productsOf(products []*affiliatev1.ProductRate, found *affiliate.Violations) []program.ProductRate {
	out := make([]program.ProductRate, len(products))
	for i, product := range products {
		rate := server.RateFields(product.Percentage, product.FlatAmountCents, fmt.Sprintf("%s.products[%d].", rulesField, i), found)
		out[i] = program.ProductRate{ProductID: product.GetProductId(), Rate: rate}
	}
	return out
}

func eventsOf(events []*affiliatev1.EventRate, found *affiliate.Violations) []program.EventRate {
	out := make([]program.EventRate, len(events))
	for i, event := range events {
		rate := server.RateFields(event.Percentage, event.FlatAmountCents, fmt.Sprintf("%s.events[%d].", rulesField, i), found)
		out[i] = program.EventRate{EventType: affiliate.EventType(server.EnumName(event.GetEventType())), Rate: rate}
	}
	return out
}
