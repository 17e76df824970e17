package affiliate

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
)

// apiVersion is the version of every payload. An incompatible change needs a new version
// (docs/merchant/versioning.md).
const apiVersion = "v1"

// Event is a webhook event, as the outbox stores it. Object has the main fields of the resource
// that the event is about, with snake_case JSON names. If it has a version, the version
// increases with every change. Object never contains personal data of buyers.
type Event struct {
	ID     EventID
	Scope  Scope
	Name   EventName
	At     time.Time
	Object any
	// Previous holds the values that the changed fields of Object had before; nil if no
	// field changed.
	Previous any
	// Partner and Program are the partner and the programme that the event concerns; nil
	// if there is none. Notifications need them, and not every Object contains them.
	Partner *UserID
	Program *ProgramID
	// Trace refers to the recorded span that caused the event, in the format of package spans. It
	// is nil if no recorded span caused the event. The body of a webhook does not contain Trace.
	Trace []byte
}

// NewEvent returns a new event that happened at the given time.
func NewEvent(scope Scope, name EventName, now time.Time, object, previous any) Event {
	return Event{ID: NewID[EventID](now), Scope: scope, Name: name, At: now, Object: object, Previous: previous}
}

// WireID returns the id that receivers see: evt_ and 32 hex digits. It has no dots,
// because Standard Webhooks does not allow them in webhook-id.
func (e Event) WireID() string { return WireID(e.ID) }

// wirePrefix is the prefix of the event ids that receivers see.
const wirePrefix = "evt_"

// WireID returns the form of an event id that receivers see.
func WireID(id EventID) string { return wirePrefix + hex.EncodeToString(id.UUID[:]) }

// ParseWireID parses the result of WireID.
func ParseWireID(text string) (EventID, bool) {
	digits, ok := strings.CutPrefix(text, wirePrefix)
	id, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return EventID{}, false
	}
	return IDFromBytes[EventID](id)
}

// MaxBody is the greatest size of a body in bytes. Receivers may refuse larger bodies.
const MaxBody = 20_000

// Body returns the JSON envelope. The sender signs and sends exactly these bytes. The order of
// the keys is fixed. If the body would be longer than MaxBody, Body first omits the previous
// attributes. If the body is still too long, Body shortens long lists in the object. The object
// also contains the original length of a shortened list.
func (e Event) Body() ([]byte, error) {
	object, previous := e.Object, e.Previous
	body, err := e.body(object, previous)
	if err == nil && len(body) > MaxBody && previous != nil {
		previous = nil
		body, err = e.body(object, previous)
	}
	if long, ok := object.(shortenable); ok && err == nil && len(body) > MaxBody {
		body, err = e.body(long.Short(), previous)
	}
	return body, err
}

// shortenable is an object that may be too long for a body. Short returns it with
// shorter lists.
type shortenable interface{ Short() any }

func (e Event) body(object, previous any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the body is not part of an HTML page, and URLs contain many &
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

// FormatTime formats an instant the way all responses and events show it: RFC 3339,
// UTC, three decimals.
func FormatTime(t time.Time) string { return string(AppendTime(nil, t)) }

// AppendTime appends FormatTime(t). It inserts the milliseconds into time.RFC3339, for which
// package time is optimised. A layout with milliseconds would take three times as long.
func AppendTime(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst[:len(dst)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// personalObject is an object with personal data of a participant.
type personalObject interface{ Subject() ParticipantID }

// Subject returns the participant whose personal data the body contains. Personal data
// is the partner's name, or a code that may be derived from the name. Subject returns
// nil if the body contains no personal data.
func (e Event) Subject() *ParticipantID {
	if object, ok := e.Object.(personalObject); ok {
		id := object.Subject()
		return &id
	}
	return nil
}

// saleObject is an object that contains the external id of a conversion.
type saleObject interface{ Sale() ConversionID }

// Sale returns the conversion whose external id the body contains, so that the erasure of the
// conversion's buyer finds the event. Sale returns nil if the body contains no such id. An
// event with a Sale has no Subject.
func (e Event) Sale() *ConversionID {
	if object, ok := e.Object.(saleObject); ok {
		id := object.Sale()
		return &id
	}
	return nil
}

// FormatOptionalTime is FormatTime for an instant that may be nil.
func FormatOptionalTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := FormatTime(*t)
	return &s
}

// Notice is the part of an event that notifications need.
type Notice struct {
	Program     *ProgramID // if nil, Event.Program is used
	Participant *ParticipantID
	Resource    uuid.UUID // uuid.Nil if there is none
	Facts       map[string]string
}
