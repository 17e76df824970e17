package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

// errorDomain is the domain of the core's google.rpc.ErrorInfo.
const errorDomain = "tributary"

// refusal is an error answer before it is written. Empty message: the reason's
// standard sentence.
type refusal struct {
	reason     affiliate.Reason
	message    string
	violations []affiliate.Violation
	retryAfter string
	// beside are further fields of the body: what became of the items of a bulk
	// request. nil: none.
	beside proto.Message
}

// specs holds what each reason answers, from the options of ErrorReason.
var specs = func() map[affiliate.Reason]*affiliatev1.ErrorSpec {
	values := affiliatev1.ErrorReason(0).Descriptor().Values()
	specs := make(map[affiliate.Reason]*affiliatev1.ErrorSpec, values.Len())
	for i := range values.Len() {
		if spec, ok := proto.GetExtension(values.Get(i).Options(), affiliatev1.E_Error).(*affiliatev1.ErrorSpec); ok && spec != nil {
			reason := strings.TrimPrefix(string(values.Get(i).Name()), "ERROR_REASON_")
			specs[affiliate.Reason(reason)] = spec
		}
	}
	return specs
}()

// refuse writes the envelope.
func (g *gateway) refuse(c *call, r refusal) {
	spec := specs[r.reason]
	message := r.message
	if message == "" || r.reason == affiliate.ReasonInternal {
		message = spec.GetMessage()
	}
	h := c.Header()
	switch {
	case r.retryAfter != "":
		h.Set("Retry-After", r.retryAfter)
	case r.reason == affiliate.ReasonServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	if spec.GetHttpStatus() == http.StatusUnauthorized {
		// RFC 9110 section 15.5.2 demands it of every 401.
		h.Set("WWW-Authenticate", "Bearer")
	}
	if r.beside != nil {
		if fields, err := appendJSON(nil, r.beside.ProtoReflect()); err == nil {
			httpedge.WriteErrorWith(c, int(spec.GetHttpStatus()), r.reason, message, fields)
			return
		}
	}
	httpedge.WriteError(c, int(spec.GetHttpStatus()), r.reason, message, r.violations...)
}

// refuseStatus writes what the core answered as an error.
func (g *gateway) refuseStatus(c *call, err error) {
	st := status.Convert(err)
	r, ok := refusalOf(st)
	if !ok {
		r = g.accident(c, st)
	}
	if r.reason == affiliate.ReasonBulkAllFailed {
		r.beside = resultsOf(st, c.route)
	}
	if r.reason == affiliate.ReasonValidation {
		input := c.route.input.Descriptor()
		for i := range r.violations {
			field := clientPath(input, r.violations[i].Field)
			if c.aliased && field == pageSize {
				field = pageSizeAlias
			}
			r.violations[i].Field = field
		}
	}
	g.refuse(c, r)
}

// refusalOf reads a refusal that the core made on purpose: one with an ErrorInfo
// of this service and a reason known to this build.
func refusalOf(st *status.Status) (refusal, bool) {
	var r refusal
	var known bool
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			reason := affiliate.Reason(d.GetReason())
			if d.GetDomain() != errorDomain || specs[reason] == nil {
				continue
			}
			known = true
			r.reason, r.message = reason, st.Message()
			if seconds, err := strconv.ParseUint(d.GetMetadata()["retry_after"], 10, 32); err == nil {
				r.retryAfter = strconv.FormatUint(seconds, 10)
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				r.violations = append(r.violations, affiliate.Violation{Field: v.GetField(), Message: v.GetDescription()})
			}
		}
	}
	return r, known
}

// resultsOf finds the answer of the route among a status's details.
func resultsOf(st *status.Status, r *route) proto.Message {
	for _, detail := range st.Details() {
		if m, ok := detail.(proto.Message); ok && m.ProtoReflect().Descriptor().FullName() == r.RPC.Output().FullName() {
			return m
		}
	}
	return nil
}

