package account

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// Workspace is a merchant's company with its settings. The data of a workspace is
// separate from the data of all other workspaces.
type Workspace struct {
	ID       affiliate.WorkspaceID `db:"id,fixed"`
	Name     string
	Slug     string `db:"slug,fixed"` // a change is in Branding
	Currency string // ISO 4217
	Timezone string // IANA
	// AllowedOrigins contains origins in normal form (see ParseOrigin), without
	// duplicates. If the list is empty, every origin is allowed.
	AllowedOrigins []string
	OriginPolicy   OriginPolicy
	// TestMailRedirect is the e-mail address, in lower case, that receives all mail of
	// test mode. If it is nil, mail of test mode is not sent.
	TestMailRedirect *string
	// SecondPersonAboveCents is the total of a payout batch in a currency, in minor units,
	// above which two members must confirm the batch. If it is nil, one member is enough.
	SecondPersonAboveCents *int64
	// RequireSecondFactor means that members without a second factor can only read.
	RequireSecondFactor bool
	// BooksClosedUntil is the end of the closed periods, for both modes. No entry of the
	// ledger gets an earlier date. If it is nil, no period is closed.
	BooksClosedUntil *time.Time
	// RetainPayeeYears is the number of years, 0 to 30, for which a paid payout of live mode keeps the
	// name of an erased partner after the payment. If it is 0, the payout does not keep the name.
	RetainPayeeYears int
	Version          int       // increases by one with every change of the settings
	CreatedAt        time.Time `db:"created_at,fixed"`
	UpdatedAt        time.Time
}

// OriginPolicy says what happens to a click from a page whose origin is not allowed.
type OriginPolicy string

// With ObserveOrigins, a click from an origin that is not allowed is recorded and
// marked. With EnforceOrigins, the click is rejected. With StrictOrigins, clicks without an
// origin are rejected too.
const (
	ObserveOrigins OriginPolicy = "observe"
	EnforceOrigins OriginPolicy = "enforce"
	StrictOrigins  OriginPolicy = "enforce_strict"
)

// ForRole returns w in the form that members with the given role may see. Viewers see
// e-mail addresses masked.
func (w Workspace) ForRole(role affiliate.Role) Workspace {
	if role == affiliate.RoleViewer && w.TestMailRedirect != nil {
		masked := affiliate.MaskEmail(*w.TestMailRedirect)
		w.TestMailRedirect = &masked
	}
	return w
}

// NewWorkspace returns a workspace with the default settings and without a slug.
func NewWorkspace(name string, at time.Time) Workspace {
	return Workspace{
		ID:             affiliate.NewID[affiliate.WorkspaceID](at),
		Name:           name,
		Currency:       DefaultCurrency,
		Timezone:       "UTC",
		AllowedOrigins: []string{},
		OriginPolicy:   ObserveOrigins,
		Version:        1,
		CreatedAt:      at,
		UpdatedAt:      at,
	}
}

// WorkspacePatch holds changes of the settings of a workspace. Name, currency and timezone
// cannot be cleared. Clearing the policy sets it to ObserveOrigins.
type WorkspacePatch struct {
	Name             affiliate.Change[string]
	Currency         affiliate.Change[string]
	Timezone         affiliate.Change[string]
	AllowedOrigins   affiliate.Change[[]string]
	OriginPolicy     affiliate.Change[OriginPolicy]
	TestMailRedirect affiliate.Change[string]
	// If SecondPersonAboveCents is cleared, one member is enough for every batch.
	SecondPersonAboveCents affiliate.Change[int64]
	// Clearing RequireSecondFactor sets it to false.
	RequireSecondFactor affiliate.Change[bool]
	// Clearing RetainPayeeYears sets it to 0.
	RetainPayeeYears affiliate.Change[int]
}

