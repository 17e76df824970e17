package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
)

// directoryLag is the maximum time between a change through the API and the moment when
// the collectors apply it. The collectors read changes from the edge directory, which is
// stored in Redis.
const directoryLag = time.Second

func testClicks(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", object{"attributionWindowDays": 7})
	url := sys.edge + "/v1/clicks"
	body := object{"referral_code": f.code}
	f.click(t)

	t.Run("the response has the click's id and attribution window", func(t *testing.T) {
		before := sys.clock.now()
		got := sys.click(t, f.publicKey, object{
			"referral_code": strings.ToUpper(f.code), "url": "https://shop.example/a?b=c", "referrer": "https://blog.example/post",
			"sub_id": "banner", "utm": object{"source": "blog", "medium": "link"}, "consent": "granted", "screen": "800x600", "language": "de",
			"occurred_at": "2026-01-02T03:04:05Z",
		}).wantStatus(http.StatusCreated).wantFields(object{
			"program_id": f.program, "mode": "test", "recorded": true, "deduplicated": false,
			"attribution_window_days": 7, "cookie_max_age": 7 * 24 * 3600, "attribution_model": "last_click", "discount": nil,
		})
		ends := got.instant("expires_at")
		if soonest, latest := before.Add(7*24*time.Hour-time.Millisecond), sys.clock.now().Add(7*24*time.Hour); ends.Before(soonest) || ends.After(latest) {
			t.Errorf("the attribution window ends at %v, want a time between %v and %v", ends, soonest, latest)
		}
		if id, valid := affiliate.ParseID[affiliate.ClickID](got.text("click_id")); !valid || id.Version() != 7 {
			t.Errorf("click_id %s is not a UUIDv7", got.text("click_id"))
		}
	})
	t.Run("the key may be in a header or in the body", func(t *testing.T) {
		sys.client().withHeader("X-Public-Key", f.publicKey).send(t, http.MethodPost, url, body).wantStatus(http.StatusCreated)
		sys.client().send(t, http.MethodPost, url, object{"referral_code": f.code, "public_key": f.publicKey}).wantStatus(http.StatusCreated)
	})
	t.Run("a page of any origin may send clicks with fetch or sendBeacon", func(t *testing.T) {
		beacon := sys.client().withHeader("Content-Type", "text/plain;charset=UTF-8").withHeader("Origin", "https://blog.example").
			send(t, http.MethodPost, url, object{"referral_code": f.code, "public_key": f.publicKey}).wantStatus(http.StatusCreated)
		if origin := beacon.header.Get("Access-Control-Allow-Origin"); origin != "*" {
			t.Errorf("Access-Control-Allow-Origin is %q, want *", origin)
		}
		preflight := sys.client().withHeader("Origin", "https://blog.example").withHeader("Access-Control-Request-Method", "POST").
			send(t, http.MethodOptions, url, nil).wantStatus(http.StatusNoContent)
		for header, want := range map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Max-Age": "86400",
			"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "Authorization",
		} {
			if got := preflight.header.Get(header); !strings.Contains(got, want) {
				t.Errorf("%s is %q, want a value that contains %q", header, got, want)
			}
		}
		if preflight.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Error("the preflight response has the header Access-Control-Allow-Credentials")
		}
	})
	t.Run("a click id that the client proposes is used, and identifies repeated requests", func(t *testing.T) {
		proposed := affiliate.NewID[affiliate.ClickID](sys.clock.now()).String()
		request := object{"referral_code": f.code, "click_id": proposed}
		sys.click(t, f.publicKey, request).wantStatus(http.StatusCreated).wantFields(object{"click_id": proposed})
		sys.click(t, f.publicKey, request).wantStatus(http.StatusOK).wantFields(object{"click_id": proposed, "deduplicated": true, "recorded": true})

		old := affiliate.NewID[affiliate.ClickID](sys.clock.now().Add(-6 * time.Minute)).String()
		if id := sys.click(t, f.publicKey, object{"referral_code": f.code, "click_id": old}).wantStatus(http.StatusCreated).text("click_id"); id == old {
			t.Error("a proposed id from six minutes ago was used")
		}
	})
	t.Run("rejected clicks", func(t *testing.T) { testRejectedClicks(t, sys, f) })
	t.Run("new keys and codes work as soon as the API has responded", func(t *testing.T) { testClicksWorkImmediately(t, sys) })
	t.Run("other changes reach the collector within a second", func(t *testing.T) { testClicksFollowChanges(t, sys) })
	t.Run("health checks, unknown paths and unsupported methods", func(t *testing.T) {
		allow := sys.client().send(t, http.MethodGet, url, nil).wantError(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED").header.Get("Allow")
		if allow != "OPTIONS, POST" {
			t.Errorf("Allow is %q, want OPTIONS, POST", allow)
		}
		sys.client().send(t, http.MethodPost, sys.edge+"/v1/other", nil).wantError(http.StatusNotFound, "NOT_FOUND")
		for _, path := range []string{"/v1/health", "/v1/health/ready"} {
			sys.client().send(t, http.MethodGet, sys.edge+path, nil).wantStatus(http.StatusOK).wantFields(object{"status": "ok"})
		}
	})
}