// accident judges a status that nobody of ours explained: the transport's, or a
// core's of another version. Its words stay in the log.
func (g *gateway) accident(c *call, st *status.Status) refusal {
	var r refusal
	switch st.Code() {
	case codes.InvalidArgument:
		r, _ = refusalOf(st)
		r = refusal{reason: affiliate.ReasonValidation, violations: r.violations}
	case codes.Unauthenticated:
		r.reason = affiliate.ReasonUnauthorized
	case codes.PermissionDenied:
		r.reason = affiliate.ReasonForbidden
	case codes.NotFound:
		r.reason = affiliate.ReasonNotFound
	case codes.ResourceExhausted:
		r.reason = affiliate.ReasonPayloadTooLarge
	case codes.DeadlineExceeded, codes.Unavailable:
		r.reason = affiliate.ReasonServiceUnavailable
	default:
		r.reason = affiliate.ReasonInternal
	}
	ctx := c.request.Context()
	if ctx.Err() != nil {
		// The client has left; nobody reads the answer and nothing is broken.
		return refusal{reason: affiliate.ReasonServiceUnavailable}
	}
	if r.reason == affiliate.ReasonInternal || r.reason == affiliate.ReasonServiceUnavailable {
		g.Log.ErrorContext(ctx, "the core gave no answer", "request_id", c.id,
			"method", c.route.FullMethod, "code", st.Code().String(), "error", st.Message())
	}
	return r
}

// handleError is the mux's way to report whatever a generated handler met.
func (g *gateway) handleError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, _ *http.Request, err error) {
	c := callFrom(ctx)
	var routing *runtime.HTTPStatusError
	if errors.As(err, &routing) || c.route == nil {
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
		return
	}
	if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
		copyAnswerHeaders(c, md.HeaderMD)
	}
	g.refuseStatus(c, err)
}

func (g *gateway) handleRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, r *http.Request, code int) {
	c := callFrom(r.Context())
	if code != http.StatusMethodNotAllowed {
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
		return
	}
	g.refuseMethod(c)
}

// refuseMethod tells which methods the path takes.
func (g *gateway) refuseMethod(c *call) {
	path := c.url.Path
	if c.url.RawPath != "" {
		path = c.url.RawPath
	}
	c.Header().Set("Allow", strings.Join(g.routes.methods(path), ", "))
	g.refuse(c, refusal{reason: affiliate.ReasonMethodNotAllowed})
}

func copyAnswerHeaders(c *call, md metadata.MD) {
	for key, header := range answered {
		if values := md.Get(key); len(values) > 0 {
			c.Header()[http.CanonicalHeaderKey(header)] = values
		}
	}
}

// statusMetadata lets one answer of the core choose another success status.
const statusMetadata = "x-http-code"

// setSuccess applies it; anything but a 2xx is ignored.
func setSuccess(ctx context.Context, _ http.ResponseWriter, _ proto.Message) error {
	md, _ := runtime.ServerMetadataFromContext(ctx)
	if values := md.HeaderMD[statusMetadata]; len(values) > 0 {
		if code, err := strconv.Atoi(values[0]); err == nil && code >= 200 && code <= 299 {
			callFrom(ctx).success = code
		}
	}
	return nil
}

// clientPath turns a proto path (commission_rules.percentage,
// line_items[0].amount_cents, answers[color]) into the path as clients write it.
// What is no field of the message, such as a header's name, stays as it is.
func clientPath(desc protoreflect.MessageDescriptor, path string) string {
	var b strings.Builder
	for path != "" {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		name, rest := path[:end], path[end:]
		var field protoreflect.FieldDescriptor
		if desc != nil {
			field = desc.Fields().ByName(protoreflect.Name(name))
		}
		if field == nil {
			return b.String() + path
		}
		b.WriteString(field.JSONName())
		desc = field.Message()
		if strings.HasPrefix(rest, "[") {
			inside, after, ok := strings.Cut(rest[1:], "]")
			switch {
			case !ok:
				return b.String() + rest
			case field.IsMap():
				desc = field.MapValue().Message()
				b.WriteString("." + strings.Trim(inside, `"`))
			default:
				b.WriteString("[" + inside + "]")
			}
			rest = after
		}
		if path = strings.TrimPrefix(rest, "."); path != "" {
			b.WriteByte('.')
		}
	}
	return b.String()
}
