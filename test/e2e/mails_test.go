package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/mail/mailtest"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// providerSecret returns the secret with which the tests sign messages of the mail
// provider.
func providerSecret() webhook.Secret { return bytes.Repeat([]byte{3}, 32) }

// logPath is the path of the notification log.
const logPath = "/api/v1/workspace/notification-log"

// createLogEntry adds a redirected mail to the notification log of a merchant's workspace
// and returns its id.
func (sys *system) createLogEntry(t *testing.T, merchant caller) (id string) {
	t.Helper()
	id = affiliate.NewID[notification.MailID](sys.clock.now()).String()
	sys.exec(t, `
		insert into mails (id, kind, type, category, workspace_id, logged, mode, user_id, account_kind, recipient_name, recipient, facts,
			status, redirected_to, sender, subject, html, text, created_at, completed_at)
		values ($1, 'notifications', 'participant.applied', 'partner_applications', $2, true, 'test', $3, 'merchant', 'Mia', $4, '{}',
			'redirected', 'qa@example.com', 'Tributary <no-reply@example.com>', 'A partner has applied',
			'<p>Ada has applied to Coffee friends.</p>', 'Ada has applied to Coffee friends.', $5, $5)`,
		id, merchant.workspace, merchant.id, merchant.email, sys.clock.now())
	return id
}

// sendMail stores mails and the jobs that send them, as the core does.
func (sys *system) sendMail(t *testing.T, mails ...notification.Mail) {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: sys.database, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.InTx(t.Context(), func(tx *postgres.Tx) error { return tx.SendMail(t.Context(), mails...) }); err != nil {
		t.Fatal(err)
	}
}

// accountMail returns an account mail to a merchant. It has no token.
func (a caller) accountMail(t *testing.T, kind notification.MailKind) notification.Mail {
	t.Helper()
	workspace, ok := affiliate.ParseID[affiliate.WorkspaceID](a.workspace)
	user, okUser := affiliate.ParseID[affiliate.UserID](a.id)
	if !ok || !okUser {
		t.Fatalf("the ids %q and %q are not valid", a.workspace, a.id)
	}
	now := a.sys.clock.now().UTC().Truncate(time.Millisecond)
	return notification.Mail{
		ID: affiliate.NewID[notification.MailID](now), Kind: kind, Type: string(kind), Workspace: &workspace, CreatedAt: now,
		Recipient: notification.Recipient{User: &user, Account: affiliate.Merchant, Name: "Mara <Merchant>", Address: a.email},
	}
}

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

func testProviderWebhookDoesNotExistWithoutSecret(t *testing.T, sys *system) {
	sys.provider(t, object{"type": "email.complained"}, message{}).deliver(t, "/webhooks/resend").wantOutcome(notFound)
}

