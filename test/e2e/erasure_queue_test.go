package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// checkErasureLimit checks the limit of erasures in an hour. Requests without a confirmation
// count too.
func checkErasureLimit(t *testing.T, sys *system, f fixture, other caller) {
	t.Helper()
	session, path := f.merchant.login(t).inMode("test"), f.participantPath()+"/erase"
	for i := range 5 {
		got := session.post(t, path, object{})
		got.wantOutcome(unconfirmed)
		if i == 4 && got.remaining() != 0 {
			t.Errorf("%d erasures remain after five, want 0", got.remaining())
		}
	}
	limited := session.post(t, path, confirmed).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	if got := limited.header.Get("RateLimit-Policy"); got != `"erasure";q=5;w=3600` {
		t.Errorf("RateLimit-Policy is %q", got)
	}
	if wait := limited.retryAfter(); wait <= 0 || wait > time.Hour+time.Minute {
		t.Errorf("Retry-After is %v, want at most an hour and a minute", wait)
	}
	// The kinds of erasures share the limit of the account. Other accounts have their own.
	session.post(t, "/api/v1/merchant/account/erase", confirmed).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	other.login(t).post(t, "/api/v1/merchant/account/erase", object{}).wantOutcome(unconfirmed)
	f.partner.login(t).post(t, "/api/v1/partner/account/erase", object{}).wantOutcome(unconfirmed)
	sys.clock.advance(time.Hour + time.Minute)
	f.merchant.login(t).inMode("test").post(t, path, object{}).wantOutcome(unconfirmed)
}

// queued is a participant whose values are in webhooks and mails that wait for their next
// attempt.
type queued struct {
	fixture
	values []string
}

// newQueued lets a new partner take part in a new programme and do what leads to webhooks and
// mails.
func (sys *system) newQueued(t *testing.T, merchant, partner caller, name string) queued {
	t.Helper()
	f := sys.newFixtureFor(t, merchant, partner, nil)
	q := queued{f, []string{name, partner.email, f.code}}
	value := func(prefix string) string {
		q.values = append(q.values, uniqueName(prefix))
		return q.values[len(q.values)-1]
	}
	partner.post(t, "/api/v1/partner/links", object{
		"programId": f.program, "code": value("quokkalink"), "destinationUrl": "https://shop.example/x",
	}).wantStatus(http.StatusCreated)
	promoCode := value("quokkapromo")
	merchant.post(t, f.programPath()+"/promo-codes", object{
		"participantId": f.participant, "code": promoCode, "discountType": "percentage", "discountValue": 10,
	}).wantStatus(http.StatusCreated)
	sale := purchase("")
	delete(sale, "click_id")
	sale["promo_code"] = promoCode
	f.report(t, sale).wantStatus(http.StatusCreated)
	merchant.patch(t, f.participantPath()+"/suspend", object{"reason": value("quokkareason")}).wantStatus(http.StatusOK)
	return q
}

// find returns the values that a text contains.
func (q queued) find(text string) (found []string) {
	for _, value := range q.values {
		if strings.Contains(strings.ToLower(text), strings.ToLower(value)) {
			found = append(found, value)
		}
	}
	return found
}