// Patch returns w with the given changes. The caller sets Version and UpdatedAt. Errors:
// VALIDATION_ERROR.
func (w Workspace) Patch(patch WorkspacePatch) (Workspace, error) {
	var found affiliate.Violations
	for _, field := range []struct {
		name   string
		value  *string
		change affiliate.Change[string]
	}{
		{"name", &w.Name, patch.Name},
		{"currency", &w.Currency, patch.Currency},
		{"timezone", &w.Timezone, patch.Timezone},
	} {
		if *field.value = field.change.Apply(*field.value, ""); *field.value == "" {
			found.Add(field.name, affiliate.IsRequired)
		}
	}
	w.AllowedOrigins = patch.AllowedOrigins.Apply(w.AllowedOrigins, []string{})
	w.OriginPolicy = patch.OriginPolicy.Apply(w.OriginPolicy, ObserveOrigins)
	w.TestMailRedirect = patch.TestMailRedirect.ApplyOptional(w.TestMailRedirect)
	w.SecondPersonAboveCents = patch.SecondPersonAboveCents.ApplyOptional(w.SecondPersonAboveCents)
	w.RequireSecondFactor = patch.RequireSecondFactor.Apply(w.RequireSecondFactor, false)
	w.RetainPayeeYears = patch.RetainPayeeYears.Apply(w.RetainPayeeYears, 0)
	if w.OriginPolicy != ObserveOrigins && len(w.AllowedOrigins) == 0 {
		found.Add("origin_policy", "must not be "+string(w.OriginPolicy)+" while {allowed_origins} is empty")
	}
	return w, found.Err()
}

// WorkspaceObject holds the settings of a workspace in the form in which the audit log shows
// their changes. The audit log shows the e-mail address masked.
type WorkspaceObject struct {
	Name             string       `json:"name"`
	Currency         string       `json:"currency"`
	Timezone         string       `json:"timezone"`
	AllowedOrigins   []string     `json:"allowed_origins"`
	OriginPolicy     OriginPolicy `json:"origin_policy"`
	TestMailRedirect *string      `json:"test_mail_redirect"`
	// SecondPersonAboveCents is in minor units.
	SecondPersonAboveCents *int64  `json:"second_person_above_cents"`
	RequireSecondFactor    bool    `json:"require_second_factor"`
	BooksClosedUntil       *string `json:"books_closed_until"`
	RetainPayeeYears       int     `json:"retain_payee_years"`
}

// Object returns the settings of w in the form in which the audit log shows their changes.
func (w Workspace) Object() WorkspaceObject {
	origins := w.AllowedOrigins
	if origins == nil {
		origins = []string{}
	}
	return WorkspaceObject{
		Name: w.Name, Currency: w.Currency, Timezone: w.Timezone,
		AllowedOrigins: origins, OriginPolicy: w.OriginPolicy, TestMailRedirect: w.TestMailRedirect,
		SecondPersonAboveCents: w.SecondPersonAboveCents,
		BooksClosedUntil:       affiliate.FormatOptionalTime(w.BooksClosedUntil),
		RequireSecondFactor:    w.RequireSecondFactor,
		RetainPayeeYears:       w.RetainPayeeYears,
	}
}

// PayoutApprovalNotification returns the notification about the change of
// SecondPersonAboveCents by a member.
func (w Workspace) PayoutApprovalNotification(by affiliate.UserID, at time.Time) notification.Notification {
	rule := "one member confirms"
	if cents := w.SecondPersonAboveCents; cents != nil {
		rule = fmt.Sprintf("two members confirm a batch with more than %d minor units in a currency", *cents)
	}
	return MemberNotification(w.ID, notification.NotifyPayoutApprovalChanged, by, at, map[string]string{"rule": rule})
}

// ValidTimezone reports whether name is an IANA time zone.
func ValidTimezone(name string) bool {
	_, ok := affiliate.LoadZone(name)
	return ok && name != ""
}

// DefaultCurrency is the currency of new workspaces.
const DefaultCurrency = "USD"

// CloseBooks returns w with its books closed up to a date or time. A date (YYYY-MM-DD) closes
// the whole day in the time zone of w: the books are closed until the next day begins. An RFC
// 3339 timestamp is itself the end of the closed periods. Errors: VALIDATION_ERROR if text is
// neither a date nor a timestamp, or if the closed period would end after the time now;
// PERIOD_CLOSED if the books are already closed up to a later time.
func (w Workspace) CloseBooks(text string, now time.Time) (Workspace, error) {
	closed, ok := affiliate.ParseEnd(text, w.Timezone)
	if !ok {
		return w, affiliate.Invalid("books_closed_until", affiliate.MustBeDateOrTimestamp)
	}
	switch {
	case closed.After(now):
		return w, affiliate.Invalid("books_closed_until", "must be in the past, and a day must have ended")
	case w.BooksClosedUntil != nil && closed.Before(*w.BooksClosedUntil):
		return w, affiliate.PeriodClosed(*w.BooksClosedUntil)
	}
	w.BooksClosedUntil = &closed
	return w, nil
}

