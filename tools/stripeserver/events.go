package stripeserver

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stripe/stripe-go/v85"
)

// EventOption changes an event that Event creates.
type EventOption func(event map[string]any)

// EventID sets the id. The default is a new id.
func EventID(id string) EventOption {
	return func(event map[string]any) { event["id"] = id }
}

// EventCreated sets the time of creation. The default is the current time.
func EventCreated(created time.Time) EventOption {
	return func(event map[string]any) { event["created"] = created.Unix() }
}

// EventLivemode sets the mode. The default is the test mode.
func EventLivemode(live bool) EventOption {
	return func(event map[string]any) { event["livemode"] = live }
}

// EventAccount sets the connected account. By default, the event has no such field.
func EventAccount(account string) EventOption {
	return func(event map[string]any) { event["account"] = account }
}

// EventAPIVersion sets the version of the API. The default is stripe.APIVersion. The form
// of the object does not change.
func EventAPIVersion(version string) EventOption {
	return func(event map[string]any) { event["api_version"] = version }
}

// Event creates an event about an object with the current state of the object, stores the
// event and returns its JSON. It panics if the object does not exist.
func (s *Server) Event(eventType, objectID string, opts ...EventOption) (body []byte) {
	body, found := s.addEvent(eventType, objectID, opts)
	if !found {
		panic(fmt.Sprintf("stripeserver: the object %q of an event does not exist", objectID))
	}
	return body
}

func (s *Server) addEvent(eventType, objectID string, opts []EventOption) (body []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.objects[objectID]
	if !found {
		return nil, false
	}
	event := map[string]any{
		"id":               newID("evt_"),
		"object":           "event",
		"api_version":      stripe.APIVersion,
		"created":          time.Now().Unix(),
		"data":             map[string]any{"object": o.fields},
		"livemode":         false,
		"pending_webhooks": 1,
		"request":          map[string]any{"id": nil, "idempotency_key": nil},
		"type":             eventType,
	}
	for _, opt := range opts {
		opt(event)
	}
	event = deepCopy(event)
	s.put(event)
	body, err := json.MarshalIndent(event, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("stripeserver: encode an event: %v", err))
	}
	return body, true
}
