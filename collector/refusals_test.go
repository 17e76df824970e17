package collector

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// countingReader counts the calls of Read.
type countingReader struct {
	io.Reader
	reads int
}

func (c *countingReader) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

// expectedRefusal is the refusal that a test expects.
type expectedRefusal struct {
	status int
	code   string
}

// refusedBodies are request bodies that the collector refuses even if the key is valid.
var refusedBodies = []struct {
	name    string
	headers []string
	body    func() io.Reader
	length  int64 // Content-Length, -1 for a chunked body
	want    expectedRefusal
	// unread is true if the headers are enough to refuse the body.
	unread bool
	// incomplete is true if the body cannot be read to its end.
	incomplete bool
}{
	{
		name: "a wrong type", headers: []string{"Content-Type", "application/xml"}, length: 2, unread: true,
		body: func() io.Reader { return strings.NewReader("{}") }, want: expectedRefusal{415, "UNSUPPORTED_MEDIA_TYPE"},
	},
	{
		name: "an encoded body", headers: []string{"Content-Encoding", "gzip"}, length: 2, unread: true,
		body: func() io.Reader { return strings.NewReader("{}") }, want: expectedRefusal{415, "UNSUPPORTED_MEDIA_TYPE"},
	},
	{
		name: "too large by its length", length: maxBody + 1, unread: true,
		body: func() io.Reader { return strings.NewReader(strings.Repeat(" ", maxBody+1)) }, want: expectedRefusal{413, "PAYLOAD_TOO_LARGE"},
	},
	{
		name: "too large and chunked", length: -1,
		body: func() io.Reader { return strings.NewReader(strings.Repeat(" ", maxBody+1)) }, want: expectedRefusal{413, "PAYLOAD_TOO_LARGE"},
	},
	{
		name: "ends early", length: 100, incomplete: true,
		body: func() io.Reader { return io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)) }, want: expectedRefusal{400, "VALIDATION_ERROR"},
	},
	{
		name: "not JSON", length: 1,
		body: func() io.Reader { return strings.NewReader("{") }, want: expectedRefusal{400, "VALIDATION_ERROR"},
	},
}

