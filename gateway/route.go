package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/spans"
)

// Traced reports whether a request is traced. Health probes, and pages that are not part of
// the API, are not.
func Traced(r *http.Request) bool {
	return isSession(r.URL.Path) || strings.HasPrefix(r.URL.Path, "/api/v1/") && !strings.HasPrefix(r.URL.Path, "/api/v1/health")
}

// route is a contract.Route with precomputed data for serving requests.
type route struct {
	contract.Route
	input protoreflect.MessageType
	// body contains the accepted keys of the body, and query the accepted query
	// parameters. A field has one entry for each of its names.
	body, query map[string]*fieldPlan
	mask        protoreflect.FieldDescriptor // the update_mask of the request, or nil
	// items describes the list of a bulk request. It is nil for other routes.
	items *itemList
}

// The gateway writes the faults of the items of a bulk request to the field itemFaults, and
// the spelling of their keys to itemSpellings.
const (
	itemFaults    = "item_faults"
	itemSpellings = "spellings"
)

// readRoutes returns all routes. A key of the map is the HTTP method, a space and the
// pattern as the mux writes it, such as /api/v1/programs/{program_id=*}.
func readRoutes(files []protoreflect.FileDescriptor) (map[string]*route, error) {
	routes, err := contract.Routes(files)
	if err != nil {
		return nil, err
	}
	table := make(map[string]*route, len(routes))
	for _, r := range routes {
		prepared, err := newRoute(r)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.Verb, r.Template, err)
		}
		table[r.Verb+" "+strings.ReplaceAll(r.Template, "}", "=*}")] = prepared
	}
	return table, nil
}

func newRoute(r contract.Route) (*route, error) {
	prepared := &route{Route: r, mask: r.Mask()}
	if r.RPC == nil {
		return prepared, nil
	}
	var err error
	if prepared.input, err = protoregistry.GlobalTypes.FindMessageByName(r.RPC.Input().FullName()); err != nil {
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
	if faults, ok := plan.names[itemFaults]; ok && contract.SetByGateway(faults.fd) {
		list := slices.IndexFunc(plan.fields, func(f fieldPlan) bool { return f.isList && f.message != nil })
		prepared.items = &itemList{list: &plan.fields[list], faults: faults, spellings: plan.names[itemSpellings].fd}
	}
	prepared.body, prepared.query = make(map[string]*fieldPlan), make(map[string]*fieldPlan)
	for name, field := range plan.names {
		switch {
		case r.InPath(field.fd) || field.message != nil && field.message.form == formMask || contract.SetByGateway(field.fd):
		case r.InQuery(field.fd):
			if field.inQuery() {
				for _, spelling := range slices.Concat(contract.QueryNames(r, field.fd), contract.Spellings(field.fd), contract.PartnerAliases(field.fd)) {
					prepared.query[spelling] = field
				}
			}
		case field.message != nil && field.message.form == formRaw:
			if r.RawBody == nil {
				return nil, fmt.Errorf("%s cannot be in a JSON body", field.fd.FullName())
			}
		default:
			prepared.body[name] = field
		}
	}
	return prepared, nil
}

// matchRoute sets the route of the call. The mux calls matchRoute once per pattern. The
// pattern is known only from the context of a request, so the first request looks up the
// route.
func (g *gateway) matchRoute(next runtime.HandlerFunc) runtime.HandlerFunc {
	var once sync.Once
	var matched *route
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		once.Do(func() {
			pattern, _ := runtime.HTTPPattern(r.Context())
			matched = g.routes[r.Method+" "+pattern.String()]
		})
		c := callFrom(r.Context())
		c.route, c.successStatus = matched, matched.Status
		if c.probe {
			return
		}
		spans.SetRoute(r.Context(), matched.Verb, matched.Template)
		if matched.AnyOrigin {
			c.allowAnyOrigin()
		}
		for name, value := range params {
			params[name] = replaceUnusable(value)
		}
		c.path = params
		next(w, r, params)
	}
}

// readQuery validates the query. It passes the values to the next handler by JSON name,
// whichever spelling the client used.
func (g *gateway) readQuery(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		c := callFrom(r.Context())
		if raw := c.request.URL.RawQuery; raw != "" && c.route.RPC != nil {
			c.decoded = c.route.input.New()
			r.Form, c.spellings = parseQuery(raw, c.route.query, c.decoded, &c.faults)
			c.selectCSV(r)
		}
		next(w, r, params)
	}
}

// readBody reads the body. If the route has a body, the decoder of marshaler.NewDecoder decodes it later. All other
// routes accept only an empty body or an empty object. A raw body can have any content type.
func (g *gateway) readBody(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		c := callFrom(r.Context())
		if c.route.RPC == nil {
			next(w, r, params)
			return
		}
		data, reason := c.readBody()
		if reason != "" {
			g.refuseAfterAdmit(c, reason)
			return
		}
		if c.route.HasBody {
			r.Body = &requestBody{call: c, data: data}
		} else {
			decodeBody(data, c.route.body, c.route.input.New(), &c.faults)
			if len(c.faults.list) > 0 {
				g.refuseAfterAdmit(c, affiliate.ReasonValidation)
				return
			}
		}
		next(w, r, params)
	}
}

// readBody returns the whole body, or the reason why the route refuses the body. If the
// body ends early or arrives too slowly, readBody adds a fault to the call and closes the
// connection, because the start of the next request is not known.
func (c *call) readBody() (data []byte, refused affiliate.Reason) {
	length := c.request.ContentLength
	if length == 0 {
		return nil, ""
	}
	if length > c.route.BodyLimit {
		return nil, affiliate.ReasonPayloadTooLarge
	}
	var err error
	if length > 0 {
		data = make([]byte, length)
		_, err = io.ReadFull(c.request.Body, data)
	} else {
		data, err = io.ReadAll(http.MaxBytesReader(c.serverWriter, c.request.Body, c.route.BodyLimit))
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, affiliate.ReasonPayloadTooLarge
	case err != nil:
		c.Header().Set("Connection", "close")
		c.faults.incomplete = true
		c.faults.add(affiliate.WholeBody, "could not be read to its end")
		return nil, ""
	case len(data) > 0 && c.route.RawBody == nil && !httpedge.IsPlainJSON(c.request.Header):
		return nil, affiliate.ReasonUnsupportedMediaType
	}
	return data, ""
}

// limitTime cancels a call to the core after the timeout. A download has neither a
// timeout nor a write deadline for the whole response, because its duration depends on
// how fast the client reads.
func (g *gateway) limitTime(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		c := callFrom(r.Context())
		if c.route.Download() {
			c.pieceTimeout = g.pieceTimeout
			c.setWriteDeadline(time.Time{})
			if c.route.EventStream {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				defer context.AfterFunc(g.Stopping, cancel)()
				r = r.WithContext(ctx)
			}
			next(w, r, params)
			return
		}
		ctx, cancel := g.withTimeout(r.Context())
		defer cancel()
		if ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		next(w, r, params)
	}
}

func (g *gateway) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.Timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, g.Timeout)
}
