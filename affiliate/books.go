package affiliate

import (
	"cmp"
	"slices"
	"time"
)

// PeriodClosed returns the error for a date before closed, the end of the closed periods
// (Workspace.BooksClosedUntil).
func PeriodClosed(closed time.Time) *Error {
	until := FormatTime(closed)
	return &Error{
		Reason: ReasonPeriodClosed, Metadata: map[string]string{BooksClosedUntil: until},
		Message: "The books are closed until " + until + ". Use a later date.",
	}
}

// CloseBooks returns w with its books closed up to a date or time. A date (YYYY-MM-DD)
// closes the whole day in the time zone of w: the books are closed until the next day
// begins. An RFC 3339 timestamp is itself the end of the closed periods. Errors:
// VALIDATION_ERROR if text is no date or time, or if the period has not ended at the time
// now; PERIOD_CLOSED if the books are already closed up to a later time.
func (w Workspace) CloseBooks(text string, now time.Time) (Workspace, error) {
	zone, _ := loadZone(w.Timezone)
	parsed, ok := parseBound(text, zone)
	if !ok || text == "" {
		return w, Invalid("books_closed_until", badDate)
	}
	closed := parsed.start
	if !parsed.day.IsZero() {
		closed = parsed.end
	}
	switch {
	case closed.After(now):
		return w, Invalid("books_closed_until", "must be in the past, and a day must have ended")
	case w.BooksClosedUntil != nil && closed.Before(*w.BooksClosedUntil):
		return w, PeriodClosed(*w.BooksClosedUntil)
	}
	w.BooksClosedUntil = &closed
	return w, nil
}

// MaxPaidAge is the longest time between PaidAt and the request that marks a payout as
// paid.
const MaxPaidAge = 90 * 24 * time.Hour

// checkPaidAt returns a VALIDATION_ERROR if the payout cannot have been paid at PaidAt.
func (t PayoutTransition) checkPaidAt(p Payout) *Error {
	switch {
	case t.PaidAt.After(t.At):
		return Invalid("paid_at", "must not be in the future")
	case t.PaidAt.Before(t.At.Add(-MaxPaidAge)):
		return Invalid("paid_at", "must not be more than 90 days in the past")
	case p.InitiatedAt != nil && t.PaidAt.Before(*p.InitiatedAt):
		return Invalid("paid_at", "must not be before the payout was confirmed")
	}
	return nil
}

// InOpenPeriod returns t with a PaidAt in the open period, which begins at closed. If
// PaidAt is At, the service has chosen it, and the whole move is dated closed. closed is
// nil if no period is closed. Errors: PERIOD_CLOSED.
func (t PayoutTransition) InOpenPeriod(closed *time.Time) (PayoutTransition, *Error) {
	if closed == nil || !t.PaidAt.Before(*closed) {
		return t, nil
	}
	if !t.PaidAt.Equal(t.At) {
		return t, PeriodClosed(*closed)
	}
	t.At, t.PaidAt = *closed, *closed
	return t, nil
}

// otherTime returns t, or nil if t is the time at.
func otherTime(t *time.Time, at time.Time) *time.Time {
	if t == nil || t.Equal(at) {
		return nil
	}
	return t
}

// LedgerStatement says what partners were owed at a time.
type LedgerStatement struct {
	// Balances is one page of the balances that are not 0, sorted by currency, then from
	// the highest balance to the lowest.
	Balances []ParticipantBalance
	// Count is the number of balances on all pages.
	Count int64
	// Totals has one element per currency with a balance that is not 0.
	Totals []LedgerTotal
}

// ParticipantBalance is the balance of a participant in one currency.
type ParticipantBalance struct {
	Program     ProgramID
	ProgramName string
	Participant ParticipantID
	PartnerName string // the pseudonym if the data of the participant was erased
	LedgerBalance
}

// LedgerTotal is the sum of the balances in one currency, in its minor units.
type LedgerTotal struct {
	Currency         string
	OwedToPartners   int64 // sum of the positive balances
	OwedByPartners   int64 // sum of the negative balances, without their sign
	ParticipantCount int64 // number of balances that are not 0
}

// BalanceFilter selects the entries of a statement.
type BalanceFilter struct {
	Program *ProgramID // nil: all programmes
	// Before is the end of the period whose entries are summed.
	Before time.Time
}

// OpeningBalance and ClosingBalance are the types of the lines of an export that contain the
// total of a currency at the start and at the end of the period.
const (
	OpeningBalance LedgerEntryType = "opening_balance"
	ClosingBalance LedgerEntryType = "closing_balance"
)

// LedgerLine is an entry in an export of the ledger, with the names of its programme and
// its partner. If its type is OpeningBalance, only Currency and AmountCents are set.
type LedgerLine struct {
	LedgerEntry
	ProgramName string
	PartnerName string // the pseudonym if the data of the participant was erased
}

// RunningTotals holds the sum of the lines of an export in each currency.
type RunningTotals map[string]int64

// Add adds an opening balance or an entry and returns the new total of its currency.
func (r RunningTotals) Add(e LedgerEntry) int64 {
	r[e.Currency] += e.AmountCents
	return r[e.Currency]
}

// Balances returns the totals, sorted by currency.
func (r RunningTotals) Balances() []LedgerBalance {
	balances := make([]LedgerBalance, 0, len(r))
	for currency, cents := range r {
		balances = append(balances, LedgerBalance{Currency: currency, BalanceCents: cents})
	}
	slices.SortFunc(balances, func(a, b LedgerBalance) int { return cmp.Compare(a.Currency, b.Currency) })
	return balances
}
