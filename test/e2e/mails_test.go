package e2e_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// providerSecret returns the secret with which the tests sign messages of the mail
// provider.
func providerSecret() webhook.Secret { return bytes.Repeat([]byte{3}, 32) }

// message describes how a message of the mail provider is signed. The zero value is a
// valid message with a new id and the header names of Svix.
type message struct {
	id      string
	prefix  string
	age     time.Duration
	secrets []webhook.Secret
}

// providerClient sends one signed message.
type providerClient struct {
	apiClient
	body any
}

// provider returns a client that sends a message of the mail provider with its signature.
func (sys *system) provider(t *testing.T, body any, m message) providerClient {
	t.Helper()
	text, isText := body.(string)
	if !isText {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(encoded)
	}
	if m.id == "" {
		m.id = uniqueName("msg")
	}
	if m.prefix == "" {
		m.prefix = "Svix-"
	}
	if m.secrets == nil {
		m.secrets = []webhook.Secret{providerSecret()}
	}
	at := sys.clock.now().Add(-m.age)
	client := sys.client().withHeader(m.prefix+"Id", m.id).withHeader(m.prefix+"Timestamp", strconv.FormatInt(at.Unix(), 10)).
		withHeader(m.prefix+"Signature", webhook.Sign(m.secrets, m.id, at, []byte(text)))
	return providerClient{client, body}
}

func (c providerClient) deliver(t *testing.T, path string) response {
	t.Helper()
	return c.post(t, path, c.body)
}

func TestProviderWebhook_ChecksSignatureAndPath(t *testing.T) {
	t.Parallel()
	current, former := webhook.NewSecret(), providerSecret()
	sys := start(t, setup{env: map[string]string{
		"TRIBUTARY_MAIL_WEBHOOK_SECRET": current.Text() + "," + former.Text(), "TRIBUTARY_MAIL_PROVIDER": "post-office",
	}})
	sys.clock.stop()
	const path = "/webhooks/post-office"
	event := object{"type": "email.delivered", "data": object{"to": []string{"a@example.com"}}}
	badSignature := outcome{http.StatusUnauthorized, "INVALID_SIGNATURE"}
	for name, tc := range map[string]struct {
		message message
		want    outcome
	}{
		"names of Svix":                     {message{}, ok},
		"names of Standard Webhooks":        {message{prefix: "Webhook-"}, ok},
		"first secret":                      {message{secrets: []webhook.Secret{current}}, ok},
		"several signatures":                {message{secrets: []webhook.Secret{webhook.NewSecret(), current}}, ok},
		"another secret":                    {message{secrets: []webhook.Secret{webhook.NewSecret()}}, badSignature},
		"5 minutes old":                     {message{age: 5*time.Minute - time.Second}, ok},
		"more than 5 minutes old":           {message{age: 5*time.Minute + time.Second}, badSignature},
		"5 minutes in the future":           {message{age: -5*time.Minute + time.Second}, ok},
		"more than 5 minutes in the future": {message{age: -5*time.Minute - 2*time.Second}, badSignature},
		"names of another standard":         {message{prefix: "Stripe-"}, badSignature},
		"an id of more than 256 characters": {message{id: strings.Repeat("m", 257)}, badSignature},
	} {
		t.Run(name, func(t *testing.T) { sys.provider(t, event, tc.message).deliver(t, path).wantOutcome(tc.want) })
	}
	t.Run("a message without a signature", func(t *testing.T) {
		sys.client().post(t, path, event).wantOutcome(badSignature)
	})
	t.Run("a body that was changed", func(t *testing.T) {
		client := sys.provider(t, event, message{})
		client.post(t, path, object{"type": "email.complained"}).wantOutcome(badSignature)
	})
	t.Run("any content type", func(t *testing.T) {
		client := sys.provider(t, `{"type":"email.opened"}`, message{})
		client.withHeader("Content-Type", "text/plain").post(t, path, client.body).wantStatus(http.StatusOK).wantFields(object{"status": "ignored"})
	})
	t.Run("a body that is not JSON", func(t *testing.T) {
		for _, body := range []string{"", "{", "[]", `{"type":1}`, `{"type":"email.complained","data":{"to":1}}`} {
			sys.provider(t, body, message{}).deliver(t, path).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "body")
		}
	})
	t.Run("a body that is too large", func(t *testing.T) {
		largest := `{"type":"email.opened"}` + strings.Repeat(" ", 256<<10-23)
		sys.provider(t, largest, message{}).deliver(t, path).wantStatus(http.StatusOK)
		sys.provider(t, largest+" ", message{}).deliver(t, path).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	})
	t.Run("another provider", func(t *testing.T) {
		sys.provider(t, event, message{}).deliver(t, "/webhooks/resend").wantOutcome(notFound)
	})
}

