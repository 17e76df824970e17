package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/site"
	"github.com/tributary-hq/tributary/httpedge"
)

// call is the state of one HTTP request and its response. grpc-gateway calls the
// middlewares, the decoder, the response options and the error handlers separately, so
// they get the call from the context. call is also the ResponseWriter of the generated
// handlers. These handlers set no status, so call sets the status of the response.
type call struct {
	http.ResponseWriter
	// serverWriter is the writer that net/http passed to the gateway.
	// http.MaxBytesReader and write deadlines need it.
	serverWriter http.ResponseWriter
	// request is the request of the client. The mux gets a request without headers,
	// query and body.
	request *http.Request
	id      string
	// probe is true if gateway.methods created this call to find out which HTTP methods
	// the path accepts. Nothing is executed and no response is written.
	probe bool
	// route is nil until the mux has found one.
	route *route
	// faults collects the faults of the query and the body.
	faults violations
	// ignored contains the paths of unknown keys in the body that the route ignores.
	ignored []string
	// path contains the values of the path parameters by field name.
	path map[string]string
	// decoded contains the fields of the query or of the body that could be decoded. If the
	// gateway finds a fault, the core validates these fields too, so that the response contains
	// all faults. decoded is nil if the request has neither a query nor a body.
	decoded protoreflect.Message
	// spellings contains the names that the client used for the fields of the query, and for fields of the body whose
	// names differ from the names in responses.
	spellings spellings
	// opening is set if the request opens the session of a browser.
	opening *opening
	// successStatus is the status of a response without an error.
	successStatus int
	// status is the status that was sent, or 0 if none was sent yet.
	status int
	// pieceTimeout is set if the response is written in several pieces. It bounds the time
	// in which the client must read one piece.
	pieceTimeout time.Duration
	// complete is true if the response is complete. Further writes have no effect.
	complete bool
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// ServeHTTP creates the call of a request and passes a request without headers to the
// mux, because grpc-gateway would forward Authorization, X-Forwarded-* and Grpc-Timeout
// to the core. The gateway forwards only the headers in forwardedHeaders and those that the route needs.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{serverWriter: w, request: r, successStatus: http.StatusOK}
	c.id = httpedge.RequestID(r, g.Now)
	method := r.Method
	if method == http.MethodHead {
		// Handle HEAD like GET. net/http does not send the body of a response to HEAD.
		method = http.MethodGet
	}
	began := time.Now()
	defer func() { g.metrics.observe(c, time.Since(began)) }()
	g.handler.ServeHTTP(w, emptyRequest(r.Context(), c, method, r.URL))
}

// emptyRequest returns a request with the call in its context and without headers, query
// and body.
func emptyRequest(ctx context.Context, c *call, method string, u *url.URL) *http.Request {
	var empty http.Request
	r := empty.WithContext(context.WithValue(ctx, callKey{}, c))
	r.Method = method
	r.URL = &url.URL{Path: u.Path, RawPath: u.RawPath}
	r.Body = http.NoBody
	return r
}

func (g *gateway) serve(w http.ResponseWriter, r *http.Request) {
	c := callFrom(r.Context())
	c.ResponseWriter = w
	path := r.URL.Path
	if r.URL.RawPath != "" {
		path = r.URL.RawPath
	}
	cors := &g.cors
	if isSession(path) {
		cors = &httpedge.CORS{} // scripts of other origins must not use the cookies of sessions
	}
	origin := cors.SetHeaders(c.Header(), c.request, c.id, g.TrustedProxies)
	if !httpedge.Secure(c.request, g.TrustedProxies, g.AllowHTTP) {
		g.refusedProxies.Log(g.Log, c.request, g.TrustedProxies)
		httpedge.WriteError(c, http.StatusForbidden, affiliate.ReasonHTTPSRequired, httpedge.HTTPSRequiredMessage)
		return
	}
	switch {
	// Refuse empty path segments here, because the mux would accept them as parameters.
	case !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		if target := site.Redirect(path); target != "" && r.Method == http.MethodGet {
			c.Header().Set("Location", target)
			c.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
	case isSession(path) && g.sessions.CheckOrigin(c.request) != nil:
		g.refuse(c, refusal{reason: affiliate.ReasonForbidden})
	case r.Method == http.MethodOptions:
		g.options(c, origin)
	default:
		g.mux.ServeHTTP(c, r)
	}
}

var verbs = []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut}