func testRejectedClicks(t *testing.T, sys *system, f fixture) {
	t.Helper()
	url := sys.edge + "/v1/clicks"
	body := object{"referral_code": f.code}
	bearer := func(text string) apiClient { return sys.client().withCredential(text) }
	badPublicKey := outcome{http.StatusUnauthorized, "INVALID_PUBLIC_KEY"}
	unsigned := forgeToken(t, f.merchant.access, withAlgorithmNone, jwt.UnsafeAllowNoneSignatureType)
	expired := forgeToken(t, f.merchant.access, func(_ *jwt.Token, c jwt.MapClaims) { c["exp"] = sys.clock.now().Add(-time.Minute).Unix() }, signingKey())
	for name, c := range map[string]struct {
		client apiClient
		want   outcome
	}{
		"no key":                          {sys.client(), badPublicKey},
		"garbage":                         {bearer("garbage"), badPublicKey},
		"a mistyped key":                  {bearer(mistyped(f.publicKey)), badPublicKey},
		"an unknown key":                  {bearer(account.NewKey(account.PublicKey, affiliate.ModeTest).Reveal()), badPublicKey},
		"a token with the algorithm none": {bearer(unsigned), badPublicKey},
		"an expired token":                {bearer(expired), badPublicKey},
		"a secret key":                    {bearer(f.secretKey), forbidden},
		"a merchant's token":              {bearer(f.merchant.access), forbidden},
		"a partner's token":               {bearer(f.partner.access), forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			c.client.send(t, http.MethodPost, url, body).wantOutcome(c.want)
			c.client.send(t, http.MethodPost, url, `{"broken`).wantOutcome(c.want)
		})
	}
	t.Run("an unknown code", func(t *testing.T) {
		sys.click(t, f.publicKey, object{"referral_code": "nobody"}).wantOutcome(notFound)
	})
	t.Run("an invalid body", func(t *testing.T) {
		for text, fields := range map[string][]string{
			`{`: {"body"}, `[]`: {"body"}, `{} {}`: {"body"}, ``: {"body"},
			"{\"referral_code\":\"\xff\"}": {"body"},
			`{}`:                           {"referral_code"},
			`{"referral_code":5}`:          {"referral_code"},
			`{"referral_code":"a","referral_code":"a"}`:                 {"referral_code"},
			`{"referral_code":"a\u0000"}`:                               {"referral_code"},
			`{"click_id":"1","consent":"maybe","utm":{"source":5}}`:     {"referral_code", "click_id", "consent", "utm.source"},
			`{"referral_code":"abc","url":"ftp://x","occurred_at":"x"}`: {"url", "occurred_at"},
		} {
			sys.click(t, f.publicKey, text).wantError(http.StatusBadRequest, "VALIDATION_ERROR", fields...)
		}
	})
	t.Run("unknown fields are ignored and listed in a header", func(t *testing.T) {
		got := sys.click(t, f.publicKey, object{"referral_code": f.code, "colour": "red", "utm": object{"sauce": 1}}).wantStatus(http.StatusCreated)
		if ignored := got.header.Get("Ignored-Fields"); ignored != "colour, utm.sauce" {
			t.Errorf("Ignored-Fields is %q, want colour and utm.sauce", ignored)
		}
		got = sys.click(t, f.publicKey, object{"referral_code": 5, "colour": "red"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "referral_code")
		if ignored := got.header.Get("Ignored-Fields"); ignored != "colour" {
			t.Errorf("Ignored-Fields of a rejected click is %q, want colour", ignored)
		}
		if ignored := sys.click(t, f.publicKey, body).wantStatus(http.StatusCreated).header.Values("Ignored-Fields"); ignored != nil {
			t.Errorf("Ignored-Fields of a request without unknown fields is %q, want no header", ignored)
		}
	})
	t.Run("a body that is too large, or has another content type or encoding", func(t *testing.T) {
		large := fmt.Sprintf(`{"referral_code":%q}`, strings.Repeat("a", 8<<10))
		sys.click(t, f.publicKey, large).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		key := bearer(f.publicKey)
		key.withHeader("Content-Type", "application/x-www-form-urlencoded").send(t, http.MethodPost, url, body).
			wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
		key.withHeader("Content-Encoding", "gzip").send(t, http.MethodPost, url, body).
			wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	})
}