func TestProviderWebhook_SuppressesAddresses(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_MAIL_WEBHOOK_SECRET": providerSecret().Text()}})
	suppressed := func(address string) bool {
		digest := notification.MailDigest(affiliate.HashKeys{hashKey}, address).First()
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

func testNotificationLogShowsAccountMailInTestModeOnly(t *testing.T, sys *system) {
	merchant, stranger := sys.newMerchant(t), sys.newMerchant(t)
	mail := merchant.accountMail(t, notification.MailPasswordReset)
	sys.sendMail(t, mail)
	test := merchant.inMode("test")
	eventually(t, waitTimeout, "the mail is in the log", func() error {
		if got := test.get(t, logPath).wantStatus(http.StatusOK); got.number("total") != 2 { // the other one verifies the address
			return fmt.Errorf("the log is %s", got.body)
		}
		return nil
	})
	test.get(t, logPath).wantFields(object{
		"data.0.id": mail.ID.String(), "data.0.type": "password_reset", "data.0.category": nil, "data.0.recipient": merchant.email,
		"data.0.status": "suppressed", "data.0.reason": "mail_off", "data.0.redirectedTo": nil, "data.0.subject": "Reset your password", "page": 1, "limit": 20,
	})
	detail := test.get(t, logPath+"/"+mail.ID.String()).wantStatus(http.StatusOK)
	if html, text := detail.text("html"), detail.text("text"); !strings.Contains(html, "Mara &lt;Merchant&gt;") || !strings.Contains(text, "Mara <Merchant>") {
		t.Errorf("the entry has the HTML %s and the text %s, want both with the name as text", html, text)
	}

	t.Run("the live log is empty", func(t *testing.T) {
		live := merchant.inMode("live")
		live.get(t, logPath).wantStatus(http.StatusOK).wantFields(object{"total": 0, "data": []any{}})
		live.get(t, logPath+"/"+mail.ID.String()).wantOutcome(noLogEntry)
	})
	t.Run("another workspace does not see the mail", func(t *testing.T) {
		other := stranger.inMode("test")
		other.get(t, logPath+"?type=password_reset").wantStatus(http.StatusOK).wantFields(object{"total": 0})
		for _, id := range []string{mail.ID.String(), affiliate.NewID[notification.MailID](time.Now()).String(), "x"} {
			other.get(t, logPath+"/"+id).wantOutcome(noLogEntry)
		}
	})
	t.Run("filters", func(t *testing.T) {
		today := mail.CreatedAt.Format(time.DateOnly)
		for query, total := range map[string]int{
			"status=suppressed": 2, "status=delivered": 0, "type=password_reset": 1, "type=digest": 0,
			"recipient=" + strings.ToUpper(merchant.email[:9]): 2, "recipient=example": 0, "from=" + today + "&to=" + today: 2,
			"from=2100-01-01": 0, "to=2000-01-01": 0, "page=2": 2, "from=" + mail.CreatedAt.Format(time.RFC3339Nano): 1,
		} {
			test.get(t, logPath+"?"+query).wantStatus(http.StatusOK).wantFields(object{"total": total})
		}
		for query, field := range map[string]string{
			"status=pending": "status", "from=tomorrow": "from", "to=1": "to", "from=2026-02-02&to=2026-02-01": "to", "timezone=Mars": "timezone",
			"page=0": "page", "pageSize=101": "pageSize", "dateFrom=2026-02-02": "dateFrom", "search=x": "search",
		} {
			test.get(t, logPath+"?"+query).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
		}
	})
}

// A mail goes from the database over the job queue to the mail server. After the provider
// has reported a bounce, the address gets only the mail that its owner requests.
func TestMail_IsSentUntilTheAddressBounces(t *testing.T) {
	t.Parallel()
	server := mailtest.NewServer(t, mailtest.Options{User: "user", Password: "password"})
	sys := start(t, setup{env: map[string]string{
		"TRIBUTARY_SMTP_URL": server.URL(), "TRIBUTARY_MAIL_FROM": "Acme <no-reply@example.com>", "TRIBUTARY_PUBLIC_URL": "https://api.example",
		"TRIBUTARY_MAIL_WEBHOOK_SECRET": providerSecret().Text(),
	}})
	merchant := sys.newMerchant(t).inMode("test")
	wantStatus := func(mail notification.Mail, status, reason any) response {
		t.Helper()
		eventually(t, waitTimeout, "the mail is in the log", func() error {
			if got := merchant.get(t, logPath+"/"+mail.ID.String()); got.status != http.StatusOK {
				return fmt.Errorf("status %d", got.status)
			}
			return nil
		})
		got := merchant.get(t, logPath+"/"+mail.ID.String())
		got.wantFields(object{"status": status, "reason": reason, "from": "Acme <no-reply@example.com>"})
		return got
	}
	keys, err := seal.New("e2e:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	invite := merchant.accountMail(t, notification.MailMemberInvite)
	invite.Secret = keys.Seal([]byte("token-of-the-invite"), invite.ID.UUID[:])
	sys.sendMail(t, invite)
	link := "https://api.example/accept-invite#kind=merchant&token=token-of-the-invite"
	// The other mail verifies the merchant's address.
	if !slices.ContainsFunc(server.WaitMessages(2), func(m mailtest.Message) bool { return m.To[0] == merchant.email && strings.Contains(m.Text, link) }) {
		t.Errorf("no mail to %s contains the link of the invite", merchant.email)
	}
	if got := wantStatus(invite, "delivered", nil); strings.Contains(got.body, "token-of-the-invite") {
		t.Errorf("the log contains the token: %s", got.body)
	}

	bounce := object{"type": "email.bounced", "data": object{"to": []string{merchant.email}, "bounce": object{"type": "Permanent"}}}
	sys.provider(t, bounce, message{}).deliver(t, "/webhooks/resend").wantStatus(http.StatusOK)
	second, reset := merchant.accountMail(t, notification.MailMemberInvite), merchant.accountMail(t, notification.MailPasswordReset)
	sys.sendMail(t, second, reset)
	wantStatus(second, "suppressed", "address_suppressed")
	wantStatus(reset, "delivered", nil)
	if n := len(server.Messages()); n != 3 {
		t.Errorf("the server got %d mails, want 3", n)
	}
	if logs := sys.logs.String(); strings.Contains(logs, merchant.email) || strings.Contains(logs, "token-of-the-invite") {
		t.Error("the log contains the address or the token")
	}
}
