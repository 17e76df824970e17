package affiliate

import (
	"cmp"
	"strings"

	"github.com/google/uuid"
)

// notice is the part of an event that notifications need.
type notice struct {
	program     *ProgramID // nil: Event.Program, if any
	participant *ParticipantID
	resource    uuid.UUID // uuid.Nil: none
	facts       map[string]string
}

// noticed is the object of an event for which there are notifications.
type noticed interface{ notice() notice }

// Notifications returns the notifications about the event: at most one for the workspace
// and one for the partner whom the event concerns.
func (e Event) Notifications() []Notification {
	object, ok := e.Object.(noticed)
	if !ok {
		return nil
	}
	kind := NotificationType(e.Name)
	forMerchant, forPartner := HasNotification(Merchant, kind), HasNotification(Partner, kind) && e.Partner != nil
	if !forMerchant && !forPartner {
		return nil
	}
	about := object.notice()
	base := Notification{
		// A feed has at most one notification about an event, so the notification has the
		// id of the event.
		ID:   NotificationID{e.ID.UUID},
		Type: kind, Workspace: &e.Scope.Workspace, Mode: &e.Scope.Mode,
		Program: cmp.Or(about.program, e.Program), Participant: about.participant, Facts: about.facts,
	}
	if about.resource != uuid.Nil {
		base.Resource = &about.resource
	}
	all := make([]Notification, 0, 2)
	if forMerchant {
		all = append(all, base.to(Merchant, WorkspaceFeed(e.Scope.Workspace)))
	}
	if forPartner {
		all = append(all, base.to(Partner, PartnerFeed(*e.Partner)))
	}
	return all
}

func (o conversionObject) notice() notice {
	facts := map[string]string{"event": string(o.EventType)}
	if o.EventType == Custom {
		facts["event"] = "custom event"
	}
	if o.Currency != nil && o.AmountCents != 0 {
		facts["amount"] = FormatMoney(Money{o.AmountCents, *o.Currency})
		if o.RefundedAmountCents != 0 {
			facts["refunded"] = FormatMoney(Money{o.RefundedAmountCents, *o.Currency})
		}
	}
	return notice{program: o.Program, participant: o.Participant, resource: o.ID.UUID, facts: facts}
}

func (o commissionPayload) notice() notice {
	facts := map[string]string{"amount": FormatMoney(Money{o.AmountCents, o.Currency})}
	if o.AmountCents != o.OriginalAmountCents {
		facts["original"] = FormatMoney(Money{o.OriginalAmountCents, o.Currency})
	}
	if len(o.ReviewReasons) > 0 {
		facts["reasons"] = strings.Join(o.ReviewReasons, ", ")
	}
	return notice{program: &o.Program, participant: &o.Participant, resource: o.ID.UUID, facts: facts}
}

func (o payoutObject) notice() notice {
	facts := map[string]string{"amount": FormatMoney(Money{o.AmountCents, o.Currency})}
	if o.FailureReason != nil {
		facts["reason"] = *o.FailureReason
	}
	return notice{participant: &o.Participant, resource: o.ID.UUID, facts: facts}
}

func (o ParticipantObject) notice() notice {
	// The reason of the merchant is not a fact, because partners must not see it.
	return notice{program: &o.Program, participant: &o.ID, resource: o.ID.UUID}
}
