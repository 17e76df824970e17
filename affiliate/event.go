package affiliate

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
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
func (e Event) WireID() string { return WireID(e.ID) }

// wirePrefix begins the ids of events that receivers see.
const wirePrefix = "evt_"

// WireID is an event's id as receivers see it.
func WireID(id EventID) string { return wirePrefix + hex.EncodeToString(id.UUID[:]) }

// ParseWireID reads what WireID writes.
func ParseWireID(text string) (EventID, bool) {
	digits, ok := strings.CutPrefix(text, wirePrefix)
	id, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return EventID{}, false
	}
	return IDFromBytes[Event](id)
}

// MaxBody bounds a body, in bytes (DECISIONS.md section 9).
const MaxBody = 20_000

// Body is the envelope, byte for byte what is signed and sent. Keys stand in a
// fixed order. One that would be too long leaves out what was before, and then the
// ends of lists, whose lengths it has.
func (e Event) Body() ([]byte, error) {
	object, previous := e.Object, e.Previous
	body, err := e.body(object, previous)
	if err == nil && len(body) > MaxBody && previous != nil {
		previous = nil
		body, err = e.body(object, previous)
	}
	if long, ok := object.(shortened); ok && err == nil && len(body) > MaxBody {
		body, err = e.body(long.short(), previous)
	}
	return body, err
}

// shortened is an object that may be too long.
type shortened interface{ short() any }

func (e Event) body(object, previous any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // nothing of it stands in a page, and URLs have many &
	err := encoder.Encode(envelope{
		ID:         e.WireID(),
		Type:       e.Name,
		APIVersion: apiVersion,
		Timestamp:  FormatTime(e.At),
		Mode:       e.Scope.Mode,
		Workspace:  e.Scope.Workspace,
		Data:       eventData{Object: object, Previous: previous},
	})
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
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
