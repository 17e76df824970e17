package stripe

import (
	"bytes"
	"encoding/json"
	"regexp"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
)

const (
	// maxDepth is the greatest depth of JSON in an event. Stripe's events have less than 20
	// levels. The library decodes nested objects in quadratic time.
	maxDepth = 100
	// maxCreated is the last second of the year 9999.
	maxCreated = 253_402_300_799
)

var (
	eventIDForm   = regexp.MustCompile(`^evt_[A-Za-z0-9_]{1,250}$`)
	eventTypeForm = regexp.MustCompile(`^[A-Za-z0-9_.]{1,250}$`)
	// idForm matches the ids of Stripe's objects.
	idForm = regexp.MustCompile(`^[A-Za-z0-9_]{1,255}$`)
)

// validID reports whether the text can be the id of an object. Other texts are never put
// into the path of a request.
func validID(id string) bool { return idForm.MatchString(id) }

// event is the envelope of an event and its object.
type event struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	APIVersion string `json:"api_version"`
	Account    string `json:"account"`
	Live       bool   `json:"livemode"`
	Created    int64  `json:"created"`
	Data       struct {
		Object json.RawMessage `json:"object"`
	} `json:"data"`
}

// parseEvent parses an event of any API version. ok is false if the body is not an event.
func parseEvent(body []byte) (ev event, ok bool) {
	if deeperThan(body, maxDepth) || json.Unmarshal(body, &ev) != nil {
		return event{}, false
	}
	ok = eventIDForm.MatchString(ev.ID) && eventTypeForm.MatchString(ev.Type) &&
		ev.Created >= 0 && ev.Created <= maxCreated &&
		bytes.HasPrefix(bytes.TrimLeft(ev.Data.Object, " \t\r\n"), []byte("{"))
	return ev, ok
}

// deeperThan reports whether JSON text is nested deeper than limit. The result for text that
// is not JSON has no meaning.
func deeperThan(text []byte, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++ // the escaped character
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if depth++; depth > limit {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// Envelope parses the envelope of an event.
func (c *Client) Envelope(body []byte) (processor.Event, bool) {
	ev, ok := parseEvent(body)
	if !ok {
		return processor.Event{}, false
	}
	return processor.Event{
		ID: ev.ID, Type: ev.Type, Live: ev.Live, Account: ev.Account, CreatedAt: unixTime(ev.Created),
	}, true
}

// decode decodes the object of an event into a type of the library. object is nil if its
// fields have other types, as in an old version of the API. usable is false if the object
// must be read from Stripe. err is errMalformed if the object has no id.
func decode[T any](ev event, r processorservice.ReadRequest) (object *T, id string, usable bool, err error) {
	var header struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(ev.Data.Object, &header) != nil || !validID(header.ID) {
		return nil, "", false, errMalformed
	}
	decoded := new(T)
	if json.Unmarshal(ev.Data.Object, decoded) == nil {
		object = decoded
		usable = !r.ReadAgain && ev.APIVersion == stripe.APIVersion
	}
	return object, header.ID, usable, nil
}

// reference is an id of another object. Stripe sends the id alone or the expanded object.
type reference string

// UnmarshalJSON accepts null, an id and an object with an id.
func (r *reference) UnmarshalJSON(text []byte) error {
	var object struct {
		ID string `json:"id"`
	}
	if bytes.HasPrefix(text, []byte("{")) {
		err := json.Unmarshal(text, &object)
		*r = reference(object.ID)
		return err
	}
	return json.Unmarshal(text, (*string)(r))
}

func unixTime(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
