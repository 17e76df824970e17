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
