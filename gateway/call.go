package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
)

// call is one request on its way through the gateway. It travels in the context
// because generated code stands between the places that fill and use it, and it
// is the ResponseWriter of that code, which knows only status 200.
type call struct {
	http.ResponseWriter
	// outer is the server's own writer, which MaxBytesReader needs.
	outer http.ResponseWriter
	// request is what the client sent; generated code sees a bare copy.
	request *http.Request
	id      string
	route   *route
	// message is the decoded request, metadata what goes with it.
	message  protoreflect.Message
	metadata metadata.MD
	// aliased: the client wrote limit where the message says page_size.
	aliased bool
	// success is the status of a write without one.
	success int
	status  int
	// url is the bare copy's.
	url url.URL
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// ServeHTTP gives the request its id and its guard, and hides from generated
// code all of it but method and path: headers, query and body reach the core
// only through call.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{outer: w, request: r, success: http.StatusOK}
	c.id = httpedge.RequestID(r, func() string { return affiliate.NewID[call](g.Now()).String() })
	var bare http.Request
	inner := bare.WithContext(context.WithValue(r.Context(), callKey{}, c))
	inner.Method = r.Method
	if r.Method == http.MethodHead {
		// net/http itself leaves out the body of the answer.
		inner.Method = http.MethodGet
	}
	c.url = url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath}
	inner.URL = &c.url
	inner.Body = http.NoBody
	g.guarded.ServeHTTP(w, inner)
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
	// The mux would take an empty segment for a parameter.
	case !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
	case r.Method == http.MethodOptions:
		g.options(c, path, origin)
	default:
		g.mux.ServeHTTP(c, r)
	}
}

// WriteHeader sends a status once; 204 has neither body nor headers about one.
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
	if c.status == 0 {
		c.WriteHeader(c.success)
	}
	if c.status == http.StatusNoContent {
		return len(b), nil
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the server's writer.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }
