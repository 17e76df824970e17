package collector

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// putKey writes the directory entry of the public key. change can set further fields.
func (e *edge) putKey(change func(*edgev1.PublicKeyEntry)) {
	e.t.Helper()
	entry := &edgev1.PublicKeyEntry{WorkspaceId: e.workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST}
	change(entry)
	e.version++
	check(e.t, put(e.t.Context(), e.writer, func(b *directory.Batch) { b.PutPublicKey(e.version, e.key.Digest(), entry) }))
}

func TestOrigin_AllowedAndForeign(t *testing.T) {
	list := []string{"https://shop.example", "https://*.shop.example"}
	for _, c := range []struct {
		name    string
		allowed []string // the allowed origins of the workspace
		enforce bool     // whether clicks of other origins are refused
		origin  string   // the header Origin
		foreign bool     // whether the origin counts as foreign
	}{
		{"no allowed origins", nil, true, "https://evil.example", false},
		{"no origin: a server", list, true, "", false},
		{"the allowed origin", list, true, "https://shop.example", false},
		{"a subdomain", list, true, "https://a.b.shop.example", false},
		{"another origin", list, true, "https://evil.example", true},
		{"another scheme", list, true, "http://shop.example", true},
		{"a lookalike", list, true, "https://evilshop.example", true},
		{"the origin null", list, true, "null", true},
		{"not enforced: the allowed origin", list, false, "https://shop.example", false},
		{"not enforced: another origin", list, false, "https://evil.example", true},
		{"not enforced: the origin null", list, false, "null", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEdge(t, redistest.New(t))
			e.putKey(func(entry *edgev1.PublicKeyEntry) { entry.AllowedOrigins, entry.EnforceOrigins = c.allowed, c.enforce })
			var headers []string
			if c.origin != "" {
				headers = []string{"Origin", c.origin}
			}
			got := e.click(plainClick, headers...)
			if c.foreign && c.enforce {
				if got.status != 403 || got.body["code"] != "ORIGIN_NOT_ALLOWED" || got.header.Get("Access-Control-Allow-Origin") != "*" || len(e.storedClicks()) != 0 {
					t.Errorf("status %d with %d clicks stored, want 403 ORIGIN_NOT_ALLOWED with CORS headers and none: %s", got.status, len(e.storedClicks()), got.text)
				}
				return
			}
			if got.status != 201 {
				t.Fatalf("status %d, want 201: %s", got.status, got.text)
			}
			if click := e.storedClicks()[0]; click.ForeignOrigin != c.foreign {
				t.Errorf("the stored click has foreign_origin %t, want %t", click.ForeignOrigin, c.foreign)
			}
		})
	}
}

func TestOrigin_StrictPolicyNeedsAnAllowedOrigin(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	e.putKey(func(entry *edgev1.PublicKeyEntry) {
		entry.AllowedOrigins, entry.EnforceOrigins, entry.RequireOrigin = []string{"https://shop.example"}, true, true
	})
	for origin, message := range map[string]string{
		"":                     "Clicks without the header Origin are not accepted.",
		"null":                 "Clicks of this origin are not accepted.",
		"https://evil.example": "Clicks of this origin are not accepted.",
		"https://shop.example": "",
	} {
		var headers []string
		if origin != "" {
			headers = []string{"Origin", origin}
		}
		got := e.click(plainClick, headers...)
		if message == "" {
			if got.status != 201 {
				t.Errorf("the origin %q: status %d, want 201: %s", origin, got.status, got.text)
			}
			continue
		}
		if got.status != 403 || got.body["code"] != "ORIGIN_NOT_ALLOWED" || got.body["message"] != message {
			t.Errorf("the origin %q: status %d, want 403 ORIGIN_NOT_ALLOWED with the message %q: %s", origin, got.status, message, got.text)
		}
	}
	if clicks := len(e.storedClicks()); clicks != 1 {
		t.Errorf("%d clicks are stored, want 1", clicks)
	}
}

