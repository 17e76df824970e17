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
	"github.com/tributary-hq/tributary/affiliate/account"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/ratelimit"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// edge is a collector with a real Redis. Its directory contains one workspace with one
// public key in test mode, the active referral code anna and the inactive code paused.
type edge struct {
	t         testing.TB
	collector *Collector
	client    redis.UniversalClient
	writer    *directory.Writer
	url       string

	workspace  affiliate.WorkspaceID
	program    affiliate.ProgramID
	key        account.Key // the public key
	signingKey ed25519.PrivateKey
	version    int64
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
	check(t, err)
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url})
	check(t, err)
	e := &edge{
		t: t, collector: c, client: client, writer: directory.NewWriter(client), url: url,
		workspace: affiliate.NewID[affiliate.WorkspaceID](time.Now()),
		program:   affiliate.NewID[affiliate.ProgramID](time.Now()),
		key:       account.NewKey(account.PublicKey, affiliate.ModeTest),
	}
	_, e.signingKey, _ = ed25519.GenerateKey(nil)
	t.Cleanup(func() {
		if err := c.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		for _, closer := range c.closers {
			_ = closer.Close()
		}
		_ = client.Close()
	})
	e.fillDirectory()
	return e
}

// fillDirectory writes the directory as the core does at its start and after Redis has
// lost its data.
func (e *edge) fillDirectory() {
	e.t.Helper()
	e.version++
	ctx := context.Background()
	rebuild, err := e.writer.BeginRebuild(ctx)
	check(e.t, err)
	batch := e.writer.Batch()
	batch.PutPublicKey(e.version, e.key.Digest(), &edgev1.PublicKeyEntry{WorkspaceId: e.workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST})
	participant := affiliate.NewID[affiliate.ParticipantID](time.Now())
	code := &edgev1.ReferralCodeEntry{
		ProgramId: e.program.UUID[:], ParticipantId: participant.UUID[:], Active: true,
		AttributionWindowDays: 30, AttributionModel: "last_click",
	}
	batch.PutReferralCode(e.version, e.scope(), "anna", code)
	paused := proto.Clone(code).(*edgev1.ReferralCodeEntry)
	paused.Active = false
	batch.PutReferralCode(e.version, e.scope(), "paused", paused)
	batch.PutSigningKeys(e.version, &edgev1.SigningKeys{Keys: []*edgev1.SigningKey{{Kid: "k1", Ed25519PublicKey: e.signingKey.Public().(ed25519.PublicKey)}}})
	check(e.t, batch.Flush(ctx))
	if done, err := e.writer.MarkComplete(ctx, rebuild); err != nil || !done {
		e.t.Fatalf("MarkComplete = %v, %v; want true", done, err)
	}
}

func (e *edge) scope() affiliate.Scope {
	return affiliate.Scope{Workspace: e.workspace, Mode: affiliate.ModeTest}
}

// token returns a signed access token. change can modify the token before it is signed.
func (e *edge) token(change func(*jwt.Token)) string {
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))})
	token.Header["kid"] = "k1"
	change(token)
	signed, err := token.SignedString(e.signingKey)
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

// serveRequest serves a request and returns the response. headers contains names and
// values of headers in turn. The name "peer" stands for the client's address.
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
	e.collector.handler.ServeHTTP(w, r)
	response := clickResponse{status: w.Code, header: w.Header(), text: w.Body.String()}
	if response.text != "" {
		if err := json.Unmarshal(w.Body.Bytes(), &response.body); err != nil {
			e.t.Fatalf("%s %s: the response %q is not JSON: %v", r.Method, r.URL.Path, response.text, err)
		}
	}
	return response
}

// click sends a click with the public key.
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
			e.t.Errorf("a stream entry with %d clicks has n = %v", len(batch.Clicks), message.Values["n"])
		}
		clicks = append(clicks, batch.Clicks...)
	}
	return clicks
}

// check requires that err is nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

