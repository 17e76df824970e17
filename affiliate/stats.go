package affiliate

import (
	"math"
	"time"
)

// StatsDelta is what one change adds to the counts of a participant and a link.
// Amounts are in minor units of Currency; what takes something back is negative.
type StatsDelta struct {
	Scope           Scope
	Program         ProgramID
	Participant     ParticipantID
	Link            *LinkID
	At              time.Time // the hour that it belongs to is this instant's
	Currency        string    // empty without amounts
	Clicks          int64
	Signups         int64
	Conversions     int64
	RevenueCents    int64
	CommissionCents int64
}

// Brought returns what a conversion that d attributes adds to the counts of its
// participant and link. Of its revenue, only what was not refunded counts. The
// commission has a delta of its own if it is in another currency.
func (d Decision) Brought(c Conversion, commission *Commission) []StatsDelta {
	brought := StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, Link: d.Link, At: d.DecidedAt, Conversions: 1,
	}
	if c.EventType == Signup {
		brought.Signups = 1
	}
	if c.EventType.Priced() {
		brought.Currency, brought.RevenueCents = c.Sale.Paid.Currency, c.Refundable()
	}
	switch {
	case commission == nil:
		return []StatsDelta{brought}
	case brought.Currency == "" || brought.Currency == commission.Currency:
		brought.Currency, brought.CommissionCents = commission.Currency, commission.AmountCents
		return []StatsDelta{brought}
	}
	earned := StatsDelta{
		Scope: c.Scope, Program: *d.Program, Participant: *d.Participant, At: d.DecidedAt,
		Currency: commission.Currency, CommissionCents: commission.AmountCents,
	}
	return []StatsDelta{brought, earned}
}

// Stats are counts of a period. Revenue and commission are per currency.
type Stats struct {
	Clicks      int64
	Signups     int64
	Conversions int64
	ByCurrency  []CurrencyStats
}

// CurrencyStats are the amounts in one currency, in minor units.
type CurrencyStats struct {
	Currency        string
	RevenueCents    int64
	CommissionCents int64
}

// Ratio is conversions per click, rounded to six decimals; nil without clicks.
func (s Stats) Ratio() *float64 {
	if s.Clicks == 0 {
		return nil
	}
	ratio := math.Round(float64(s.Conversions)/float64(s.Clicks)*1e6) / 1e6
	return &ratio
}

// WholeHours is the period widened to the hours that counts are kept by.
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

// FoldStats moves what was counted into the sums. It names nothing: what waits
// is found when the job runs.
type FoldStats struct{}

// Kind names the job.
func (FoldStats) Kind() string { return "fold_stats" }
