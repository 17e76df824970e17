package conversion

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// StatsDeltas returns the deltas that add the conversion to the counts of d.Participant
// and d.Link. The revenue does not include the refunded part. If the commission is in
// another currency than the sale, it has a separate delta.
func (c Conversion) StatsDeltas(d attribution.Decision, commission *commission.Commission) []analytics.StatsDelta {
	conversionDelta := analytics.StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, Link: d.Link, At: d.DecidedAt, Conversions: 1,
	}
	if c.EventType == affiliate.Signup {
		conversionDelta.Signups = 1
	}
	if c.EventType.Priced() {
		conversionDelta.Currency, conversionDelta.RevenueCents = c.Currency, c.Refundable()
	}
	switch {
	case commission == nil:
		return []analytics.StatsDelta{conversionDelta}
	case conversionDelta.Currency == "" || conversionDelta.Currency == commission.Currency:
		conversionDelta.Currency, conversionDelta.CommissionCents = commission.Currency, commission.AmountCents
		return []analytics.StatsDelta{conversionDelta}
	}
	commissionDelta := analytics.StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, At: d.DecidedAt,
		Currency: commission.Currency, CommissionCents: commission.AmountCents,
	}
	return []analytics.StatsDelta{conversionDelta, commissionDelta}
}
