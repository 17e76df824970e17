package attribution

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// recurringIndex returns the number of this payment of the customer in the programme,
// from 1. It is nil without a customer or a payment.
func (in Inputs) recurringIndex(program affiliate.ProgramID) *int {
	if in.Customer == nil || !in.EventType.Priced() {
		return nil
	}
	index := in.Customer.Payments[program].Count + 1
	return &index
}

// isLaterPayment reports whether the customer has paid before. Without a customer,
// renewals and events that are marked as recurring count as later payments.
func (in Inputs) isLaterPayment(index *int) bool {
	if in.Customer == nil {
		return in.EventType == affiliate.Renewal || in.IsRecurring
	}
	return index != nil && *index >= 2
}

// checkRules checks whether the programme's rules pay for the event. If not, it returns the reason
// and a clause that follows "programme X" in the explanation.
func (a *attribution) checkRules(earner Earner, index *int) (why Reason, clause string) {
	rules, paid := earner.Rule.Rules, a.in.Sale.Money
	if !a.check("rules.pay_for_event", rules.Pays(a.in.EventType), "event is "+string(a.in.EventType)) {
		return WhyRuleNotApplicable, "pays for " + pluralList(rules.PaidEvents()) + " only"
	}
	// If the amount cannot be converted to the currency, the minimum is not checked, because a
	// person reviews the commission.
	if minimum := rules.MinOrderCents; minimum != nil {
		least, order := affiliate.Money{Cents: *minimum, Currency: earner.Currency}, affiliate.FormatMoney(paid)
		cents, known := a.in.convert(paid, earner.Currency)
		if known && paid.Currency != earner.Currency {
			order += " (" + affiliate.FormatMoney(affiliate.Money{Cents: cents, Currency: earner.Currency}) + ")"
		}
		if known && !a.check("rules.order_large_enough", cents >= least.Cents, "order "+order+", minimum "+affiliate.FormatMoney(least)) {
			return WhyRuleNotApplicable, "pays for orders of at least " + affiliate.FormatMoney(least) + " only, and this one was " + order
		}
	}
	if clause = a.checkRecurring(earner, index); clause != "" {
		return WhyRecurringLimitReached, clause
	}
	return "", ""
}

// checkRecurring checks the limits on a customer's payments. It returns a clause of the
// explanation like checkRules; empty if the payment is within the limits. If the report
// names no customer, payments cannot be counted, and only FirstPaymentOnly is checked.
func (a *attribution) checkRecurring(earner Earner, index *int) (clause string) {
	limits := earner.Rule.Rules.Recurring
	payment := "payment not counted"
	if index != nil {
		payment = "payment " + strconv.Itoa(*index)
	}
	if limits.FirstPaymentOnly && !a.check("rules.first_payment", !a.in.isLaterPayment(index), payment) {
		return "pays for a customer's first payment only"
	}
	if index == nil {
		return ""
	}
	if limit := limits.MaxPayments; limit != nil &&
		!a.check("rules.max_payments", *index <= *limit, payment+" of "+strconv.Itoa(*limit)) {
		return fmt.Sprintf("pays for a customer's first %s only, and this was number %d", countPhrase(*limit, "payment"), *index)
	}
	if limit := limits.MaxMonths; limit != nil && *index > 1 {
		end := addMonths(a.in.Customer.Payments[earner.Program].FirstAt, *limit)
		if !a.check("rules.max_months", !a.in.OccurredAt.After(end),
			"event "+affiliate.FormatTime(a.in.OccurredAt)+", payments earn until "+affiliate.FormatTime(end)) {
			return fmt.Sprintf("pays for a customer's first %s only, which ended on %s", countPhrase(*limit, "month"), formatInstant(end))
		}
	}
	return ""
}

// addMonths returns the same day and time a number of calendar months later, in UTC. If
// that month has no such day, it returns the last day of the month.
func addMonths(t time.Time, months int) time.Time {
	t = t.UTC()
	first := t.AddDate(0, 0, 1-t.Day()).AddDate(0, months, 0)
	lastDay := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), lastDay)-1)
}

// pluralList formats event types in the plural, like "purchases, renewals and leads".
func pluralList(events []affiliate.EventType) string {
	names := make([]string, len(events))
	for i, event := range events {
		names[i] = string(event) + "s"
		if event == affiliate.Custom {
			names[i] = "custom events"
		}
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// countPhrase returns "payment" for 1 and "12 payments" for 12.
func countPhrase(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
