package notification

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// GatherTime is how long notifications of one category to one user are gathered after a
// mail, before the next mail. It limits the number of mails that busy programmes cause.
const GatherTime = time.Hour

// MaxMailedNotifications is the maximum number of notifications that one mail lists. The mail
// shows only the number of further notifications.
const MaxMailedNotifications = 20

// ArrivalID identifies the notifications of one transaction that were not distributed yet.
type ArrivalID = affiliate.ID[ArrivedNotification]

// ArrivedNotification is a notification that was committed and not distributed yet.
type ArrivedNotification struct {
	ID        ID
	Feed      FeedID         `db:"feed_id"`
	Mode      affiliate.Mode // NotificationsBothModes if it has no mode
	Type      Type
	Workspace *affiliate.WorkspaceID `db:"workspace_id"`
	User      *affiliate.UserID      `db:"user_id"` // the user whom the notification is about
}

// Audience returns the kind of the accounts that read the feed.
func (n ArrivedNotification) Audience() affiliate.AccountKind {
	if n.Workspace != nil && WorkspaceFeed(*n.Workspace) == n.Feed {
		return affiliate.Merchant
	}
	return affiliate.Partner
}

// FeedsOf returns the feeds of the given notifications, each feed once.
func FeedsOf(arrived []ArrivedNotification) []FeedID {
	seen, feeds := map[FeedID]bool{}, []FeedID{}
	for _, n := range arrived {
		if !seen[n.Feed] {
			seen[n.Feed] = true
			feeds = append(feeds, n.Feed)
		}
	}
	return feeds
}

// rule returns the rule of the notification. ok is false if a newer version has created a
// notification that this version does not know.
func (n ArrivedNotification) rule() (rule Rule, spec categorySpec, ok bool) {
	if rule, ok = rulesByKey[ruleKey{n.Audience(), n.Type}]; !ok {
		return rule, spec, false
	}
	spec, ok = specOf(rule.Audience, rule.Category)
	return rule, spec, ok
}

// Category returns the category of the notification.
func (n ArrivedNotification) Category() Category {
	rule, _, _ := n.rule()
	return rule.Category
}

// Gathered reports whether mails about the notification wait while other notifications of its
// category are gathered.
func (n ArrivedNotification) Gathered() bool {
	rule, spec, _ := n.rule()
	return spec.gathered && rule.Severity != SeverityCritical
}

// Arrived returns the part of the notification that its distribution needs.
func (n Notification) Arrived() ArrivedNotification {
	return ArrivedNotification{ID: n.ID, Feed: n.Feed, Mode: n.StoredMode(), Type: n.Type, Workspace: n.Workspace, User: n.User}
}

// FeedRecipient is a user who may get mails about the notifications of a feed: a member
// of the workspace, or the partner.
type FeedRecipient struct {
	Feed    FeedID
	User    affiliate.UserID
	Kind    affiliate.AccountKind
	Role    affiliate.Role // empty for a partner
	Name    string
	Address string
	Choices CategoryChoices
}

// DigestMail is a mail about notifications of one category to one user.
type DigestMail struct {
	Recipient FeedRecipient
	Mode      affiliate.Mode // NotificationsBothModes if the notifications have no mode
	Category  Category
	// Workspace is the workspace whose notification log shows the mail. It is nil if no log
	// shows the mail (LogWorkspace). Mails about several workspaces are then gathered together.
	Workspace *affiliate.WorkspaceID
	// Gathered says that the mail must wait while notifications of its category are
	// gathered for the recipient.
	Gathered bool
	// Notifications has the ids of the notifications, the oldest first.
	Notifications []ID
	Type          string // the Mail.Type
}

// PlanMails returns the mails about the given notifications, in the order of their digest keys. The
// parameter recipients has the users who may get mails about the notifications of their feeds.
func PlanMails(arrived []ArrivedNotification, recipients []FeedRecipient) []DigestMail {
	byFeed := map[FeedID][]FeedRecipient{}
	for _, r := range recipients {
		byFeed[r.Feed] = append(byFeed[r.Feed], r)
	}
	type key struct {
		DigestKey
		gathered bool
	}
	positions := map[key]int{}
	var mails []DigestMail
	for _, n := range arrived {
		for _, recipient := range byFeed[n.Feed] {
			if !recipient.Wants(n) {
				continue
			}
			mail := DigestMail{
				Recipient: recipient, Mode: n.Mode, Category: n.Category(), Type: string(n.Type),
				Workspace: n.LogWorkspace(), Gathered: n.Gathered(),
			}
			k := key{mail.DigestKey(), mail.Gathered}
			i, known := positions[k]
			if !known {
				i = len(mails)
				positions[k] = i
				mails = append(mails, mail)
			}
			if mails[i].Notifications = append(mails[i].Notifications, n.ID); len(mails[i].Notifications) > 1 {
				mails[i].Type = MailTypeDigest
			}
		}
	}
	slices.SortFunc(mails, func(a, b DigestMail) int { return a.DigestKey().Compare(b.DigestKey()) })
	return mails
}

