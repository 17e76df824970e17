package affiliate

import "time"

// LedgerEntryID identifies an entry of the ledger.
type LedgerEntryID = ID[LedgerEntry]

// LedgerEntryType says what an entry is for (DECISIONS.md section 7).
type LedgerEntryType string

// The types, and the sign of their amounts.
const (
	EntryCommissionApproved LedgerEntryType = "commission_approved" // +
	EntryCommissionReversed LedgerEntryType = "commission_reversed" // −
	EntryClawback           LedgerEntryType = "clawback"            // −
	EntryBonus              LedgerEntryType = "bonus"               // +
	EntryAdjustment         LedgerEntryType = "adjustment"          // ±
	EntryPayout             LedgerEntryType = "payout"              // −
	EntryPayoutReturned     LedgerEntryType = "payout_returned"     // +
)

// LedgerEntry is a change of what a participant is owed. Entries are never
// changed; a balance is the sum of one participant's in one currency and may be
// negative.
type LedgerEntry struct {
	ID          LedgerEntryID
	Scope       Scope
	Program     ProgramID
	Participant ParticipantID
	Partner     UserID
	Type        LedgerEntryType
	AmountCents int64 // minor units of Currency, with its sign
	Currency    string
	Commission  *CommissionID // of the first three types
	Payout      *PayoutID     // of the last two
	Reason      *string       // of a bonus or an adjustment
	CreatedBy   string        // user id, or system
	CreatedAt   time.Time
}

// PartnerLedgerEntry is an entry as its partner sees it.
type PartnerLedgerEntry struct {
	LedgerEntry
	ProgramName string
}

// LedgerBalance is the sum of entries in one currency; negative where the partner
// owes.
type LedgerBalance struct {
	Currency     string
	BalanceCents int64
}

// PartnerBalance is what a partner is owed in one currency, with what is not in
// the ledger yet and what was paid.
type PartnerBalance struct {
	LedgerBalance
	PendingCents int64
	PaidCents    int64
}

// LedgerFilter narrows a list of entries. The zero value of each field narrows
// nothing.
type LedgerFilter struct {
	Program  *ProgramID // of a partner's own list
	Type     LedgerEntryType
	Currency string
}

// HandEntry is an entry that a person makes: a bonus or an adjustment.
type HandEntry struct {
	Scope       Scope
	Program     ProgramID
	Participant ParticipantID
	Type        LedgerEntryType
	AmountCents int64
	Currency    string // empty: the programme's
	Reason      string // the partner sees it
	By          Actor
	At          time.Time
}

// Check reports what is wrong with the entry by itself.
func (e HandEntry) Check() Violations {
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
