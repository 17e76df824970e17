package affiliate

import "time"

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

// Balance is what a partner has earned in one currency, in minor units.
type Balance struct {
	Currency      string
	ApprovedCents int64 // approved and not paid
	PendingCents  int64
	PaidCents     int64
}
