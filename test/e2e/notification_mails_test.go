package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/mail/mailtest"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// startWithMail starts a system that sends mails to a mail server.
func startWithMail(t *testing.T, s setup) (*system, *mailtest.Server) {
	t.Helper()
	server := mailtest.NewServer(t, mailtest.Options{})
	s.env = map[string]string{
		"TRIBUTARY_SMTP_URL": server.URL(), "TRIBUTARY_MAIL_FROM": "Acme <no-reply@example.com>", "TRIBUTARY_PUBLIC_URL": "https://api.example",
	}
	return start(t, s), server
}

// verify makes the addresses of accounts verified. Other addresses get no mail that users
// can disable.
func (sys *system) verify(t *testing.T, accounts ...caller) {
	t.Helper()
	for _, a := range accounts {
		sys.exec(t, `update users set email_verified_at = created_at where id = $1`, a.id)
	}
}

// newVerifiedFixture returns a fixture of live mode whose merchant and partner have verified
// their addresses.
func (sys *system) newVerifiedFixture(t *testing.T) fixture {
	t.Helper()
	merchant, partner := sys.newMerchant(t).inMode("live"), sys.newPartner(t).inMode("live")
	sys.verify(t, merchant, partner)
	return sys.newFixtureFor(t, merchant, partner, nil)
}

// enqueue makes a job run now.
func (sys *system) enqueue(t *testing.T, job affiliate.Job) {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: sys.database, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.InTx(t.Context(), func(tx *postgres.Tx) error { return tx.Enqueue(t.Context(), job) }); err != nil {
		t.Fatal(err)
	}
}

// mailsTo returns the mails to an address with a subject that the mail server has
// accepted.
func mailsTo(server *mailtest.Server, address, subject string) []mailtest.Message {
	return slices.DeleteFunc(server.Messages(), func(m mailtest.Message) bool {
		return m.To[0] != address || m.Subject != subject
	})
}

// awaitMail waits until the mail server has accepted n mails to an address with a
// subject. It returns the newest.
func awaitMail(t *testing.T, server *mailtest.Server, n int, address, subject string) mailtest.Message {
	t.Helper()
	var found []mailtest.Message
	eventually(t, waitTimeout, fmt.Sprintf("%d mails %q to %s", n, subject, address), func() error {
		if found = mailsTo(server, address, subject); len(found) < n {
			return fmt.Errorf("the mail server has %d of them", len(found))
		}
		return nil
	})
	if len(found) > n {
		t.Errorf("the mail server has %d mails %q to %s, want %d", len(found), subject, address, n)
	}
	return found[len(found)-1]
}

// awaitAllMails waits until all notifications are distributed and all mails are sent.
func (sys *system) awaitAllMails(t *testing.T) {
	t.Helper()
	eventually(t, waitTimeout, "all mails are sent", func() error {
		if n := sys.count(t, `select (select count(*) from notification_arrivals) + (select count(*) from mails where status = 'pending')`); n > 0 {
			return fmt.Errorf("%d arrivals and mails wait", n)
		}
		return nil
	})
}

// awaitLogEntry waits until the newest entry of a type in the notification log has a
// status, and returns the log of this type.
func (a caller) awaitLogEntry(t *testing.T, kind, status string) response {
	t.Helper()
	var log response
	eventually(t, waitTimeout, fmt.Sprintf("the log has a mail %s that was %s", kind, status), func() error {
		log = a.get(t, logPath+"?type="+kind).wantStatus(http.StatusOK)
		if log.number("total") == 0 || log.text("data.0.status") != status {
			return errors.New(log.body)
		}
		return nil
	})
	return log
}

