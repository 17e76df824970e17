// Package promocode has the rules of promo codes, which credit a sale to a partner without a
// click.
package promocode

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// DiscountType is the kind of discount that a buyer gets.
type DiscountType string

// The types of discount.
const (
	DiscountPercentage DiscountType = "percentage"
	DiscountFixed      DiscountType = "fixed"
)

// SyncStatus says whether a promo code also exists at the payment processor.
type SyncStatus string

// The statuses of synchronisation.
const (
	SyncNone    SyncStatus = "none"
	SyncPending SyncStatus = "pending"
	SyncSynced  SyncStatus = "synced"
	SyncFailed  SyncStatus = "failed"
)

// PromoCode is a code that a buyer enters. It attributes the conversion to the
// participant that the code belongs to.
type PromoCode struct {
	ID affiliate.PromoCodeID `db:"id,fixed"`
	affiliate.Scope
	Program        affiliate.ProgramID     `db:"program_id,fixed"`
	Participant    affiliate.ParticipantID `db:"participant_id,fixed"`
	Code           string                  `db:"code,fixed"` // case-folded, unique in the workspace and mode
	DiscountType   DiscountType            `db:"discount_type,fixed"`
	DiscountValue  int64                   `db:"discount_value,fixed"` // basis points, or minor units of Currency
	Currency       *string                 `db:"currency,fixed"`       // of a fixed discount
	MaxRedemptions *int64                  // nil means no limit
	Redemptions    int64                   `db:"redemptions,fixed"` // changed by conversions only
	ExpiresAt      *time.Time              // last instant, inclusive; nil if it never expires
	Active         bool
	Sync           bool `db:"sync_to_processor"`
	SyncStatus     SyncStatus
	Version        int       // increases by one with every change
	CreatedAt      time.Time `db:"created_at,fixed"`
	UpdatedAt      time.Time
	// ProgramName and PartnerName are the current names.
	ProgramName string `db:"-"`
	PartnerName string `db:"-"`
}

// Object is a promo code as events and the audit log show it.
type Object struct {
	ID           affiliate.PromoCodeID   `json:"id"`
	Program      affiliate.ProgramID     `json:"program_id"`
	Participant  affiliate.ParticipantID `json:"participant_id"`
	Code         string                  `json:"code"` // in lower case
	DiscountType DiscountType            `json:"discount_type"`
	// DiscountValue is a percentage with at most two decimals, or an amount in minor
	// units of currency.
	DiscountValue  json.Number `json:"discount_value"`
	Currency       *string     `json:"currency"`        // currency of a fixed discount, ISO 4217; null for a percentage
	MaxRedemptions *int64      `json:"max_redemptions"` // null means no limit
	Redemptions    int64       `json:"redemptions"`     // number of conversions that redeemed it
	ExpiresAt      *string     `json:"expires_at"`      // last instant at which it can be used; null if it never expires
	Active         bool        `json:"active"`          // false after it was deactivated; it stays true when the code expires or reaches its limit
	SyncStatus     SyncStatus  `json:"sync_status"`     // whether it also exists at the payment processor
	Version        int         `json:"version"`
}

// Object returns p as events show it.
func (p PromoCode) Object() Object {
	object := Object{
		ID: p.ID, Program: p.Program, Participant: p.Participant, Code: p.Code, DiscountType: p.DiscountType,
		DiscountValue: json.Number(strconv.FormatInt(p.DiscountValue, 10)), Currency: p.Currency,
		MaxRedemptions: p.MaxRedemptions, Redemptions: p.Redemptions, ExpiresAt: affiliate.FormatOptionalTime(p.ExpiresAt), Active: p.Active,
		SyncStatus: p.SyncStatus, Version: p.Version,
	}
	if p.DiscountType == DiscountPercentage {
		object.DiscountValue = program.Percent(p.DiscountValue)
	}
	return object
}

// Patch changes some fields of a promo code. The code, the discount and the
// participant cannot be changed.
type Patch struct {
	Active         affiliate.Change[bool]
	MaxRedemptions affiliate.Change[int64]     // if cleared, there is no limit
	ExpiresAt      affiliate.Change[time.Time] // if cleared, the code never expires; may be in the past
	Sync           affiliate.Change[bool]
}

// Patch returns p with the given changes. The caller sets UpdatedAt and Version.
func (p PromoCode) Patch(patch Patch) PromoCode {
	p.Active = patch.Active.Apply(p.Active, false)
	p.MaxRedemptions = patch.MaxRedemptions.ApplyOptional(p.MaxRedemptions)
	p.ExpiresAt = patch.ExpiresAt.ApplyOptional(p.ExpiresAt)
	return p.WithSync(patch.Sync.Apply(p.Sync, false))
}

