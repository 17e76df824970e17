package gateway

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/httpedge"
)

// call is one HTTP request and its response. The context carries it to the
// middlewares, the decoder, the response options and the error handlers, because
// grpc-gateway calls them one by one. It is also the ResponseWriter of the
// generated handlers, which only know status 200.
type call struct {
	http.ResponseWriter
	// outer is the server's own writer, which http.MaxBytesReader and write
	// deadlines need.
	outer http.ResponseWriter
	// request is the request of the client. The mux gets a copy without headers.
	request *http.Request
	id      string
	// probe is true for a call by methods, which only finds the route.
	probe bool
	// route is nil until the mux has found one.
	route *route
	// faults collects the faults of the query and the body.
	faults violations
	// ignored contains the paths of the body's unknown keys that the route ignores.
	ignored []string
	// decoded is the request message with the fields of path and query that could be
	// decoded. It is nil without a query.
	decoded protoreflect.Message
	// written contains the client's spelling of each query parameter, by field.
	written map[protoreflect.Name]string
	// success is the status of a response that sets no other status.
	success int
	// status is the status that was sent. It is 0 before that.
	status int
	// streaming means that the response is written in pieces.
	streaming bool
	// closed means that the response is complete: further writes are dropped.
	closed bool
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// ServeHTTP creates the call of a request and passes it to the mux. The request for the
// mux has only a method and a path, because grpc-gateway would forward Authorization,
// X-Forwarded-* and Grpc-Timeout to the core. The list of forwarded headers is in
// headers.go.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{outer: w, request: r, success: http.StatusOK}
	c.id = httpedge.RequestID(r, func() string { return affiliate.NewID[call](g.Now()).String() })
	method := r.Method
	if method == http.MethodHead {
		// net/http does not send the body of a response to HEAD.
		method = http.MethodGet
	}
	g.guarded.ServeHTTP(w, bare(r.Context(), c, method, r.URL))
}

// bare returns a request without headers, query and body.
func bare(ctx context.Context, c *call, method string, u *url.URL) *http.Request {
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
	origin := g.setHeaders(c)
	if !httpedge.Secure(c.request, g.TrustedProxies, g.AllowHTTP) {
		httpedge.WriteError(c, http.StatusForbidden, affiliate.ReasonHTTPSRequired, httpedge.HTTPSRequiredMessage)
		return
	}
	path := r.URL.Path
	if r.URL.RawPath != "" {
		path = r.URL.RawPath
	}
	switch {
	// The mux accepts an empty segment as a parameter.
	case !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
	case r.Method == http.MethodOptions:
		g.options(c, origin)
	default:
		g.mux.ServeHTTP(c, r)
	}
}

// verbs are the HTTP methods that routes have.
var verbs = []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut}

// methods returns the methods that the call's path accepts, or none if the path is
// unknown. Only the mux can match paths, so methods calls it once with every verb.
func (g *gateway) methods(c *call) []string {
	var found []string
	for _, verb := range verbs {
		probe := &call{probe: true}
		g.mux.ServeHTTP(probe, bare(c.request.Context(), probe, verb, c.request.URL))
		if probe.route == nil {
			continue
		}
		found = append(found, verb)
		if verb == http.MethodGet && !contract.ChangesData(probe.route.FullMethod) {
			found = append(found, http.MethodHead)
		}
	}
	if found != nil {
		found = append(found, http.MethodOptions)
		slices.Sort(found)
	}
	return found
}

// WriteHeader sends the status once. A response with 204 has no body, so WriteHeader
// removes the headers that describe a body.
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

// streamWrite bounds how long a client takes to read one piece of a stream. The
// server's write timeout bounds whole responses, which a stream may exceed.
const streamWrite = 30 * time.Second

func (c *call) Write(b []byte) (int, error) {
	if c.closed || len(b) == 0 {
		return len(b), nil
	}
	if c.status == 0 {
		c.WriteHeader(c.success)
	}
	if c.status == http.StatusNoContent {
		return len(b), nil
	}
	if !c.streaming {
		return c.ResponseWriter.Write(b)
	}
	c.setWriteDeadline(time.Now().Add(streamWrite))
	n, err := c.ResponseWriter.Write(b)
	if err != nil {
		// The client has left or reads too slowly. grpc-gateway would log that.
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// FlushError ends a piece of a stream. It removes the write deadline until the next
// piece, because over HTTP/2 an expired deadline resets the stream even if nothing is
// being written.
func (c *call) FlushError() error {
	if c.closed {
		return nil
	}
	err := http.NewResponseController(c.ResponseWriter).Flush()
	if c.streaming {
		c.setWriteDeadline(time.Time{})
	}
	return err
}

func (c *call) setWriteDeadline(at time.Time) {
	// Ignore the error of a writer without deadlines, as in tests. It has no timeout
	// either.
	_ = http.NewResponseController(c.outer).SetWriteDeadline(at)
}
