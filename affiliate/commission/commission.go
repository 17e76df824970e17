// Package commission has the legal moves of commissions, and computes the effects of a move:
// the history, the ledger entry, the events and the audit log entry.
package commission

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Status is the status of a commission.
type Status string

// The statuses of a commission (docs/contract.md#changes-of-a-commission).
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Rejected Status = "rejected"
	Paid     Status = "paid"
	Refunded Status = "refunded"
)

// DisputeStatus is the status of a card dispute about the sale.
type DisputeStatus string

// The statuses of a dispute.
const (
	DisputeNone DisputeStatus = "none"
	DisputeOpen DisputeStatus = "open"
	DisputeWon  DisputeStatus = "won"
	DisputeLost DisputeStatus = "lost"
)

// Commission is what a partner earns from one conversion. It is a row of the table commissions.
type Commission struct {
	ID affiliate.CommissionID `db:"id,fixed"`
	affiliate.Scope
	Program               affiliate.ProgramID     `db:"program_id,fixed"`
	Participant           affiliate.ParticipantID `db:"participant_id,fixed"`
	Partner               affiliate.UserID        `db:"partner_id,fixed"`
	Conversion            affiliate.ConversionID  `db:"conversion_id,fixed"`
	Decision              affiliate.DecisionID    `db:"decision_id,fixed"`
	ExternalTransactionID string                  `db:"external_transaction_id,fixed"`
	Click                 *affiliate.ClickID      `db:"click_id,fixed"`
	PromoCode             *string                 `db:"promo_code,fixed"`
	CustomerRef           *string                 `db:"customer_ref,fixed"`
	Status                Status
	Type                  program.CommissionType `db:"commission_type,fixed"`
	EventType             affiliate.EventType    `db:"event_type,fixed"`
	RateBps               *int64                 `db:"rate_bps,fixed"`          // Percentage only
	FlatCents             *int64                 `db:"flat_amount_cents,fixed"` // Flat only
	AmountCents           int64                  // earned now, minor units of Currency
	OriginalAmountCents   int64                  `db:"original_amount_cents,fixed"` // earned before any refund
	Currency              string                 `db:"currency,fixed"`
	BaseAmountCents       int64                  `db:"base_amount_cents,fixed"` // amount to which the rate was applied, minor units of SaleCurrency
	SaleAmountCents       int64                  `db:"sale_amount_cents,fixed"`
	SaleCurrency          string                 `db:"sale_currency,fixed"`
	FXRate                *string                `db:"fx_rate,fixed"` // decimal; nil if nothing was converted
	FXDate                *time.Time             `db:"fx_date,fixed"`
	RecurringIndex        *int                   `db:"recurring_index,fixed"`
	NeedsReview           bool
	ReviewReasons         []string
	Dispute               DisputeStatus `db:"dispute_status"`
	HoldUntil             *time.Time    `db:"hold_until,fixed"`      // nil if there is no hold period
	AutoApproveAt         *time.Time    `db:"auto_approve_at,fixed"` // nil if a person has to approve
	OverrideReason        *string
	OverrideBy            *affiliate.ActorID
	RejectionReason       *string
	RejectionCode         *string
	ApprovedAt            *time.Time
	ApprovedBy            *string // id of a user or a service token, or system
	RejectedAt            *time.Time
	PaidAt                *time.Time
	RefundedAt            *time.Time
	Payout                *affiliate.PayoutID      `db:"payout_id"` // the open or paid payout that contains the commission
	Rule                  attribution.RuleSnapshot `db:"rule_snapshot,fixed"`
	Version               int                      // increases by one with every change
	CreatedAt             time.Time                `db:"created_at,fixed"`
	UpdatedAt             time.Time
}

// HoldActive reports whether the hold period is running. It ends exactly at HoldUntil.
func (c Commission) HoldActive(now time.Time) bool {
	return c.HoldUntil != nil && now.Before(*c.HoldUntil)
}

// ReversedCents returns the amount by which refunds have lowered the commission.
func (c Commission) ReversedCents() int64 { return c.OriginalAmountCents - c.AmountCents }

// Item is a commission with the names that lists show next to it.
type Item struct {
	Commission
	ProgramName  string
	PartnerName  string
	PartnerEmail string
	// CustomerLabel is the merchant's label of the customer; nil without a customer or label.
	CustomerLabel *string
	// ApprovedByName is the current name of ApprovedBy; nil for system and former
	// members.
	ApprovedByName *string
}

