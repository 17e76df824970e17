package affiliate

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

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

// PromoCodeObject is a promo code as events carry it and the audit log compares
// it.
type PromoCodeObject struct {
	ID           PromoCodeID   `json:"id"`
	Program      ProgramID     `json:"program_id"`
	Participant  ParticipantID `json:"participant_id"`
	Code         string        `json:"code"` // in lower case
	DiscountType DiscountType  `json:"discount_type"`
	// DiscountValue is percent with at most two decimals, or minor units of currency.
	DiscountValue  json.Number `json:"discount_value"`
	Currency       *string     `json:"currency"`        // of a fixed discount, ISO 4217; null for a percentage
	MaxRedemptions *int64      `json:"max_redemptions"` // null: no limit
	Redemptions    int64       `json:"redemptions"`     // conversions that named it while it could be used
	ExpiresAt      *string     `json:"expires_at"`      // last instant at which it can be used; null: no end
	Active         bool        `json:"active"`          // false once it was deactivated; it stays true past its end or its limit
	SyncStatus     SyncStatus  `json:"sync_status"`     // whether it stands at the payment processor as well
	Version        int         `json:"version"`
}

// Object is p as events carry it.
func (p PromoCode) Object() PromoCodeObject {
	object := PromoCodeObject{
		ID: p.ID, Program: p.Program, Participant: p.Participant, Code: p.Code, DiscountType: p.DiscountType,
		DiscountValue: json.Number(strconv.FormatInt(p.DiscountValue, 10)), Currency: p.Currency,
		MaxRedemptions: p.MaxRedemptions, Redemptions: p.Redemptions, ExpiresAt: optionalTime(p.ExpiresAt), Active: p.Active,
		SyncStatus: p.SyncStatus, Version: p.Version,
	}
	if p.DiscountType == DiscountPercentage {
		object.DiscountValue = Percent(p.DiscountValue)
	}
	return object
}

// PromoCodePatch changes some fields of a promo code; what it gives and to whom
// stays.
type PromoCodePatch struct {
	Active         Change[bool]
	MaxRedemptions Change[int64]     // cleared: no limit
	ExpiresAt      Change[time.Time] // cleared: no end; may lie in the past
	Sync           Change[bool]
}

// Patch is p changed by patch; UpdatedAt and Version are the caller's.
func (p PromoCode) Patch(patch PromoCodePatch) PromoCode {
	p.Active = patch.Active.or(p.Active, false)
	p.MaxRedemptions = patch.MaxRedemptions.orNil(p.MaxRedemptions)
	p.ExpiresAt = patch.ExpiresAt.orNil(p.ExpiresAt)
	return p.WithSync(patch.Sync.or(p.Sync, false))
}

// WithSync is p with synchronisation asked for, or not. What was asked for before
// keeps its status.
func (p PromoCode) WithSync(wanted bool) PromoCode {
	switch {
	case !wanted:
		p.SyncStatus = SyncNone
	case !p.Sync:
		p.SyncStatus = SyncPending
	}
	p.Sync = wanted
	return p
}

// PromoCodeFilter narrows a list of promo codes; its zero value leaves all of
// them.
type PromoCodeFilter struct {
	Participant *ParticipantID
	Active      *bool
	Search      string // prefix of the code, case-folded
}

// MaxPromoCode is how many characters a promo code has at most.
const MaxPromoCode = 100

// ValidPromoCode reports whether a buyer could type the case-folded code: 1 to
// MaxPromoCode visible characters, no white space among them.
func ValidPromoCode(code string) bool {
	invisible := func(r rune) bool { return r == utf8.RuneError || r == ' ' || !unicode.IsPrint(r) }
	n := utf8.RuneCountInString(code)
	return n >= 1 && n <= MaxPromoCode && !strings.ContainsFunc(code, invisible)
}

// Usable reports whether a conversion at that instant may redeem a code that is
// active, ends at expiresAt and has redemptions of at most limit.
func Usable(active bool, expiresAt *time.Time, redemptions int64, limit *int64, at time.Time) bool {
	return active && (expiresAt == nil || !at.After(*expiresAt)) && (limit == nil || redemptions < *limit)
}
