package affiliate

import (
	"math"
	"time"
)

// StatsDelta holds the numbers that one change adds to the counts of a participant and a
// link. Numbers can be negative. Amounts are in minor units of Currency.
type StatsDelta struct {
	Scope           Scope
	Program         ProgramID
	Participant     ParticipantID
	Link            *LinkID
	At              time.Time // decides to which hour the delta belongs
	Currency        string    // empty if there are no amounts
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

// Stats holds the counts of a period. Revenue and commission are listed by currency.
type Stats struct {
	Clicks      int64
	Signups     int64
	Conversions int64
	ByCurrency  []CurrencyStats
}

// CurrencyStats holds the amounts in one currency, in minor units.
type CurrencyStats struct {
	Currency        string
	RevenueCents    int64
	CommissionCents int64
}

// Ratio returns the conversions per click, rounded to six decimals; nil if there are no
// clicks.
func (s Stats) Ratio() *float64 {
	if s.Clicks == 0 {
		return nil
	}
	ratio := math.Round(float64(s.Conversions)/float64(s.Clicks)*1e6) / 1e6
	return &ratio
}

// WholeHours returns the period extended to full hours, because counts are stored by
// the hour.
func (p Period) WholeHours() Period {
	var wide Period
	if p.From != nil {
		from := p.From.UTC().Truncate(time.Hour)
		wide.From = &from
	}
	if p.Before != nil {
		before := p.Before.UTC().Truncate(time.Hour)
		if before.Before(*p.Before) {
			before = before.Add(time.Hour)
		}
		wide.Before = &before
	}
	return wide
}

// FoldStats is the job that adds new deltas (see StatsDelta) to the stored sums. It has
// no arguments; the job looks up the deltas when it runs.
type FoldStats struct{}

// Kind returns the name of the job.
func (FoldStats) Kind() string { return "fold_stats" }
