package affiliate

import "time"

// CommissionFilter restricts a list of commissions. A commission must match all fields
// that are set; a zero field matches every commission.
type CommissionFilter struct {
	Program     *ProgramID
	Participant *ParticipantID
	Status      CommissionStatus
	NeedsReview *bool
	// Created is the period of creation.
	Created Period
	// Search is a prefix of the partner's name or e-mail address, of the external id,
	// of the promo code or of the commission id. Case does not matter.
	Search string
	// HideEmails excludes e-mail addresses from the search. It is set for callers who
	// see masked addresses. Otherwise they could find out an address by searching for
	// longer and longer prefixes.
	HideEmails bool
}

// CommissionSort is a column that lists can be sorted by.
type CommissionSort string

// The sortable columns, by their names in the API.
const (
	SortCreatedAt      CommissionSort = "createdAt"
	SortAmountCents    CommissionSort = "amountCents"
	SortStatus         CommissionSort = "status" // alphabetical
	SortCommissionType CommissionSort = "commissionType"
	SortNeedsReview    CommissionSort = "needsReview" // false before true
	SortPartnerName    CommissionSort = "partnerName" // case does not matter
)

// CommissionOrder is the order of a list. In both directions, rows with equal values are
// sorted by creation time, the newest first.
type CommissionOrder struct {
	By        CommissionSort
	Ascending bool
}

// CommissionRow is a commission as an export shows it. Its byte slices are only valid
// until the next row is read.
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
	PromoCode             []byte // nil if there is none
	NeedsReview           bool
	HoldUntil             *time.Time
	ApprovedAt            *time.Time
	RejectedAt            *time.Time
	PaidAt                *time.Time
	RefundedAt            *time.Time
	Payout                *PayoutID
}
