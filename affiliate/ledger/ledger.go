// Package ledger has the entries of the ledger, whose sum is the amount that a partner is owed,
// and statements of these amounts at a given time. Entries never change.
package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// EntryID identifies an entry of the ledger.
type EntryID = affiliate.ID[Entry]

// EntryType is the kind of a ledger entry (docs/merchant/payouts.md#ledger-and-balance).
type EntryType string

// The types, with the sign of their amounts.
const (
	EntryCommissionApproved EntryType = "commission_approved" // +
	EntryCommissionReversed EntryType = "commission_reversed" // −
	EntryClawback           EntryType = "clawback"            // −
	EntryBonus              EntryType = "bonus"               // +
	EntryAdjustment         EntryType = "adjustment"          // ±
	EntryPayout             EntryType = "payout"              // −
	EntryPayoutReturned     EntryType = "payout_returned"     // +
)

// Entry is a change of the amount that a participant is owed. Entries are never changed. A
// balance is the sum of a participant's entries in one currency. A balance may be negative. The
// database moves an entry that is dated into a closed period to the beginning of the open
// period (docs/adr/0014-the-ledger-table-dates-its-entries.md).
type Entry struct {
	affiliate.Scope
	ID          EntryID
	Program     affiliate.ProgramID     `db:"program_id"`
	Participant affiliate.ParticipantID `db:"participant_id"`
	Partner     affiliate.UserID        `db:"partner_id"`
	Type        EntryType
	AmountCents int64 // minor units of Currency, with its sign
	Currency    string
	Commission  *affiliate.CommissionID `db:"commission_id"` // set for the first three types
	Payout      *affiliate.PayoutID     `db:"payout_id"`     // set for the last two types
	Reason      *string                 // set for a bonus or an adjustment
	CreatedBy   string                  // id of a user, a key or a service token, or system
	CreatedAt   time.Time               // the date in the books
	OccurredAt  *time.Time              // when the event that caused the entry happened; nil if unknown or equal to CreatedAt
}

// Item is an entry with the names of its programme and its creator.
type Item struct {
	Entry
	ProgramName   string
	CreatedByName *string // current name; nil for system and former members
}

// Balance is the sum of entries in one currency. A negative balance is owed by the partner.
type Balance struct {
	Currency     string
	BalanceCents int64
}

// PartnerBalance is what a partner is owed in one currency. PendingCents is the sum of pending
// commissions, which are not in the ledger yet, and HoldCents is the part whose hold period is
// running. PaidCents is the sum of paid commissions. InPayoutCents is the sum of confirmed
// payouts that are not paid yet, and ReservedCents is the part of it that is still in the balance.
type PartnerBalance struct {
	Balance
	PendingCents  int64
	HoldCents     int64
	PaidCents     int64
	InPayoutCents int64
	ReservedCents int64
}

// Filter restricts a list of entries. A zero field matches every entry.
type Filter struct {
	Program  *affiliate.ProgramID // only used for a partner's own list
	Type     EntryType
	Currency string
}

// ManualEntry is a ledger entry that a person makes: a bonus or an adjustment.
type ManualEntry struct {
	Scope       affiliate.Scope
	Program     affiliate.ProgramID
	Participant affiliate.ParticipantID
	Type        EntryType
	AmountCents int64
	Currency    string // if empty, the programme's currency is used
	Reason      string // shown to the partner
	By          affiliate.Actor
	At          time.Time
}

// Participant has the facts about a participant that a manual entry depends on.
type Participant struct {
	Partner  affiliate.UserID `db:"partner_id"`
	Erased   bool
	Currency string // of the programme
}

// Entry returns the entry for the ledger of the given participant. The parameter closed is the
// end of the closed periods, or nil. Errors: PARTICIPANT_ERASED for an erased participant,
// unless the entry is an adjustment; PERIOD_CLOSED.
func (e ManualEntry) Entry(p Participant, closed *time.Time) (Entry, error) {
	if p.Erased && e.Type != EntryAdjustment {
		return Entry{}, affiliate.Refuse(affiliate.ReasonParticipantErased)
	}
	if closed != nil && e.At.Before(*closed) {
		return Entry{}, affiliate.PeriodClosed(*closed)
	}
	return Entry{
		ID: affiliate.NewID[EntryID](e.At), Scope: e.Scope, Program: e.Program, Participant: e.Participant, Partner: p.Partner,
		Type: e.Type, AmountCents: e.AmountCents, Currency: cmp.Or(e.Currency, p.Currency), Reason: &e.Reason,
		CreatedBy: e.By.String(), CreatedAt: e.At,
	}, nil
}

// Check returns the violations of the entry that do not depend on the participant.
func (e ManualEntry) Check() affiliate.Violations {
	var wrong affiliate.Violations
	switch {
	case e.AmountCents == 0:
		wrong.Add("amount_cents", "must not be 0")
	case e.Type == EntryBonus && e.AmountCents < 0:
		wrong.Add("amount_cents", "must be positive when {type} is bonus")
	}
	if _, ok := affiliate.ParseCurrency(e.Currency); e.Currency != "" && !ok {
		wrong.Add("currency", affiliate.MustBeCurrency)
	}
	return wrong
}

// OccurredAt returns Entry.OccurredAt: the event's time t, or nil if t is unknown or is at, the time of the entry.
func OccurredAt(t *time.Time, at time.Time) *time.Time {
	if t == nil || t.Equal(at) {
		return nil
	}
	return t
}

// Statement says what partners were owed at a time.
type Statement struct {
	// Balances is one page of the balances that are not 0, by currency, the highest
	// first.
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

// Line is an entry in an export of the ledger, with the names of its programme and its partner.
// If its type is OpeningBalance, only Currency, AmountCents and CreatedAt are set.
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
