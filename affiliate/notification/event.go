package notification

import (
	"cmp"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

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
