package collector

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// edge is a test server: a collector on a real Redis. The directory contains a workspace,
// a key for each mode and two codes.
type edge struct {
	t         testing.TB
	collector *Collector
	client    redis.UniversalClient
	writer    *directory.Writer
	url       string

	workspace affiliate.WorkspaceID
	program   affiliate.ProgramID
	key       affiliate.Key // test mode
	signing   ed25519.PrivateKey
	version   int64
}

func newEdge(t testing.TB, url string, change ...func(*Config)) *edge {
	t.Helper()
	return newEdgeWith(t, url, discardLogger(), newRegistry(), change...)
}

func newEdgeWith(t testing.TB, url string, log *slog.Logger, registry *prometheus.Registry, change ...func(*Config)) *edge {
	t.Helper()
	cfg := Config{
		Stream: clickstream.Endpoint{URL: url}, Cache: clickstream.Endpoint{URL: url}, AllowHTTP: true, Shards: 1, LimitTracking: 1000,
		HashKey:        bytes.Repeat([]byte("k"), 32),
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}
	for _, c := range change {
		c(&cfg)
	}
	c, err := Open(cfg, log, registry)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{
		t: t, collector: c, client: client, writer: directory.NewWriter(client), url: url,
		workspace: affiliate.NewID[affiliate.Workspace](time.Now()),
		program:   affiliate.NewID[affiliate.Program](time.Now()),
		key:       affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest),
	}
	_, e.signing, _ = ed25519.GenerateKey(nil)
	t.Cleanup(func() {
		if err := c.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		for _, closer := range c.closers {
			_ = closer.Close()
		}
		_ = client.Close()
	})
	e.fillDirectory()
	return e
}

// fillDirectory writes the directory as the core does, also after a loss of its data.
func (e *edge) fillDirectory() {
	e.t.Helper()
	e.version++
	ctx := context.Background()
	rebuild, err := e.writer.BeginRebuild(ctx)
	check(e.t, err)
	batch := e.writer.Batch()
	batch.PutPublicKey(e.version, e.key.Digest(), &edgev1.PublicKeyEntry{WorkspaceId: e.workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST})
	participant := affiliate.NewID[affiliate.Participant](time.Now())
	code := &edgev1.ReferralCodeEntry{
		ProgramId: e.program.UUID[:], ParticipantId: participant.UUID[:], Active: true,
		AttributionWindowDays: 30, AttributionModel: "last_click",
	}
	batch.PutReferralCode(e.version, e.scope(), "anna", code)
	paused := proto.Clone(code).(*edgev1.ReferralCodeEntry)
	paused.Active = false
	batch.PutReferralCode(e.version, e.scope(), "paused", paused)
	batch.PutSigningKeys(e.version, &edgev1.SigningKeys{Keys: []*edgev1.SigningKey{{Kid: "k1", Ed25519PublicKey: e.signing.Public().(ed25519.PublicKey)}}})
	check(e.t, batch.Flush(ctx))
	if done, err := e.writer.MarkComplete(ctx, rebuild); err != nil || !done {
		e.t.Fatal(done, err)
	}
}

func (e *edge) scope() affiliate.Scope {
	return affiliate.Scope{Workspace: e.workspace, Mode: affiliate.ModeTest}
}

func (e *edge) token(change func(*jwt.Token)) string {
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))})
	token.Header["kid"] = "k1"
	change(token)
	signed, err := token.SignedString(e.signing)
	check(e.t, err)
	return signed
}

type clickResponse struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

func (e *edge) send(method, path, body string, headers ...string) clickResponse {
	e.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	return e.serveRequest(httptest.NewRequest(method, path, reader), headers...)
}

// serveRequest sets the headers of the request, serves it and returns the response. The
// header "peer" sets the client's address instead.
func (e *edge) serveRequest(r *http.Request, headers ...string) clickResponse {
	e.t.Helper()
	r.RemoteAddr = "203.0.113.9:4711"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "peer" {
			r.RemoteAddr = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	e.collector.Handler().ServeHTTP(w, r)
	a := clickResponse{status: w.Code, header: w.Header(), text: w.Body.String()}
	if a.text != "" {
		if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
			e.t.Fatalf("%s %s: %v in %q", r.Method, r.URL.Path, err, a.text)
		}
	}
	return a
}