// Detail is a commission with its attribution and its history.
type Detail struct {
	Item
	Attribution
	OverrideByName *string        // current name of OverrideBy; nil for former members
	History        []HistoryEntry // oldest first
}

// Attribution has the parts of the commission's decision that say why the partner earned the commission.
type Attribution struct {
	Method      *string
	ReasonCode  string
	Explanation string
	ClickedAt   *time.Time
	ExpiresAt   *time.Time
}

// HistoryEntry is one move of a commission.
type HistoryEntry struct {
	At     time.Time
	Actor  string  // id of a user, a key or a service token, or system
	From   *Status // nil for the creation
	To     Status
	Reason *string
	Name   *string // current name of Actor; nil for system and former members
}

// Filter restricts a list of commissions. A commission must match all fields
// that are set; a zero field matches every commission.
type Filter struct {
	Program     *affiliate.ProgramID
	Participant *affiliate.ParticipantID
	Status      Status
	NeedsReview *bool
	// HoldActive restricts the list to pending commissions whose hold period is running at the time
	// At (true), or is over or does not exist (false).
	HoldActive *bool
	At         time.Time
	// Created is the period of creation.
	Created affiliate.Period
	// Search is a prefix of the partner's name or e-mail address, of the external transaction
	// id, of the promo code or of the commission id. Case does not matter.
	Search string
	// HideEmails excludes e-mail addresses from the search. Callers who see masked addresses
	// could otherwise find the addresses by longer and longer prefixes.
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

// Order is the order of a list. Rows with equal values are in the order from the newest to the oldest.
type Order struct {
	By        Sort
	Ascending bool
}

// Row is a commission in an export. Its byte slices are valid until the next row.
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

// Sum is the number of commissions and the sum of their amounts.
type Sum struct {
	Count       int64
	AmountCents int64 // minor units
}

func (s Sum) plus(other Sum) Sum {
	return Sum{s.Count + other.Count, s.AmountCents + other.AmountCents}
}

// Group is the sum of commissions with the same status, review flag and currency.
type Group struct {
	Status      Status
	NeedsReview bool
	Currency    string
	Sum
}

// Stats has the numbers and sums of the commissions that match a filter. Amounts are added up by currency.
type Stats struct {
	// Capped says that the search matches more than MaxSearchTotal commissions, or that OnHold or Ready
	// stopped at MaxTotal. The others are not counted.
	Capped bool
	// Count and NeedsReview include commissions of all currencies.
	Count       int64
	NeedsReview int64
	// OnHold and Ready are the numbers of pending commissions that need no review: with a hold period
	// that is running, and without one.
	OnHold, Ready int64
	// Currency is the currency of the programme, or of the workspace if the filter
	// names no programme. InCurrency is the sum of the commissions in that currency.
	Currency   string
	InCurrency Sum
	// ByStatus has the number of commissions in all currencies, but only the amounts in Currency.
	ByStatus map[Status]Sum
	// ByCurrency has an element for each currency that occurs.
	ByCurrency map[string]Sum
}

// NewStats adds up groups. Several groups may have the same status, review flag and currency.
func NewStats(currency string, groups []Group) Stats {
	stats := Stats{Currency: currency, ByStatus: map[Status]Sum{}, ByCurrency: map[string]Sum{}}
	for _, group := range groups {
		if group.Count == 0 {
			continue
		}
		stats.Count += group.Count
		if group.NeedsReview {
			stats.NeedsReview += group.Count
		}
		stats.ByCurrency[group.Currency] = stats.ByCurrency[group.Currency].plus(group.Sum)
		if group.Currency != currency {
			group.AmountCents = 0
		}
		stats.ByStatus[group.Status] = stats.ByStatus[group.Status].plus(group.Sum)
	}
	stats.InCurrency = stats.ByCurrency[currency]
	return stats
}

// AverageCents returns the mean amount in Currency, rounded half up; 0 if no commission is in Currency.
func (s Stats) AverageCents() int64 {
	average, _ := affiliate.MulDiv(s.InCurrency.AmountCents, 1, s.InCurrency.Count)
	return average
}
