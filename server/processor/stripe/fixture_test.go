package stripe_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/server/processor/stripe"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

const (
	key = "rk_test_0123456789abcdef"
	// monday is the time of the objects in tests. It is far enough in the past that it
	// differs from the default of the builders.
	monday = int64(1_770_000_000)
)

type object = map[string]any

// fixture is a client of a stand-in for Stripe.
type fixture struct {
	*stripeserver.Server

	client *stripe.Client
	url    string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	server, err := stripeserver.New()
	if err != nil {
		t.Fatal(err)
	}
	return fixtureWith(t, server, server)
}

// fixtureWith returns a fixture whose requests pass through a handler.
func fixtureWith(t *testing.T, server *stripeserver.Server, handler http.Handler) fixture {
	t.Helper()
	listener := httptest.NewServer(handler)
	t.Cleanup(listener.Close)
	client := stripe.New(stripe.Config{APIURL: listener.URL, HTTPClient: &http.Client{Timeout: 5 * time.Second}})
	return fixture{Server: server, client: client, url: listener.URL}
}

// put stores objects.
func (f fixture) put(objects ...object) {
	for _, o := range objects {
		f.Put(o)
	}
}

// read creates an event about a stored object and reads it.
func (f fixture) read(t *testing.T, eventType, id string, options ...func(*processorservice.ReadRequest)) processor.Facts {
	t.Helper()
	return f.readBody(t, f.Event(eventType, id), options...)
}

func (f fixture) readBody(t *testing.T, body []byte, options ...func(*processorservice.ReadRequest)) processor.Facts {
	t.Helper()
	r := processorservice.ReadRequest{Body: body}
	for _, option := range options {
		option(&r)
	}
	facts, err := f.client.Read(t.Context(), key, r)
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func readAgain(r *processorservice.ReadRequest) { r.ReadAgain = true }
func outOfBand(r *processorservice.ReadRequest) { r.OutOfBand = true }

func since(seconds int64) func(*processorservice.ReadRequest) {
	return func(r *processorservice.ReadRequest) { r.Since = time.Unix(seconds, 0) }
}

// count returns the number of objects of a list at the stand-in.
func (f fixture) count(t *testing.T, path string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, f.url+path+"?limit=100", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer rk_test_of_the_test")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: status %d, error %v", path, response.StatusCode, err)
	}
	return len(list.Data)
}

// requested returns the number of requests with a method and a path.
func (f fixture) requested(method, path string) int {
	n := 0
	for _, r := range f.Requests() {
		if r.Method == method && r.Path == path {
			n++
		}
	}
	return n
}

// with returns the union of overrides. Later ones take precedence.
func with(overrides ...object) object {
	all := object{}
	for _, o := range overrides {
		for field, value := range o {
			all[field] = value
		}
	}
	return all
}

// only returns the only sale of facts.
func only(t *testing.T, facts processor.Facts) processor.Sale {
	t.Helper()
	if len(facts.Sales) != 1 || facts.Ignored != "" || facts.Charge != nil {
		t.Fatalf("Read returned %+v, want one sale", facts)
	}
	return facts.Sales[0]
}

// summary describes sales by their ids, in their order.
func summary(sales []processor.Sale) string {
	var all []string
	for _, s := range sales {
		text := string(s.EventType) + " " + s.ID
		if s.Binds {
			text = "binding " + s.IDs.Session
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func ptr[T any](v T) *T { return &v }

// withFee adds the fee to a sale.
func (f fixture) withFee(t *testing.T, sale processor.Sale) processor.Sale {
	t.Helper()
	if err := f.client.AddCharges(t.Context(), key, &sale, true); err != nil {
		t.Fatal(err)
	}
	return sale
}