func TestClick_IsStoredBeforeResponse(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	before := time.Now().Add(-time.Millisecond)
	got := e.click(`{"referral_code":" ANNA ","url":"https://shop.example/p?email=a@b.c#x","referrer":"https://News.example:8443/a?b","sub_id":"s1",
		"utm":{"source":"mail","campaign":"spring"},"consent":"granted","screen":"1920x1080","language":"de-DE","occurred_at":"2026-01-02T03:04:05Z"}`,
		"User-Agent", "test agent")
	if got.status != 201 {
		t.Fatalf("status %d, want 201: %s", got.status, got.text)
	}
	id, ok := affiliate.ParseID[affiliate.ClickID](got.body["click_id"].(string))
	idTime, isV7 := id.Time()
	if !ok || !isV7 || idTime.Before(before) || idTime.After(time.Now()) {
		t.Errorf("click id %s with the time %s, want a UUIDv7 of this moment", id, idTime)
	}
	expires, err := time.Parse("2006-01-02T15:04:05.000Z", got.body["expires_at"].(string))
	check(t, err)
	want := fmt.Sprintf(`{"click_id":"%s","program_id":"%s","mode":"test","recorded":true,"deduplicated":false,"expires_at":"%s","attribution_window_days":30,"cookie_max_age":2592000,"attribution_model":"last_click","discount":null}`+"\n",
		id, e.program, got.body["expires_at"])
	if got.text != want {
		t.Errorf("response:\ngot  %s\nwant %s", got.text, want)
	}
	clicks := e.storedClicks()
	if len(clicks) != 1 {
		t.Fatalf("%d clicks stored, want 1", len(clicks))
	}
	click := clicks[0]
	if !bytes.Equal(click.Id, id.UUID[:]) || !bytes.Equal(click.WorkspaceId, e.workspace.UUID[:]) || !bytes.Equal(click.ProgramId, e.program.UUID[:]) ||
		click.ReferralCode != "anna" || click.PublicKey != "" || click.LandingUrl != "https://shop.example/p" || click.ReferrerDomain != "news.example" ||
		click.SubId != "s1" || click.UtmSource != "mail" || click.UtmCampaign != "spring" || click.Consent != edgev1.Consent_CONSENT_GRANTED ||
		click.Screen != "1920x1080" || click.Language != "de-DE" || click.AttributionWindowDays != 30 || click.Mode != edgev1.Mode_MODE_TEST || click.IsBot ||
		click.OccurredAtMs != 1767323045000 || len(click.IpHash) != 16 || len(click.UaHash) != 16 || click.IpPrefix != "203.0.113.0/24" {
		t.Errorf("the stored click %v does not have the values of the request", click)
	}
	if want := time.UnixMilli(click.ReceivedAtMs).Add(30 * 24 * time.Hour); !expires.Equal(want) {
		t.Errorf("expires_at is %s, want the time of receipt plus 30 days: %s", expires, want)
	}
}

func TestClick_WithoutConsentHasNoPersonalData(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	if got := e.click(`{"referral_code":"anna","consent":"denied","screen":"1920x1080","language":"de-DE"}`, "User-Agent", "x"); got.status != 201 {
		t.Fatalf("status %d, want 201: %s", got.status, got.text)
	}
	click := e.storedClicks()[0]
	if click.IpHash != nil || click.IpPrefix != "" || click.UaHash != nil || click.Screen != "" || click.Language != "" || click.Consent != edgev1.Consent_CONSENT_DENIED {
		t.Errorf("stored %v, want denied consent and no personal data", click)
	}
}

