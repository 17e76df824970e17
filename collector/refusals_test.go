package collector

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tributary-hq/tributary/affiliate"
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

// expected is the refusal that a test expects.
type expected struct {
	status int
	code   string
}

// refusedBodies are the bodies that are refused from a caller with a valid key.
var refusedBodies = []struct {
	name    string
	headers []string
	body    func() io.Reader
	length  int64 // Content-Length, -1 for a chunked body
	want    expected
	// unread is true if the headers are enough to refuse the body.
	unread bool
	// incomplete is true if the body cannot be read to its end.
	incomplete bool
}{
	{
		name: "a wrong type", headers: []string{"Content-Type", "application/xml"}, length: 2, unread: true,
		body: func() io.Reader { return strings.NewReader("{}") }, want: expected{415, "UNSUPPORTED_MEDIA_TYPE"},
	},
	{
		name: "an encoded body", headers: []string{"Content-Encoding", "gzip"}, length: 2, unread: true,
		body: func() io.Reader { return strings.NewReader("{}") }, want: expected{415, "UNSUPPORTED_MEDIA_TYPE"},
	},
	{
		name: "too large by its length", length: maxBody + 1, unread: true,
		body: func() io.Reader { return strings.NewReader(strings.Repeat(" ", maxBody+1)) }, want: expected{413, "PAYLOAD_TOO_LARGE"},
	},
	{
		name: "too large and chunked", length: -1,
		body: func() io.Reader { return strings.NewReader(strings.Repeat(" ", maxBody+1)) }, want: expected{413, "PAYLOAD_TOO_LARGE"},
	},
	{
		name: "ends early", length: 100, incomplete: true,
		body: func() io.Reader { return io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)) }, want: expected{400, "VALIDATION_ERROR"},
	},
	{
		name: "not JSON", length: 1,
		body: func() io.Reader { return strings.NewReader("{") }, want: expected{400, "VALIDATION_ERROR"},
	},
}

func TestOrderOfRefusals(t *testing.T) {
	const limit = 10
	strange := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest).Reveal()
	secret := affiliate.NewKey(affiliate.SecretKey, affiliate.ModeTest).Reveal()
	useUp := func(e *edge, headers ...string) {
		for range limit {
			e.send("POST", "/v1/clicks", "{}", headers...)
		}
	}
	limited := expected{429, "RATE_LIMIT_EXCEEDED"}
	for _, c := range []struct {
		name string
		// key is the one in the header. The default is the key of the edge.
		key     string
		noKey   bool
		headers []string
		prepare func(*edge)
		want    expected // the zero value stands for the refusal of the body
	}{
		{name: "a valid key"},
		{name: "a valid key from an address over its limit", prepare: func(e *edge) { useUp(e) }},
		{name: "a valid key over its limit", prepare: func(e *edge) { useUp(e, "X-Public-Key", e.key.Reveal()) }, want: limited},
		{name: "an unknown key", key: strange, want: expected{401, "INVALID_PUBLIC_KEY"}},
		{name: "an unknown key from an address over its limit", key: strange, prepare: func(e *edge) { useUp(e) }, want: limited},
		{name: "a secret key", key: secret, want: expected{403, "FORBIDDEN"}},
		{
			name: "an origin that is not allowed", headers: []string{"Origin", "https://evil.example"}, want: expected{403, "ORIGIN_NOT_ALLOWED"},
			prepare: func(e *edge) {
				e.putKey(func(entry *edgev1.PublicKeyEntry) {
					entry.AllowedOrigins, entry.EnforceOrigins = []string{"https://shop.example"}, true
				})
			},
		},
		{name: "no key in a header", noKey: true},
		{name: "no key in a header from an address over its limit", noKey: true, prepare: func(e *edge) { useUp(e) }, want: limited},
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
				case want != expected{}:
				case c.noKey && b.name == "not JSON":
					want = expected{401, "INVALID_PUBLIC_KEY"} // the body was read and has no key
				default:
					want = b.want
				}
				body := &countingReader{Reader: b.body()}
				r := httptest.NewRequest(http.MethodPost, "/v1/clicks", body)
				r.ContentLength = b.length
				got := e.serveRequest(r, append(b.headers, headers...)...)
				if got.status != want.status || got.body["code"] != want.code {
					t.Errorf("%s: %d %s, want %v", b.name, got.status, got.text, want)
				}
				refusedByKey := !c.noKey && c.want != expected{}
				if unread := body.reads == 0; unread != (b.unread || refusedByKey) {
					t.Errorf("%s: the body was read %d times", b.name, body.reads)
				}
				if closes := got.header.Get("Connection") == "close"; closes != (b.incomplete && !refusedByKey) {
					t.Errorf("%s: Connection is %q", b.name, got.header.Get("Connection"))
				}
				if got.header.Get("RateLimit") == "" {
					t.Errorf("%s: no RateLimit header", b.name)
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
					t.Fatalf("within the limit: %d %s", got.status, got.text)
				}
			}
			if got := send(); got.status != 429 || got.body["code"] != "RATE_LIMIT_EXCEEDED" || got.header.Get("Retry-After") == "" {
				t.Errorf("over the limit: %d %s %v", got.status, got.text, got.header)
			}
			if got := send("peer", "203.0.113.10:1"); got.status == 429 {
				t.Errorf("another address: %d %s", got.status, got.text)
			}
			if got := e.click(plainClick); got.status != 201 {
				t.Errorf("a valid key from the address: %d %s", got.status, got.text)
			}
		})
	}
}

func TestIgnoredFields_AreNotSentToRefusedCaller(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	for _, headers := range [][]string{nil, {"X-Public-Key", affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest).Reveal()}} {
		got := e.send("POST", "/v1/clicks", `{"referral_code":"anna","colour":"red"}`, headers...)
		if named := got.header.Get("Ignored-Fields"); got.status != 401 || named != "" {
			t.Errorf("%d, Ignored-Fields is %q", got.status, named)
		}
	}
}
