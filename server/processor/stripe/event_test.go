package stripe_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/server/processor/stripe"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// sign returns the header for a body that was signed at a time.
func sign(body, secret string, at int64) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{
		Payload: []byte(body), Secret: secret, Timestamp: time.Unix(at, 0),
	}).Header
}

func TestVerify(t *testing.T) {
	const body, secret, other = `{"id": "evt_1"}`, "whsec_a", "whsec_b"
	valid := sign(body, secret, monday)
	_, signature, _ := strings.Cut(valid, ",")
	for name, test := range map[string]struct {
		body, header string
		secrets      []string
		ok           bool
	}{
		"valid":                       {body, valid, []string{secret}, true},
		"first of two secrets":        {body, valid, []string{secret, other}, true},
		"second of two secrets":       {body, valid, []string{other, secret}, true},
		"300 s ago":                   {body, sign(body, secret, monday-300), []string{secret}, true},
		"301 s ago":                   {body, sign(body, secret, monday-301), []string{secret}, false},
		"300 s in the future":         {body, sign(body, secret, monday+300), []string{secret}, true},
		"301 s in the future":         {body, sign(body, secret, monday+301), []string{secret}, false},
		"first of two signatures":     {body, valid + ",v1=00", []string{secret}, true},
		"second of two signatures":    {body, fmt.Sprintf("t=%d,v1=00,%s", monday, signature), []string{secret}, true},
		"another secret":              {body, valid, []string{other}, false},
		"no secret":                   {body, valid, nil, false},
		"empty secret":                {body, sign(body, "", monday), []string{""}, false},
		"another body":                {body + " ", valid, []string{secret}, false},
		"empty header":                {body, "", []string{secret}, false},
		"no time":                     {body, signature, []string{secret}, false},
		"no signature":                {body, fmt.Sprintf("t=%d", monday), []string{secret}, false},
		"time of another scheme":      {body, fmt.Sprintf("t=%d,v0=%s", monday, strings.TrimPrefix(signature, "v1=")), []string{secret}, false},
		"two times":                   {body, fmt.Sprintf("t=%d,%s", monday, sign(body, secret, monday-9_999)), []string{secret}, false},
		"two times in another order":  {body, sign(body, secret, monday-9_999) + fmt.Sprintf(",t=%d", monday), []string{secret}, false},
		"time that is not a number":   {body, "t=soon," + signature, []string{secret}, false},
		"the least time":              {body, "t=-9223372036854775808," + signature, []string{secret}, false},
		"the greatest time":           {body, "t=9223372036854775807," + signature, []string{secret}, false},
		"time that exceeds 64 bits":   {body, "t=92233720368547758070," + signature, []string{secret}, false},
		"a header that is not a list": {body, "====,,,=", []string{secret}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := stripe.New(stripe.Config{}).Verify([]byte(test.body), test.header, test.secrets, time.Unix(monday, 0))
			if test.ok && err != nil || !test.ok && !errors.Is(err, processorservice.ErrSignature) {
				t.Errorf("Verify returned %v, want valid: %v", err, test.ok)
			}
		})
	}
}

func TestEnvelope(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewInvoice("in_1", nil))
	body := f.Event("invoice.paid", "in_1", stripeserver.EventID("evt_1"), stripeserver.EventCreated(time.Unix(monday, 0)),
		stripeserver.EventLivemode(true), stripeserver.EventAccount("acct_1"))
	got, ok := f.client.Envelope(body)
	want := processor.Event{ID: "evt_1", Type: "invoice.paid", Live: true, Account: "acct_1", CreatedAt: time.Unix(monday, 0).UTC()}
	if !ok || got != want {
		t.Errorf("Envelope returned %+v, %v, want %+v", got, ok, want)
	}
}

