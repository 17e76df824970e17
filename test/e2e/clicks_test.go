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
)

// directoryLag is the maximum time until a change reaches the edge directory.
const directoryLag = time.Second

func walkClicks(t *testing.T, sys *system) {
	t.Helper()
	w := sys.world(t, "test", object{"attributionWindowDays": 7})
	url := sys.edge + "/v1/clicks"
	body := object{"referral_code": w.code}
	w.click(t)

	t.Run("the response has the click's id and attribution window", func(t *testing.T) {
		before := sys.clock.now()
		got := sys.click(t, w.publicKey, object{
			"referral_code": strings.ToUpper(w.code), "url": "https://shop.example/a?b=c", "referrer": "https://blog.example/post",
			"sub_id": "banner", "utm": object{"source": "blog", "medium": "link"}, "consent": "granted", "screen": "800x600", "language": "de",
			"occurred_at": "2026-01-02T03:04:05Z",
		}).want(http.StatusCreated).wantFields(object{
			"program_id": w.program, "mode": "test", "recorded": true, "deduplicated": false,
			"attribution_window_days": 7, "cookie_max_age": 7 * 24 * 3600, "attribution_model": "last_click", "discount": nil,
		})
		ends := got.instant("expires_at")
		if soonest, latest := before.Add(7*24*time.Hour-time.Millisecond), sys.clock.now().Add(7*24*time.Hour); ends.Before(soonest) || ends.After(latest) {
			t.Errorf("the window ends at %v, not between %v and %v", ends, soonest, latest)
		}
		if id, fine := affiliate.ParseID[affiliate.Click](got.text("click_id")); !fine || id.Version() != 7 {
			t.Errorf("click_id %s is not a UUIDv7", got.text("click_id"))
		}
	})
	t.Run("the key may be in a header or in the body", func(t *testing.T) {
		sys.caller().with("X-Public-Key", w.publicKey).send(t, http.MethodPost, url, body).want(http.StatusCreated)
		sys.caller().send(t, http.MethodPost, url, object{"referral_code": w.code, "public_key": w.publicKey}).want(http.StatusCreated)
	})
	t.Run("a page of any origin may send it, also as a beacon", func(t *testing.T) {
		beacon := sys.caller().with("Content-Type", "text/plain;charset=UTF-8").with("Origin", "https://blog.example").
			send(t, http.MethodPost, url, object{"referral_code": w.code, "public_key": w.publicKey}).want(http.StatusCreated)
		if origin := beacon.header.Get("Access-Control-Allow-Origin"); origin != "*" {
			t.Errorf("Access-Control-Allow-Origin is %q", origin)
		}
		preflight := sys.caller().with("Origin", "https://blog.example").with("Access-Control-Request-Method", "POST").
			send(t, http.MethodOptions, url, nil).want(http.StatusNoContent)
		for header, want := range map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Max-Age": "86400",
			"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "Authorization",
		} {
			if got := preflight.header.Get(header); !strings.Contains(got, want) {
				t.Errorf("%s is %q, want %q in it", header, got, want)
			}
		}
		if preflight.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Error("credentials are allowed")
		}
	})
	t.Run("a proposed id is used, and a repeat is the same click", func(t *testing.T) {
		proposed := affiliate.NewID[affiliate.Click](sys.clock.now()).String()
		with := object{"referral_code": w.code, "click_id": proposed}
		sys.click(t, w.publicKey, with).want(http.StatusCreated).wantFields(object{"click_id": proposed})
		sys.click(t, w.publicKey, with).want(http.StatusOK).wantFields(object{"click_id": proposed, "deduplicated": true, "recorded": true})

		old := affiliate.NewID[affiliate.Click](sys.clock.now().Add(-6 * time.Minute)).String()
		if id := sys.click(t, w.publicKey, object{"referral_code": w.code, "click_id": old}).want(http.StatusCreated).text("click_id"); id == old {
			t.Error("a proposed id from six minutes ago was used")
		}
	})
	t.Run("rejected clicks", func(t *testing.T) { rejectedClicks(t, sys, w) })
	t.Run("new keys and codes work when the call returns", func(t *testing.T) { clicksWorkImmediately(t, sys) })
	t.Run("other changes reach the edge within a second", func(t *testing.T) { clicksFollowChanges(t, sys) })
	t.Run("other paths and methods", func(t *testing.T) {
		allow := sys.caller().send(t, http.MethodGet, url, nil).wantError(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED").header.Get("Allow")
		if allow != "OPTIONS, POST" {
			t.Errorf("Allow is %q", allow)
		}
		sys.caller().send(t, http.MethodPost, sys.edge+"/v1/other", nil).wantError(http.StatusNotFound, "NOT_FOUND")
		for _, path := range []string{"/v1/health", "/v1/health/ready"} {
			sys.caller().send(t, http.MethodGet, sys.edge+path, nil).want(http.StatusOK).wantFields(object{"status": "ok"})
		}
	})
}

