package commission

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Filter restricts a list of commissions. A commission must match all fields
// that are set; a zero field matches every commission.
type Filter struct {
	Program     *affiliate.ProgramID
	Participant *affiliate.ParticipantID
	Status      Status
	NeedsReview *bool
	// Created is the period of creation.
	Created affiliate.Period
	// Search is a prefix of the partner's name or e-mail address, of the external id,
	// of the promo code or of the commission id. Case does not matter.
	Search string
	// HideEmails excludes e-mail addresses from the search. It is set for callers who
	// see masked addresses. Otherwise they could find out an address by searching for
	// longer and longer prefixes.
	HideEmails bool
}

// Sort is a column that lists can be sorted by.
type Sort string

// The sortable columns, by their names in the API.
const (
	SortCreatedAt      Sort = "createdAt"
	SortAmountCents    Sort = "amountCents"
	SortStatus         Sort = "status" // alphabetical
	SortCommissionType Sort = "commissionType"
	SortNeedsReview    Sort = "needsReview" // false before true
	SortPartnerName    Sort = "partnerName" // case does not matter
)

// Order is the order of a list. In both directions, rows with equal values are
// sorted by creation time, the newest first.
type Order struct {
	By        Sort
	Ascending bool
}

// Row is a commission as an export shows it. Its byte slices are only valid
// until the next row is read.
type Row struct {
	ID                    affiliate.CommissionID
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
	Payout                *affiliate.PayoutID
}