// A participant, and the account of another partner, are erased while webhooks and mails about
// them wait for their next attempt.
func TestErasure_RewritesWhatWaitsToBeSent(t *testing.T) {
	t.Parallel()
	sys, mails := startWithMail(t, setup{})
	merchant := sys.newMerchant(t).inMode("live")
	names := []string{"Quentin Quokka", "Winona Wombat"}
	var partners []caller
	for _, name := range names {
		email := strings.ToLower(strings.Fields(name)[0]) + "@partner.example"
		partners = append(partners, sys.account("partner", email, sys.client().post(t, "/api/v1/auth/partner/register", object{
			"email": email, "password": password, "name": name,
		}).wantStatus(http.StatusCreated)).inMode("live"))
	}
	sys.awaitAllMails(t)
	sys.verify(t, append(partners, merchant)...)
	mails.Stop()
	sent := len(mails.Messages())
	h := merchant.startEndpoint(t, object{"subscriptions": []string{"*"}})
	sys.clock.stop() // so that no retry of a webhook becomes due
	h.respondWith(http.StatusInternalServerError)

	all := []queued{sys.newQueued(t, merchant, partners[0], names[0]), sys.newQueued(t, merchant, partners[1], names[1])}
	eventually(t, waitTimeout, "the first attempts have failed", func() error {
		const busy = `
			select (select count(*) from notification_arrivals)
				+ (select count(*) from river.river_job where kind = 'send_mail' and state in ('available', 'running'))`
		if n := sys.count(t, busy); n > 0 || len(h.requests()) == 0 {
			return fmt.Errorf("%d mails wait for their first attempt, and the receiver has got %d webhooks", n, len(h.requests()))
		}
		return nil
	})
	for _, q := range all {
		for _, value := range q.values[2:] { // webhooks contain no name and no address
			if n := sys.count(t, `select count(*) from events where strpos(convert_from(body, 'UTF8'), $1) > 0`, value); n == 0 {
				t.Errorf("no webhook contains %s", value)
			}
		}
		if n := sys.count(t, `select count(*) from mails m where status = 'pending' and strpos(m::text, $1) > 0`, q.values[0]); n == 0 {
			t.Errorf("no mail that waits contains %s", q.values[0])
		}
	}
	attempted := len(h.requests())

	merchant.post(t, all[0].participantPath()+"/erase", confirmed).wantStatus(http.StatusOK)
	partners[1].post(t, "/api/v1/partner/account/erase", confirmed).wantStatus(http.StatusOK)
	h.respondWith(http.StatusNoContent)
	sys.finishErasures(t)
	sys.clock.resume()
	mails.Start()
	sys.exec(t, `update river.river_job set state = 'available', scheduled_at = now() where kind = 'send_mail' and state in ('retryable', 'scheduled')`)
	sys.awaitAllMails(t)
	eventually(t, 2*waitTimeout, "all webhooks are delivered", func() error {
		if n := sys.count(t, `select count(*) from webhook_deliveries where status <> 'delivered'`); n > 0 {
			sys.clock.advance(time.Minute)
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})

	pseudonyms := 0
	for _, request := range h.requests()[attempted:] {
		request.verify(t, h.secret)
		if strings.Contains(string(request.body), `"erased-`) {
			pseudonyms++
		}
		for _, q := range all {
			if found := q.find(string(request.body)); len(found) > 0 {
				t.Errorf("after the erasure, a webhook contains %v: %s", found, request.body)
			}
		}
	}
	if pseudonyms == 0 {
		t.Errorf("no webhook contains a pseudonym: %s", h.requests()[attempted:])
	}
	for _, message := range mails.Messages()[sent:] {
		for _, q := range all {
			if q.partner.id == partners[0].id && message.To[0] == partners[0].email {
				continue // the account stays and gets its mails
			}
			if found := q.find(fmt.Sprint(message)); len(found) > 0 {
				t.Errorf("after the erasure, the mail %q to %v contains %v", message.Subject, message.To, found)
			}
		}
	}
}

// loseClicks writes three clicks with a code to the click stream. The database rejects the
// first click. The second click has no time. The bytes of the third click are damaged.
func (f fixture) loseClicks(t *testing.T, redisURL, code string) {
	t.Helper()
	client := connectRedis(t, clickstream.Endpoint{URL: redisURL})
	defer func() { _ = client.Close() }()
	id := func(text string) []byte { parsed := uuid.MustParse(text); return parsed[:] }
	now := f.sys.clock.now()
	first, second := affiliate.NewID[affiliate.ClickID](now), affiliate.NewID[affiliate.ClickID](now)
	batch, err := proto.Marshal(&edgev1.ClickBatch{Clicks: []*edgev1.Click{
		{
			Id: first.UUID[:], Mode: edgev1.Mode_MODE_TEST, WorkspaceId: id(f.merchant.workspace), ProgramId: id(f.program), ParticipantId: id(f.participant), LinkId: id(f.participant),
			ReferralCode: code, SubId: "nul\x00", ReceivedAtMs: now.UnixMilli(), AttributionWindowDays: 30,
		},
		{Id: second.UUID[:], Mode: edgev1.Mode_MODE_TEST, PublicKey: f.publicKey, ReferralCode: code},
	}})
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte("\x0a\xff\xff"+code), id(f.merchant.workspace)...)
	batch = protowire.AppendBytes(protowire.AppendTag(batch, 1, protowire.BytesType), damaged)
	if err := clickstream.NewWriter(client, 1).Append(t.Context(), 0, batch, 3); err != nil {
		t.Fatal(err)
	}
	eventually(t, waitTimeout, "three clicks are dead letters", func() error {
		streamed, err := client.XLen(t.Context(), clickstream.DeadLetterStream).Result()
		if err != nil {
			return err
		}
		// The table also contains clicks that came before their code was known.
		if stored := f.sys.count(t, `select count(*) from click_dead_letters`); streamed != 3 || stored < 3 {
			return fmt.Errorf("Redis has %d, and the database %d", streamed, stored)
		}
		return nil
	})
}