func (e *edge) click(body string, headers ...string) clickResponse {
	e.t.Helper()
	return e.send(http.MethodPost, "/v1/clicks", body, append([]string{"Authorization", "Bearer " + e.key.Reveal()}, headers...)...)
}

// storedClicks returns every click in the stream.
func (e *edge) storedClicks() []*edgev1.Click {
	e.t.Helper()
	messages, err := e.client.XRange(context.Background(), clickstream.Key(0), "-", "+").Result()
	check(e.t, err)
	var clicks []*edgev1.Click
	for _, message := range messages {
		var batch edgev1.ClickBatch
		check(e.t, proto.Unmarshal([]byte(message.Values["b"].(string)), &batch))
		if strconv.Itoa(len(batch.Clicks)) != message.Values["n"] {
			e.t.Errorf("an entry of %d clicks has the number %v", len(batch.Clicks), message.Values["n"])
		}
		clicks = append(clicks, batch.Clicks...)
	}
	return clicks
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClick_IsStoredBeforeResponse(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	before := time.Now().Add(-time.Millisecond)
	got := e.click(`{"referral_code":" ANNA ","url":"https://shop.example/p?email=a@b.c#x","referrer":"https://News.example:8443/a?b","sub_id":"s1",
		"utm":{"source":"mail","campaign":"spring"},"consent":"granted","screen":"1920x1080","language":"de-DE","occurred_at":"2026-01-02T03:04:05Z"}`,
		"User-Agent", "test agent")
	if got.status != 201 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	id, ok := affiliate.ParseID[affiliate.Click](got.body["click_id"].(string))
	minted, isV7 := id.Time()
	if !ok || !isV7 || minted.Before(before) || minted.After(time.Now()) {
		t.Errorf("click id %s of %s", id, minted)
	}
	expires, err := time.Parse("2006-01-02T15:04:05.000Z", got.body["expires_at"].(string))
	check(t, err)
	want := fmt.Sprintf(`{"click_id":"%s","program_id":"%s","mode":"test","recorded":true,"deduplicated":false,"expires_at":"%s","attribution_window_days":30,"cookie_max_age":2592000,"attribution_model":"last_click","discount":null}`+"\n",
		id, e.program, got.body["expires_at"])
	if got.text != want {
		t.Errorf("got  %s\nwant %s", got.text, want)
	}
	clicks := e.storedClicks()
	if len(clicks) != 1 {
		t.Fatalf("%d stored", len(clicks))
	}
	click := clicks[0]
	if !bytes.Equal(click.Id, id.UUID[:]) || !bytes.Equal(click.WorkspaceId, e.workspace.UUID[:]) || !bytes.Equal(click.ProgramId, e.program.UUID[:]) ||
		click.ReferralCode != "anna" || click.PublicKey != "" || click.LandingUrl != "https://shop.example/p" || click.ReferrerDomain != "news.example" ||
		click.SubId != "s1" || click.UtmSource != "mail" || click.UtmCampaign != "spring" || click.Consent != edgev1.Consent_CONSENT_GRANTED ||
		click.Screen != "1920x1080" || click.Language != "de-DE" || click.AttributionWindowDays != 30 || click.Mode != edgev1.Mode_MODE_TEST || click.IsBot ||
		click.OccurredAtMs != 1767323045000 || len(click.IpHash) != 16 || len(click.UaHash) != 16 || click.IpPrefix != "203.0.113.0/24" {
		t.Errorf("%v", click)
	}
	if got := time.UnixMilli(click.ReceivedAtMs).Add(30 * 24 * time.Hour); !got.Equal(expires) {
		t.Errorf("expires_at is %s, want time of receipt plus window %s", expires, got)
	}
}

func TestClick_WithoutConsentHasNoPersonalData(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	if got := e.click(`{"referral_code":"anna","consent":"denied","screen":"1920x1080","language":"de-DE"}`, "User-Agent", "x"); got.status != 201 {
		t.Fatal(got)
	}
	click := e.storedClicks()[0]
	if click.IpHash != nil || click.IpPrefix != "" || click.UaHash != nil || click.Screen != "" || click.Language != "" || click.Consent != edgev1.Consent_CONSENT_DENIED {
		t.Errorf("%v", click)
	}
}

func TestClick_ResponsesByRequest(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	const ok = `{"referral_code":"anna"}`
	bearer := func(s string) []string { return []string{"Authorization", "Bearer " + s} }
	publicKey := e.key.Reveal()
	secret := affiliate.NewKey(affiliate.SecretKey, affiliate.ModeTest).Reveal()
	stranger := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest).Reveal()
	genuine := e.token(func(*jwt.Token) {})
	none := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))})
	none.Header["kid"] = "k1"
	algNone, err := none.SignedString(jwt.UnsafeAllowNoneSignatureType)
	check(t, err)

	cases := []struct {
		name    string
		method  string
		path    string
		body    string
		headers []string
		status  int
		code    string
	}{
		{name: "key in Authorization", body: ok, headers: bearer(publicKey), status: 201},
		{name: "scheme in lower case", body: ok, headers: []string{"Authorization", "bearer " + publicKey}, status: 201},
		{name: "key in X-Public-Key", body: ok, headers: []string{"X-Public-Key", publicKey}, status: 201},
		{name: "key in the body", body: `{"referral_code":"anna","public_key":"` + publicKey + `"}`, status: 201},
		{name: "text/plain, as sendBeacon sends", body: `{"referral_code":"anna","public_key":"` + publicKey + `"}`, headers: []string{"Content-Type", "text/plain;charset=UTF-8"}, status: 201},
		{name: "JSON with a charset", body: ok, headers: append(bearer(publicKey), "Content-Type", "Application/JSON; charset=utf-8"), status: 201},

		{name: "no key", body: ok, status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "unknown key", body: ok, headers: bearer(stranger), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "mistyped key", body: ok, headers: bearer(publicKey[:len(publicKey)-1] + "!"), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "another scheme", body: ok, headers: []string{"Authorization", "Basic " + publicKey}, status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "the key in the header takes precedence", body: `{"referral_code":"anna","public_key":"` + publicKey + `"}`, headers: bearer(stranger), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "no key and no body", status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "mistyped secret key", body: ok, headers: bearer(secret[:len(secret)-1] + "!"), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "invalid token", body: ok, headers: bearer("a.b.c"), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "expired token", body: ok, headers: bearer(e.token(func(tk *jwt.Token) {
			tk.Claims = jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(-time.Minute))}
		})), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token without an expiry time", body: ok, headers: bearer(e.token(func(tk *jwt.Token) { tk.Claims = jwt.RegisteredClaims{} })), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token of an unknown kid", body: ok, headers: bearer(e.token(func(tk *jwt.Token) { tk.Header["kid"] = "k2" })), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token with its own key in the header", body: ok, headers: bearer(e.token(func(tk *jwt.Token) { tk.Header["jku"] = "https://x" })), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "alg none", body: ok, headers: bearer(algNone), status: 401, code: "INVALID_PUBLIC_KEY"},

		{name: "secret key", body: ok, headers: bearer(secret), status: 403, code: "FORBIDDEN"},
		{name: "access token", body: ok, headers: bearer(genuine), status: 403, code: "FORBIDDEN"},
		{name: "access token and a bad body", body: `{`, headers: bearer(genuine), status: 403, code: "FORBIDDEN"},
		{name: "unknown key and a bad body", body: `{`, headers: bearer(stranger), status: 401, code: "INVALID_PUBLIC_KEY"},

		{name: "empty body", headers: bearer(publicKey), status: 400, code: "VALIDATION_ERROR"},
		{name: "no code", body: `{}`, headers: bearer(publicKey), status: 400, code: "VALIDATION_ERROR"},
		{name: "unknown code", body: `{"referral_code":"nobody"}`, headers: bearer(publicKey), status: 404, code: "NOT_FOUND"},
		{name: "paused programme", body: `{"referral_code":"paused"}`, headers: bearer(publicKey), status: 404, code: "NOT_FOUND"},
		{name: "unknown code and bad field", body: `{"referral_code":"nobody","consent":1}`, headers: bearer(publicKey), status: 400, code: "VALIDATION_ERROR"},

		{name: "too large", body: `{"referral_code":"anna","url":"https://x/` + strings.Repeat("a", 8<<10) + `"}`, headers: bearer(publicKey), status: 413, code: "PAYLOAD_TOO_LARGE"},
		{name: "too large, without a key", body: strings.Repeat(" ", 9<<10), status: 413, code: "PAYLOAD_TOO_LARGE"},
		{name: "exactly 8 KiB", body: ok + strings.Repeat(" ", 8<<10-len(ok)), headers: bearer(publicKey), status: 201},
		{name: "XML", body: ok, headers: []string{"Content-Type", "application/xml"}, status: 415, code: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "gzip", body: ok, headers: append(bearer(publicKey), "Content-Encoding", "gzip"), status: 415, code: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "too large, with a secret key", body: strings.Repeat(" ", 9<<10), headers: bearer(secret), status: 403, code: "FORBIDDEN"},
		{name: "XML, with an unknown key", body: ok, headers: append(bearer(stranger), "Content-Type", "application/xml"), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "gzip, with an access token", body: ok, headers: append(bearer(genuine), "Content-Encoding", "gzip"), status: 403, code: "FORBIDDEN"},

		{name: "GET", method: "GET", status: 405, code: "METHOD_NOT_ALLOWED"},
		{name: "PUT", method: "PUT", body: ok, headers: bearer(publicKey), status: 405, code: "METHOD_NOT_ALLOWED"},
		{name: "preflight", method: "OPTIONS", status: 204},
		{name: "trailing slash", path: "/v1/clicks/", body: ok, headers: bearer(publicKey), status: 404, code: "NOT_FOUND"},
		{name: "unknown path", path: "/", method: "GET", status: 404, code: "NOT_FOUND"},

		{name: "health", path: "/v1/health", method: "GET", status: 200},
		{name: "health, HEAD", path: "/v1/health", method: "HEAD", status: 200},
		{name: "ready", path: "/v1/health/ready", method: "GET", status: 200},
		{name: "health, POST", path: "/v1/health", method: "POST", status: 405, code: "METHOD_NOT_ALLOWED"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			method, path := c.method, c.path
			if method == "" {
				method = "POST"
			}
			if path == "" {
				path = "/v1/clicks"
			}
			got := e.send(method, path, c.body, c.headers...)
			if got.status != c.status {
				t.Fatalf("%d %s, want %d", got.status, got.text, c.status)
			}
			if got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("X-Request-Id") == "" {
				t.Errorf("headers %v", got.header)
			}
			if c.code == "" {
				return
			}
			if got.body["code"] != c.code || got.body["statusCode"] != float64(c.status) || got.body["error"] != http.StatusText(c.status) || got.body["message"] == "" {
				t.Errorf("envelope %s", got.text)
			}
			details, given := got.body["details"].([]any)
			if given != (c.status == 400) {
				t.Errorf("only a 400 may have details: %s", got.text)
			}
			for _, one := range details {
				detail := one.(map[string]any)
				field, message := detail["field"].(string), detail["message"].(string)
				if message = strings.Replace(message, "The body ", "body ", 1); !strings.HasPrefix(message, field+" ") || !strings.HasSuffix(message, ".") {
					t.Errorf("%s is not a sentence about %s", message, field)
				}
			}
			if c.status == 405 && got.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
	preflight := e.send("OPTIONS", "/v1/clicks", "", "Origin", "https://shop.example", "Access-Control-Request-Method", "POST")
	if preflight.header.Get("Access-Control-Max-Age") != "86400" || !strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), "X-Public-Key") ||
		preflight.header.Get("Access-Control-Allow-Credentials") != "" || preflight.text != "" {
		t.Errorf("%+v", preflight)
	}
}