// WithSync returns p with synchronisation enabled or disabled. If synchronisation was
// already enabled, SyncStatus stays.
func (p PromoCode) WithSync(enabled bool) PromoCode {
	switch {
	case !enabled:
		p.SyncStatus = SyncNone
	case !p.Sync:
		p.SyncStatus = SyncPending
	}
	p.Sync = enabled
	return p
}

// CheckSync returns an error if the code shall exist at the payment processor and has
// characters that processors do not accept. Errors: VALIDATION_ERROR.
func (p PromoCode) CheckSync() error {
	if p.Sync && !ValidProcessorCode(p.Code) {
		return affiliate.Invalid("sync_to_processor", MustBeFalseForCode)
	}
	return nil
}

// MustBeFalseForCode is the message about sync_to_processor for a code that a payment
// processor does not accept.
const MustBeFalseForCode = "must be false, because the code has characters other than letters, digits and dashes"

// ValidProcessorCode reports whether payment processors accept the case-folded code. Stripe
// accepts letters, digits and dashes.
func ValidProcessorCode(code string) bool {
	return code != "" && !strings.ContainsFunc(code, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// SyncJob returns the job that makes the code at the payment processor equal to p.
func (p PromoCode) SyncJob() SyncPromoCode {
	return SyncPromoCode{Workspace: p.Workspace, Mode: p.Mode, PromoCode: p.ID}
}

// ProcessorTerms returns the code with its discount, limit and expiry as one text. A processor
// cannot change them, so a code with other terms is a new promotion code.
func (p PromoCode) ProcessorTerms() string {
	limit, expiry, currency := "-", "-", "-"
	if p.MaxRedemptions != nil {
		limit = strconv.FormatInt(*p.MaxRedemptions, 10)
	}
	if p.ExpiresAt != nil {
		expiry = affiliate.FormatTime(*p.ExpiresAt)
	}
	if p.Currency != nil {
		currency = *p.Currency
	}
	return strings.Join([]string{p.Code, string(p.DiscountType), strconv.FormatInt(p.DiscountValue, 10), currency, limit, expiry}, " ")
}

// ForProcessor returns the code as it shall exist at the payment processor at the given time.
// Its limit is the number of redemptions that are left. The result usable is false if the code
// shall not exist there, for example because it is inactive or used up.
func (p PromoCode) ForProcessor(now time.Time) (code PromoCode, usable bool) {
	if !p.Sync || !Usable(p.Active, p.ExpiresAt, p.Redemptions, p.MaxRedemptions, now) {
		return p, false
	}
	if p.MaxRedemptions != nil {
		left := *p.MaxRedemptions - p.Redemptions
		p.MaxRedemptions = &left
	}
	return p, true
}

// Filter restricts a list of promo codes. A zero field matches every promo
// code.
type Filter struct {
	Participant *affiliate.ParticipantID
	Active      *bool
	Search      string // prefix of the code, case-folded
}

// MaxPromoCode is the greatest number of characters in a promo code.
const MaxPromoCode = 100

// ValidPromoCode reports whether a buyer can type the case-folded code. It must have 1
// to MaxPromoCode visible characters and no white space.
func ValidPromoCode(code string) bool {
	invisible := func(r rune) bool { return r == utf8.RuneError || r == ' ' || !unicode.IsPrint(r) }
	n := utf8.RuneCountInString(code)
	return n >= 1 && n <= MaxPromoCode && !strings.ContainsFunc(code, invisible)
}

// Usable reports whether a conversion at the given time can redeem a promo code. The parameter
// expiresAt is nil if the code never expires. The parameter limit is nil if the number of
// redemptions is not limited.
func Usable(active bool, expiresAt *time.Time, redemptions int64, limit *int64, at time.Time) bool {
	return active && (expiresAt == nil || !at.After(*expiresAt)) && (limit == nil || redemptions < *limit)
}

// SyncPromoCode is the job that makes a promo code at the payment processor equal to the promo
// code of the programme. It creates, replaces or deactivates the code at the processor.
type SyncPromoCode struct {
	Workspace affiliate.WorkspaceID `json:"workspace"`
	Mode      affiliate.Mode        `json:"mode"`
	PromoCode affiliate.PromoCodeID `json:"promo_code"`
}

// Kind returns the name of the job.
func (SyncPromoCode) Kind() string { return "sync_promo_code" }

// Subject returns the participant whose personal data the object contains.
func (o Object) Subject() affiliate.ParticipantID { return o.Participant }
