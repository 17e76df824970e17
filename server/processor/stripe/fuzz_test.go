package stripe_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/server/processor/stripe"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// emptyAccount responds to every request that the object does not exist.
type emptyAccount struct{}

func (emptyAccount) RoundTrip(r *http.Request) (*http.Response, error) {
	const body = `{"error": {"code": "resource_missing", "type": "invalid_request_error", "message": "No such object"}}`
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// FuzzRead checks that no body makes Envelope, Verify or Read panic, and that Read accepts
// only the bodies that Envelope accepts. Stripe knows no object, so Read uses the event.
func FuzzRead(f *testing.F) {
	server, err := stripeserver.New()
	if err != nil {
		f.Fatal(err)
	}
	server.Put(stripeserver.NewSession("cs_1", object{"customer": "cus_1"}))
	server.Put(stripeserver.NewInvoice("in_1", object{"parent": subscription(nil)}))
	server.Put(stripeserver.NewCharge("ch_1", nil))
	server.Put(stripeserver.NewRefund("re_1", nil))
	server.Put(stripeserver.NewDispute("dp_1", nil))
	for eventType, id := range map[string]string{completed: "cs_1", paid: "in_1", "charge.refunded": "ch_1", "refund.failed": "re_1", "charge.dispute.closed": "dp_1"} {
		f.Add(server.Event(eventType, id))
	}
	for _, eventType := range stripe.SubscribedEvents {
		for _, o := range []string{
			`{}`, `{"id":1}`, `{"id":"x"}`, `{"id":"x","customer":[]}`, `{"id":"x","discounts":[null],"total_taxes":[null],"status":"complete"}`,
			`{"id":"x","status":"paid","amount_paid":9223372036854775807,"currency":"mga","total_taxes":[{"amount":9223372036854775807},{"amount":1}]}`,
			`{"id":"x","charge":{},"payment_intent":{"id":{}},"amount":-1,"currency":"usd"}`,
		} {
			f.Add(fmt.Appendf(nil, `{"id":"evt_1","type":%q,"api_version":"2026-03-25.dahlia","data":{"object":%s}}`, eventType, o))
		}
	}
	client := stripe.New(stripe.Config{HTTPClient: &http.Client{Transport: emptyAccount{}}})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, ok := client.Envelope(body)
		for _, r := range []processor.ReadRequest{{Body: body}, {Body: body, ReadAgain: true}, {Body: body, OutOfBand: true}} {
			facts, err := client.Read(t.Context(), key, r)
			if !ok && err == nil {
				t.Errorf("Read returned %+v for a body that is not an event", facts)
			}
			for _, sale := range facts.Sales {
				if s := sale.Sale; s.Cents < 0 || s.TaxCents < 0 || s.ShippingCents < 0 || s.TaxCents+s.ShippingCents > s.Cents {
					t.Errorf("the amounts of the sale are %+v", s)
				}
			}
		}
		_ = client.Verify(body, string(body), []string{"whsec_1"}, time.Unix(monday, 0)) // must not panic
	})
}