// TestMails_HaveTheBrandingOfTheWorkspace shows the mails to partners: they carry the name, the
// logo and the support address of the merchant, and lead to the portal. Mails to merchants do not.
func TestMails_HaveTheBrandingOfTheWorkspace(t *testing.T) {
	t.Parallel()
	sys, server := startWithMail(t, setup{})
	f := sys.newVerifiedFixture(t)
	f.merchant.do(t, http.MethodPut, "/api/v1/workspace/branding", object{
		"slug": uniqueName("beans"), "portalName": "Bean <Partners>", "supportEmail": "help@shop.example",
	}).wantStatus(http.StatusOK)
	logo := f.merchant.withHeader("Content-Type", "image/png").do(t, http.MethodPut, "/api/v1/workspace/branding/logo", strings.NewReader(pngFile(t, 40, 20))).
		wantStatus(http.StatusOK).text("logoUrl")
	partner := sys.newPartner(t).inMode("live")
	sys.verify(t, partner)
	applied := partner.post(t, f.applyPath(), object{}).wantStatus(http.StatusCreated)
	f.merchant.patch(t, f.programPath()+"/partners/"+applied.text("id")+"/approve", object{}).wantStatus(http.StatusOK)
	f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": "ada@example.com"}).wantStatus(http.StatusCreated)

	program := f.merchant.get(t, f.programPath()).text("name")
	for address, subject := range map[string]string{partner.email: "You are in", "ada@example.com": "Invitation to the affiliate programme " + program} {
		sent := awaitMail(t, server, 1, address, subject)
		if got, want := sent.Header.Get("Reply-To"), `"Bean <Partners>" <help@shop.example>`; got != want {
			t.Errorf("%s: Reply-To is %q, want %q", subject, got, want)
		}
		if !strings.Contains(sent.HTML, `<img src="`+logo+`"`) || !strings.Contains(sent.HTML, "Bean &lt;Partners&gt;") || !strings.Contains(sent.Text, "Bean <Partners>") {
			t.Errorf("%s: the mail has not the name and the logo %s:\n%s", subject, logo, sent.HTML)
		}
		if link := "https://api.example/portal/programs/" + f.program; subject == "You are in" && !strings.Contains(sent.Text, link) {
			t.Errorf("%s: the mail does not lead to %s:\n%s", subject, link, sent.Text)
		}
	}
	toMerchant := mailsTo(server, f.merchant.email, "New application")
	if len(toMerchant) == 0 || strings.Contains(toMerchant[0].HTML, "<img") || toMerchant[0].Header.Get("Reply-To") != "" {
		t.Errorf("the merchant got the mails %v, want one without the logo", toMerchant)
	}
}

// TestNotificationMails_Live shows the mails of live mode: the first notification of a
// category is mailed at once, and the following ones together after an hour.
func TestNotificationMails_Live(t *testing.T) {
	t.Parallel()
	sys, server := startWithMail(t, setup{})
	f := sys.newVerifiedFixture(t)
	program := f.merchant.get(t, f.programPath()).text("name")
	partner := f.merchant.get(t, f.participantPath()).text("partnerName")

	first := awaitMail(t, server, 1, f.merchant.email, "New application")
	if want := partner + " applied to " + program + "."; !strings.Contains(first.Text, want) || !strings.Contains(first.HTML, want) {
		t.Errorf("the mail does not contain %q:\n%s", want, first.Text)
	}
	if list, post := first.Header.Get("List-Unsubscribe"), first.Header.Get("List-Unsubscribe-Post"); post != "List-Unsubscribe=One-Click" ||
		!strings.HasPrefix(list, "<https://api.example/api/v1/notifications/unsubscribe?token=") {
		t.Errorf("the mail has List-Unsubscribe %q and List-Unsubscribe-Post %q", list, post)
	}
	approved := awaitMail(t, server, 1, f.partner.email, "You are in")
	for _, want := range []string{"You take part in " + program + ".", "You earn 20% of each sale.", "Your link: https://shop.example?via=" + f.code} {
		if !strings.Contains(approved.Text, want) {
			t.Errorf("the mail to the partner does not contain %q:\n%s", want, approved.Text)
		}
	}

	f.applyAsNewPartner(t)
	f.applyAsNewPartner(t)
	sys.awaitAllMails(t)
	awaitMail(t, server, 1, f.merchant.email, "New application")
	sys.clock.advance(notification.GatherTime)
	sys.enqueue(t, notification.SendDigests{})
	gathered := awaitMail(t, server, 1, f.merchant.email, "2 new notifications")
	if n := strings.Count(gathered.Text, " applied to "+program+"."); n != 2 {
		t.Errorf("the mail has %d applications, want 2:\n%s", n, gathered.Text)
	}
	if gathered.Header.Get("List-Unsubscribe") == "" {
		t.Error("the mail with gathered notifications has no List-Unsubscribe")
	}
	f.merchant.login(t).inMode("test").get(t, logPath+"?type=participant.applied").wantStatus(http.StatusOK).wantFields(object{"total": 0})
}

