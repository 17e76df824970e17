package stripe

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

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

// tolerance is the greatest number of seconds between the time in the signature and now.
const tolerance = int64(webhook.DefaultTolerance / time.Second)

// Verify checks the signature of a message. The library compares the signature. Verify
// compares the time itself, because the library would use the clock of the process and
// accept every time in the future.
func (c *Client) Verify(body []byte, header string, secrets []string, now time.Time) error {
	at, ok := signedAt(header)
	if !ok || at < now.Unix()-tolerance || at > now.Unix()+tolerance {
		return processorservice.ErrSignature
	}
	for _, secret := range secrets {
		// Everybody can compute the signature of an empty secret.
		if secret != "" && webhook.ValidatePayloadIgnoringTolerance(body, header, secret) == nil {
			return nil
		}
	}
	return processorservice.ErrSignature
}

// signedAt returns the time in the header, in Unix seconds. ok is false unless the header
// has exactly one valid time. The signature covers the time.
func signedAt(header string) (at int64, ok bool) {
	for part := range strings.SplitSeq(header, ",") {
		text, found := strings.CutPrefix(part, "t=")
		if !found {
			continue
		}
		if ok {
			return 0, false
		}
		var err error
		if at, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, false
		}
		ok = true
	}
	return at, ok
}

const (
	// defaultMaxEvents is the greatest number of events of one call of Events, unless
	// Config.MaxEvents is set.
	defaultMaxEvents = 10_000
	// maxKeptPages is the number of pages of events whose bodies stay in memory. Older pages
	// are read a second time.
	maxKeptPages = 10
)

// eventPage is a page of a list of events, newest first.
type eventPage struct {
	after  string // id of the event before the page; empty for the first page
	bodies [][]byte
	last   string
	more   bool
}

// Events calls yield for each subscribed event that was created between the times since and
// before, oldest first. Stripe lists the newest first, so Events first reads all pages
// and then goes back through them. Stripe keeps events for 30 days. Its times are whole
// seconds, so the result includes all events of the second in which the period ends.
func (c *Client) Events(ctx context.Context, key string, since, before time.Time, yield func(body []byte) error) error {
	api := c.api(key)
	period := &stripe.RangeQueryParams{GreaterThanOrEqual: max(0, since.Unix()), LesserThan: before.Unix() + 1}
	var pages []eventPage
	for after, more := "", true; more; {
		if len(pages) == c.maxEvents/pageSize {
			return processorservice.ErrTooManyEvents
		}
		page, err := readEvents(ctx, api, period, after)
		if err != nil {
			return err
		}
		after, more = page.last, page.more
		if len(pages) >= maxKeptPages {
			page.bodies = nil
		}
		pages = append(pages, page)
	}
	for i, page := range slices.Backward(pages) {
		if i >= maxKeptPages {
			var err error
			if page, err = readEvents(ctx, api, period, page.after); err != nil {
				return err
			}
		}
		for _, body := range slices.Backward(page.bodies) {
			if err := yield(body); err != nil {
				return err
			}
		}
	}
	return nil
}

// readEvents reads the page of events after the event with the given id.
func readEvents(ctx context.Context, api *stripe.Client, period *stripe.RangeQueryParams, after string) (eventPage, error) {
	params := &stripe.EventListParams{
		ListParams:   stripe.ListParams{Limit: stripe.Int64(pageSize), Single: true},
		CreatedRange: period,
		Types:        stripe.StringSlice(subscribedEvents),
	}
	if after != "" {
		params.StartingAfter = stripe.String(after)
	}
	list := api.V1Events.List(ctx, params)
	if err := list.Err(); err != nil {
		return eventPage{}, failure(ctx, "list the events", err)
	}
	page := eventPage{after: after}
	for _, ev := range list.Data() {
		page.last = ev.ID
		page.bodies = append(page.bodies, ev.LastResponse.RawJSON)
	}
	// An empty page has no id after which the list continues.
	page.more = list.Meta().HasMore && page.last != ""
	return page, nil
}
