// Package notification has the notifications and mails of the service: their types and texts,
// who receives them, and when gathered notifications are sent.
package notification

import (
	"cmp"
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

// Notification is a message in a feed. It does not contain the names of programmes,
// partners and members. A reader adds the current names, so an erasure of personal data
// does not need to change notifications.
type Notification struct {
	ID   ID
	Feed FeedID
	// Audience is the kind of the feed: Merchant for a workspace.
	Audience affiliate.AccountKind
	Type     Type
	// Workspace is the workspace in which the cause happened. It is nil if the cause
	// concerns a partner's account.
	Workspace *affiliate.WorkspaceID
	// Mode is nil if the notification belongs to both modes.
	Mode *affiliate.Mode
	// User is the user that the notification is about. Only this user and owners see
	// notifications of CategorySecurity and CategoryAccount. It is nil for most other
	// notifications.
	User        *affiliate.UserID
	Program     *affiliate.ProgramID
	Participant *affiliate.ParticipantID
	// Resource is the id of the record that the notification is about. The rule of the
	// notification says which kind of record it is.
	Resource *uuid.UUID
	// Facts holds the values of the placeholders in the text, except names.
	Facts map[string]string
}

// NewNotification returns a notification of a type in a feed. mode is nil if the cause
// has no mode. The caller sets the other fields.
func NewNotification(audience affiliate.AccountKind, feed FeedID, kind Type, mode *affiliate.Mode, at time.Time) Notification {
	return Notification{ID: affiliate.NewID[ID](at), Type: kind, Mode: mode}.to(audience, feed)
}

// to returns the notification for a feed. If its category has no modes, the notification
// has no mode either.
func (n Notification) to(audience affiliate.AccountKind, feed FeedID) Notification {
	n.Audience, n.Feed = audience, feed
	if spec, _ := specOf(audience, n.Rule().Category); spec.bothModes {
		n.Mode = nil
	}
	return n
}

// NotificationsBothModes is the mode under which notifications without a mode are stored.
// It has no type, because it is not a mode of other objects. The documentation of Mode
// would list it otherwise.
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

// actionPaths are the paths of the dashboard's pages. {id} stands for the id of the
// record, {program} for the id of the programme.
var actionPaths = map[Resource]string{
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
	ResourceUser:         "/settings/account",
	ResourceAnnouncement: "/programs/{program}",
}

// Page returns the path of the dashboard's page about a kind of record, with the
// placeholders {id} and {program}. It is empty if there is no page.
func (r Resource) Page() string { return actionPaths[r] }

// ActionURL returns the page of the dashboard that shows the record of the notification.
// appURL is the base URL of the dashboard. The result is nil if appURL is empty or if
// there is no page.
func (n Notification) ActionURL(appURL string) *string {
	path := n.Rule().Resource.Page()
	if appURL == "" || path == "" || n.Resource == nil {
		return nil
	}
	if strings.Contains(path, "{program}") && n.Program == nil {
		return nil
	}
	program := ""
	if n.Program != nil {
		program = n.Program.String()
	}
	url := strings.TrimSuffix(appURL, "/") + strings.NewReplacer("{id}", n.Resource.String(), "{program}", program).Replace(path)
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
