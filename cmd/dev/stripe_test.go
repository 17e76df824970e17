package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// triggerStripe sends events to the running demo with dev stripe, and checks what the
// command prints.
func triggerStripe(t *testing.T, dir string, values map[string]string) {
	t.Helper()
	trigger := func(args ...string) string {
		t.Helper()
		out, err := devCommand(t, dir, testEnv(), append([]string{"stripe", "trigger"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("dev stripe trigger %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	contains := func(output string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(output, part) {
				t.Errorf("dev stripe trigger printed no %q:\n%s", part, output)
			}
		}
	}
	var click struct {
		ID string `json:"click_id"`
	}
	visitor := apiClient{url: values["TRIBUTARY_COLLECTOR_URL"]}.withCredential(values[publicKeyName("test")])
	if err := visitor.call(t.Context(), http.MethodPost, "/v1/clicks", map[string]string{"referral_code": values[referralCodeName]}, &click); err != nil {
		t.Fatal(err)
	}
	sold := trigger("checkout.session.completed", "--click", click.ID)
	contains(sold, "checkout.session.completed: applied", "Commission 9.80 USD, pending")
	sale := regexp.MustCompile(`sale (pi_\w+)`).FindStringSubmatch(sold)
	if sale == nil {
		t.Fatalf("dev stripe trigger printed no id of the sale:\n%s", sold)
	}
	contains(trigger("charge.refunded", "--sale", sale[1], "--amount", "1900"), "applied", "Commission 6.00 USD, pending")
	contains(trigger("charge.dispute.created", "--sale", sale[1]), "applied", "Commission 6.00 USD, pending")
	contains(trigger("charge.dispute.closed", "--sale", sale[1], "--status", "lost"), "applied", "Commission 0.00 USD, refunded")
	contains(trigger("checkout.session.completed", "--code", "ADA10", "--amount", "2000"), "applied", "Commission 6.00 USD, pending")
	contains(trigger("invoice.paid", "--click", click.ID, "--currency", "USD"), "applied", "sale in_", "Commission 9.80 USD, pending")

	for want, args := range map[string][]string{
		"only has sales that were triggered since": {"charge.refunded", "--sale", "pi_unknown"},
		"3000 of the sale " + sale[1]:              {"charge.refunded", "--sale", sale[1], "--amount", "3001"},
	} {
		out, err := devCommand(t, dir, testEnv(), append([]string{"stripe", "trigger"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("dev stripe trigger %v: got %v, want an error that contains %q:\n%s", args, err, want, out)
		}
	}
}

// waitForStripeToEnd waits until the stand-in for Stripe of a demo that was killed has ended.
func waitForStripeToEnd(t *testing.T, values map[string]string) {
	t.Helper()
	pgtest.Eventually(t, "nothing listens at the address of the stand-in for Stripe", func() bool {
		conn, err := net.Dial("tcp", hostOf(t, values[stripeURLName]))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

func TestStripeCommand_Refuses(t *testing.T) {
	t.Parallel()
	const known = "charge.dispute.closed, charge.dispute.created, charge.refunded, checkout.session.completed, invoice.paid"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"another command":          {[]string{"listen"}, "usage: go run ./cmd/dev stripe trigger"},
		"no event":                 {[]string{"trigger"}, "usage: go run ./cmd/dev stripe trigger"},
		"an unknown event":         {[]string{"trigger", "charge.paid"}, `unknown event "charge.paid": use one of ` + known},
		"an unknown flag":          {[]string{"trigger", "invoice.paid", "--code", "ADA10"}, "not defined: -code"},
		"another argument":         {[]string{"trigger", "invoice.paid", "x"}, "usage: go run ./cmd/dev stripe trigger"},
		"no click and no code":     {[]string{"trigger", "checkout.session.completed"}, "--click or --code is required"},
		"an invoice without click": {[]string{"trigger", "invoice.paid"}, "--click is required"},
		"a negative amount":        {[]string{"trigger", "charge.refunded", "--sale", "pi_1", "--amount", "-1"}, "--amount must not be negative"},
		"a refund without sale":    {[]string{"trigger", "charge.refunded"}, "--sale is required"},
		"an open status":           {[]string{"trigger", "charge.dispute.closed", "--sale", "pi_1"}, "--status must be won or lost"},
		"no demo":                  {[]string{"trigger", "charge.refunded", "--sale", "pi_1"}, errNotRunning.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := stripeCommand(t.Context(), t.TempDir(), test.args, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("dev stripe %v returned %v, want an error that contains %q", test.args, err, test.want)
			}
			if usage := strings.HasPrefix(test.want, "usage"); usage && !errors.Is(err, errUsage) {
				t.Errorf("dev stripe %v returned %v, want an error about the usage", test.args, err)
			}
		})
	}
	var out strings.Builder
	if err := stripeCommand(t.Context(), t.TempDir(), nil, &out); err != nil || out.String() != stripeUsage+"\n" {
		t.Errorf("dev stripe printed %q and returned %v, want its usage", out.String(), err)
	}
}

// Websites cannot make a browser send events or read the secret.
func TestStripeHandler_RefusesRequestsOfWebsites(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	const host, body = "127.0.0.1:12345", `{"url":"https://api.example/webhooks/stripe/1"}`
	handler := &stripeHandler{server: stripe, host: host}
	for name, test := range map[string]struct {
		method, host, contentType, body string
		want                            int
	}{
		"no endpoint":          {http.MethodPost, host, "application/json", body, http.StatusNotFound},
		"another host":         {http.MethodPost, "shop.example:12345", "application/json", body, http.StatusForbidden},
		"another method":       {http.MethodGet, host, "application/json", body, http.StatusMethodNotAllowed},
		"another content type": {http.MethodPost, host, "text/plain", body, http.StatusUnsupportedMediaType},
		"not JSON":             {http.MethodPost, host, "application/json", "{", http.StatusBadRequest},
	} {
		for _, path := range []string{stripeSecretPath, stripeTriggerPath} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				want := test.want
				if path == stripeTriggerPath && want == http.StatusNotFound {
					want = http.StatusUnprocessableEntity // the body names no event
				}
				r := httptest.NewRequest(test.method, path, strings.NewReader(test.body))
				r.Host = test.host
				r.Header.Set("Content-Type", test.contentType)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("the status is %d, want %d: %s", w.Code, want, w.Body)
				}
			})
		}
	}
}

func TestMakeEvent_RefusesImpossibleChanges(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	sold, err := stripeTrigger{Type: "checkout.session.completed", Click: "x", Amount: 1000, Currency: "usd"}.makeEvent(stripe)
	if err != nil {
		t.Fatal(err)
	}
	refund := stripeTrigger{Type: "charge.refunded", Sale: sold.Sale}
	part := refund
	part.Amount = 400
	open := stripeTrigger{Type: "charge.dispute.created", Sale: sold.Sale}
	lost := stripeTrigger{Type: "charge.dispute.closed", Sale: sold.Sale, Status: "lost"}
	for _, step := range []struct {
		trigger stripeTrigger
		want    string // empty for success
	}{
		{lost, "is not disputed"},
		{open, ""},
		{open, "is already disputed"},
		{lost, ""},
		{part, ""},
		{refund, ""},
		{part, "0 of the sale"},
		{stripeTrigger{Type: "charge.refunded", Sale: "order-1"}, "has no sale"},
		{stripeTrigger{Type: "charge.paid"}, "unknown event"},
	} {
		_, err := step.trigger.makeEvent(stripe)
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("makeEvent(%+v) returned %v, want an error that contains %q", step.trigger, err, step.want)
		}
	}
	charge, _ := stripe.Object("ch_" + strings.TrimPrefix(sold.Sale, "pi_"))
	if charge["amount_refunded"] != 1000.0 || charge["refunded"] != true || charge["disputed"] != true {
		t.Errorf("the charge has refunded %v of %v (%v) and disputed %v, want all of it and true", charge["amount_refunded"], charge["amount"], charge["refunded"], charge["disputed"])
	}
}