func rejectedClicks(t *testing.T, sys *system, w world) {
	t.Helper()
	url := sys.edge + "/v1/clicks"
	body := object{"referral_code": w.code}
	bearer := func(text string) caller { return sys.caller().as(text) }
	badKey := outcome{http.StatusUnauthorized, "INVALID_PUBLIC_KEY"}
	none := forgeToken(t, w.merchant.access, asNone, jwt.UnsafeAllowNoneSignatureType)
	expired := forgeToken(t, w.merchant.access, func(_ *jwt.Token, c jwt.MapClaims) { c["exp"] = sys.clock.now().Add(-time.Minute).Unix() }, signingKey())
	for name, c := range map[string]struct {
		from caller
		want outcome
	}{
		"no key":             {sys.caller(), badKey},
		"garbage":            {bearer("garbage"), badKey},
		"a mistyped key":     {bearer(mistyped(w.publicKey)), badKey},
		"an unknown key":     {bearer(affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest).Reveal()), badKey},
		"alg none":           {bearer(none), badKey},
		"an expired token":   {bearer(expired), badKey},
		"a secret key":       {bearer(w.secretKey), forbidden},
		"a merchant's token": {bearer(w.merchant.access), forbidden},
		"a partner's token":  {bearer(w.partner.access), forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			c.from.send(t, http.MethodPost, url, body).wantOutcome(c.want)
			c.from.send(t, http.MethodPost, url, `{"broken`).wantOutcome(c.want)
		})
	}
	t.Run("an unknown code", func(t *testing.T) {
		sys.click(t, w.publicKey, object{"referral_code": "nobody"}).wantOutcome(notFound)
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
			sys.click(t, w.publicKey, text).wantError(http.StatusBadRequest, "VALIDATION_ERROR", fields...)
		}
	})
	t.Run("unknown fields are ignored and listed in a header", func(t *testing.T) {
		got := sys.click(t, w.publicKey, object{"referral_code": w.code, "colour": "red", "utm": object{"sauce": 1}}).want(http.StatusCreated)
		if named := got.header.Get("Ignored-Fields"); named != "colour, utm.sauce" {
			t.Errorf("Ignored-Fields is %q", named)
		}
		got = sys.click(t, w.publicKey, object{"referral_code": 5, "colour": "red"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "referral_code")
		if named := got.header.Get("Ignored-Fields"); named != "colour" {
			t.Errorf("Ignored-Fields of a rejected click is %q", named)
		}
		if named := sys.click(t, w.publicKey, body).want(http.StatusCreated).header.Values("Ignored-Fields"); named != nil {
			t.Errorf("Ignored-Fields without unknown fields is %q", named)
		}
	})
	t.Run("too large, wrong type, encoded", func(t *testing.T) {
		large := fmt.Sprintf(`{"referral_code":%q}`, strings.Repeat("a", 8<<10))
		sys.click(t, w.publicKey, large).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		key := bearer(w.publicKey)
		key.with("Content-Type", "application/x-www-form-urlencoded").send(t, http.MethodPost, url, body).
			wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
		key.with("Content-Encoding", "gzip").send(t, http.MethodPost, url, body).
			wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	})
}

