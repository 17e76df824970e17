package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
)

// passed are the request headers that the core gets, under these metadata keys.
// x-client-ip and x-request-id are added by the gateway itself.
var passed = []struct{ header, key string }{
	{"Authorization", "authorization"},
	{"X-Mode", "x-mode"},
	{"Idempotency-Key", "idempotency-key"},
	{"User-Agent", "x-user-agent"},
}

// answered are the response metadata that clients get, under these headers.
var answered = map[string]string{
	"ratelimit-policy":    "RateLimit-Policy",
	"ratelimit":           "RateLimit",
	"idempotent-replayed": "Idempotent-Replayed",
	"content-disposition": "Content-Disposition",
}

func answerHeader(key string) (string, bool) {
	header, ok := answered[key]
	return header, ok
}

// everywhere are the headers of every answer. The values are shared, so they
// may be replaced but never changed in place.
var everywhere = http.Header{
	"X-Content-Type-Options": {"nosniff"},
	"Cache-Control":          {"no-store"},
	"Referrer-Policy":        {"no-referrer"},
	"Vary":                   {"Origin"},
}

// What a script of an allowed origin may send and read.
const (
	corsRequestHeaders = "Authorization, Content-Type, Idempotency-Key, X-Mode, X-Request-Id"
	corsAnswerHeaders  = "Content-Disposition, Idempotent-Replayed, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"
	// corsMaxAge is for how many seconds a browser keeps a preflight's answer.
	corsMaxAge = "600"
)

// setHeaders sets what every answer carries and returns the request's origin
// when its scripts may read the answer, else nothing.
func (g *gateway) setHeaders(c *call) (origin string) {
	h := c.Header()
	maps.Copy(h, everywhere)
	h.Set(httpedge.RequestIDHeader, c.id)
	// Only over TLS may a server ask for it (RFC 6797 section 7.2).
	if httpedge.Secure(c.request, g.TrustedProxies, false) {
		h.Set("Strict-Transport-Security", httpedge.HSTS)
	}
	origin = c.request.Header.Get("Origin")
	if !g.origins[origin] {
		return ""
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsAnswerHeaders)
	return origin
}

// options answers OPTIONS of a known path: what it takes, and to a preflight of
// an allowed origin that it may ask. No credentials mode: the API knows bearer
// tokens only, which scripts set themselves.
func (g *gateway) options(c *call, path, origin string) {
	methods := g.routes.methods(path)
	if methods == nil {
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
		return
	}
	h := c.Header()
	allow := strings.Join(methods, ", ")
	h.Set("Allow", allow)
	if origin != "" && c.request.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", allow)
		h.Set("Access-Control-Allow-Headers", corsRequestHeaders)
		h.Set("Access-Control-Max-Age", corsMaxAge)
	}
	c.WriteHeader(http.StatusNoContent)
}

// originSet checks that each origin is one a browser could send.
func originSet(origins []string) (map[string]bool, error) {
	set := make(map[string]bool, len(origins))
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) ||
			u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin || strings.Contains(origin, "*") {
			return nil, fmt.Errorf("%q is no origin: write it like https://app.example", origin)
		}
		set[origin] = true
	}
	return set, nil
}

// outgoing makes the metadata of a call.
func (g *gateway) outgoing(c *call) metadata.MD {
	md := make(metadata.MD, len(passed)+2)
	// One array holds all values.
	values := make([]string, 0, len(passed)+2)
	set := func(key, value string) {
		values = append(values, value)
		md[key] = values[len(values)-1 : len(values) : len(values)]
	}
	set("x-request-id", c.id)
	if addr := httpedge.ClientAddr(c.request, g.TrustedProxies); addr.IsValid() {
		set("x-client-ip", addr.String())
	}
	for _, p := range passed {
		if lines := c.request.Header[p.header]; len(lines) > 0 {
			set(p.key, metadataText(lines))
		}
	}
	return md
}

// metadataText joins the lines of a header as RFC 9110 section 5.3 does, and
// replaces what gRPC metadata cannot carry. Dropping such a header instead
// would turn a bad X-Mode into no X-Mode.
func metadataText(lines []string) string {
	text := lines[0]
	if len(lines) > 1 {
		text = strings.Join(lines, ", ")
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return '?'
				}
				return r
			}, text)
		}
	}
	return text
}