func TestPlainHTTP_IsRefused(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.AllowHTTP = false })
	const ok = `{"referral_code":"anna"}`
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"plain", nil, 403},
		{"an untrusted client claims HTTPS", []string{"X-Forwarded-Proto", "https"}, 403},
		{"the proxy reports HTTP", []string{"peer", "192.0.2.1:1", "X-Forwarded-Proto", "http"}, 403},
		{"the proxy reports HTTPS", []string{"peer", "192.0.2.1:1", "X-Forwarded-Proto", "https"}, 201},
	} {
		if got := e.click(ok, c.headers...); got.status != c.status || c.status == 403 && got.body["code"] != "HTTPS_REQUIRED" {
			t.Errorf("%s: %d %s", c.name, got.status, got.text)
		}
	}
	if got := e.send("GET", "/v1/health", ""); got.status != 403 {
		t.Errorf("health over plain HTTP: %d", got.status)
	}
}

func TestRequestID(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	if got := e.send("GET", "/nowhere", "", "X-Request-Id", "mine-1"); got.header.Get("X-Request-Id") != "mine-1" {
		t.Error(got.header)
	}
	minted := e.send("GET", "/nowhere", "", "X-Request-Id", "two words").header.Get("X-Request-Id")
	if id, ok := affiliate.ParseID[struct{}](minted); !ok || id.Version() != 7 {
		t.Errorf("minted %q", minted)
	}
}