func TestClick_ResponsesByRequest(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	const ok = `{"referral_code":"anna"}`
	bearer := func(s string) []string { return []string{"Authorization", "Bearer " + s} }
	publicKey := e.key.Reveal()
	secret := account.NewKey(account.SecretKey, affiliate.ModeTest).Reveal()
	unknownKey := account.NewKey(account.PublicKey, affiliate.ModeTest).Reveal()
	validToken := e.token(func(*jwt.Token) {})
	// The last character of a signature has four unused bits.
	lastBits := map[byte]string{'A': "B", 'Q': "R", 'g': "h", 'w': "x"}
	otherBits := validToken[:len(validToken)-1] + lastBits[validToken[len(validToken)-1]]
	unsigned := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))})
	unsigned.Header["kid"] = "k1"
	unsignedToken, err := unsigned.SignedString(jwt.UnsafeAllowNoneSignatureType)
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
		{name: "unknown key", body: ok, headers: bearer(unknownKey), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "mistyped key", body: ok, headers: bearer(publicKey[:len(publicKey)-1] + "!"), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "another scheme", body: ok, headers: []string{"Authorization", "Basic " + publicKey}, status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "the key in the header takes precedence", body: `{"referral_code":"anna","public_key":"` + publicKey + `"}`, headers: bearer(unknownKey), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "no key and no body", status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "mistyped secret key", body: ok, headers: bearer(secret[:len(secret)-1] + "!"), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "invalid token", body: ok, headers: bearer("a.b.c"), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "expired token", body: ok, headers: bearer(e.token(func(tk *jwt.Token) {
			tk.Claims = jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(-time.Minute))}
		})), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token without an expiry time", body: ok, headers: bearer(e.token(func(tk *jwt.Token) { tk.Claims = jwt.RegisteredClaims{} })), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token of an unknown kid", body: ok, headers: bearer(e.token(func(tk *jwt.Token) { tk.Header["kid"] = "k2" })), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token with its own key in the header", body: ok, headers: bearer(e.token(func(tk *jwt.Token) { tk.Header["jku"] = "https://x" })), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token with other unused bits in the signature", body: ok, headers: bearer(otherBits), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token with a line break in the signature", body: `{"referral_code":"anna","public_key":"` + validToken[:len(validToken)-9] + `\n` + validToken[len(validToken)-9:] + `"}`, status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token with padding", body: ok, headers: bearer(validToken + "=="), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "token with alg none", body: ok, headers: bearer(unsignedToken), status: 401, code: "INVALID_PUBLIC_KEY"},

		{name: "secret key", body: ok, headers: bearer(secret), status: 403, code: "FORBIDDEN"},
		{name: "access token", body: ok, headers: bearer(validToken), status: 403, code: "FORBIDDEN"},
		{name: "access token in the body", body: `{"referral_code":"anna","public_key":"` + validToken + `"}`, status: 403, code: "FORBIDDEN"},
		{name: "access token and a bad body", body: `{`, headers: bearer(validToken), status: 403, code: "FORBIDDEN"},
		{name: "unknown key and a bad body", body: `{`, headers: bearer(unknownKey), status: 401, code: "INVALID_PUBLIC_KEY"},

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
		{name: "XML, with an unknown key", body: ok, headers: append(bearer(unknownKey), "Content-Type", "application/xml"), status: 401, code: "INVALID_PUBLIC_KEY"},
		{name: "gzip, with an access token", body: ok, headers: append(bearer(validToken), "Content-Encoding", "gzip"), status: 403, code: "FORBIDDEN"},

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
				t.Fatalf("status %d, want %d: %s", got.status, c.status, got.text)
			}
			if got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("X-Request-Id") == "" {
				t.Errorf("headers %v, want Access-Control-Allow-Origin: * and X-Request-Id", got.header)
			}
			if c.code == "" {
				return
			}
			if got.body["code"] != c.code || got.body["statusCode"] != float64(c.status) || got.body["error"] != http.StatusText(c.status) || got.body["message"] == "" {
				t.Errorf("error body %s, want the code %s, the status %d with its text, and a message", got.text, c.code, c.status)
			}
			details, hasDetails := got.body["details"].([]any)
			if hasDetails != (c.status == 400) {
				t.Errorf("details in the body: %t, want %t: %s", hasDetails, c.status == 400, got.text)
			}
			for _, item := range details {
				detail := item.(map[string]any)
				field, message := detail["field"].(string), detail["message"].(string)
				if message = strings.Replace(message, "The body ", "body ", 1); !strings.HasPrefix(message, field+" ") || !strings.HasSuffix(message, ".") {
					t.Errorf("message %q, want a sentence that begins with the field %q", message, field)
				}
			}
			if c.status == 405 && got.header.Get("Allow") == "" {
				t.Error("a response with the status 405 has no header Allow")
			}
		})
	}
	preflight := e.send("OPTIONS", "/v1/clicks", "", "Origin", "https://shop.example", "Access-Control-Request-Method", "POST")
	if preflight.header.Get("Access-Control-Max-Age") != "86400" || !strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), "X-Public-Key") ||
		preflight.header.Get("Access-Control-Allow-Credentials") != "" || preflight.text != "" {
		t.Errorf("preflight response %+v, want a maximum age, the allowed headers, no credentials and no body", preflight)
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
			t.Errorf("%s: status %d, want %d: %s", c.name, got.status, c.status, got.text)
		}
	}
	if got := e.send("GET", "/v1/health", ""); got.status != 403 {
		t.Errorf("GET /v1/health over plain HTTP: status %d, want 403", got.status)
	}
}