// InviteLife is how long an invitation can be accepted.
const InviteLife = 7 * 24 * time.Hour

// InviteMailInterval is the least time between two mails of invitations to one address and
// programme.
const InviteMailInterval = time.Hour

// Invite is an invitation by e-mail, either of a member to a workspace or of a partner
// to a programme. Its tokens are stored as digests (InviteTokens).
type Invite struct {
	ID        affiliate.InviteID `db:"id,fixed"`
	Email     string             `db:"email,fixed"` // lower case
	InvitedBy affiliate.UserID   `db:"invited_by,fixed"`
	CreatedAt time.Time          `db:"created_at,fixed"`
	ExpiresAt time.Time          `db:"expires_at,fixed"`
	EndedAt   *time.Time         // when it was accepted, revoked or replaced
}

// ListedInvite is an invitation of a member with the current name of the user who made it; nil if
// the user has left the workspace.
type ListedInvite struct {
	MemberInvite
	InvitedByName *string
}

// NewInvite returns an invitation of an address, which must be in lower case.
func NewInvite(email string, by affiliate.UserID, at time.Time) Invite {
	return Invite{ID: affiliate.NewID[affiliate.InviteID](at), Email: email, InvitedBy: by, CreatedAt: at, ExpiresAt: at.Add(InviteLife)}
}

// Open reports whether the invitation can be accepted at the given time.
func (i Invite) Open(now time.Time) bool { return i.EndedAt == nil && now.Before(i.ExpiresAt) }

// MailedRecently reports whether the invitation was mailed less than InviteMailInterval before
// the given time and has not ended.
func (i Invite) MailedRecently(now time.Time) bool {
	return i.EndedAt == nil && i.CreatedAt.After(now.Add(-InviteMailInterval))
}

// NewMail returns the mail of an invitation, without the token.
func (i Invite) NewMail(kind notification.MailKind, account affiliate.AccountKind, workspace affiliate.WorkspaceID) notification.Mail {
	return notification.Mail{
		ID:        affiliate.NewID[notification.MailID](i.CreatedAt),
		Kind:      kind,
		Type:      string(kind),
		Workspace: &workspace,
		Recipient: notification.Recipient{Account: account, Address: i.Email},
		Facts:     notification.MailFacts{ExpiresAt: &i.ExpiresAt},
		CreatedAt: i.CreatedAt,
	}
}

// MemberInvite is an invitation to become a member of a workspace. It is a row of the table member_invites.
type MemberInvite struct {
	Invite
	Workspace affiliate.WorkspaceID `db:"workspace_id,fixed"`
	Role      affiliate.Role        `db:"role,fixed"`
}

// Mail returns the mail of the invitation, without the token. The arguments are the names
// of the workspace and of the member who invites.
func (i MemberInvite) Mail(workspace, inviter string) notification.Mail {
	mail := i.NewMail(notification.MailMemberInvite, affiliate.Merchant, i.Workspace)
	mail.Facts.WorkspaceName, mail.Facts.InviterName, mail.Facts.Role = workspace, inviter, i.Role
	return mail
}

// InviteTokens has the two tokens of an invitation. Either token is sufficient to accept the
// invitation. The response to the member who invites contains Shown. Only the mail contains
// Mailed, so Mailed proves that its holder reads the mail of the invited address.
type InviteTokens struct{ Shown, Mailed string }

// InviteDigests has the digests of InviteTokens, by which the invitation is found.
type InviteDigests struct{ Shown, Mailed [sha256.Size]byte }

// NewInviteTokens returns tokens of 256 random bits each, and their digests.
func NewInviteTokens() (InviteTokens, InviteDigests) {
	tokens := InviteTokens{Shown: affiliate.RandomToken("inv_"), Mailed: affiliate.RandomToken("inv_")}
	return tokens, InviteDigests{Shown: DigestInviteToken(tokens.Shown), Mailed: DigestInviteToken(tokens.Mailed)}
}

// DigestInviteToken returns the digest by which an invitation is looked up.
func DigestInviteToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