// TestNotificationMails_Test shows the mails of test mode: they are only logged, unless
// the workspace redirects them to one of its members. Account mail is sent.
func TestNotificationMails_Test(t *testing.T) {
	t.Parallel()
	sys, server := startWithMail(t, setup{})
	f := sys.newFixture(t, "test", nil)
	const kind, subject = "participant.applied", "New application"
	suppressed := f.merchant.awaitLogEntry(t, kind, "suppressed").wantFields(object{
		"total": 1, "data.0.category": "partner_applications", "data.0.recipient": f.merchant.email, "data.0.reason": "test_mode",
		"data.0.redirectedTo": nil, "data.0.subject": subject,
	})
	detail := f.merchant.get(t, logPath+"/"+suppressed.text("data.0.id")).wantStatus(http.StatusOK)
	if text := detail.text("text"); !strings.Contains(text, " applied to ") || !strings.Contains(text, "unsubscribe?token=[redacted]") {
		t.Errorf("the log entry has the text %s", text)
	}
	f.merchant.awaitLogEntry(t, "email_verification", "delivered").wantFields(object{
		"total": 1, "data.0.recipient": f.merchant.email, "data.0.reason": nil,
	})
	awaitMail(t, server, 1, f.merchant.email, "Verify your e-mail address")

	// The tester joins after the first mail and is not a recipient of partner_applications.
	tester := f.merchant.addMember(t, "developer")
	sys.exec(t, `update users set email_verified_at = created_at where id = $1`, tester.id)
	f.merchant.patch(t, workspacePath, object{"testMailRedirect": tester.email}).wantStatus(http.StatusOK)
	f.applyAsNewPartner(t)
	sys.awaitAllMails(t)
	sys.clock.advance(notification.GatherTime)
	sys.enqueue(t, notification.SendDigests{})
	merchant := f.merchant.login(t)
	merchant.awaitLogEntry(t, kind, "redirected").wantFields(object{
		"total": 2, "data.0.recipient": f.merchant.email, "data.0.redirectedTo": tester.email, "data.0.reason": nil,
	})
	redirected := awaitMail(t, server, 1, tester.email, subject)
	if strings.Contains(redirected.Raw, f.merchant.email) {
		t.Errorf("the redirected mail contains the address of its recipient:\n%s", redirected.Raw)
	}
	if n := len(mailsTo(server, f.merchant.email, subject)); n != 0 {
		t.Errorf("the merchant got %d mails of test mode, want none", n)
	}
}

// TestNotificationMails_OnlyToVerifiedAddresses checks that a mail that users can disable is
// not sent to an unverified address, and that the reason is stored.
func TestNotificationMails_OnlyToVerifiedAddresses(t *testing.T) {
	t.Parallel()
	sys, server := startWithMail(t, setup{})
	merchant, partner := sys.newMerchant(t).inMode("live"), sys.newPartner(t).inMode("live")
	sys.verify(t, merchant)
	sys.newFixtureFor(t, merchant, partner, nil)
	awaitMail(t, server, 1, merchant.email, "New application")
	sys.awaitAllMails(t)
	awaitMail(t, server, 1, partner.email, "Verify your e-mail address")
	if n := len(mailsTo(server, partner.email, "You are in")); n != 0 {
		t.Errorf("the partner, who has not verified the address, got %d mails about the application, want none", n)
	}
	const withheld = `select count(*) from mails where recipient = $1 and status = 'suppressed' and reason = 'address_not_verified' and type = 'participant.approved'`
	if n := sys.count(t, withheld, partner.email); n != 1 {
		t.Errorf("%d mails to the partner have the reason address_not_verified, want 1", n)
	}
}

// TestNotificationMails_ServerOutage checks that the mail about a notification that was
// created while the mail server is down arrives once after the server is back.
func TestNotificationMails_ServerOutage(t *testing.T) {
	t.Parallel()
	sys, server := startWithMail(t, setup{})
	merchant, partner := sys.newMerchant(t).inMode("live"), sys.newPartner(t).inMode("live")
	for _, address := range []string{merchant.email, partner.email} {
		awaitMail(t, server, 1, address, "Verify your e-mail address")
	}
	sys.awaitAllMails(t)
	sys.verify(t, merchant, partner)
	server.Stop()
	sys.newFixtureFor(t, merchant, partner, nil)
	// The mails are about the application, its approval and a new secret key.
	const failed = `select count(*) from river.river_job where kind = 'send_mail' and state in ('retryable', 'scheduled')`
	eventually(t, waitTimeout, "the first attempts of three mails fail", func() error {
		if n := sys.count(t, failed); n != 3 {
			return fmt.Errorf("%d have failed", n)
		}
		return nil
	})
	server.Start()
	// The next attempt is due a minute after the first.
	sys.exec(t, `update river.river_job set state = 'available', scheduled_at = now() where kind = 'send_mail' and state in ('retryable', 'scheduled')`)
	sys.awaitAllMails(t)
	awaitMail(t, server, 1, merchant.email, "New application")
	awaitMail(t, server, 1, partner.email, "You are in")
	awaitMail(t, server, 1, merchant.email, "Secret key created")
}

// TestNotificationMails_RedisOutage checks that a notification whose cause commits while
// Redis is down is in the feed and in a mail, also before Redis is back.
func TestNotificationMails_RedisOutage(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	sys, server := startWithMail(t, setup{redis: redis.URL})
	f := sys.newVerifiedFixture(t)
	sys.awaitAllMails(t)
	redis.Kill9()
	wantNotReady(t, sys, "cache")
	announcement := object{"title": "New beans", "body": "From Ethiopia."}
	f.merchant.post(t, f.programPath()+"/announcements", announcement).wantStatus(http.StatusCreated)
	f.partner.wantNewest(t, partnerFeed, "programme_news", object{"type": "program.announcement", "title": "New beans"})
	awaitMail(t, server, 1, f.partner.email, "New beans")

	redis.Restart()
	wantReady(t, sys)
	sys.awaitAllMails(t)
	f.partner.wantNewest(t, partnerFeed, "programme_news", object{"type": "program.announcement", "title": "New beans"})
	awaitMail(t, server, 1, f.partner.email, "New beans")
}

