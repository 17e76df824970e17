package affiliate

import "time"

// PartnerCommission is a commission as its partner sees it. It has no data about the
// buyer, and no data that only the merchant may see.
type PartnerCommission struct {
	ID                  CommissionID
	Program             ProgramID
	ProgramName         string
	Participant         ParticipantID
	Mode                Mode
	Status              CommissionStatus
	Type                CommissionType
	EventType           EventType
	RateBps             *int64 // Percentage only
	FlatCents           *int64 // Flat only
	AmountCents         int64  // earned now, minor units of Currency
	OriginalAmountCents int64  // earned before any refund
	Currency            string
	SaleAmountCents     int64 // minor units of SaleCurrency
	BaseAmountCents     int64 // to which the rate was applied, minor units of SaleCurrency
	SaleCurrency        string
	RecurringIndex      *int
	PromoCode           *string
	Click               *ClickID
	Link                *LinkID
	SubID               *string    // of the click, else of the report, else of the link
	HoldUntil           *time.Time // nil if there is no hold period
	RejectionCode       *string
	ApprovedAt          *time.Time
	RejectedAt          *time.Time
	PaidAt              *time.Time
	RefundedAt          *time.Time
	CreatedAt           time.Time
}

// PartnerCommissionFilter restricts a partner's list of commissions. A zero field
// matches every commission.
type PartnerCommissionFilter struct {
	Program *ProgramID
	Status  CommissionStatus
	Created Period
}