func TestRequestID_IsTakenFromRequestOrCreated(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	if got := e.send("GET", "/nowhere", "", "X-Request-Id", "mine-1").header.Get("X-Request-Id"); got != "mine-1" {
		t.Errorf("X-Request-Id is %q, want the id of the request", got)
	}
	created := e.send("GET", "/nowhere", "", "X-Request-Id", "two words").header.Get("X-Request-Id")
	if id, ok := affiliate.ParseID[affiliate.RequestID](created); !ok || id.Version() != 7 {
		t.Errorf("X-Request-Id is %q, want a new UUIDv7 instead of an invalid id", created)
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
					t.Errorf("response %s with headers %v, want RATE_LIMIT_EXCEEDED and the headers of the limit", got.text, got.header)
				}
			}
		})
	}
	group.Wait()
	if statuses[429] != 100 || statuses[201]+statuses[404]+statuses[400] != 1000 || len(e.storedClicks()) != statuses[201] {
		t.Errorf("number of responses by status: %v, and %d clicks stored; want 100 with 429, 1000 others, and one stored click per 201", statuses, len(e.storedClicks()))
	}
	if got := e.send("POST", "/v1/clicks", "", "Authorization", "Bearer "+e.key.Reveal(), "Content-Encoding", "gzip"); got.status != 429 {
		t.Errorf("a request that is refused by its headers, over the limit: status %d, want 429", got.status)
	}
	// Requests without a key do not count towards the limit of the key.
	if got := e.send("POST", "/v1/clicks", `{}`); got.status != 401 {
		t.Errorf("a request without a key: status %d, want 401", got.status)
	}
}

// Every request with a valid key counts, even if its body is incomplete. The responses to
// all requests that count have the RateLimit headers.
func TestRateLimit_CountsIncompleteRequests(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 5 })
	first := e.click(plainClick)
	if first.status != 201 || first.header.Get("RateLimit-Policy") != `"tracking";q=5;w=60` || !strings.HasPrefix(first.header.Get("RateLimit"), `"tracking";r=4;t=`) {
		t.Errorf("first request: status %d, RateLimit-Policy %q, RateLimit %q; want 201, a limit of 5 and 4 remaining",
			first.status, first.header.Get("RateLimit-Policy"), first.header.Get("RateLimit"))
	}
	for range 4 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/v1/clicks", iotest.ErrReader(io.ErrUnexpectedEOF))
		r.Header.Set("X-Public-Key", e.key.Reveal())
		e.collector.handler.ServeHTTP(w, r)
		if w.Code != 400 {
			t.Fatalf("an incomplete body: status %d, want 400: %s", w.Code, w.Body)
		}
	}
	if got := e.click(plainClick); got.status != 429 {
		t.Errorf("the sixth request: status %d, want 429", got.status)
	}
}

func TestRateLimit_UnknownKeysCountPerAddress(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 5 })
	sendUnknownKey := func(addr string) int {
		unknownKey := account.NewKey(account.PublicKey, affiliate.ModeTest).Reveal()
		return e.send("POST", "/v1/clicks", `{}`, "X-Public-Key", unknownKey, "peer", "192.0.2.1:1", "X-Forwarded-For", addr).status
	}
	for i := range 5 {
		if got := sendUnknownKey(fmt.Sprintf("2001:db8::%d", i)); got != 401 {
			t.Fatalf("unknown key %d: status %d, want 401", i, got)
		}
	}
	if got := sendUnknownKey("2001:db8::ffff"); got != 429 {
		t.Errorf("an address in the same /64: status %d, want 429", got)
	}
	if got := sendUnknownKey("2001:db8:0:1::"); got != 401 {
		t.Errorf("an address in another /64: status %d, want 401", got)
	}
	if got := e.click(`{"referral_code":"anna"}`, "peer", "192.0.2.1:1", "X-Forwarded-For", "2001:db8::1"); got.status != 201 {
		t.Errorf("a valid key from an address over its limit: status %d, want 201", got.status)
	}
}