// methods returns the HTTP methods that the path of the call accepts, or none if the path
// is unknown. anyOrigin is true if scripts of every web origin may use one of them. Only
// the mux can match paths, so methods calls the mux once per verb.
func (g *gateway) methods(c *call) (accepted []string, anyOrigin bool) {
	for _, verb := range verbs {
		probe := &call{probe: true}
		g.mux.ServeHTTP(probe, emptyRequest(c.request.Context(), probe, verb, c.request.URL))
		if probe.route == nil {
			continue
		}
		accepted, anyOrigin = append(accepted, verb), anyOrigin || probe.route.AnyOrigin
		if verb == http.MethodGet {
			accepted = append(accepted, http.MethodHead)
		}
	}
	if accepted != nil {
		accepted = append(accepted, http.MethodOptions)
		slices.Sort(accepted)
	}
	return accepted, anyOrigin
}

// WriteHeader sends the status. Only the first call has an effect. For 204, which has no
// body, WriteHeader removes the headers that describe a body.
func (c *call) WriteHeader(status int) {
	if c.status != 0 {
		return
	}
	c.status = status
	if status == http.StatusNoContent {
		h := c.Header()
		h.Del("Content-Type")
		h.Del("Content-Length")
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *call) Write(b []byte) (int, error) {
	if c.complete || len(b) == 0 {
		return len(b), nil
	}
	if c.status == 0 {
		c.WriteHeader(c.successStatus)
	}
	if c.status == http.StatusNoContent {
		return len(b), nil
	}
	if c.pieceTimeout == 0 {
		return c.ResponseWriter.Write(b)
	}
	c.setWriteDeadline(time.Now().Add(c.pieceTimeout))
	n, err := c.ResponseWriter.Write(b)
	if err != nil {
		// The client has closed the connection or reads too slowly. Panic, because
		// grpc-gateway would log a returned error.
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// FlushError sends the data that Write has buffered. In a download, it then removes the
// write deadline until the next piece, because net/http aborts an HTTP/2 response when
// the deadline expires, even if nothing is being written.
func (c *call) FlushError() error {
	if c.complete {
		return nil
	}
	err := http.NewResponseController(c.ResponseWriter).Flush()
	if c.pieceTimeout != 0 {
		c.setWriteDeadline(time.Time{})
	}
	return err
}

func (c *call) setWriteDeadline(at time.Time) {
	// Ignore the error. Some writers, for example in tests, do not support deadlines, and
	// these writers have no timeouts either.
	_ = http.NewResponseController(c.serverWriter).SetWriteDeadline(at)
}

// statusMetadata is the metadata key with which the core sets the HTTP status of one
// successful response, if it is not the usual status of the route.
const statusMetadata = "x-http-code"

// errHead ends a download before its first piece is written if the request is a HEAD
// request.
var errHead = errors.New("the response to HEAD has no body")

// setSuccess sets the status of a response without an error. The core can replace the status of the route by another
// 2xx status, and the header Cache-Control. For a HEAD request of a download, setSuccess sends the headers and returns errHead.
func setSuccess(ctx context.Context, w http.ResponseWriter, message proto.Message) error {
	c := callFrom(ctx)
	md, _ := runtime.ServerMetadataFromContext(ctx)
	if values := md.HeaderMD[statusMetadata]; len(values) > 0 {
		if code, err := strconv.Atoi(values[0]); err == nil && code >= 200 && code <= 299 {
			c.successStatus = code
		}
	}
	if values := c.Header()["Cache-Control"]; len(values) > 1 {
		// The value of the core follows the value that all responses have.
		c.Header()["Cache-Control"] = values[1:]
	}
	if piece, ok := message.(*httpbody.HttpBody); ok && c.request.Method == http.MethodHead {
		w.Header().Set("Content-Type", piece.GetContentType())
		w.WriteHeader(c.successStatus)
		return errHead
	}
	return nil
}

// handleStreamError ends a download that failed. For errHead, and for a stream of events
// that ends because the process stops, it writes nothing. If no piece was sent, it writes
// an error response. Otherwise it closes the connection, because a truncated file must
// not look complete. After handleStreamError returns, grpc-gateway writes an error of its
// own, which has no effect because the call is complete.
func (g *gateway) handleStreamError(ctx context.Context, err error) *status.Status {
	c := callFrom(ctx)
	switch {
	case errors.Is(err, errHead) || c.route.EventStream && g.Stopping.Err() != nil:
	case c.status == 0:
		g.refuseStatus(c, err)
	default:
		if c.request.Context().Err() == nil {
			g.Log.ErrorContext(ctx, "a stream failed", "request_id", c.id, "method", c.route.FullMethod, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	c.complete = true
	return status.Convert(err)
}

// forwardedHeaders lists the request headers that the gateway forwards to the core, with their keys in the gRPC
// metadata. The gateway also sets x-client-ip, x-request-id and, for routes with NegotiatesEncoding, x-accept-encoding.
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
	"cache-control":       "Cache-Control",
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

// allowAnyOrigin lets scripts of every origin read the response. If the origin of the request is one of
// AllowedOrigins, CORS.SetHeaders has already set the headers.
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