func TestProviderWebhook_DoesNotExistWithoutSecret(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	sys.provider(t, object{"type": "email.complained"}, message{}).deliver(t, "/webhooks/resend").wantOutcome(notFound)
}

func TestProviderWebhook_SuppressesAddresses(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_MAIL_WEBHOOK_SECRET": providerSecret().Text()}})
	suppressed := func(address string) bool {
		digest := affiliate.MailDigest(bytes.Repeat([]byte{9}, 32), address)
		return sys.count(t, "select count(*) from mail_suppressions where digest = $1", digest) == 1
	}
	event := func(kind string, to any, bounce string) object {
		return object{"type": kind, "data": object{"to": to, "bounce": object{"type": bounce}}}
	}
	for name, tc := range map[string]struct {
		event      object
		status     string
		suppressed []string
		other      string // an address that must not be suppressed
	}{
		"permanent bounce":    {event("email.bounced", []string{"Bounce@Example.com", "Maria <second@example.com>"}, "Permanent"), "processed", []string{"bounce@example.com", "second@example.com"}, ""},
		"bounce, lower case":  {event("email.bounced", "lower@example.com", "permanent"), "processed", []string{"lower@example.com"}, ""},
		"transient bounce":    {event("email.bounced", []string{"full@example.com"}, "Transient"), "ignored", nil, "full@example.com"},
		"complaint":           {event("email.complained", []string{"angry@example.com"}, ""), "processed", []string{"angry@example.com"}, ""},
		"provider suppresses": {event("email.suppressed", []string{"listed@example.com"}, ""), "processed", []string{"listed@example.com"}, ""},
		"failure":             {event("email.failed", []string{"failed@example.com"}, ""), "processed", nil, "failed@example.com"},
		"unknown event":       {event("contact.created", []string{"contact@example.com"}, ""), "ignored", nil, "contact@example.com"},
		"no recipient":        {object{"type": "email.complained"}, "processed", nil, ""},
	} {
		sys.provider(t, tc.event, message{}).deliver(t, "/webhooks/resend").wantStatus(http.StatusOK).wantFields(object{"status": tc.status})
		for _, address := range tc.suppressed {
			if !suppressed(address) {
				t.Errorf("%s: %s is not suppressed", name, address)
			}
		}
		if tc.other != "" && suppressed(tc.other) {
			t.Errorf("%s: %s is suppressed", name, tc.other)
		}
	}
	if logs := sys.logs.String(); !strings.Contains(logs, "the mail provider could not send a mail") || strings.Contains(logs, "@example.com") {
		t.Error("the log must mention the failure of the provider, but no address")
	}

	t.Run("a repeated message has no effect", func(t *testing.T) {
		repeated := sys.provider(t, event("email.complained", []string{"again@example.com"}, ""), message{id: "msg_repeated"})
		repeated.deliver(t, "/webhooks/resend").wantStatus(http.StatusOK).wantFields(object{"status": "processed"})
		sys.exec(t, "delete from mail_suppressions")
		repeated.deliver(t, "/webhooks/resend").wantStatus(http.StatusOK).wantFields(object{"status": "duplicate"})
		if suppressed("again@example.com") {
			t.Error("a repeated message suppresses the address again")
		}
	})
}
