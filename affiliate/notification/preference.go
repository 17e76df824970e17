package notification

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// Reader is a user who reads a feed.
type Reader struct {
	User affiliate.UserID
	Kind affiliate.AccountKind
	// Feed is the feed of the user's workspace, or the feed of the partner.
	Feed FeedID
	// Role is the role in the workspace. It is empty for a partner.
	Role affiliate.Role
	Mode affiliate.Mode
}

// SeesPersonal reports whether the reader sees the personal notifications of all users of the
// feed, not only the notifications about this reader.
func (r Reader) SeesPersonal() bool {
	return r.Kind == affiliate.Partner || r.Role == affiliate.RoleOwner
}

func (r Reader) receives(spec categorySpec) bool {
	return r.Kind == affiliate.Partner || slices.Contains(spec.roles, r.Role)
}

// CategoryPreference says how a user is notified about a category.
type CategoryPreference struct {
	Category  Category
	Label     string // for people
	Protected bool
	Email     bool
	InApp     bool
}

// CategoryChoice is what a user has chosen for a category. A field is nil if the user has
// not chosen anything.
type CategoryChoice struct {
	Email *bool
	InApp *bool
}

// CategoryChoices holds the choices of one user.
type CategoryChoices map[Category]CategoryChoice

// Preferences returns the effective preferences for each category that the reader
// receives.
func (r Reader) Preferences(choices CategoryChoices) []CategoryPreference {
	var all []CategoryPreference
	for _, spec := range categorySpecs[r.Kind] {
		if r.receives(spec) {
			all = append(all, spec.preference(choices[spec.category]))
		}
	}
	return all
}

func (s categorySpec) preference(chosen CategoryChoice) CategoryPreference {
	p := CategoryPreference{
		Category: s.category, Label: s.label, Protected: s.protectedEmail || s.protectedInApp, Email: !s.emailOptIn, InApp: true,
	}
	if chosen.Email != nil && !s.protectedEmail {
		p.Email = *chosen.Email
	}
	if chosen.InApp != nil && !s.protectedInApp {
		p.InApp = *chosen.InApp
	}
	return p
}

// CheckChoice checks a change of the preferences for a category. known is false if the
// reader does not receive the category. Errors: NOTIFICATION_CATEGORY_PROTECTED, even if
// the change would have no effect.
func (r Reader) CheckChoice(category Category, choice CategoryChoice) (known bool, err error) {
	spec, ok := specOf(r.Kind, category)
	if !ok || !r.receives(spec) {
		return false, nil
	}
	if choice.Email != nil && spec.protectedEmail || choice.InApp != nil && spec.protectedInApp || spec.protectedInApp {
		refusal := affiliate.Refuse(affiliate.ReasonCategoryProtected)
		refusal.Metadata = map[string]string{affiliate.ProtectedCategory: string(category)}
		return true, refusal
	}
	return true, nil
}

// FeedRange is the part of a feed with one mode and one category.
type FeedRange struct {
	Mode     affiliate.Mode // NotificationsBothModes for categories without a mode
	Category Category
	// Personal means that the reader sees only the notifications about the reader.
	Personal bool
}

// Ranges returns the parts of the feed that the reader sees. If the parameter only is not
// empty, the result is limited to this category.
func (r Reader) Ranges(choices CategoryChoices, only Category) []FeedRange {
	var ranges []FeedRange
	for _, spec := range categorySpecs[r.Kind] {
		if only != "" && spec.category != only || !r.receives(spec) || !spec.preference(choices[spec.category]).InApp {
			continue
		}
		mode := r.Mode
		if spec.bothModes {
			mode = NotificationsBothModes
		}
		ranges = append(ranges, FeedRange{Mode: mode, Category: spec.category, Personal: spec.personal && !r.SeesPersonal()})
	}
	return ranges
}

// Sees reports whether the reader sees a notification of the feed.
func (r Reader) Sees(p FeedPosition, choices CategoryChoices) bool {
	return slices.ContainsFunc(r.Ranges(choices, p.Category), func(visible FeedRange) bool {
		return visible.Mode == p.StoredMode() && (!visible.Personal || p.User != nil && *p.User == r.User)
	})
}