func TestRateLimit_RefusesClickAfterThousandPerMinute(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	var mu sync.Mutex
	statuses := map[int]int{}
	var group sync.WaitGroup
	for worker := range 10 {
		group.Go(func() {
			for i := range 110 {
				// Every request with a valid key counts, whatever the response is.
				// Preflights do not count.
				body := [...]string{`{"referral_code":"anna"}`, `{"referral_code":"nobody"}`, `{`}[(worker+i)%3]
				e.send("OPTIONS", "/v1/clicks", "")
				got := e.click(body)
				mu.Lock()
				statuses[got.status]++
				mu.Unlock()
				if got.status != 429 {
					continue
				}
				if got.body["code"] != "RATE_LIMIT_EXCEEDED" || got.header.Get("Retry-After") == "" || got.header.Get("RateLimit-Policy") != `"tracking";q=1000;w=60` ||
					got.header.Get("RateLimit") != `"tracking";r=0;t=`+got.header.Get("Retry-After") {
					t.Errorf("%s %v", got.text, got.header)
				}
			}
		})
	}
	group.Wait()
	if statuses[429] != 100 || statuses[201]+statuses[404]+statuses[400] != 1000 || len(e.storedClicks()) != statuses[201] {
		t.Errorf("%v, %d stored", statuses, len(e.storedClicks()))
	}
	if got := e.send("POST", "/v1/clicks", "", "Authorization", "Bearer "+e.key.Reveal(), "Content-Encoding", "gzip"); got.status != 429 {
		t.Errorf("an unread body of an exhausted key: %d", got.status)
	}
	// The limit of another key is not affected.
	if got := e.send("POST", "/v1/clicks", `{}`); got.status != 401 {
		t.Errorf("%d", got.status)
	}
}

