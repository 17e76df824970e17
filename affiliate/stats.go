package affiliate

import (
	"time"
)

// StatsDelta holds the numbers that one change adds to the counts of a participant and a
// link. Numbers can be negative. Amounts are in minor units of Currency.
type StatsDelta struct {
	Scope           Scope
	Program         ProgramID
	Participant     ParticipantID
	Link            *LinkID
	At              time.Time
	Currency        string // empty if there are no amounts
	Clicks          int64
	Signups         int64
	Conversions     int64
	RevenueCents    int64
	CommissionCents int64
}

// StatsDeltas returns the deltas that add the conversion c to the counts of d.Participant
// and d.Link. The revenue does not include the refunded part. If the commission is in
// another currency than the sale, it has a separate delta.
func (d Decision) StatsDeltas(c Conversion, commission *Commission) []StatsDelta {
	conversionDelta := StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, Link: d.Link, At: d.DecidedAt, Conversions: 1,
	}
	if c.EventType == Signup {
		conversionDelta.Signups = 1
	}
	if c.EventType.Priced() {
		conversionDelta.Currency, conversionDelta.RevenueCents = c.Sale.Paid.Currency, c.Refundable()
	}
	switch {
	case commission == nil:
		return []StatsDelta{conversionDelta}
	case conversionDelta.Currency == "" || conversionDelta.Currency == commission.Currency:
		conversionDelta.Currency, conversionDelta.CommissionCents = commission.Currency, commission.AmountCents
		return []StatsDelta{conversionDelta}
	}
	commissionDelta := StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, At: d.DecidedAt,
		Currency: commission.Currency, CommissionCents: commission.AmountCents,
	}
	return []StatsDelta{conversionDelta, commissionDelta}
}

// FoldStats is the job that adds new deltas (see StatsDelta) to the stored sums. It has
// no arguments; the job looks up the deltas when it runs.
type FoldStats struct{}

// Kind returns the name of the job.
func (FoldStats) Kind() string { return "fold_stats" }

// AddAnalytics is the job that adds new clicks and changed conversions to the sums of the
// analytics. It has no arguments; the job looks up what is new when it runs.
type AddAnalytics struct{}

// Kind returns the name of the job.
func (AddAnalytics) Kind() string { return "add_analytics" }
