package stripeserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"
)

func TestEvent_IsAcceptedByClientLibrary(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(NewCharge("ch_a", map[string]any{"amount_refunded": 700}))
	body := s.Event("charge.refunded", "ch_a")
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: "whsec_test"})
	event, err := webhook.ConstructEvent(signed.Payload, signed.Header, "whsec_test")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(event.ID, "evt_") || event.Type != "charge.refunded" || event.APIVersion != stripe.APIVersion || event.Livemode ||
		event.Account != "" || time.Since(time.Unix(event.Created, 0)) > time.Minute || bytes.Contains(body, []byte(`"account":`)) {
		t.Errorf("the event is %+v", event)
	}
	var charge stripe.Charge
	if err := json.Unmarshal(event.Data.Raw, &charge); err != nil || charge.ID != "ch_a" || charge.AmountRefunded != 700 {
		t.Errorf("the charge of the event is %+v and the error is %v", charge, err)
	}
	s.Put(NewCharge("ch_a", map[string]any{"amount_refunded": 900}))
	var sent map[string]any
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	if got := s.get(t, "/v1/events/"+event.ID); !reflect.DeepEqual(got.object, sent) {
		t.Errorf("the stored event is %v, want %v", got.object, sent)
	}
	if got := s.Event("charge.refunded", "ch_a"); bytes.Contains(got, []byte(event.ID)) {
		t.Errorf("a second event has the same id: %s", got)
	}
}

func TestEvent_Options(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(NewInvoice("in_a", nil))
	s.Event("invoice.paid", "in_a", EventID("evt_1"), EventCreated(time.Unix(123, 0)), EventLivemode(true),
		EventAccount("acct_1"), EventAPIVersion("2020-08-27"))
	got, _ := s.Object("evt_1")
	for field, want := range map[string]any{
		"created": 123.0, "livemode": true, "account": "acct_1", "api_version": "2020-08-27", "object": "event", "type": "invoice.paid",
	} {
		if got[field] != want {
			t.Errorf("the field %s is %v, want %v", field, got[field], want)
		}
	}
}

func TestEvent_PanicsWithoutObject(t *testing.T) {
	t.Parallel()
	s := start(t)
	defer func() {
		if recover() == nil {
			t.Error("Event did not panic")
		}
	}()
	s.Event("invoice.paid", "in_none")
}

// post sends JSON to the server as another process does.
func (r running) post(t *testing.T, path, contentType, body string) (status int, response string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	request.Header.Set("Content-Type", contentType)
	recorder := httptest.NewRecorder()
	r.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

func TestControl_StoresObjectsAndCreatesEvents(t *testing.T) {
	t.Parallel()
	s := start(t)
	status, _ := s.post(t, "/_objects", "application/json", `{"id": "ch_a", "object": "charge", "amount": 7}`)
	if charge, found := s.Object("ch_a"); status != http.StatusNoContent || !found || charge["amount"] != 7.0 {
		t.Errorf("POST /_objects returned %d and stored %v", status, charge)
	}
	status, body := s.post(t, "/_events", "application/json; charset=utf-8", `{"type": "charge.refunded", "object": "ch_a"}`)
	var event stripe.Event
	if err := json.Unmarshal([]byte(body), &event); err != nil || status != http.StatusOK || event.Type != "charge.refunded" || event.GetObjectValue("id") != "ch_a" {
		t.Errorf("POST /_events returned %d %s", status, body)
	}
	if _, found := s.Object(event.ID); !found {
		t.Error("the event is not stored")
	}
	if got := s.Requests(); len(got) != 0 {
		t.Errorf("Requests returned %v, want none for the control paths", got)
	}
}

func TestControl_RejectsWrongRequests(t *testing.T) {
	t.Parallel()
	s := start(t)
	const kind = "application/json"
	for name, test := range map[string]struct {
		path, contentType, body string
		want                    int
	}{
		"object without an id":     {"/_objects", kind, `{"object": "charge"}`, 400},
		"object without a type":    {"/_objects", kind, `{"id": "ch_1"}`, 400},
		"no JSON":                  {"/_objects", kind, `id=ch_1`, 400},
		"an array":                 {"/_objects", kind, `[]`, 400},
		"form of a website":        {"/_objects", "text/plain", `{"id": "ch_1", "object": "charge"}`, 415},
		"event without a type":     {"/_events", kind, `{"object": "ch_1"}`, 400},
		"event without an object":  {"/_events", kind, `{"type": "charge.refunded"}`, 400},
		"event of no known object": {"/_events", kind, `{"type": "charge.refunded", "object": "ch_1"}`, 404},
	} {
		if status, body := s.post(t, test.path, test.contentType, test.body); status != test.want {
			t.Errorf("%s: got %d %s, want %d", name, status, body, test.want)
		}
	}
}

func TestServer_ChecksHost(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(NewCharge("ch_a", nil))
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:4242": 200, "127.0.0.1:80": 200, "[::1]:80": 200, "[::1]": 200,
		"api.stripe.com": 403, "localhost.example": 403, "127.0.0.1.example:80": 403, "": 403,
	} {
		for path, method := range map[string]string{"/v1/charges/ch_a": http.MethodGet, "/_events": http.MethodPost} {
			request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"type": "a", "object": "ch_a"}`))
			request.Host = host
			request.Header.Set("Authorization", "Bearer "+testKey)
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, request)
			if recorder.Code != want {
				t.Errorf("%s %s with the Host header %q got %d, want %d", method, path, host, recorder.Code, want)
			}
		}
	}
}