// Entry is a notification as one user sees it.
type Entry struct {
	Notification
	Names
	ReadAt      *time.Time // nil: not read
	DismissedAt *time.Time
}

// Unread returns 1 if the user has not read the notification, otherwise 0.
func (e Entry) Unread() int64 {
	if e.ReadAt == nil {
		return 1
	}
	return 0
}

// Filter selects notifications of a feed.
type Filter struct {
	Ranges     []FeedRange
	UnreadOnly bool
}

// MaxNotificationCount is the number at which the counting of notifications stops.
const MaxNotificationCount = affiliate.MaxSearchTotal

// Life is how long notifications are kept. A dismissed notification is deleted after
// DismissedNotificationLife. Several calls that each dismiss all read notifications share one deletion. It
// takes place DismissedNotificationLife after the first of these calls, so no notification is kept longer.
const (
	Life                      = 180 * 24 * time.Hour
	DismissedNotificationLife = 30 * 24 * time.Hour
)

// FeedPosition is a notification with its sequence number in the feed.
type FeedPosition struct {
	Seq      int64
	Category Category
	Entry
}

// UnsubscribeTokens creates and checks the tokens in the unsubscribe links of mails. With
// a token, a client can disable the mail of one category for one user. A token never
// expires, because the links of old mails must work.
type UnsubscribeTokens struct{ keys affiliate.HashKeys }

// NewUnsubscribeTokens returns tokens that are signed with a key derived from the first hash
// key. Tokens that were signed with a key derived from another hash key are valid too.
func NewUnsubscribeTokens(hashKeys affiliate.HashKeys) UnsubscribeTokens {
	return UnsubscribeTokens{keys: affiliate.HashKeys(hashKeys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("unsubscribe"))
		return mac.Sum(nil)
	}))}
}

// Token returns the token of a user and a category. The same arguments always give the
// same token.
func (u UnsubscribeTokens) Token(user affiliate.UserID, category Category) string {
	payload := append(user.UUID[:], category...)
	return base64.RawURLEncoding.EncodeToString(append(payload, u.signatures(payload).First()...))
}

// Parse returns the user and the category of a token. ok is false if the token was not
// created by Token with one of the keys.
func (u UnsubscribeTokens) Parse(token string) (user affiliate.UserID, category Category, ok bool) {
	const idSize = len(uuid.UUID{})
	data, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(data) < idSize+sha256.Size {
		return affiliate.UserID{}, "", false
	}
	payload, signature := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if !u.signatures(payload).Has(signature) {
		return affiliate.UserID{}, "", false
	}
	copy(user.UUID[:], payload)
	return user, Category(payload[idSize:]), true
}

func (u UnsubscribeTokens) signatures(payload []byte) affiliate.Digests {
	return u.keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write(payload)
		return mac.Sum(nil)
	})
}

// Category is a group of notifications that a user can turn on and off
// together.
type Category string

// The categories. A category belongs to merchants, to partners or to both.
const (
	CategorySecurity            Category = "security"
	CategoryAccount             Category = "account"
	CategoryGDPR                Category = "gdpr"
	CategoryBilling             Category = "billing"
	CategoryWebhookHealth       Category = "webhook_health"
	CategoryPartnerApplications Category = "partner_applications"
	CategoryConversions         Category = "conversions"
	CategoryCommissions         Category = "commissions"
	CategoryFraudReview         Category = "fraud_review"
	CategoryRefundsDisputes     Category = "refunds_disputes"
	CategoryPayouts             Category = "payouts"
	CategoryPayoutProblems      Category = "payout_problems"
	CategoryApplicationStatus   Category = "application_status"
	CategoryProgrammeNews       Category = "programme_news"
	CategoryWeeklySummary       Category = "weekly_summary"
	CategoryMonthlySummary      Category = "monthly_summary"
	CategoryProductUpdates      Category = "product_updates"
)