// LogWorkspace returns the workspace whose notification log shows a mail about n. It is nil for
// live mode, and for notifications of partners that belong to both modes.
func (n ArrivedNotification) LogWorkspace() *affiliate.WorkspaceID {
	if n.Mode == affiliate.ModeLive || n.Mode == NotificationsBothModes && n.Audience() == affiliate.Partner {
		return nil
	}
	return n.Workspace
}

// SeesOwnOnly reports whether the recipient sees only the notifications of a category
// that are about the recipient.
func (r FeedRecipient) SeesOwnOnly(category Category) bool {
	spec, _ := specOf(r.Kind, category)
	return spec.personal && !r.reader().SeesPersonal()
}

func (r FeedRecipient) reader() Reader {
	return Reader{User: r.User, Kind: r.Kind, Feed: r.Feed, Role: r.Role}
}

// Wants reports whether the recipient gets mails about a notification.
func (r FeedRecipient) Wants(n ArrivedNotification) bool {
	rule, spec, ok := n.rule()
	if !ok || rule.NoMail {
		return false
	}
	reader := r.reader()
	if !reader.receives(spec) || !spec.preference(r.Choices[spec.category]).Email {
		return false
	}
	return !spec.personal || reader.SeesPersonal() || n.User != nil && *n.User == r.User
}

// Mail returns the mail to store.
func (m DigestMail) Mail(at time.Time) Mail {
	user := m.Recipient.User
	mail := Mail{
		ID: affiliate.NewID[MailID](at), Kind: MailNotifications, Type: m.Type, Category: m.Category, Workspace: m.Workspace,
		Recipient: Recipient{User: &user, Account: m.Recipient.Kind, Name: m.Recipient.Name, Address: m.Recipient.Address},
		CreatedAt: at,
	}
	if m.Mode != NotificationsBothModes {
		mail.Mode = &m.Mode
	}
	newest := m.Notifications[max(0, len(m.Notifications)-MaxMailedNotifications):]
	mail.Facts.Notifications = newest
	mail.Facts.More = len(m.Notifications) - len(newest)
	return mail
}

// DigestKey identifies the notifications that are gathered together for one user.
type DigestKey struct {
	User     affiliate.UserID `db:"user_id"`
	Mode     affiliate.Mode
	Category Category
	// Workspace is zero if the mails about several workspaces are gathered together.
	Workspace affiliate.WorkspaceID `db:"workspace_id"`
}

// Compare orders keys. Transactions that lock several digests lock them in this order, so
// that there is no deadlock.
func (k DigestKey) Compare(other DigestKey) int {
	return cmp.Or(
		bytes.Compare(k.User.UUID[:], other.User.UUID[:]), cmp.Compare(k.Mode, other.Mode),
		cmp.Compare(k.Category, other.Category), bytes.Compare(k.Workspace.UUID[:], other.Workspace.UUID[:]),
	)
}

// DigestKey returns the key under which the mail is gathered.
func (m DigestMail) DigestKey() DigestKey {
	key := DigestKey{User: m.Recipient.User, Mode: m.Mode, Category: m.Category}
	if m.Workspace != nil {
		key.Workspace = *m.Workspace
	}
	return key
}

// Digest describes which notifications are gathered, and until when.
type Digest struct {
	DigestKey
	// WindowStart is the earliest time of the gathered notifications.
	WindowStart time.Time
	// Mailed has the ids of notifications since WindowStart that were already mailed.
	Mailed []ID
	DueAt  time.Time
}

// lateCommit is longer than the duration of any transaction that creates notifications. A
// notification therefore becomes visible at most lateCommit after its time.
const lateCommit = 2 * time.Minute

// NextDigest returns the digest that begins after the mail is sent at the time now. The
// parameter since is the time of the oldest notification that may be in neither this mail nor
// an earlier mail; without such a notification it is now.
func (m DigestMail) NextDigest(since, now time.Time) Digest {
	d := Digest{DigestKey: m.DigestKey(), WindowStart: since.Add(-lateCommit), DueAt: now.Add(GatherTime), Mailed: []ID{}}
	for _, id := range m.Notifications {
		if at, _ := id.Time(); !at.Before(d.WindowStart) {
			d.Mailed = append(d.Mailed, id)
		}
	}
	return d
}