func TestRegisterClick_ChecksInDocumentedOrder(t *testing.T) {
	const limit = 10
	unknownKey := account.NewKey(account.PublicKey, affiliate.ModeTest).Reveal()
	secret := account.NewKey(account.SecretKey, affiliate.ModeTest).Reveal()
	service := account.NewKey(account.ServiceKey, affiliate.ModeTest).Reveal()
	reachLimit := func(e *edge, headers ...string) {
		for range limit {
			e.send("POST", "/v1/clicks", "{}", headers...)
		}
	}
	limited := expectedRefusal{429, "RATE_LIMIT_EXCEEDED"}
	for _, c := range []struct {
		name string
		// key is sent in the header. The default is the valid key of the edge.
		key     string
		noKey   bool // sends no key in a header
		headers []string
		prepare func(*edge)
		want    expectedRefusal // if zero, the refusal that the body causes is expected
	}{
		{name: "a valid key"},
		{name: "a valid key from an address over its limit", prepare: func(e *edge) { reachLimit(e) }},
		{name: "a valid key over its limit", prepare: func(e *edge) { reachLimit(e, "X-Public-Key", e.key.Reveal()) }, want: limited},
		{name: "an unknown key", key: unknownKey, want: expectedRefusal{401, "INVALID_PUBLIC_KEY"}},
		{name: "an unknown key from an address over its limit", key: unknownKey, prepare: func(e *edge) { reachLimit(e) }, want: limited},
		{name: "a service token", key: service, want: expectedRefusal{403, "FORBIDDEN"}},
		{name: "a secret key", key: secret, want: expectedRefusal{403, "FORBIDDEN"}},
		{
			name: "an origin that is not allowed", headers: []string{"Origin", "https://evil.example"}, want: expectedRefusal{403, "ORIGIN_NOT_ALLOWED"},
			prepare: func(e *edge) {
				e.putKey(func(entry *edgev1.PublicKeyEntry) {
					entry.AllowedOrigins, entry.EnforceOrigins = []string{"https://shop.example"}, true
				})
			},
		},
		{name: "no key in a header", noKey: true},
		{name: "no key in a header from an address over its limit", noKey: true, prepare: func(e *edge) { reachLimit(e) }, want: limited},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = limit })
			if c.prepare != nil {
				c.prepare(e)
			}
			headers := c.headers
			switch {
			case c.noKey:
			case c.key != "":
				headers = append(headers, "X-Public-Key", c.key)
			default:
				headers = append(headers, "X-Public-Key", e.key.Reveal())
			}
			for _, b := range refusedBodies {
				want := c.want
				switch {
				case want != expectedRefusal{}:
				case c.noKey && b.name == "not JSON":
					want = expectedRefusal{401, "INVALID_PUBLIC_KEY"} // The collector has read the body and found no key.
				default:
					want = b.want
				}
				body := &countingReader{Reader: b.body()}
				r := httptest.NewRequest(http.MethodPost, "/v1/clicks", body)
				r.ContentLength = b.length
				got := e.serveRequest(r, append(b.headers, headers...)...)
				if got.status != want.status || got.body["code"] != want.code {
					t.Errorf("%s: status %d, want %d %s: %s", b.name, got.status, want.status, want.code, got.text)
				}
				refusedByKey := !c.noKey && c.want != expectedRefusal{}
				wantUnread := b.unread || refusedByKey
				if unread := body.reads == 0; unread != wantUnread {
					t.Errorf("%s: Read of the body was called %d times, want an unread body: %t", b.name, body.reads, wantUnread)
				}
				wantClose := b.incomplete && !refusedByKey
				if closes := got.header.Get("Connection") == "close"; closes != wantClose {
					t.Errorf("%s: the header Connection is %q, want close: %t", b.name, got.header.Get("Connection"), wantClose)
				}
				if got.header.Get("RateLimit") == "" {
					t.Errorf("%s: the response has no header RateLimit", b.name)
				}
			}
		})
	}
}

func TestRateLimit_BodiesWithoutHeaderKeyCountPerAddress(t *testing.T) {
	for _, b := range refusedBodies {
		t.Run(b.name, func(t *testing.T) {
			e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 3 })
			send := func(headers ...string) clickResponse {
				r := httptest.NewRequest(http.MethodPost, "/v1/clicks", b.body())
				r.ContentLength = b.length
				return e.serveRequest(r, append(b.headers, headers...)...)
			}
			for range 3 {
				if got := send(); got.status == 429 {
					t.Fatalf("within the limit: status 429, want another status: %s", got.text)
				}
			}
			if got := send(); got.status != 429 || got.body["code"] != "RATE_LIMIT_EXCEEDED" || got.header.Get("Retry-After") == "" {
				t.Errorf("over the limit: status %d with headers %v, want 429 RATE_LIMIT_EXCEEDED and Retry-After: %s", got.status, got.header, got.text)
			}
			if got := send("peer", "203.0.113.10:1"); got.status == 429 {
				t.Errorf("from another address: status 429, want another status: %s", got.text)
			}
			if got := e.click(plainClick); got.status != 201 {
				t.Errorf("a valid key from the address over its limit: status %d, want 201: %s", got.status, got.text)
			}
		})
	}
}

func TestIgnoredFields_AreNotSentToRefusedCaller(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	for _, headers := range [][]string{nil, {"X-Public-Key", account.NewKey(account.PublicKey, affiliate.ModeTest).Reveal()}} {
		got := e.send("POST", "/v1/clicks", `{"referral_code":"anna","colour":"red"}`, headers...)
		if ignored := got.header.Get("Ignored-Fields"); got.status != 401 || ignored != "" {
			t.Errorf("status %d with Ignored-Fields %q, want 401 without this header", got.status, ignored)
		}
	}
}
