package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
)

const errorDomain = "tributary"

// refusal contains the values of an error response. If message is empty, or if the reason is INTERNAL_ERROR, the
// response has the standard message of the reason.
type refusal struct {
	reason  affiliate.Reason
	message string
	// violations contain field names in the spelling of the client.
	violations []affiliate.Violation
	// retryAfter is the value of the header Retry-After in seconds, or empty.
	retryAfter string
	// fields are additional fields of the response body. They are written in the order of their names.
	fields map[string]any
	// results contains the results of the items of a bulk request. It is nil for other
	// requests.
	results proto.Message
}

func (g *gateway) refuse(c *call, r refusal) {
	spec := errorspec.ByReason(r.reason)
	message := cmp.Or(r.message, spec.Message)
	if r.reason == affiliate.ReasonInternal {
		message = spec.Message
	}
	h := c.Header()
	h.Del("Content-Disposition")
	switch {
	case r.retryAfter != "":
		h.Set("Retry-After", r.retryAfter)
	case r.reason == affiliate.ReasonServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	if spec.HTTPStatus == http.StatusUnauthorized {
		// RFC 9110 section 15.5.2 requires this header in every response with 401.
		h.Set("WWW-Authenticate", "Bearer")
	}
	var fields []byte
	switch {
	case r.results != nil:
		// If appendJSON fails, the response has no results.
		fields, _ = appendJSON(nil, r.results.ProtoReflect())
	case len(r.fields) > 0:
		// Marshal cannot fail, because the fields have only strings and numbers.
		fields, _ = json.Marshal(r.fields)
	}
	httpedge.WriteErrorWithFields(c, spec.HTTPStatus, r.reason, message, fields, r.violations...)
}

// refuseAfterAdmit refuses a request that cannot be decoded. It first calls the core to
// check the caller. A caller without access gets 401, 429 or 403 and no details of the
// request. If the gateway has read the query and the body to their ends, the core also
// validates the fields that could be decoded, so that the response contains all faults.
func (g *gateway) refuseAfterAdmit(c *call, reason affiliate.Reason) {
	// Use a context that is never cancelled, because net/http cancels the context of a
	// request whose body ends early.
	ctx := context.WithValue(context.WithoutCancel(c.request.Context()), callKey{}, c)
	ctx, cancel := g.withTimeout(metadata.NewOutgoingContext(ctx, g.outgoingMetadata(ctx, nil)))
	defer cancel()
	admit := &affiliatev1.AdmitRequest{Method: c.route.FullMethod}
	// The gateway itself sets the fields of requests about sessions of browsers.
	if c.decoded != nil && c.route.RawBody == nil && !isSession(c.route.Template) && !c.faults.incomplete && reason == affiliate.ReasonValidation {
		for _, field := range c.route.PathFields {
			c.decoded.Set(field, protoreflect.ValueOfString(c.path[string(field.Name())]))
		}
		// New cannot fail, because the type of the message is registered.
		admit.Request, _ = anypb.New(c.decoded.Interface())
	}
	var md metadata.MD
	admitted, err := g.gate.Admit(ctx, admit, grpc.Header(&md))
	copyHeaders(c, md)
	if err != nil {
		g.refuseStatus(c, err)
		return
	}
	found := c.faults
	for _, v := range admitted.GetViolations() {
		if violation, fields := c.clientViolation(v); !c.faults.explain(fields) {
			found.add(violation.Field, violation.Message)
		}
	}
	g.refuse(c, refusal{reason: reason, violations: found.list})
}

func (g *gateway) refuseStatus(c *call, err error) {
	st := status.Convert(err)
	r, ok := c.refusalOf(st)
	if !ok {
		r = g.refusalWithoutReason(c, st)
	}
	if r.reason == affiliate.ReasonBulkAllFailed {
		r.results = resultsOf(st, c.route)
	}
	g.refuse(c, r)
}

// refusalOf returns the refusal that a status of the core describes. ok is false if the
// status has no ErrorInfo of this service, or if this version does not know the reason.
func (c *call) refusalOf(st *status.Status) (r refusal, ok bool) {
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			reason := affiliate.Reason(d.GetReason())
			if d.GetDomain() != errorDomain || errorspec.ByReason(reason) == nil {
				continue
			}
			ok = true
			r.reason, r.message, r.fields = reason, st.Message(), map[string]any{}
			if facts := errorspec.Context(d.GetMetadata()); len(facts) > 0 {
				r.fields["context"] = facts
			}
			if seconds, err := strconv.ParseUint(d.GetMetadata()["retry_after"], 10, 32); err == nil {
				r.retryAfter = strconv.FormatUint(seconds, 10)
			}
			if challenge := d.GetMetadata()[account.ChallengeField]; challenge != "" {
				r.fields[account.ChallengeField] = challenge
			}
			if names := d.GetMetadata()[processor.MissingPermissions]; names != "" {
				r.fields["missingPermissions"] = strings.Split(names, ",")
			}
		case *affiliatev1.SpellableViolations:
			for _, v := range d.GetViolations() {
				violation, _ := c.clientViolation(v)
				r.violations = append(r.violations, violation)
			}
		}
	}
	return r, ok
}