// The key, the rate limit and the kind of the key are checked before the origin. The body
// and the code are checked after it.
func TestOrigin_OrderOfChecks(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 3 })
	e.putKey(func(entry *edgev1.PublicKeyEntry) {
		entry.AllowedOrigins, entry.EnforceOrigins = []string{"https://shop.example"}, true
	})
	evil := []string{"Origin", "https://evil.example"}
	secret := account.NewKey(account.SecretKey, affiliate.ModeTest).Reveal()
	for _, c := range []struct {
		name, key, body string
		status          int
		code            string
	}{
		{"a bad body", e.key.Reveal(), `{`, 403, "ORIGIN_NOT_ALLOWED"},
		{"an unknown code", e.key.Reveal(), `{"referral_code":"nobody"}`, 403, "ORIGIN_NOT_ALLOWED"},
		{"a key in an invalid body", "", `{"public_key":"` + e.key.Reveal() + `","x":1}`, 403, "ORIGIN_NOT_ALLOWED"},
		{"over the limit", e.key.Reveal(), plainClick, 429, "RATE_LIMIT_EXCEEDED"},
		{"a secret key", secret, plainClick, 403, "FORBIDDEN"},
		{"no key", "", plainClick, 401, "INVALID_PUBLIC_KEY"},
	} {
		headers := evil
		if c.key != "" {
			headers = append([]string{"X-Public-Key", c.key}, evil...)
		}
		if got := e.send("POST", "/v1/clicks", c.body, headers...); got.status != c.status || got.body["code"] != c.code {
			t.Errorf("%s: status %d, want %d %s: %s", c.name, got.status, c.status, c.code, got.text)
		}
	}
	if got := e.send("OPTIONS", "/v1/clicks", "", evil...); got.status != 204 {
		t.Errorf("a preflight: status %d, want 204", got.status)
	}
}

// While the directory cannot be read, the allowed origins are not known.
func TestOrigin_IsNotCheckedWithoutDirectory(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	check(t, e.client.FlushDB(t.Context()).Err())
	if got := e.click(plainClick, "Origin", "https://evil.example"); got.status != 201 || e.storedClicks()[0].ForeignOrigin {
		t.Errorf("status %d, want 201 and a click that is not marked as foreign: %s", got.status, got.text)
	}
}

// A rolled key, which was replaced by a new key, is valid until its expiry time. At that
// time it becomes invalid, even if its directory entry is cached.
func TestRolledKey_EndsAtExpiryTime(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	end := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	e.putKey(func(entry *edgev1.PublicKeyEntry) { entry.ExpiresAtMs = end.UnixMilli() })
	clock := end.Add(-time.Nanosecond)
	e.collector.deps.Now = func() time.Time { return clock }
	if got := e.click(plainClick); got.status != 201 {
		t.Fatalf("before the expiry time: status %d, want 201: %s", got.status, got.text)
	}
	clock = end
	if got := e.click(plainClick); got.status != 401 || got.body["code"] != "INVALID_PUBLIC_KEY" {
		t.Errorf("at the expiry time: status %d, want 401 INVALID_PUBLIC_KEY: %s", got.status, got.text)
	}
}

func TestResponse_ContainsDiscount(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	now := time.Now().Truncate(time.Millisecond)
	e.collector.deps.Now = func() time.Time { return now }
	for name, c := range map[string]struct {
		discount *edgev1.Discount
		want     string
	}{
		"none":         {nil, `null`},
		"12.5 percent": {&edgev1.Discount{PromoCode: "anna10", Type: "percentage", Value: 1250}, `{"promo_code":"anna10","type":"percentage","value":12.5}`},
		"10 percent":   {&edgev1.Discount{PromoCode: "anna10", Type: "percentage", Value: 1000}, `{"promo_code":"anna10","type":"percentage","value":10}`},
		"0.05 percent": {&edgev1.Discount{PromoCode: "anna10", Type: "percentage", Value: 5}, `{"promo_code":"anna10","type":"percentage","value":0.05}`},
		"5 euros":      {&edgev1.Discount{PromoCode: "five", Type: "fixed", Value: 500, Currency: "EUR"}, `{"promo_code":"five","type":"fixed","value":500,"currency":"EUR"}`},
		"escapes":      {&edgev1.Discount{PromoCode: "a\"\\\nü", Type: "fixed", Value: 1, Currency: "EUR"}, `{"promo_code":"a\"\\\nü","type":"fixed","value":1,"currency":"EUR"}`},
		"expires now": {
			&edgev1.Discount{PromoCode: "a", Type: "percentage", Value: 100, ExpiresAtMs: now.UnixMilli()},
			`{"promo_code":"a","type":"percentage","value":1}`,
		},
		"expired": {&edgev1.Discount{PromoCode: "a", Type: "percentage", Value: 100, ExpiresAtMs: now.UnixMilli() - 1}, `null`},
	} {
		code := strings.ReplaceAll(name, " ", "-")
		e.version++
		check(t, put(t.Context(), e.writer, func(b *directory.Batch) {
			b.PutReferralCode(e.version, e.scope(), code, &edgev1.ReferralCodeEntry{
				ProgramId: e.program.UUID[:], ParticipantId: e.program.UUID[:], Active: true, AttributionWindowDays: 7, AttributionModel: "first_click", Discount: c.discount,
			})
		}))
		got := e.click(`{"referral_code":"` + code + `"}`)
		if got.status != 201 || !strings.HasSuffix(got.text, `,"attribution_model":"first_click","discount":`+c.want+"}\n") {
			t.Errorf("%s: status %d, want 201 with the discount %s: %s", name, got.status, c.want, got.text)
		}
	}
}
