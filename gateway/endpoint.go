package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// route is a contract.Route with what serving it needs.
type route struct {
	contract.Route
	segments []contract.Segment
	input    protoreflect.MessageType
	// body and query are the keys and parameters that the route takes.
	body, query map[string]*fieldPlan
	mask        protoreflect.FieldDescriptor
	limit       int64
	success     int
}

type routeTable struct {
	list []*route
	// byPattern finds a route by verb and the mux's name of its pattern.
	byPattern map[string]*route
}

func newRouteTable(files []protoreflect.FileDescriptor) (*routeTable, error) {
	routes, err := contract.Routes(files)
	if err != nil {
		return nil, err
	}
	table := &routeTable{byPattern: make(map[string]*route)}
	for _, r := range routes {
		made, err := newRoute(r)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.Verb, r.Template, err)
		}
		table.list = append(table.list, made)
		table.byPattern[patternKey(r.Verb, strings.ReplaceAll(r.Template, "}", "=*}"))] = made
	}
	return table, nil
}

func patternKey(verb, pattern string) string { return verb + " " + pattern }

func newRoute(r contract.Route) (*route, error) {
	made := &route{Route: r, segments: r.Segments(), mask: r.Mask()}
	if r.RPC == nil {
		return made, nil
	}
	made.limit, made.success = contract.BodyLimit(r.FullMethod), contract.SuccessStatus(r.FullMethod)
	var err error
	if made.input, err = protoregistry.GlobalTypes.FindMessageByName(r.RPC.Input().FullName()); err != nil {
		return nil, err
	}
	if !r.Download() {
		if _, err = planFor(r.RPC.Output()); err != nil {
			return nil, err
		}
	}
	plan, err := planFor(r.RPC.Input())
	if err != nil {
		return nil, err
	}
	made.body, made.query = make(map[string]*fieldPlan), make(map[string]*fieldPlan)
	for name, field := range plan.names {
		switch {
		case r.InPath(field.fd) || field.message != nil && field.message.form == formMask:
		case r.HasBody:
			made.body[name] = field
		case field.inQuery():
			made.query[name] = field
		}
	}
	return made, nil
}

// methods lists what a path takes, for Allow; nil when there is no such path.
func (t *routeTable) methods(path string) []string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	var methods []string
	for _, r := range t.list {
		if r.matches(parts) && !slices.Contains(methods, r.Verb) {
			methods = append(methods, r.Verb)
			if r.Verb == http.MethodGet && !contract.Acts(r.FullMethod) {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	if methods != nil {
		methods = append(methods, http.MethodOptions)
		slices.Sort(methods)
	}
	return methods
}

func (r *route) matches(parts []string) bool {
	return slices.EqualFunc(r.segments, parts, func(s contract.Segment, part string) bool {
		return s.Field != "" && part != "" || s.Literal == part && s.Field == ""
	})
}

// endpoint stands between the mux and each generated handler. It reads the whole
// request into call.message, or answers why it cannot.
func (g *gateway) endpoint(next runtime.HandlerFunc) runtime.HandlerFunc {
	// The mux wraps each pattern's handler once and tells only at a request which
	// pattern that is.
	var once sync.Once
	var found *route
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		once.Do(func() {
			pattern, _ := runtime.HTTPPattern(r.Context())
			found = g.routes.byPattern[patternKey(r.Method, pattern.String())]
		})
		c := callFrom(r.Context())
		c.route = found
		switch {
		case found.RPC == nil:
			next(w, r, params)
		case c.request.Method == http.MethodHead && contract.Acts(found.FullMethod):
			g.refuseMethod(c)
		case !g.receive(c, params):
		case found.Download():
			g.download(c)
		default:
			next(w, r, params)
		}
	}
}

// receive decodes the request. When it returns false the answer is written.
func (g *gateway) receive(c *call, params map[string]string) bool {
	r := c.route
	c.success = r.success
	c.metadata = g.outgoing(c)
	c.message = r.input.New()
	var found violations
	if raw := c.request.URL.RawQuery; raw != "" {
		c.aliased = bindQuery(raw, r.query, c.message, &found)
	}
	var mask *[]string
	if r.mask != nil {
		mask = new([]string)
	}
	if c.request.ContentLength != 0 && !g.receiveBody(c, mask, &found) {
		return false
	}
	if r.mask != nil {
		c.message.Set(r.mask, protoreflect.ValueOfMessage((&fieldmaskpb.FieldMask{Paths: *mask}).ProtoReflect()))
	}
	for _, field := range r.PathFields {
		c.message.Set(field, protoreflect.ValueOfString(usableUTF8(params[string(field.Name())])))
	}
	if len(found.list) == 0 {
		return true
	}
	// The core counts and judges the caller before the caller hears of the body.
	var md metadata.MD
	ctx, cancel := bounded(metadata.NewOutgoingContext(c.request.Context(), c.metadata), g.Timeout)
	defer cancel()
	_, err := g.gate.Admit(ctx, &affiliatev1.AdmitRequest{Method: r.FullMethod}, grpc.Header(&md))
	copyAnswerHeaders(c, md)
	if err != nil {
		g.refuseStatus(c, err)
		return false
	}
	g.refuse(c, refusal{reason: affiliate.ReasonValidation, violations: found.list})
	return false
}

// receiveBody reads and decodes the body; false when it answered a 413 or 415.
func (g *gateway) receiveBody(c *call, mask *[]string, found *violations) bool {
	r := c.route
	if c.request.ContentLength > r.limit {
		g.refuse(c, refusal{reason: affiliate.ReasonPayloadTooLarge})
		return false
	}
	body, err := readBody(c)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		g.refuse(c, refusal{reason: affiliate.ReasonPayloadTooLarge})
		return false
	case err != nil:
		// The client went away or is too slow; what came may be half a document.
		c.Header().Set("Connection", "close")
		found.add("", "The body could not be read to its end.")
		return true
	case len(body) == 0:
		return true
	case !plainJSON(c.request.Header):
		g.refuse(c, refusal{reason: affiliate.ReasonUnsupportedMediaType})
		return false
	}
	decodeBody(body, r.body, c.message, mask, found)
	return true
}

// readBody reads as much as the route takes and fails on more.
func readBody(c *call) ([]byte, error) {
	if length := c.request.ContentLength; length > 0 {
		// net/http gives no more than the length it was told.
		body := make([]byte, length)
		_, err := io.ReadFull(c.request.Body, body)
		return body, err
	}
	return io.ReadAll(http.MaxBytesReader(c.outer, c.request.Body, c.route.limit))
}

// plainJSON tells whether a body's headers say JSON as it is.
func plainJSON(h http.Header) bool {
	for _, encoding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return false
		}
	}
	types := h["Content-Type"]
	if len(types) == 0 {
		return true
	}
	if len(types) == 1 && types[0] == "application/json" {
		return true
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || len(types) > 1 || media != "application/json" {
		return false
	}
	charset, given := parameters["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}