// resultsOf returns the results of a bulk request: the response message of the route in
// the details of a status. It returns nil if the details contain no such message.
func resultsOf(st *status.Status, r *route) proto.Message {
	for _, detail := range st.Details() {
		if m, ok := detail.(proto.Message); ok && m.ProtoReflect().Descriptor().FullName() == r.RPC.Output().FullName() {
			return m
		}
	}
	return nil
}

// codeReasons are the reasons of errors without an ErrorInfo of this service. The reason of
// all other codes is INTERNAL_ERROR.
var codeReasons = map[codes.Code]affiliate.Reason{
	codes.InvalidArgument: affiliate.ReasonValidation, codes.Unauthenticated: affiliate.ReasonUnauthorized,
	codes.PermissionDenied: affiliate.ReasonForbidden, codes.NotFound: affiliate.ReasonNotFound,
	codes.ResourceExhausted: affiliate.ReasonPayloadTooLarge,
	codes.DeadlineExceeded:  affiliate.ReasonServiceUnavailable, codes.Unavailable: affiliate.ReasonServiceUnavailable,
}

// refusalWithoutReason returns the refusal for a status without an ErrorInfo of this
// service. The status then comes from the transport or from a core of another version.
// The message of the status is not sent to the client. If the reason is INTERNAL_ERROR or
// SERVICE_UNAVAILABLE, and the client has not closed the connection, the message is
// logged.
func (g *gateway) refusalWithoutReason(c *call, st *status.Status) refusal {
	r := refusal{reason: cmp.Or(codeReasons[st.Code()], affiliate.ReasonInternal)}
	ctx := c.request.Context()
	if ctx.Err() != nil {
		// The client has closed the connection, so this is not an error of the service.
		return refusal{reason: affiliate.ReasonServiceUnavailable}
	}
	if r.reason == affiliate.ReasonInternal || r.reason == affiliate.ReasonServiceUnavailable {
		g.Log.ErrorContext(ctx, "a call to the core failed", "request_id", c.id,
			"method", c.route.FullMethod, "code", st.Code().String(), "error", st.Message())
	}
	return r
}

// handleError writes the error response after a generated handler failed. Either the
// request could not be decoded, or the core returned an error, or the response could not
// be encoded.
func (g *gateway) handleError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, _ *http.Request, err error) {
	c := callFrom(ctx)
	var routing *runtime.HTTPStatusError
	switch {
	case c.probe:
	case errors.As(err, &routing) || c.route == nil:
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
	case len(c.faults.list) > 0:
		g.refuseAfterAdmit(c, affiliate.ReasonValidation)
	default:
		if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
			copyHeaders(c, md.HeaderMD)
		}
		g.refuseStatus(c, err)
	}
}

func (g *gateway) handleRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, r *http.Request, code int) {
	c := callFrom(r.Context())
	switch {
	case c.probe:
	case code == http.StatusMethodNotAllowed:
		g.refuseMethod(c)
	default:
		g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
	}
}

func (g *gateway) refuseMethod(c *call) {
	methods, _ := g.methods(c)
	c.Header().Set("Allow", strings.Join(methods, ", "))
	g.refuse(c, refusal{reason: affiliate.ReasonMethodNotAllowed})
}

// copyHeaders sets the response headers from the metadata of the core's response.
func copyHeaders(c *call, md metadata.MD) {
	for key, header := range responseHeaders {
		if values := md.Get(key); len(values) > 0 {
			c.Header()[header] = values
		}
	}
}

// clientViolation converts a violation that the core returned. In the result, field names have the spelling of the
// client. The result fields contains the field of the violation and the fields that the message of the violation
// mentions.
func (c *call) clientViolation(v *affiliatev1.AdmitViolation) (violation affiliate.Violation, fields []string) {
	violation = affiliate.Violation{Field: v.GetField(), Message: v.GetMessage()}.WithFieldNames(func(path string) string {
		fields = append(fields, c.fieldName(path))
		return fields[len(fields)-1]
	})
	return violation, fields
}

// fieldName converts the proto path of a violation to the spelling of the client. The
// empty path stands for the whole body.
func (c *call) fieldName(path string) string {
	if path == "" {
		return affiliate.WholeBody
	}
	return clientPath(c.route.input.Descriptor(), path, c.route.SnakeCase(), c.spellings)
}

// clientPath converts a proto path, such as commission_rules.percentage,
// line_items[0].amount_cents or answers[color], to the spelling of the client. Names that
// the client has not sent get the spelling of the REST API. A name that is not a field of
// the message is the name of a header, or of a field of the stored object that the request
// changes.
func clientPath(desc protoreflect.MessageDescriptor, path string, snakeCase bool, spelled spellings) string {
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
		if field == nil && snakeCase {
			return b.String() + path
		}
		if field == nil {
			return b.String() + contract.CamelCase(path)
		}
		spelling, ok := spelled[field.FullName()]
		switch {
		case ok:
			b.WriteString(spelling)
		case snakeCase:
			b.WriteString(name)
		default:
			b.WriteString(field.JSONName())
		}
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