// TestNotificationMails_WebhookHealth shows the notifications about an endpoint that
// responds with 410. This makes the delivery a dead letter and disables the endpoint.
func TestNotificationMails_WebhookHealth(t *testing.T) {
	t.Parallel()
	sys, server := startWithMail(t, setup{})
	// All attempts of a day must be on the same UTC day.
	now := sys.clock.now().UTC()
	sys.clock.advance(now.Truncate(24 * time.Hour).Add(30 * time.Hour).Sub(now))
	f := sys.newVerifiedFixture(t)
	admin, developer := f.merchant.addMember(t, "admin").inMode("live"), f.merchant.addMember(t, "developer").inMode("live")
	var others []caller
	for _, role := range []string{"manager", "finance", "viewer"} {
		others = append(others, f.merchant.addMember(t, role).inMode("live"))
	}
	h := f.merchant.startEndpoint(t, nil)
	h.respondWith(http.StatusGone)
	const deadLetter, disabled = "Webhook not delivered", "Webhook endpoint disabled"
	// disable makes the endpoint respond with 410 to a new event.
	disable := func(deliveries int) {
		t.Helper()
		f.updateProgram(t)
		h.awaitRequests(t, deliveries)
		h.awaitDelivery(t, f.merchant, "dead_lettered")
		eventually(t, waitTimeout, "the endpoint is disabled", func() error {
			if got := f.merchant.get(t, h.path).wantStatus(http.StatusOK); got.text("status") != "disabled" {
				return errors.New(got.body)
			}
			return nil
		})
		sys.awaitAllMails(t)
	}
	enable := func() {
		t.Helper()
		f.merchant.patch(t, h.path, object{"active": true}).wantStatus(http.StatusOK)
	}
	// wantHealth checks the number of notifications and mails about dead letters and about
	// the disabled endpoint.
	wantHealth := func(when string, deadLetters, disablings int) {
		t.Helper()
		for _, member := range []caller{f.merchant, admin, developer} {
			total := member.get(t, merchantFeed+"?category=webhook_health").wantStatus(http.StatusOK).number("total")
			if total != int64(deadLetters+disablings) {
				t.Errorf("%s: the feed has %d notifications, want %d", when, total, deadLetters+disablings)
			}
			if n := len(mailsTo(server, member.email, deadLetter)); n != deadLetters {
				t.Errorf("%s: got %d mails about a dead letter, want %d", when, n, deadLetters)
			}
			if n := len(mailsTo(server, member.email, disabled)); n != disablings {
				t.Errorf("%s: got %d mails about the endpoint, want %d", when, n, disablings)
			}
		}
	}
	disable(1)
	feed := f.merchant.get(t, merchantFeed+"?category=webhook_health").wantStatus(http.StatusOK)
	first, second := "data.0.", "data.1." // the order is random, because both have the same time
	if feed.text("data.0.type") != "webhook.disabled" {
		first, second = second, first
	}
	feed.wantFields(object{
		first + "type": "webhook.disabled", first + "severity": "critical",
		first + "body":     "No more events are sent to " + h.url + ", because it responded with the status 410. Enable the endpoint when it works again.",
		first + "resource": map[string]any{"type": "webhook", "id": h.id, "programId": nil},
		second + "type":    "webhook.dead_lettered", second + "severity": "warning",
		second + "body": "An event could not be delivered to " + h.url + ". It is the first one of this day.",
	})
	wantHealth("after the first event", 1, 1)

	enable()
	disable(2)
	wantHealth("after the second event of the day", 1, 2)
	for _, member := range others {
		member.wantEmpty(t, merchantFeed, "webhook_health")
		if n := len(mailsTo(server, member.email, deadLetter)) + len(mailsTo(server, member.email, disabled)); n > 0 {
			t.Errorf("a member without access to webhooks got %d mails", n)
		}
	}

	sys.clock.advance(24 * time.Hour)
	sys.enqueue(t, notification.SendDigests{}) // nothing was gathered, so the next notification is mailed at once
	eventually(t, waitTimeout, "nothing is gathered", func() error {
		if n := sys.count(t, `select count(*) from notification_digests where category = 'webhook_health'`); n > 0 {
			return fmt.Errorf("%d digests are open", n)
		}
		return nil
	})
	f.merchant, admin, developer = f.merchant.login(t), admin.login(t), developer.login(t)
	enable()
	disable(3)
	wantHealth("on the next day", 2, 3)
}
