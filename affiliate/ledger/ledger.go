// Package ledger has the entries of the ledger, whose sum is what a partner is owed, and
// statements at a time. Entries never change.
package ledger

import (
	"cmp"
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

// Entry is a change of the amount that a participant is owed. Entries are never
// changed. A balance is the sum of a participant's entries in one currency. It may be
// negative. The database moves an entry that is dated into a closed period to the beginning
// of the open period (docs/adr/0014-the-ledger-table-dates-its-entries.md).
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
	CreatedBy   string                  // user id, or system
	CreatedAt   time.Time               // the date in the books
	OccurredAt  *time.Time              // when the event that caused the entry happened; nil if unknown or equal to CreatedAt
}

// Item is an entry with the name of its programme.
type Item struct {
	Entry
	ProgramName string
}

// Balance is the sum of entries in one currency. It is negative if the partner
// owes money.
type Balance struct {
	Currency     string
	BalanceCents int64
}

// PartnerBalance is the amount that a partner is owed in one currency. PendingCents is
// the sum of pending commissions, which are not in the ledger yet. PaidCents is the sum
// of paid commissions.
type PartnerBalance struct {
	Balance
	PendingCents int64
	PaidCents    int64
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

// Entry returns the entry for the ledger of a participant. An erased participant can get
// only adjustments. closed is the end of the closed periods, or nil. Errors:
// PARTICIPANT_ERASED, PERIOD_CLOSED.
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
