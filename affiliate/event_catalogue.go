package affiliate

import (
	"slices"
	"strings"
)

// EventName is the name of an event. It consists of a noun, a dot and a word that says
// what happened, for example link.created.
type EventName string

// Noun returns the part of the name before the dot.
func (n EventName) Noun() string {
	noun, _, _ := strings.Cut(string(n), ".")
	return noun
}

// The events. They may be delivered in any order. The conversion.created event of a
// conversion is always created before the commission.created event of its commission.
const (
	EventConversionCreated         EventName = "conversion.created"
	EventConversionRefunded        EventName = "conversion.refunded"
	EventConversionFraudDetected   EventName = "conversion.fraud_detected"
	EventConversionReattributed    EventName = "conversion.reattributed"
	EventCommissionCreated         EventName = "commission.created"
	EventCommissionApproved        EventName = "commission.approved"
	EventCommissionRejected        EventName = "commission.rejected"
	EventCommissionPaid            EventName = "commission.paid"
	EventCommissionRefunded        EventName = "commission.refunded"
	EventCommissionUpdated         EventName = "commission.updated"
	EventCommissionReviewRequired  EventName = "commission.review_required"
	EventCommissionDisputed        EventName = "commission.disputed"
	EventCommissionDisputeResolved EventName = "commission.dispute_resolved"
	EventParticipantApplied        EventName = "participant.applied"
	EventParticipantApproved       EventName = "participant.approved"
	EventParticipantRejected       EventName = "participant.rejected"
	EventParticipantSuspended      EventName = "participant.suspended"
	EventParticipantReinstated     EventName = "participant.reinstated"
	EventParticipantErased         EventName = "participant.erased"
	EventPayoutCreated             EventName = "payout.created"
	EventPayoutProcessing          EventName = "payout.processing"
	EventPayoutPaid                EventName = "payout.paid"
	EventPayoutFailed              EventName = "payout.failed"
	EventPayoutCanceled            EventName = "payout.canceled"
	EventLinkCreated               EventName = "link.created"
	EventLinkUpdated               EventName = "link.updated"
	EventPromoCodeCreated          EventName = "promo_code.created"
	EventPromoCodeDeactivated      EventName = "promo_code.deactivated"
	EventProgramUpdated            EventName = "program.updated"
	EventGDPRExportReady           EventName = "gdpr.export_ready"
	EventGDPRBuyerErasureCompleted EventName = "gdpr.buyer_erasure_completed"

	// EventWebhookPing is the event of a test ping. It is not in the catalogue, because
	// endpoints cannot subscribe to it.
	EventWebhookPing EventName = "webhook.ping"
)

// EventKind is an entry of the catalogue.
type EventKind struct {
	Name EventName
	// Description says in one sentence for merchants when the event is sent.
	Description string
}

// Catalogue returns the events to which endpoints can subscribe.
func Catalogue() []EventKind { return slices.Clone(catalogue) }

// catalogue has the order in which GET /webhooks/event-types and docs/events.md list the
// events.
var catalogue = []EventKind{
	{Name: EventConversionCreated, Description: "A conversion was recorded, whether or not it was credited to a participant."},
	{Name: EventConversionRefunded, Description: "The payment of a conversion was refunded, in full or in part."},
	{Name: EventConversionFraudDetected, Description: "Fraud rules found something suspicious in a conversion."},
	{Name: EventConversionReattributed, Description: "A conversion was attributed again, by a person or because its click arrived late."},
	{Name: EventCommissionCreated, Description: "A conversion earned a participant a commission."},
	{Name: EventCommissionApproved, Description: "A commission was approved, by a person or automatically after its hold period."},
	{Name: EventCommissionRejected, Description: "A commission was rejected."},
	{Name: EventCommissionPaid, Description: "The payout of a commission was paid."},
	{Name: EventCommissionRefunded, Description: "A commission was reduced or taken back, because its conversion was refunded, disputed or attributed again."},
	{Name: EventCommissionUpdated, Description: "A commission needs review for fewer reasons, or earns more again because a refund has failed."},
	{Name: EventCommissionReviewRequired, Description: "A commission was flagged for a person to review."},
	{Name: EventCommissionDisputed, Description: "The payment that earned a commission was disputed."},
	{Name: EventCommissionDisputeResolved, Description: "The dispute about the payment that earned a commission ended."},
	{Name: EventParticipantApplied, Description: "A partner applied to a programme, or accepted an invitation to it."},
	{Name: EventParticipantApproved, Description: "A partner was approved in a programme, added to it by the merchant, or accepted a participation."},
	{Name: EventParticipantRejected, Description: "A partner's application was rejected, or the partner declined a participation."},
	{Name: EventParticipantSuspended, Description: "A participant was suspended."},
	{Name: EventParticipantReinstated, Description: "A suspended participant was reinstated."},
	{Name: EventParticipantErased, Description: "The personal data of a participant was erased."},
	{Name: EventPayoutCreated, Description: "A payout was created as part of a batch."},
	{Name: EventPayoutProcessing, Description: "The payment of a payout began, so its amount is fixed."},
	{Name: EventPayoutPaid, Description: "A payout was paid."},
	{Name: EventPayoutFailed, Description: "A payout could not be paid."},
	{Name: EventPayoutCanceled, Description: "A payout was canceled."},
	{Name: EventLinkCreated, Description: "A referral link was created, for example the default link of a new participant."},
	{Name: EventLinkUpdated, Description: "A referral link was changed."},
	{Name: EventPromoCodeCreated, Description: "A promo code was created."},
	{Name: EventPromoCodeDeactivated, Description: "A promo code was deactivated or deleted, or its participant was suspended."},
	{Name: EventProgramUpdated, Description: "The settings, rules or status of a programme changed."},
	{Name: EventGDPRExportReady, Description: "An export of personal data is ready for download."},
	{Name: EventGDPRBuyerErasureCompleted, Description: "The erasure of the personal data of a buyer has ended, with the status done or failed."},
}
