package gateway

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
)

// forwardedHeaders lists the request headers that the gateway forwards to the core, with
// their keys in the gRPC metadata. The gateway also sets x-client-ip and x-request-id.
var forwardedHeaders = []struct{ header, key string }{
	{"Authorization", "authorization"},
	{"X-Mode", "x-mode"},
	{"Idempotency-Key", "idempotency-key"},
	{"User-Agent", "x-user-agent"},
	{"Last-Event-Id", "last-event-id"},
}

// signatureHeaders lists the headers that the gateway forwards in addition if a route has
// a raw body. They contain the signature of the body (Standard Webhooks, Stripe). Each
// header has the same name in the gRPC metadata.
var signatureHeaders = []string{
	"Svix-Id", "Svix-Timestamp", "Svix-Signature", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Stripe-Signature",
}

var responseHeaders = map[string]string{
	"ratelimit-policy":    "Ratelimit-Policy",
	"ratelimit":           "Ratelimit",
	"idempotent-replayed": "Idempotent-Replayed",
	"content-disposition": "Content-Disposition",
	"total-capped":        "Total-Capped",
	"export-parts":        "Export-Parts",
	"x-accel-buffering":   "X-Accel-Buffering",
	"x-content-encoding":  "Content-Encoding",
	"x-vary":              "Vary",
}

func responseHeader(key string) (string, bool) {
	header, ok := responseHeaders[key]
	return header, ok
}

// The headers that scripts of an allowed origin may send (corsRequestHeaders) and read
// (corsResponseHeaders).
const (
	corsRequestHeaders  = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Traceparent, Tracestate, X-Mode, X-Request-Id"
	corsResponseHeaders = "Content-Disposition, Export-Parts, Idempotent-Replayed, Ignored-Fields, RateLimit, RateLimit-Policy, " +
		"Retry-After, Total-Capped, X-Accel-Buffering, X-Request-Id"
)

// allowAnyOrigin lets scripts of the origin of the request read the response, whatever the
// origin is. If the origin is one of AllowedOrigins, CORS.SetHeaders has done it.
func (c *call) allowAnyOrigin() {
	if h := c.Header(); c.request.Header.Get("Origin") != "" && h.Get("Access-Control-Allow-Origin") == "" {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", corsResponseHeaders)
	}
}

// options responds to OPTIONS of a known path.
func (g *gateway) options(c *call, origin string) {
	methods, anyOrigin := g.methods(c)
	if methods == nil {
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
		return
	}
	if anyOrigin {
		c.allowAnyOrigin()
		origin = c.request.Header.Get("Origin")
	}
	g.cors.RespondToOptions(c, c.request, methods, origin)
}

func (g *gateway) outgoingMetadata(ctx context.Context, _ *http.Request) metadata.MD {
	c := callFrom(ctx)
	md := make(metadata.MD, len(forwardedHeaders)+3)
	// All values share one array, which saves allocations.
	values := make([]string, 0, len(forwardedHeaders)+3)
	set := func(key, value string) {
		values = append(values, value)
		md[key] = values[len(values)-1 : len(values) : len(values)]
	}
	set("x-request-id", c.id)
	if addr := httpedge.ClientAddr(c.request, g.TrustedProxies); addr.IsValid() {
		set("x-client-ip", addr.String())
	}
	for _, p := range forwardedHeaders {
		if lines := c.request.Header[p.header]; len(lines) > 0 {
			set(p.key, metadataValue(lines))
		}
	}
	if lines := c.request.Header["Accept-Encoding"]; len(lines) > 0 && c.route.NegotiatesEncoding {
		set("x-accept-encoding", metadataValue(lines))
	}
	if c.route.RawBody != nil {
		for _, header := range signatureHeaders {
			if lines := c.request.Header[header]; len(lines) > 0 {
				md.Set(header, metadataValue(lines))
			}
		}
	}
	return md
}

// metadataValue joins the lines of a header as in RFC 9110 section 5.3. It replaces bytes
// that gRPC metadata cannot contain by question marks. It does not omit a header with
// such bytes, because the core would then handle an invalid X-Mode like an absent X-Mode.
func metadataValue(lines []string) string {
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