// testClicksWorkImmediately checks API calls after which a new key, code or link is
// valid. As soon as such a call has returned, 200 concurrent requests with the key, code
// or link must all succeed. Before the call, requests with the code must fail.
func testClicksWorkImmediately(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", nil)
	f.click(t)
	wantAll := func(description string, request func() response, status int) {
		t.Helper()
		n := 200
		if status == http.StatusNotFound {
			// With 200 requests, a busy machine may not look up the code within 250 ms, and the
			// collector accepts codes that it cannot look up in time.
			n = 20
		}
		responses := concurrently(n, func(int) response { return request() })
		others := slices.DeleteFunc(responses, func(r response) bool { return r.status == status })
		if len(others) > 0 {
			t.Errorf("%s: %d of %d responses do not have the status %d: %v", description, len(others), n, status, countStatuses(others))
		}
	}
	clicks := func(key, code string) func() response {
		return func() response { return sys.click(t, key, object{"referral_code": code}) }
	}

	for range 3 {
		code, partner := uniqueName("now"), sys.newPartner(t).inMode("live")
		wantAll("before the application", clicks(f.publicKey, code), http.StatusNotFound)
		id := partner.post(t, f.applyPath(), object{"referralCode": code}).wantStatus(http.StatusCreated).text("id")
		wantAll("after the application", clicks(f.publicKey, code), http.StatusCreated)
		f.merchant.patch(t, f.programPath()+"/partners/"+id+"/approve", nil).wantStatus(http.StatusOK)
		wantAll("after the approval", clicks(f.publicKey, code), http.StatusCreated)
	}

	code := uniqueName("link")
	wantAll("before a link", clicks(f.publicKey, code), http.StatusNotFound)
	link := f.partner.post(t, "/api/v1/partner/links", object{"programId": f.program, "code": code, "destinationUrl": "https://shop.example/"}).wantStatus(http.StatusCreated)
	wantAll("after the creation of a link, its code", clicks(f.publicKey, code), http.StatusCreated)
	short := link.text("shortUrl")
	wantAll("after the creation of a link, its short URL", func() response { return sys.getShortLink(t, short) }, http.StatusFound)

	code, invited := uniqueName("guest"), sys.newPartner(t).inMode("live")
	invite := f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": invited.email, "referralCode": code}).wantStatus(http.StatusCreated)
	wantAll("before an invitation is accepted", clicks(f.publicKey, code), http.StatusNotFound)
	invited.post(t, "/api/v1/partner/invites/accept", object{"token": invite.text("token")}).wantStatus(http.StatusCreated)
	wantAll("after an invitation was accepted", clicks(f.publicKey, code), http.StatusCreated)

	code = uniqueName("renamed")
	wantAll("before a change of code", clicks(f.publicKey, code), http.StatusNotFound)
	f.merchant.patch(t, f.participantPath(), object{"referralCode": code}).wantStatus(http.StatusOK)
	wantAll("after a change of code", clicks(f.publicKey, code), http.StatusCreated)

	f.merchant.post(t, f.programPath()+"/pause", nil).wantStatus(http.StatusOK)
	eventually(t, directoryLag, "the collector rejects clicks of the paused programme", func() error {
		if got := clicks(f.publicKey, f.code)(); got.status != http.StatusNotFound {
			return fmt.Errorf("the collector returns %d", got.status)
		}
		return nil
	})
	f.merchant.post(t, f.programPath()+"/activate", nil).wantStatus(http.StatusOK)
	wantAll("after the activation", clicks(f.publicKey, f.code), http.StatusCreated)

	rolled := f.merchant.post(t, "/api/v1/api-keys/"+f.merchant.get(t, "/api/v1/api-keys").wantStatus(http.StatusOK).text("publicKeyId")+"/roll", object{"graceHours": 1})
	wantAll("after a key was rolled", clicks(rolled.wantStatus(http.StatusOK).text("publicKey"), f.code), http.StatusCreated)
	wantAll("after the registration of a merchant", clicks(sys.newMerchant(t).inMode("live").publicKey(t), "nobody"), http.StatusNotFound)
}