type categorySpec struct {
	category Category
	label    string
	// protectedEmail means that users cannot disable mails. protectedInApp means that users
	// cannot disable notifications in the feed.
	protectedEmail, protectedInApp bool
	// emailOptIn means that mails are off by default.
	emailOptIn bool
	// personal means that only owners and the user whom a notification is about see the notification.
	personal bool
	// bothModes means that the notifications of the category belong to both modes.
	bothModes bool
	// gathered means that the mails to one user are gathered for an hour.
	gathered bool
	// roles are the roles of the members that receive the category.
	roles []affiliate.Role
}

var (
	runners        = []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager}
	runnersViewers = []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleViewer}
	moneyViewers   = []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleFinance, affiliate.RoleViewer}
)

// categorySpecs has the categories of each audience in the order of the preferences.
var categorySpecs = map[affiliate.AccountKind][]categorySpec{
	affiliate.Merchant: {
		{category: CategorySecurity, label: "Security", protectedEmail: true, protectedInApp: true, personal: true, bothModes: true, roles: []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleFinance, affiliate.RoleDeveloper}},
		{category: CategoryAccount, label: "Account", protectedEmail: true, protectedInApp: true, personal: true, bothModes: true, roles: runners},
		{category: CategoryGDPR, label: "Personal data", protectedEmail: true, protectedInApp: true, bothModes: true, roles: runners},
		{category: CategoryBilling, label: "Billing", protectedEmail: true, protectedInApp: true, bothModes: true, gathered: true, roles: []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleFinance}},
		{category: CategoryWebhookHealth, label: "Webhook health", protectedEmail: true, gathered: true, roles: []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleDeveloper}},
		{category: CategoryPartnerApplications, label: "Partner applications", gathered: true, roles: runnersViewers},
		{category: CategoryConversions, label: "Conversions", emailOptIn: true, gathered: true, roles: runnersViewers},
		{category: CategoryCommissions, label: "Commissions", gathered: true, roles: moneyViewers},
		{category: CategoryFraudReview, label: "Fraud and review", gathered: true, roles: runnersViewers},
		{category: CategoryRefundsDisputes, label: "Refunds and disputes", gathered: true, roles: moneyViewers},
		{category: CategoryPayouts, label: "Payouts", gathered: true, roles: moneyViewers},
		{category: CategoryWeeklySummary, label: "Weekly summary", bothModes: true, gathered: true, roles: runnersViewers},
		{category: CategoryProductUpdates, label: "Product updates", emailOptIn: true, bothModes: true, gathered: true, roles: runnersViewers},
	},
	affiliate.Partner: {
		{category: CategorySecurity, label: "Security", protectedEmail: true, protectedInApp: true, personal: true, bothModes: true},
		{category: CategoryAccount, label: "Account", protectedEmail: true, protectedInApp: true, personal: true, bothModes: true},
		{category: CategoryGDPR, label: "Personal data", protectedEmail: true, protectedInApp: true, bothModes: true},
		{category: CategoryPayoutProblems, label: "Payout problems", protectedEmail: true, protectedInApp: true},
		{category: CategoryApplicationStatus, label: "Applications", gathered: true},
		{category: CategoryCommissions, label: "Commissions", gathered: true},
		{category: CategoryPayouts, label: "Payouts", gathered: true},
		{category: CategoryProgrammeNews, label: "Programme news", gathered: true},
		{category: CategoryMonthlySummary, label: "Monthly summary", bothModes: true, gathered: true},
	},
}

// Label returns the name of a category for people.
func (c Category) Label() string { return c.spec().label }

// spec returns the description of a category. For a category of both audiences, the label
// and the protection are the same.
func (c Category) spec() categorySpec {
	spec, ok := specOf(affiliate.Merchant, c)
	if !ok {
		spec, _ = specOf(affiliate.Partner, c)
	}
	return spec
}

// specOf returns the description of a category. ok is false if the audience does not have
// the category.
func specOf(audience affiliate.AccountKind, category Category) (spec categorySpec, ok bool) {
	i := slices.IndexFunc(categorySpecs[audience], func(s categorySpec) bool { return s.category == category })
	if i < 0 {
		return categorySpec{}, false
	}
	return categorySpecs[audience][i], true
}

// MailProtected reports whether users cannot disable the mail of a category. Mail of a
// protected category has no unsubscribe link.
func (c Category) MailProtected() bool {
	return c.spec().protectedEmail
}