// One host cannot use up the limit of a key.
func TestRateLimit_CountsPerKeyAndAddress(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking, cfg.LimitVisitor = 8, 3 })
	clickFrom := func(addr string) clickResponse {
		return e.click(plainClick, "peer", "192.0.2.1:1", "X-Forwarded-For", addr)
	}
	for i := range 3 {
		if got := clickFrom(fmt.Sprintf("2001:db8::%d", i)); got.status != 201 || got.header.Get("RateLimit-Policy") != `"tracking";q=8;w=60` {
			t.Fatalf("request %d: status %d, RateLimit-Policy %q, want 201 and the limit of the key", i, got.status, got.header.Get("RateLimit-Policy"))
		}
	}
	for range 10 {
		got := clickFrom("2001:db8::ffff")
		const message = "Too many requests. Try again after the number of seconds in Retry-After."
		if got.status != 429 || got.body["code"] != "RATE_LIMIT_EXCEEDED" || got.body["message"] != message || got.header.Get("Retry-After") == "" ||
			got.header.Get("RateLimit-Policy") != `"tracking_visitor";q=3;w=60` {
			t.Fatalf("a request of the same /64: status %d with headers %v, want 429 and the limit of the address: %s", got.status, got.header, got.text)
		}
	}
	// The refused requests did not count for the key, which has five left.
	for i := range 2 {
		if got := clickFrom(fmt.Sprintf("203.0.113.%d", i)); got.status != 201 {
			t.Errorf("another address: status %d, want 201: %s", got.status, got.text)
		}
	}
	// A key in the body counts too.
	inBody := `{"referral_code":"anna","public_key":"` + e.key.Reveal() + `"}`
	for i, want := range []int{201, 201, 429} {
		if got := e.send("POST", "/v1/clicks", inBody, "peer", "203.0.113.0:1"); got.status != want {
			t.Errorf("request %d with the key in the body: status %d, want %d: %s", i, got.status, want, got.text)
		}
	}
	if got := clickFrom("203.0.113.9"); got.status != 201 {
		t.Errorf("the last request of the key: status %d, want 201: %s", got.status, got.text)
	}
	if got := clickFrom("203.0.113.10"); got.status != 429 || got.header.Get("RateLimit-Policy") != `"tracking";q=8;w=60` {
		t.Errorf("over the limit of the key: status %d, RateLimit-Policy %q, want 429 and the limit of the key", got.status, got.header.Get("RateLimit-Policy"))
	}
	// Other requests of an address over its limit are not affected.
	if got := e.send("POST", "/v1/clicks", `{}`, "peer", "192.0.2.1:1", "X-Forwarded-For", "2001:db8::1"); got.status != 401 {
		t.Errorf("a request without a key: status %d, want 401", got.status)
	}
}

func TestRateLimit_AddressesOfTrustedProxiesCountForTheirKeyOnly(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking, cfg.LimitVisitor = 5, 1 })
	for i, want := range []int{201, 201, 201, 201, 201, 429} {
		if got := e.click(plainClick, "peer", "192.0.2.1:1"); got.status != want {
			t.Errorf("request %d of a proxy: status %d, want %d: %s", i, got.status, want, got.text)
		}
	}
}

func TestRateLimit_WindowOfAnAddressEndsAfterAMinute(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitVisitor = 2 })
	now := time.Now()
	e.collector.visitors = ratelimit.NewLease(nil, ratelimit.Options{Now: func() time.Time { return now }})
	for i, want := range []int{201, 201, 429} {
		if got := e.click(plainClick); got.status != want {
			t.Errorf("request %d: status %d, want %d: %s", i, got.status, want, got.text)
		}
	}
	now = now.Add(62 * time.Second)
	if got := e.click(plainClick); got.status != 201 {
		t.Errorf("after the window: status %d, want 201: %s", got.status, got.text)
	}
}

// put writes entries to the directory and publishes the change.
func put(ctx context.Context, writer *directory.Writer, add func(*directory.Batch)) error {
	batch := writer.Changes()
	add(batch)
	return batch.Flush(ctx)
}
