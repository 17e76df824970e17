package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// OccurredAt returns t, or nil if t is the time at.
func OccurredAt(t *time.Time, at time.Time) *time.Time {
	if t == nil || t.Equal(at) {
		return nil
	}
	return t
}

// Statement says what partners were owed at a time.
type Statement struct {
	// Balances is one page of the balances that are not 0, sorted by currency, then from
	// the highest balance to the lowest.
	Balances []ParticipantBalance
	// Count is the number of balances on all pages.
	Count int64
	// Totals has one element per currency with a balance that is not 0.
	Totals []Total
}

// ParticipantBalance is the balance of a participant in one currency.
type ParticipantBalance struct {
	Program     affiliate.ProgramID
	ProgramName string
	Participant affiliate.ParticipantID
	PartnerName string // the pseudonym if the data of the participant was erased
	Balance
}

// Total is the sum of the balances in one currency, in its minor units.
type Total struct {
	Currency         string
	OwedToPartners   int64 // sum of the positive balances
	OwedByPartners   int64 // sum of the negative balances, without their sign
	ParticipantCount int64 // number of balances that are not 0
}

// BalanceFilter selects the entries of a statement.
type BalanceFilter struct {
	Program *affiliate.ProgramID // nil: all programmes
	// Before is the end of the period whose entries are summed.
	Before time.Time
}

// OpeningBalance and ClosingBalance are the types of the lines of an export that contain the
// total of a currency at the start and at the end of the period.
const (
	OpeningBalance EntryType = "opening_balance"
	ClosingBalance EntryType = "closing_balance"
)

// Line is an entry in an export of the ledger, with the names of its programme and
// its partner. If its type is OpeningBalance, only Currency and AmountCents are set.
type Line struct {
	Entry
	ProgramName string
	PartnerName string // the pseudonym if the data of the participant was erased
}

// RunningTotals holds the sum of the lines of an export in each currency.
type RunningTotals map[string]int64

// Add adds an opening balance or an entry and returns the new total of its currency.
func (r RunningTotals) Add(e Entry) int64 {
	r[e.Currency] += e.AmountCents
	return r[e.Currency]
}

// Balances returns the totals, sorted by currency.
func (r RunningTotals) Balances() []Balance {
	balances := make([]Balance, 0, len(r))
	for currency, cents := range r {
		balances = append(balances, Balance{Currency: currency, BalanceCents: cents})
	}
	slices.SortFunc(balances, func(a, b Balance) int { return cmp.Compare(a.Currency, b.Currency) })
	return balances
}