func testClicksFollowChanges(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", nil)
	wantSoon := func(description, key, code string, status int) {
		t.Helper()
		eventually(t, directoryLag, description, func() error {
			if got := sys.click(t, key, object{"referral_code": code}); got.status != status {
				return fmt.Errorf("the collector returns %d, want %d", got.status, status)
			}
			return nil
		})
	}
	wantSoon("clicks with a new key and a new code are accepted", f.publicKey, f.code, http.StatusCreated)

	code := uniqueName("later")
	sys.click(t, f.publicKey, object{"referral_code": code}).wantOutcome(notFound)
	sys.newPartner(t).inMode("live").post(t, f.applyPath(), object{"referralCode": code}).wantStatus(http.StatusCreated)
	wantSoon("clicks with a code that was unknown are accepted before the participant is approved", f.publicKey, code, http.StatusCreated)

	f.merchant.post(t, f.programPath()+"/pause", nil).wantStatus(http.StatusOK)
	wantSoon("clicks of a paused programme are rejected", f.publicKey, f.code, http.StatusNotFound)
	f.merchant.post(t, f.programPath()+"/activate", nil).wantStatus(http.StatusOK)
	wantSoon("clicks of an active programme are accepted", f.publicKey, f.code, http.StatusCreated)

	// Send two changes in quick succession. The second change must reach the collector as
	// fast as the first change. It must not wait for the end of an interval that began
	// with the first change.
	for range 5 {
		f.merchant.patch(t, f.programPath(), object{"description": uniqueName("description")}).wantStatus(http.StatusOK)
		f.merchant.post(t, f.programPath()+"/pause", nil).wantStatus(http.StatusOK)
		wantSoon("clicks are rejected after a pause that follows another change", f.publicKey, f.code, http.StatusNotFound)
		f.merchant.post(t, f.programPath()+"/activate", nil).wantStatus(http.StatusOK)
		wantSoon("clicks are accepted after an activation that follows the pause", f.publicKey, f.code, http.StatusCreated)
	}

	f.merchant.patch(t, f.programPath(), object{"attributionWindowDays": 3, "attributionModel": "first_click"}).wantStatus(http.StatusOK)
	eventually(t, directoryLag, "a click has the new attribution window and model", func() error {
		got := sys.click(t, f.publicKey, object{"referral_code": f.code}).wantStatus(http.StatusCreated)
		if got.number("attribution_window_days") != 3 || got.text("attribution_model") != "first_click" {
			return fmt.Errorf("the collector returns %s, want 3 days and first_click", got.body)
		}
		return nil
	})

	f.merchant.patch(t, f.participantPath()+"/suspend", nil).wantStatus(http.StatusOK)
	sys.click(t, f.publicKey, object{"referral_code": f.code}).wantStatus(http.StatusCreated)

	f.merchant.post(t, f.programPath()+"/archive", nil).wantStatus(http.StatusOK)
	wantSoon("clicks of an archived programme are rejected", f.publicKey, f.code, http.StatusNotFound)
}

// testIngestion checks that every acknowledged click is stored in Postgres exactly once.
func testIngestion(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	f.click(t)
	responses := concurrently(100, func(int) response {
		return sys.click(t, f.publicKey, object{"referral_code": f.code, "sub_id": "ingestion"})
	})
	repeated := affiliate.NewID[affiliate.ClickID](sys.clock.now()).String()
	for range 3 {
		responses = append(responses, sys.click(t, f.publicKey, object{"referral_code": f.code, "sub_id": "ingestion", "click_id": repeated}))
	}
	ids := map[string]bool{}
	for _, r := range responses {
		ids[r.text("click_id")] = true
	}
	if got := countStatuses(responses); got["201"] != 101 || got["200"] != 2 || len(ids) != 101 {
		t.Fatalf("the collector returned %v with %d ids, want 101 times 201, twice 200, and 101 ids", got, len(ids))
	}
	all := make([]string, 0, len(ids))
	for id := range ids {
		all = append(all, id)
	}
	stored := func() int { return sys.count(t, "select count(*) from clicks where id = any($1::uuid[])", all) }
	eventually(t, waitTimeout, "the clicks are stored", func() error {
		if n := stored(); n != len(ids) {
			return fmt.Errorf("%d of %d clicks are stored", n, len(ids))
		}
		return nil
	})
	if n := sys.count(t, "select count(*) from clicks where sub_id = 'ingestion'"); n != len(ids) {
		t.Errorf("%d clicks are stored, want %d as acknowledged", n, len(ids))
	}
	inDefault := sys.count(t, "select count(*) from clicks_default where sub_id = 'ingestion'")
	deadLetters := sys.count(t, "select count(*) from click_dead_letters where id = any($1::uuid[])", all)
	if inDefault != 0 || deadLetters != 0 {
		t.Errorf("%d clicks are in the default partition and %d are dead letters, want none", inDefault, deadLetters)
	}
}
