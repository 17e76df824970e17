package affiliate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// recurringIndex is which payment of the named customer in the programme the
// event is, from 1; nil for events that are no payments.
func (in AttributionInputs) recurringIndex(program ProgramID) *int {
	if in.Customer == nil || !in.EventType.Priced() {
		return nil
	}
	index := in.Customer.Payments[program].Count + 1
	return &index
}

// later reports whether this is a payment after a customer's first. Where no
// customer was named, the report's own word has to do.
func (in AttributionInputs) later(index *int) bool {
	if in.Customer == nil {
		return in.EventType == Renewal || in.IsRecurring
	}
	return index != nil && *index >= 2
}

// judgeRules checks whether the programme's rules pay for the event. A reason
// that is not empty says why they do not; because continues "programme X …" in
// the explanation.
func (a *attribution) judgeRules(earner Earner, index *int) (why AttributionReason, because string) {
	rules, paid := earner.Rule.Rules, a.in.Sale.Paid
	if !a.check("rules.pay_for_event", rules.Pays(a.in.EventType), "event is "+string(a.in.EventType)) {
		return WhyRuleNotApplicable, "pays for " + enumerated(rules.paidEvents()) + " only"
	}
	// An amount that cannot be converted cannot be compared; its commission waits
	// for a person anyway.
	if minimum := rules.MinOrderCents; minimum != nil {
		least, order := Money{*minimum, earner.Currency}, spokenMoney(paid)
		cents, known := a.in.convert(paid, earner.Currency)
		if known && paid.Currency != earner.Currency {
			order += " (" + spokenMoney(Money{cents, earner.Currency}) + ")"
		}
		if known && !a.check("rules.order_large_enough", cents >= least.Cents, "order "+order+", minimum "+spokenMoney(least)) {
			return WhyRuleNotApplicable, "pays for orders of at least " + spokenMoney(least) + " only, and this one was " + order
		}
	}
	if because = a.judgeRecurring(earner, index); because != "" {
		return WhyRecurringLimitReached, because
	}
	return "", ""
}

// judgeRecurring checks for how long a customer's payments earn. Without a
// customer nothing can be counted, and only the report's own word says that a
// payment is not the first.
func (a *attribution) judgeRecurring(earner Earner, index *int) (because string) {
	bounds := earner.Rule.Rules.Recurring
	which := "payment not counted"
	if index != nil {
		which = "payment " + strconv.Itoa(*index)
	}
	if bounds.Once && !a.check("rules.first_payment", !a.in.later(index), which) {
		return "pays for a customer's first payment only"
	}
	if index == nil {
		return ""
	}
	if limit := bounds.MaxPayments; limit != nil &&
		!a.check("rules.max_payments", *index <= *limit, which+" of "+strconv.Itoa(*limit)) {
		return fmt.Sprintf("pays for a customer's first %s only, and this was number %d", counted(*limit, "payment"), *index)
	}
	if limit := bounds.MaxMonths; limit != nil && *index > 1 {
		end := addMonths(a.in.Customer.Payments[earner.Program].FirstAt, *limit)
		if !a.check("rules.max_months", !a.in.OccurredAt.After(end),
			"event "+FormatTime(a.in.OccurredAt)+", payments earn until "+FormatTime(end)) {
			return fmt.Sprintf("pays for a customer's first %s only, which ended on %s", counted(*limit, "month"), spoken(end))
		}
	}
	return ""
}

// addMonths is the same time of the same day some calendar months later, in
// UTC, or of the month's last day where it has no such day.
func addMonths(t time.Time, months int) time.Time {
	t = t.UTC()
	first := t.AddDate(0, 0, 1-t.Day()).AddDate(0, months, 0)
	lastDay := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), lastDay)-1)
}

// paidEvents are the events that earn.
func (r Rules) paidEvents() []EventType {
	if len(r.Events) == 0 {
		return []EventType{Purchase, Renewal}
	}
	paid := make([]EventType, len(r.Events))
	for i, event := range r.Events {
		paid[i] = event.EventType
	}
	return paid
}

// Pays reports whether the rules pay for an event. Without a list of their own
// they pay for sales.
func (r Rules) Pays(event EventType) bool { return slices.Contains(r.paidEvents(), event) }

// enumerated names events in the plural: purchases, renewals and leads.
func enumerated(events []EventType) string {
	names := make([]string, len(events))
	for i, event := range events {
		names[i] = string(event) + "s"
		if event == Custom {
			names[i] = "custom events"
		}
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// counted is "payment" for one and "12 payments" for more.
func counted(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
