package affiliate

import "time"

// DiscountType is what the buyer saves.
type DiscountType string

// The types of discount.
const (
	DiscountPercentage DiscountType = "percentage"
	DiscountFixed      DiscountType = "fixed"
)

// SyncStatus says whether a promo code stands at the payment processor as well.
type SyncStatus string

// The statuses of synchronisation.
const (
	SyncNone    SyncStatus = "none"
	SyncPending SyncStatus = "pending"
	SyncSynced  SyncStatus = "synced"
	SyncFailed  SyncStatus = "failed"
)

// PromoCode is a code that a buyer types and that attributes the sale.
type PromoCode struct {
	ID             PromoCodeID
	Scope          Scope
	Program        ProgramID
	Participant    ParticipantID
	Code           string // case-folded, unique in the workspace and mode
	DiscountType   DiscountType
	DiscountValue  int64   // basis points, or minor units of Currency
	Currency       *string // of a fixed discount
	MaxRedemptions *int64  // nil: no limit
	Redemptions    int64
	ExpiresAt      *time.Time // last instant, inclusive; nil: no end
	Active         bool
	Sync           bool
	SyncStatus     SyncStatus
	Version        int // one more with every change
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Usable reports whether a conversion at that instant may redeem a code that is
// active, ends at expiresAt and has redemptions of at most max.
func Usable(active bool, expiresAt *time.Time, redemptions int64, max *int64, at time.Time) bool {
	return active && (expiresAt == nil || !at.After(*expiresAt)) && (max == nil || redemptions < *max)
}