// Every request with a valid key counts, also one with an incomplete body. The response
// to each counted request has the RateLimit headers.
func TestRateLimit_CountsIncompleteRequests(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 5 })
	first := e.click(plainClick)
	if first.status != 201 || first.header.Get("RateLimit-Policy") != `"tracking";q=5;w=60` || !strings.HasPrefix(first.header.Get("RateLimit"), `"tracking";r=4;t=`) {
		t.Errorf("%d, %q, %q", first.status, first.header.Get("RateLimit-Policy"), first.header.Get("RateLimit"))
	}
	for range 4 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/v1/clicks", iotest.ErrReader(io.ErrUnexpectedEOF))
		r.Header.Set("X-Public-Key", e.key.Reveal())
		e.collector.Handler().ServeHTTP(w, r)
		if w.Code != 400 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if got := e.click(plainClick); got.status != 429 {
		t.Errorf("the sixth request: %d", got.status)
	}
}

func TestRateLimit_UnknownKeysCountPerAddress(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 5 })
	junk := func(i int, addr string) int {
		stranger := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest).Reveal()
		return e.send("POST", "/v1/clicks", `{}`, "X-Public-Key", stranger, "peer", "192.0.2.1:1", "X-Forwarded-For", addr).status
	}
	for i := range 5 {
		if got := junk(i, fmt.Sprintf("2001:db8::%d", i)); got != 401 {
			t.Fatal(got)
		}
	}
	if got := junk(5, "2001:db8::ffff"); got != 429 {
		t.Errorf("the same /64: %d", got)
	}
	if got := junk(5, "2001:db8:0:1::"); got != 401 {
		t.Errorf("another /64: %d", got)
	}
	if got := e.click(`{"referral_code":"anna"}`, "peer", "192.0.2.1:1", "X-Forwarded-For", "2001:db8::1"); got.status != 201 {
		t.Errorf("a valid key from that address: %d", got.status)
	}
}
