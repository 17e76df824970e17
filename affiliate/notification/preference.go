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

// SeesPersonal reports whether the reader sees the personal notifications of all users of
// the feed, not only those about this reader.
func (r Reader) SeesPersonal() bool {
	return r.Kind == affiliate.Partner || r.Role == affiliate.RoleOwner
}

// receives reports whether the reader's role receives a category.
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

// Ranges returns the parts of the feed that the reader sees. If only is not empty, they
// are limited to this category.
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
		return visible.Mode == p.Mode && (!visible.Personal || p.Entry.User != nil && *p.Entry.User == r.User)
	})
}

// Entry is a notification as one user sees it.
type Entry struct {
	Notification
	Names       Names
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

// MaxNotificationCount is the highest number of notifications that is counted.
const MaxNotificationCount = affiliate.MaxSearchTotal

// Life is how long notifications are kept. A dismissed notification is
// deleted after DismissedNotificationLife. If notifications were dismissed together, those
// that were dismissed later are deleted with the first, so none is kept longer.
const (
	Life                      = 180 * 24 * time.Hour
	DismissedNotificationLife = 30 * 24 * time.Hour
)

// FeedPosition is a notification with its sequence number in the feed.
type FeedPosition struct {
	Seq      int64
	Mode     affiliate.Mode
	Category Category
	Entry    Entry
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