func TestEnvelope_RejectsOtherBodies(t *testing.T) {
	const valid = `{"id":"evt_1","type":"a.b","created":1,"data":{"object":{"id":"x"}}}`
	if _, ok := stripe.New(stripe.Config{}).Envelope([]byte(valid)); !ok {
		t.Fatal("the valid body was rejected")
	}
	for name, body := range map[string]string{
		"empty":              "",
		"no JSON":            "hello",
		"array":              "[" + valid + "]",
		"null":               "null",
		"two values":         valid + valid,
		"cut":                valid[:len(valid)-2],
		"no id":              strings.Replace(valid, `"id":"evt_1",`, "", 1),
		"other id":           strings.Replace(valid, "evt_1", "in_1", 1),
		"id with a space":    strings.Replace(valid, "evt_1", "evt_1 ", 1),
		"long id":            strings.Replace(valid, "evt_1", "evt_"+strings.Repeat("1", 251), 1),
		"no type":            strings.Replace(valid, "a.b", "", 1),
		"type with NUL":      strings.Replace(valid, "a.b", `a\u0000`, 1),
		"number as type":     strings.Replace(valid, `"a.b"`, "1", 1),
		"negative time":      strings.Replace(valid, `"created":1`, `"created":-1`, 1),
		"time in year 10000": strings.Replace(valid, `"created":1`, `"created":253402300800`, 1),
		"fraction as time":   strings.Replace(valid, `"created":1`, `"created":1.5`, 1),
		"no object":          strings.Replace(valid, `"object":{"id":"x"}`, "", 1),
		"null as object":     strings.Replace(valid, `{"id":"x"}`, "null", 1),
		"array as object":    strings.Replace(valid, `{"id":"x"}`, "[]", 1),
		"text as object":     strings.Replace(valid, `{"id":"x"}`, `"x"`, 1),
		"100,000 arrays":     strings.Replace(valid, `"x"`, strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), 1),
		"5,000 objects":      strings.Replace(valid, `"x"`, strings.Repeat(`{"invoice":`, 5_000)+"1"+strings.Repeat("}", 5_000), 1),
	} {
		t.Run(name, func(t *testing.T) {
			client := stripe.New(stripe.Config{})
			if event, ok := client.Envelope([]byte(body)); ok {
				t.Errorf("Envelope returned %+v, want ok to be false", event)
			}
			if _, err := client.Read(t.Context(), key, processorservice.ReadRequest{Body: []byte(body)}); !errors.Is(err, stripe.ErrMalformed) {
				t.Errorf("Read returned the error %v, want that the event is malformed", err)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	for name, n := range map[string]int{"none": 0, "one page": 3, "two pages": 150, "pages that are read twice": 1_205} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(stripeserver.NewRefund("re_1", nil), stripeserver.NewSession("cs_1", nil))
			var want []string
			for i := range n {
				id := fmt.Sprintf("evt_%d", i)
				f.Event(stripe.SubscribedEvents[i%10], "re_1", stripeserver.EventID(id), stripeserver.EventCreated(time.Unix(monday+int64(i/2), 0)))
				want = append(want, id)
			}
			f.Event("refund.created", "re_1", stripeserver.EventID("evt_old"), stripeserver.EventCreated(time.Unix(monday-1, 0)))
			f.Event("refund.created", "re_1", stripeserver.EventID("evt_later"), stripeserver.EventCreated(time.Unix(monday+int64(n)+1, 0)))
			f.Event("checkout.session.expired", "cs_1", stripeserver.EventID("evt_other"), stripeserver.EventCreated(time.Unix(monday, 0)))
			var got []string
			err := f.client.Events(t.Context(), key, time.Unix(monday, 0), time.Unix(monday+int64(n), 0), func(body []byte) error {
				event, ok := f.client.Envelope(body)
				if !ok {
					t.Errorf("the body %s is not an event", body)
				}
				got = append(got, event.ID)
				return nil
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("Events returned %d events, %v, want the %d events in their order", len(got), err, n)
			}
		})
	}
}

func TestEvents_TooMany(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewRefund("re_1", nil))
	client := stripe.New(stripe.Config{APIURL: f.url, MaxEvents: 200})
	for i := range 201 {
		f.Event("refund.created", "re_1", stripeserver.EventCreated(time.Unix(monday+int64(i/10), 0)))
	}
	read := func(seconds int64) (n int, err error) {
		err = client.Events(t.Context(), key, time.Unix(monday, 0), time.Unix(monday+seconds, 0), func([]byte) error {
			n++
			return nil
		})
		return n, err
	}
	if n, err := read(20); !errors.Is(err, processorservice.ErrTooManyEvents) || n != 0 {
		t.Errorf("Events returned %v after %d events, want ErrTooManyEvents before the first", err, n)
	}
	if n, err := read(10); err != nil || n != 110 {
		t.Errorf("Events returned %d events, %v, want the 110 events of 11 seconds", n, err)
	}
}

func TestEvents_StopsAtFirstError(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewRefund("re_1", nil))
	for range 3 {
		f.Event("refund.created", "re_1")
	}
	failed, calls := errors.New("failed"), 0
	err := f.client.Events(t.Context(), key, time.Unix(monday, 0), time.Now(), func([]byte) error {
		calls++
		return failed
	})
	if !errors.Is(err, failed) || calls != 1 {
		t.Errorf("Events returned %v after %d calls, want the error of the first call", err, calls)
	}
}
