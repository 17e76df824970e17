package affiliate

import "time"

// CommissionFilter narrows a list of commissions. The zero value of each field
// narrows nothing; what is given has to hold all at once.
type CommissionFilter struct {
	Program     *ProgramID
	Participant *ParticipantID
	Status      CommissionStatus
	NeedsReview *bool
	// Created is when the commission came into being.
	Created Period
	// Search is a prefix of the partner's name or e-mail address, of the external
	// id, the promo code or the commission id; case does not matter.
	Search string
	// HideEmails keeps e-mail addresses out of the search, for readers who see
	// them masked: prefix by prefix a search would spell them out.
	HideEmails bool
}

// CommissionSort is a column that lists can be sorted by.
type CommissionSort string

// The sortable columns, by their names in the contract.
const (
	SortCreatedAt      CommissionSort = "createdAt"
	SortAmountCents    CommissionSort = "amountCents"
	SortStatus         CommissionSort = "status" // by its word
	SortCommissionType CommissionSort = "commissionType"
	SortNeedsReview    CommissionSort = "needsReview" // false before true
	SortPartnerName    CommissionSort = "partnerName" // whatever the case
)

// CommissionOrder is how a list is sorted. Ties fall to the newest, whichever
// way the list runs.
type CommissionOrder struct {
	By        CommissionSort
	Ascending bool
}

// CommissionRow is a commission as an export shows it. Its texts belong to who
// reads the rows and are those of another row afterwards.
type CommissionRow struct {
	ID                    CommissionID
	CreatedAt             time.Time
	Status                []byte
	Type                  []byte
	ProgramName           []byte
	PartnerName           []byte
	AmountCents           int64
	Currency              []byte
	SaleAmountCents       int64
	SaleCurrency          []byte
	ExternalTransactionID []byte
	PromoCode             []byte // nil: none
	NeedsReview           bool
	HoldUntil             *time.Time
	ApprovedAt            *time.Time
	RejectedAt            *time.Time
	PaidAt                *time.Time
	RefundedAt            *time.Time
	Payout                *PayoutID
}
