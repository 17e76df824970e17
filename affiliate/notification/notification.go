// Package notification has the notifications and mails of the service: their types and texts,
// who receives them, and when gathered notifications are sent.
package notification

import (
	"cmp"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// ID identifies a notification. It contains the notification's time, to the
// millisecond.
type ID = affiliate.ID[Notification]

// Feed is a list of notifications: the list of a workspace, which its members share, or
// the list of a partner account.
type Feed struct{}

// FeedID identifies a feed. It is the id of the workspace or of the partner's user.
type FeedID = affiliate.ID[Feed]

// WorkspaceFeed returns the id of a workspace's feed.
func WorkspaceFeed(id affiliate.WorkspaceID) FeedID { return FeedID(id) }

// PartnerFeed returns the id of a partner's feed.
func PartnerFeed(id affiliate.UserID) FeedID { return FeedID(id) }

// Severity says how urgent a notification is.
type Severity string

// The severities.
const (
	SeverityInfo     Severity = "info"
	SeverityWarning  Severity = "warning"
	SeverityCritical Severity = "critical"
)

// Notification is a message in a feed. It does not contain the names of programmes, partners and
// members. The current names are added when a notification is read, so an erasure of personal
// data does not need to change notifications.
type Notification struct {
	ID   ID
	Feed FeedID `db:"feed_id"`
	// Audience is the kind of the feed: Merchant for a workspace.
	Audience affiliate.AccountKind
	Type     Type
	// Workspace is the workspace in which the cause happened. It is nil if the cause
	// concerns a partner's account.
	Workspace *affiliate.WorkspaceID `db:"workspace_id"`
	// Mode is nil if the notification belongs to both modes.
	Mode *affiliate.Mode
	// User is the user that the notification is about. Only this user and owners see
	// notifications of CategorySecurity and CategoryAccount. It is nil for most other
	// notifications.
	User        *affiliate.UserID        `db:"user_id"`
	Program     *affiliate.ProgramID     `db:"program_id"`
	Participant *affiliate.ParticipantID `db:"participant_id"`
	// Resource is the id of the record that the notification is about. The rule of the
	// notification says which kind of record it is.
	Resource *uuid.UUID `db:"resource_id"`
	// Facts holds the values of the placeholders in the text, except names.
	Facts map[string]string
}

// NewNotification returns a notification of a type in a feed. mode is nil if the cause
// has no mode. The caller sets the other fields.
func NewNotification(audience affiliate.AccountKind, feed FeedID, kind Type, mode *affiliate.Mode, at time.Time) Notification {
	return Notification{ID: affiliate.NewID[ID](at), Type: kind, Mode: mode}.to(audience, feed)
}

// to returns the notification for a feed. If its category belongs to both modes, the
// notification has no mode.
func (n Notification) to(audience affiliate.AccountKind, feed FeedID) Notification {
	n.Audience, n.Feed = audience, feed
	if spec, _ := specOf(audience, n.Rule().Category); spec.bothModes {
		n.Mode = nil
	}
	return n
}

// NotificationsBothModes is the mode under which notifications without a mode are stored. It is
// untyped. With the type Mode, the documentation would list it as a mode of other objects.
const NotificationsBothModes = "both"

// StoredMode returns the mode under which the notification is stored: its mode, or
// NotificationsBothModes.
func (n Notification) StoredMode() affiliate.Mode {
	if n.Mode == nil {
		return NotificationsBothModes
	}
	return *n.Mode
}

// CreatedAt returns the time of the notification, which is part of its id.
func (n Notification) CreatedAt() time.Time {
	at, _ := n.ID.Time()
	return at
}

// Rule returns the rule of the notification. The notification must have a type that
// HasNotification reports for its audience.
func (n Notification) Rule() Rule { return rulesByKey[ruleKey{n.Audience, n.Type}] }

// Apps has the base URLs of the apps for people. The pages of test mode are below /test. An empty
// URL means that no link leads to the app.
type Apps struct {
	Console string // for merchants
	Portal  string // for partners
}

// consolePages and portalPages are the paths of the pages about the kinds of records. {id} stands
// for the id of the record, {program} for the id of the programme.
var consolePages = map[Resource]string{
	ResourceParticipant:  "/programs/{program}/partners/{id}",
	ResourceConversion:   "/conversions/{id}",
	ResourceCommission:   "/commissions/{id}",
	ResourcePayout:       "/payouts/{id}",
	ResourcePayoutBatch:  "/payouts/batches/{id}",
	ResourceProgram:      "/programs/{id}",
	ResourceEndpoint:     "/webhooks/{id}",
	ResourceAPIKey:       "/settings/api-keys",
	ResourceServiceToken: "/settings/service-tokens",
	ResourceMember:       "/settings/members",
	ResourceUser:         "/settings/account?show=security",
	ResourceAnnouncement: "/programs/{program}",
	ResourceBuyerErasure: "/settings/privacy",

	ResourceProcessorConnection: "/settings/tracking?show=stripe",
}

var portalPages = map[Resource]string{
	ResourceParticipant:  "/programs/{program}",
	ResourceCommission:   "/commissions/{id}",
	ResourcePayout:       "/payouts/{id}",
	ResourceUser:         "/settings?show=security",
	ResourceAnnouncement: "/programs/{program}",
}

// PagePath returns the path of the page that shows the record of a notification, with the
// placeholders {id} and {program}. It is empty if there is no page.
func (r Rule) PagePath() string {
	switch {
	case r.Page != "":
		return r.Page
	case r.Audience == affiliate.Partner:
		return portalPages[r.Resource]
	}
	return consolePages[r.Resource]
}

// ActionURL returns the page of the recipient's app that shows the record of the notification.
// The result is nil if the app has no URL or no page about the record.
func (n Notification) ActionURL(apps Apps) *string {
	base, path := strings.TrimSuffix(apps.Console, "/"), n.Rule().PagePath()
	if n.Audience == affiliate.Partner {
		base = strings.TrimSuffix(apps.Portal, "/")
	}
	if base != "" && n.Mode != nil && *n.Mode == affiliate.ModeTest {
		base += "/test"
	}
	if base == "" || path == "" || n.Resource == nil && strings.Contains(path, "{id}") || n.Program == nil && strings.Contains(path, "{program}") {
		return nil
	}
	var id, program string
	if n.Resource != nil {
		id = n.Resource.String()
	}
	if n.Program != nil {
		program = n.Program.String()
	}
	url := base + strings.NewReplacer("{id}", id, "{program}", program).Replace(path)
	return &url
}

// noticed is the object of an event for which there are notifications.
type noticed interface{ Notice() affiliate.Notice }

// NotificationsOf returns the notifications about the event: at most one for the workspace
// and one for the partner whom the event concerns.
func NotificationsOf(e affiliate.Event) []Notification {
	object, ok := e.Object.(noticed)
	if !ok {
		return nil
	}
	kind := Type(e.Name)
	forMerchant, forPartner := HasNotification(affiliate.Merchant, kind), HasNotification(affiliate.Partner, kind) && e.Partner != nil
	if !forMerchant && !forPartner {
		return nil
	}
	about := object.Notice()
	base := Notification{
		// A feed has at most one notification about an event, so the notification has the
		// id of the event.
		ID:   ID{UUID: e.ID.UUID},
		Type: kind, Workspace: &e.Scope.Workspace, Mode: &e.Scope.Mode,
		Program: cmp.Or(about.Program, e.Program), Participant: about.Participant, Facts: about.Facts,
	}
	if about.Resource != uuid.Nil {
		base.Resource = &about.Resource
	}
	all := make([]Notification, 0, 2)
	if forMerchant {
		all = append(all, base.to(affiliate.Merchant, WorkspaceFeed(e.Scope.Workspace)))
	}
	if forPartner {
		all = append(all, base.to(affiliate.Partner, PartnerFeed(*e.Partner)))
	}
	return all
}

// Names holds the current names that the text of a notification contains. A
// name is empty if it is not known.
type Names struct {
	ProgramName string
	PartnerName string // of the participant
	UserName    string
}

// Text returns the title and the body of a notification.
func (n Notification) Text(names Names) (title, body string) {
	rule := n.Rule()
	return n.fill(rule.Title, names), n.fill(rule.Body, names)
}

// TextFacts returns the values of the placeholders in the title and the body, for clients that say
// it in another language. A placeholder without a value and a name that is not known are absent.
func (n Notification) TextFacts(names Names) map[string]string {
	rule := n.Rule()
	known := map[string]string{"program": names.ProgramName, "partner": names.PartnerName, "credited": names.PartnerName, "user": names.UserName}
	facts := map[string]string{}
	for _, part := range strings.Split(rule.Title+rule.Body, "{")[1:] {
		placeholder, _, _ := strings.Cut(part, "}")
		if value := cmp.Or(known[placeholder], n.Facts[placeholder]); value != "" {
			facts[placeholder] = value
		}
	}
	return facts
}

// fill replaces the placeholders of a template. A part in square brackets is left out if
// one of its placeholders has no value. Parts are not nested.
func (n Notification) fill(template string, names Names) string {
	var text strings.Builder
	for template != "" {
		before, rest, found := strings.Cut(template, "[")
		filled, _ := n.fillPart(before, names, text.Len() == 0)
		text.WriteString(filled)
		if !found {
			break
		}
		optional, after, _ := strings.Cut(rest, "]")
		if filled, complete := n.fillPart(optional, names, false); complete {
			text.WriteString(filled)
		}
		template = after
	}
	return text.String()
}

// fillPart replaces the placeholders of a part without brackets. start says that the part
// begins a sentence. complete is false if a placeholder has no value.
func (n Notification) fillPart(part string, names Names, start bool) (text string, complete bool) {
	var out strings.Builder
	complete = true
	for {
		before, rest, found := strings.Cut(part, "{")
		out.WriteString(before)
		if !found {
			return out.String(), complete
		}
		placeholder, after, _ := strings.Cut(rest, "}")
		value, ok := n.value(placeholder, names, start && out.Len() == 0)
		complete = complete && ok
		out.WriteString(value)
		part = after
	}
}

// value returns the value of a placeholder. start says that it begins a sentence.
func (n Notification) value(placeholder string, names Names, start bool) (value string, ok bool) {
	article := "a "
	if start {
		article = "A "
	}
	switch placeholder {
	case "program":
		return cmp.Or(names.ProgramName, article+"programme"), true
	case "partner":
		return cmp.Or(names.PartnerName, article+"partner"), true
	case "credited": // like partner, but without a value if there is no participant
		return cmp.Or(names.PartnerName, article+"partner"), n.Participant != nil
	case "user":
		return cmp.Or(names.UserName, article+"user"), true
	}
	value = n.Facts[placeholder]
	return value, value != ""
}

// StreamID identifies an open stream of notifications.
type StreamID = affiliate.ID[Stream]

// Stream is an open stream of notifications.
type Stream struct {
	ID     StreamID
	Reader Reader
	// Session is the session whose access token or ticket has opened the stream. The
	// stream ends with the session.
	Session affiliate.SessionID
	// Ticket is the digest of the ticket that has opened the stream; nil if an access
	// token has opened it.
	Ticket    []byte
	ExpiresAt time.Time // when the access token expires
}

// Limits on streams, each of which keeps a connection open.
const (
	// MaxStreams is the number of open streams of one user.
	MaxStreams = 5
	// StreamTicketLife is the time within which a ticket must open its stream.
	StreamTicketLife = time.Minute
	// MaxReplay is the number of notifications that a stream replays. ReplayLife is how
	// long a notification can be replayed.
	MaxReplay  = 1000
	ReplayLife = 24 * time.Hour
)

const downloadPrefix = "dlt_"

// StreamTicket is a stored ticket, which opens a stream instead of an access token.
type StreamTicket struct {
	Digest    []byte
	Session   affiliate.SessionID `db:"session_id"`
	Kind      affiliate.AccountKind
	Mode      affiliate.Mode
	CreatedAt time.Time
	OpenedAt  *time.Time // nil: it has not opened a stream yet
	ExpiresAt time.Time  // when the access token that created the ticket expires
}

// Usable reports whether the ticket can open or reopen a stream at the given time.
func (t StreamTicket) Usable(now time.Time) bool {
	return now.Before(t.ExpiresAt) && (t.OpenedAt != nil || now.Before(t.CreatedAt.Add(StreamTicketLife)))
}

// NewStreamTicket returns a ticket of 256 random bits and its digest.
func NewStreamTicket() (ticket string, digest []byte) {
	ticket = affiliate.RandomToken("tkt_")
	return ticket, DigestStreamTicket(ticket)
}

// DigestStreamTicket returns the digest by which a ticket is looked up.
func DigestStreamTicket(ticket string) []byte {
	digest := sha256.Sum256([]byte(ticket))
	return digest[:]
}

// NewDownloadTicket returns the text of a ticket for one download. The ticket is stored like that
// of a stream.
func NewDownloadTicket() (ticket string, digest []byte) {
	ticket = affiliate.RandomToken(downloadPrefix)
	return ticket, DigestStreamTicket(ticket)
}

// IsDownloadTicket reports whether a ticket is one for a download, and not for a stream.
func IsDownloadTicket(ticket string) bool { return strings.HasPrefix(ticket, downloadPrefix) }

// FeedState has the newest sequence number of a feed, its limit of replays, and its version.
type FeedState struct {
	LastSeq int64 // the sequence number of the newest notification
	// ReplayAfter is the lowest number after which notifications can be replayed.
	ReplayAfter int64
	// Version increases when notifications are read or dismissed, or when preferences
	// change.
	Version int64
}

// CanReplay reports whether all notifications after a sequence number can be sent.
func (s FeedState) CanReplay(after int64) bool { return s.ReplayAfter <= after && after <= s.LastSeq }

// StreamCheck says whether a stream may stay open.
type StreamCheck struct {
	Current   bool // false: the stream was closed, or a newer stream with its ticket has replaced it
	Permitted bool // false: the session has ended, or the role has changed
}