// clicksWorkImmediately checks calls that make a key, code or link valid. When such a
// call has returned, 200 concurrent requests must all succeed. Where a click can be
// sent before the call, it must fail.
func clicksWorkImmediately(t *testing.T, sys *system) {
	t.Helper()
	w := sys.world(t, "live", nil)
	w.click(t)
	all := func(what string, request func() response, status int) {
		t.Helper()
		responses := concurrently(200, func(int) response { return request() })
		refused := slices.DeleteFunc(responses, func(a response) bool { return a.status == status })
		if len(refused) > 0 {
			t.Errorf("%s: %d of 200 do not have the status %d: %v", what, len(refused), status, countStatuses(refused))
		}
	}
	clicks := func(key, code string) func() response {
		return func() response { return sys.click(t, key, object{"referral_code": code}) }
	}

	for range 3 {
		code, partner := uniqueName("now"), sys.partner(t).in("live")
		all("before apply", clicks(w.publicKey, code), http.StatusNotFound)
		id := partner.post(t, w.applyPath(), object{"referralCode": code}).want(http.StatusCreated).text("id")
		all("apply", clicks(w.publicKey, code), http.StatusCreated)
		w.merchant.patch(t, w.programPath()+"/partners/"+id+"/approve", nil).want(http.StatusOK)
		all("approve", clicks(w.publicKey, code), http.StatusCreated)
	}

	code := uniqueName("link")
	all("before a link", clicks(w.publicKey, code), http.StatusNotFound)
	link := w.partner.post(t, "/api/v1/partner/links", object{"programId": w.program, "code": code, "destinationUrl": "https://shop.example/"}).want(http.StatusCreated)
	all("a link's code", clicks(w.publicKey, code), http.StatusCreated)
	short := link.text("shortUrl")
	all("a link", func() response { return sys.follow(t, short) }, http.StatusFound)

	code, guest := uniqueName("guest"), sys.partner(t).in("live")
	invite := w.merchant.post(t, w.programPath()+"/partners/invite", object{"email": guest.email, "referralCode": code}).want(http.StatusCreated)
	all("before an invitation is accepted", clicks(w.publicKey, code), http.StatusNotFound)
	guest.post(t, "/api/v1/partner/invites/accept", object{"token": invite.text("token")}).want(http.StatusCreated)
	all("an accepted invitation", clicks(w.publicKey, code), http.StatusCreated)

	code = uniqueName("renamed")
	all("before a change of code", clicks(w.publicKey, code), http.StatusNotFound)
	w.merchant.patch(t, w.participantPath(), object{"referralCode": code}).want(http.StatusOK)
	all("a changed code", clicks(w.publicKey, code), http.StatusCreated)

	w.merchant.post(t, w.programPath()+"/pause", nil).want(http.StatusOK)
	eventually(t, directoryLag, "a pause", func() error {
		if got := clicks(w.publicKey, w.code)(); got.status != http.StatusNotFound {
			return fmt.Errorf("the collector returns %d", got.status)
		}
		return nil
	})
	w.merchant.post(t, w.programPath()+"/activate", nil).want(http.StatusOK)
	all("activate", clicks(w.publicKey, w.code), http.StatusCreated)

	rolled := w.merchant.post(t, "/api/v1/api-keys/"+w.merchant.get(t, "/api/v1/api-keys").want(http.StatusOK).text("publicKeyId")+"/roll", object{"graceHours": 1})
	all("a rolled key", clicks(rolled.want(http.StatusOK).text("publicKey"), w.code), http.StatusCreated)
	all("a new workspace's key", clicks(sys.merchant(t).in("live").publicKey(t), "nobody"), http.StatusNotFound)
}

