package affiliate

import (
	"encoding/hex"
	"encoding/json"
	"time"
)

// EventName is a word of the catalogue (DECISIONS.md section 9).
type EventName string

// The events whose causes exist. Order across events is not promised, except
// that conversion.created precedes commission.created.
const (
	EventConversionCreated        EventName = "conversion.created"
	EventConversionReattributed   EventName = "conversion.reattributed"
	EventCommissionCreated        EventName = "commission.created"
	EventCommissionApproved       EventName = "commission.approved"
	EventCommissionRejected       EventName = "commission.rejected"
	EventCommissionPaid           EventName = "commission.paid"
	EventCommissionRefunded       EventName = "commission.refunded"
	EventCommissionUpdated        EventName = "commission.updated"
	EventCommissionReviewRequired EventName = "commission.review_required"
	EventConversionRefunded       EventName = "conversion.refunded"
	EventConversionFraudDetected  EventName = "conversion.fraud_detected"
	EventPayoutCreated            EventName = "payout.created"
	EventPayoutProcessing         EventName = "payout.processing"
	EventPayoutPaid               EventName = "payout.paid"
	EventPayoutFailed             EventName = "payout.failed"
	EventPayoutCanceled           EventName = "payout.canceled"
	EventParticipantApplied       EventName = "participant.applied"
	EventParticipantApproved      EventName = "participant.approved"
	EventParticipantRejected      EventName = "participant.rejected"
	EventParticipantSuspended     EventName = "participant.suspended"
	EventParticipantReinstated    EventName = "participant.reinstated"
	EventProgramUpdated           EventName = "program.updated"
	EventLinkCreated              EventName = "link.created"
	EventLinkUpdated              EventName = "link.updated"
	EventPromoCodeCreated         EventName = "promo_code.created"
	EventPromoCodeDeactivated     EventName = "promo_code.deactivated"
)

// apiVersion is the version of every payload (SPEC.md section 9).
const apiVersion = "v1"

// Event is something that happened, as the outbox keeps it and the world is
// told. Object holds the key fields of its subject with snake_case JSON names
// and a version that counts its changes; never personal data of buyers.
type Event struct {
	ID     EventID
	Scope  Scope
	Name   EventName
	At     time.Time
	Object any
	// Previous holds the changed fields as they were; nil when nothing was.
	Previous any
}

// NewEvent makes an event of now.
func NewEvent(scope Scope, name EventName, now time.Time, object, previous any) Event {
	return Event{ID: NewID[Event](now), Scope: scope, Name: name, At: now, Object: object, Previous: previous}
}

// WireID is the id that receivers see: evt_ and 32 hex digits, no dots (Standard
// Webhooks allows none in webhook-id).
func (e Event) WireID() string { return "evt_" + hex.EncodeToString(e.ID.UUID[:]) }

// Body is the envelope, byte for byte what is signed and sent. Keys stand in a
// fixed order.
func (e Event) Body() ([]byte, error) {
	return json.Marshal(envelope{
		ID:         e.WireID(),
		Type:       e.Name,
		APIVersion: apiVersion,
		Timestamp:  FormatTime(e.At),
		Mode:       e.Scope.Mode,
		Workspace:  e.Scope.Workspace,
		Data:       eventData{Object: e.Object, Previous: e.Previous},
	})
}

type envelope struct {
	ID         string      `json:"id"`
	Type       EventName   `json:"type"`
	APIVersion string      `json:"api_version"`
	Timestamp  string      `json:"timestamp"`
	Mode       Mode        `json:"mode"`
	Workspace  WorkspaceID `json:"workspace_id"`
	Data       eventData   `json:"data"`
}

type eventData struct {
	Object   any `json:"object"`
	Previous any `json:"previous_attributes,omitempty"`
}

// FormatTime prints an instant as everything of ours does: RFC 3339, UTC, three
// decimals.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// personal is an object with personal data of a participant.
type personal interface{ participant() ParticipantID }

func (o ParticipantObject) participant() ParticipantID { return o.ID }
func (o LinkObject) participant() ParticipantID        { return o.Participant }
func (o PromoCodeObject) participant() ParticipantID   { return o.Participant }

// Subject is the participant of whom the body tells personal data: the partner's
// name, or a code that may be made of it. Nil: of nobody.
func (e Event) Subject() *ParticipantID {
	if object, ok := e.Object.(personal); ok {
		id := object.participant()
		return &id
	}
	return nil
}
