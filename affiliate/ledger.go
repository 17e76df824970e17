package affiliate

import "time"

// LedgerEntryID identifies an entry of the ledger.
type LedgerEntryID = ID[LedgerEntry]

// LedgerEntryType is the kind of a ledger entry (docs/merchant/payouts.md#ledger-and-balance).
type LedgerEntryType string

// The types, with the sign of their amounts.
const (
	EntryCommissionApproved LedgerEntryType = "commission_approved" // +
	EntryCommissionReversed LedgerEntryType = "commission_reversed" // −
	EntryClawback           LedgerEntryType = "clawback"            // −
	EntryBonus              LedgerEntryType = "bonus"               // +
	EntryAdjustment         LedgerEntryType = "adjustment"          // ±
	EntryPayout             LedgerEntryType = "payout"              // −
	EntryPayoutReturned     LedgerEntryType = "payout_returned"     // +
)

// LedgerEntry is a change of the amount that a participant is owed. Entries are never
// changed. A balance is the sum of a participant's entries in one currency. It may be
// negative. The database moves an entry that is dated into a closed period to the beginning
// of the open period (docs/adr/0014-the-ledger-table-dates-its-entries.md).
type LedgerEntry struct {
	ID          LedgerEntryID
	Scope       Scope
	Program     ProgramID
	Participant ParticipantID
	Partner     UserID
	Type        LedgerEntryType
	AmountCents int64 // minor units of Currency, with its sign
	Currency    string
	Commission  *CommissionID // set for the first three types
	Payout      *PayoutID     // set for the last two types
	Reason      *string       // set for a bonus or an adjustment
	CreatedBy   string        // user id, or system
	CreatedAt   time.Time     // the date in the books
	OccurredAt  *time.Time    // when the event that caused the entry happened; nil if unknown or equal to CreatedAt
}

// PartnerLedgerEntry is a ledger entry as the partner sees it.
type PartnerLedgerEntry struct {
	LedgerEntry
	ProgramName string
}

// LedgerBalance is the sum of entries in one currency. It is negative if the partner
// owes money.
type LedgerBalance struct {
	Currency     string
	BalanceCents int64
}

// PartnerBalance is the amount that a partner is owed in one currency. PendingCents is
// the sum of pending commissions, which are not in the ledger yet. PaidCents is the sum
// of paid commissions.
type PartnerBalance struct {
	LedgerBalance
	PendingCents int64
	PaidCents    int64
}

// LedgerFilter restricts a list of entries. A zero field matches every entry.
type LedgerFilter struct {
	Program  *ProgramID // only used for a partner's own list
	Type     LedgerEntryType
	Currency string
}

// ManualEntry is a ledger entry that a person makes: a bonus or an adjustment.
type ManualEntry struct {
	Scope       Scope
	Program     ProgramID
	Participant ParticipantID
	Type        LedgerEntryType
	AmountCents int64
	Currency    string // if empty, the programme's currency is used
	Reason      string // shown to the partner
	By          Actor
	At          time.Time
	Key         *IdempotencyKey // nil if the caller sent none
}

// Check returns the violations of the entry that do not depend on the participant.
func (e ManualEntry) Check() Violations {
	var wrong Violations
	switch {
	case e.AmountCents == 0:
		wrong.Add("amount_cents", "must not be 0")
	case e.Type == EntryBonus && e.AmountCents < 0:
		wrong.Add("amount_cents", "must be positive when {type} is bonus")
	}
	if _, ok := ParseCurrency(e.Currency); e.Currency != "" && !ok {
		wrong.Add("currency", MustBeCurrency)
	}
	return wrong
}