func clicksFollowChanges(t *testing.T, sys *system) {
	t.Helper()
	w := sys.world(t, "live", nil)
	within := func(what, key, code string, status int) {
		t.Helper()
		eventually(t, directoryLag, what, func() error {
			if got := sys.click(t, key, object{"referral_code": code}); got.status != status {
				return fmt.Errorf("the collector returns %d, want %d", got.status, status)
			}
			return nil
		})
	}
	within("a new workspace's key and a new code", w.publicKey, w.code, http.StatusCreated)

	code := uniqueName("later")
	sys.click(t, w.publicKey, object{"referral_code": code}).wantOutcome(notFound)
	sys.partner(t).in("live").post(t, w.applyPath(), object{"referralCode": code}).want(http.StatusCreated)
	within("a code that was unknown, before its approval", w.publicKey, code, http.StatusCreated)

	w.merchant.post(t, w.programPath()+"/pause", nil).want(http.StatusOK)
	within("a paused programme", w.publicKey, w.code, http.StatusNotFound)
	w.merchant.post(t, w.programPath()+"/activate", nil).want(http.StatusOK)
	within("an active programme", w.publicKey, w.code, http.StatusCreated)

	// The second of two changes in a row must not wait for a fixed interval after the
	// first.
	for range 5 {
		w.merchant.patch(t, w.programPath(), object{"description": uniqueName("words")}).want(http.StatusOK)
		w.merchant.post(t, w.programPath()+"/pause", nil).want(http.StatusOK)
		within("a pause right after another change", w.publicKey, w.code, http.StatusNotFound)
		w.merchant.post(t, w.programPath()+"/activate", nil).want(http.StatusOK)
		within("an activation right after it", w.publicKey, w.code, http.StatusCreated)
	}

	w.merchant.patch(t, w.programPath(), object{"attributionWindowDays": 3, "attributionModel": "first_click"}).want(http.StatusOK)
	eventually(t, directoryLag, "another window", func() error {
		got := sys.click(t, w.publicKey, object{"referral_code": w.code}).want(http.StatusCreated)
		if got.number("attribution_window_days") != 3 || got.text("attribution_model") != "first_click" {
			return fmt.Errorf("the collector returns %s", got.body)
		}
		return nil
	})

	w.merchant.patch(t, w.participantPath()+"/suspend", nil).want(http.StatusOK)
	sys.click(t, w.publicKey, object{"referral_code": w.code}).want(http.StatusCreated)

	w.merchant.post(t, w.programPath()+"/archive", nil).want(http.StatusOK)
	within("an archived programme", w.publicKey, w.code, http.StatusNotFound)
}

// walkIngestion checks that every acknowledged click is stored in Postgres exactly once.
func walkIngestion(t *testing.T, sys *system) {
	t.Helper()
	w := sys.world(t, "test", nil)
	w.click(t)
	responses := concurrently(100, func(int) response {
		return sys.click(t, w.publicKey, object{"referral_code": w.code, "sub_id": "ingestion"})
	})
	again := affiliate.NewID[affiliate.Click](sys.clock.now()).String()
	for range 3 {
		responses = append(responses, sys.click(t, w.publicKey, object{"referral_code": w.code, "sub_id": "ingestion", "click_id": again}))
	}
	ids := map[string]bool{}
	for _, a := range responses {
		ids[a.text("click_id")] = true
	}
	if got := countStatuses(responses); got["201"] != 101 || got["200"] != 2 || len(ids) != 101 {
		t.Fatalf("the collector returned %v with %d ids", got, len(ids))
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
		t.Errorf("%d clicks were acknowledged and %d are stored", len(ids), n)
	}
	stray := sys.count(t, "select count(*) from clicks_default where sub_id = 'ingestion'")
	dead := sys.count(t, "select count(*) from click_dead_letters where id = any($1::uuid[])", all)
	if stray != 0 || dead != 0 {
		t.Errorf("%d clicks are in the default partition, %d are dead letters", stray, dead)
	}
}