func TestPrice(t *testing.T) {
	t.Parallel()
	for want, amount := range map[string]struct {
		cents    int64
		currency string
	}{
		"49.00 USD": {4900, "USD"},
		"0.05 EUR":  {5, "EUR"},
		"1470 JPY":  {1470, "JPY"},
		"1.470 KWD": {1470, "KWD"},
	} {
		if got := price(amount.cents, amount.currency); got != want {
			t.Errorf("price(%d, %s) = %q, want %q", amount.cents, amount.currency, got, want)
		}
	}
}

func TestOtherName(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"127.0.0.1:8082":    "localhost:8082",
		"localhost:8082":    "127.0.0.1:8082",
		"192.168.0.7:8082":  "192.168.0.7:8082",
		"shop.example:8082": "shop.example:8082",
		"shop.example":      "shop.example",
	} {
		if got := otherName(host); got != want {
			t.Errorf("otherName(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestListenForStripe_UsesServerOfEnvironment(t *testing.T) {
	t.Parallel()
	values := map[string]string{stripeURLName: "https://stripe.example"}
	p, err := listenForStripe(values, "")
	if p != nil || err != nil || values[stripeURLName] != "https://stripe.example" {
		t.Errorf("listenForStripe returned %v, %v and set %q, want no process and the setting unchanged", p, err, values[stripeURLName])
	}
	first, err := listenForStripe(map[string]string{}, "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := listenForStripe(map[string]string{}, first.address())
	if err != nil || other.address() == first.address() {
		t.Errorf("listenForStripe with a port in use returned %v, %v, want another port", other.address(), err)
	}
	for _, p := range []*stripeProcess{nil, first, other} {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}
