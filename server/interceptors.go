package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// callTimeout is the longest time that a unary call may take. It is shorter than the
// gateway's timeout for writing the HTTP response, which is 30 s.
const callTimeout = 20 * time.Second

// interceptor is one interceptor of the chain. reason explains what the interceptor does
// at its position in the chain.
type interceptor struct {
	name      string
	reason    string
	intercept grpc.UnaryServerInterceptor
}

// chain returns the interceptors in their order, outermost first. A test checks the
// order.
func (p *pipeline) chain() []interceptor {
	return []interceptor{
		{"panic guard", "a panic in any later interceptor must not end the process", p.guard},
		{"request id", "later interceptors log this id and responses contain it", p.identifyCaller},
		{"access log", "logs the status that the caller receives", p.logAccess},
		{"error mapping", "converts the Go errors of all later steps into gRPC statuses", p.mapErrors},
		{"recovery", "turns a panic into an error, which the two earlier interceptors map and log", p.recover},
		{"deadline", "limits the run time of the later interceptors and the handler", p.setDeadline},
		{"authentication", "identifies the caller but rejects no call, so that the rate limit counts bad credentials", p.authenticate},
		{"rate limit", "counts per principal, or per address if the credential is bad", p.limit},
		{"authorisation", "returns 401 and 403, after the rate limit has counted the call", p.authorise},
		{"other mode", "explains errors of the handler to a caller with permission", p.suggestMode},
		{"validation", "comes last, so that a rejected caller learns nothing about the body", p.validate},
	}
}

// pipeline has the interceptors as methods and holds their dependencies.
type pipeline struct {
	db            *postgres.DB
	authenticator authenticator
	limiter       Limiter
	log           *slog.Logger
	now           func() time.Time
	trusted       []netip.Prefix // proxies whose metadata is trusted
	// requireVerified is Config.RequireVerifiedEmail.
	requireVerified bool
	// unary is the whole chain as one interceptor.
	unary grpc.UnaryServerInterceptor
}

func (p *pipeline) guard(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer p.catch(ctx, info.FullMethod, errPanicStatus, &err)
	return next(ctx, req)
}

// errPanic is the error of a call that panics, and errPanicStatus its gRPC status.
var (
	errPanic       = affiliate.Refuse(affiliate.ReasonInternal)
	errPanicStatus = refusalStatus(errPanic).Err()
)

// catch recovers a panic of the function that defers it, logs it, and sets the function's error result.
func (p *pipeline) catch(ctx context.Context, method string, failure error, result *error) {
	cause := recover()
	if cause == nil {
		return
	}
	p.log.LogAttrs(ctx, slog.LevelError, "panic", slog.String("request_id", RequestID(ctx)),
		slog.String("method", method), slog.String("panic", fmt.Sprint(cause)), slog.String("stack", string(debug.Stack())))
	*result = failure
}

// identifyCaller adds the request id and the client's address to the context. A call from
// the in-process channel or from a trusted proxy can set both values in its metadata. If
// this metadata has no valid request id, identifyCaller creates a new id. For all other
// calls the request id is new and the client's address is the address of the connection.
func (p *pipeline) identifyCaller(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	var c caller
	var trusted bool
	if c.address, trusted = p.peerOf(ctx); trusted {
		if addr, err := netip.ParseAddr(first(md, "x-client-ip")); err == nil {
			c.address = addr.WithZone("").Unmap()
		}
	}
	if c.requestID = first(md, "x-request-id"); !trusted || !httpedge.ValidRequestID(c.requestID) {
		c.requestID = affiliate.NewID[affiliate.RequestID](p.now()).String()
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-request-id", c.requestID))
	return next(context.WithValue(ctx, callerKey{}, c), req)
}

// peerOf returns the address of the connection of a call. A call from the in-process
// channel has no valid address. trusted is true if the core trusts the metadata of the
// call, because the call is from the in-process channel or from a trusted proxy.
func (p *pipeline) peerOf(ctx context.Context) (address netip.Addr, trusted bool) {
	from, ok := peer.FromContext(ctx)
	if !ok || from.Addr == nil {
		return address, false
	}
	if from.Addr.Network() == inProcessNetwork {
		return address, true
	}
	if connection, err := netip.ParseAddrPort(from.Addr.String()); err == nil {
		address = connection.Addr().WithZone("").Unmap()
		trusted = httpedge.Contains(p.trusted, address)
	}
	return address, trusted
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// logAccess writes one log line per call. The line contains no credential, no body, no
// e-mail address and no complete network address.
func (p *pipeline) logAccess(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start := p.now()
	resp, err := next(ctx, req)
	c := callerFrom(ctx)
	p.log.LogAttrs(ctx, slog.LevelInfo, "call",
		slog.String("request_id", c.requestID),
		slog.String("method", info.FullMethod),
		slog.String("code", status.Code(err).String()),
		slog.String("client", httpedge.AddressPrefix(c.address)),
		slog.Duration("took", p.now().Sub(start)))
	return resp, err
}

func (p *pipeline) mapErrors(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	if err == nil {
		return resp, nil
	}
	st := toStatus(err)
	if isInternalError(err) {
		// A call that ends with 503 can be repeated, so it is logged with the level WARN.
		// The alerts about the level ERROR are for faults that need a correction.
		fault := []slog.Attr{slog.String("request_id", RequestID(ctx)), slog.String("method", info.FullMethod), slog.String("error", err.Error())}
		if st.Code() == codes.Unavailable {
			p.log.LogAttrs(ctx, slog.LevelWarn, "the call ends with SERVICE_UNAVAILABLE", fault...)
		} else {
			p.log.LogAttrs(ctx, slog.LevelError, "internal error", fault...)
		}
	}
	return nil, st.Err()
}

func (p *pipeline) recover(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer p.catch(ctx, info.FullMethod, errPanic, &err)
	return next(ctx, req)
}

func (p *pipeline) setDeadline(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	timeout := callTimeout
	switch {
	case policies[info.FullMethod].Lasting:
		timeout = account.AccessTokenLife + lastingMargin
	case ctx.Value(streamKey{}) != nil:
		timeout = streamTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return next(ctx, req)
}

// admission holds the policy of the called method and the identity of the caller. The
// authentication interceptor stores it in the context. The rate limit, authorisation and
// validation interceptors read it.
type admission struct {
	policy   Policy
	identity identity
}

type admissionKey struct{}

func (p *pipeline) authenticate(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := info.FullMethod
	if admit, ok := req.(*affiliatev1.AdmitRequest); ok && method == affiliatev1.GateService_Admit_FullMethodName {
		method = admit.GetMethod()
	}
	policy, ok := policies[method]
	if !ok {
		// All served methods have a policy (checkPolicies). So this is a call of
		// GateService/Admit for a method that the core does not serve.
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	id := identity{principal: Principal{Kind: NoCredential}, fault: faultMissing}
	if policy.Accept&NoCredential == 0 {
		var err error
		if id, err = p.authenticator.identify(ctx); err != nil {
			return nil, err
		}
		if ticket := ticketOf(req); ticket != "" && id.fault == faultMissing {
			if id, err = p.authenticator.identifyTicket(ctx, id, ticket, !policy.Lasting); err != nil {
				return nil, err
			}
		}
	}
	if id.fault == faultErased && policy.Erased && policy.Accept&id.principal.Kind != 0 {
		id.fault = noFault
	}
	ctx = context.WithValue(ctx, admissionKey{}, admission{policy, id})
	return next(WithPrincipal(ctx, id.principal), req)
}

// ticketOf returns the ticket in a request that opens a stream or starts a download, or "".
func ticketOf(req any) string {
	if admit, ok := req.(*affiliatev1.AdmitRequest); ok && admit.GetRequest() != nil {
		// If the message is not valid, there is no ticket in it, and the call is refused.
		req, _ = admit.GetRequest().UnmarshalNew()
	}
	if r, ok := req.(interface{ GetTicket() string }); ok {
		return r.GetTicket()
	}
	return ""
}

func admissionFrom(ctx context.Context) admission {
	// The type assertion cannot fail, because authenticate stores the value and runs
	// before the interceptors that call admissionFrom. A test checks the order of the
	// interceptors.
	return ctx.Value(admissionKey{}).(admission)
}

func (p *pipeline) limit(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	a := admissionFrom(ctx)
	if err := limit(ctx, p.limiter, a.policy, a.identity); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (p *pipeline) authorise(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	a := admissionFrom(ctx)
	if err := a.policy.authorise(a.identity, p.requireVerified); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (p *pipeline) validate(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if a := admissionFrom(ctx); a.identity.invalidMode && !a.policy.IgnoresMode {
		return nil, affiliate.Invalid("X-Mode", "must be one of test, live")
	}
	msg, ok := req.(proto.Message)
	if !ok {
		return nil, affiliate.Refuse(affiliate.ReasonInternal) // gRPC decodes all requests into messages
	}
	if service, ok := info.Server.(Prechecker); ok {
		if err := service.Precheck(ctx, msg); err != nil {
			return nil, err
		}
	}
	if err := checkConfirmation(msg); err != nil {
		return nil, err
	}
	found := ValidateItem(info.Server, msg)
	if info.FullMethod != affiliatev1.GateService_Admit_FullMethodName { // Admit returns its violations in the response
		found = append(found, checkKeyAccepted(ctx, admissionFrom(ctx).policy)...)
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// gate implements GateService. A gateway calls GateService when it cannot decode all
// fields of an HTTP request. The call runs the interceptors with the policy of the method
// that the HTTP request was for, so the caller is checked before the response says
// anything about the fields.
type gate struct {
	affiliatev1.UnimplementedGateServiceServer
	// services maps a method's full name to the service that implements it.
	services map[string]any
}

func newGate(services []Service) gate {
	g := gate{services: map[string]any{}}
	for _, service := range services {
		for _, method := range methodsOf(service.Desc) {
			g.services[method] = service.Impl
		}
	}
	return g
}

// Admit validates the fields of a request that the gateway could decode, and returns
// their violations. The gateway adds violations for the fields that it could not decode
// and reports all violations together.
func (g gate) Admit(ctx context.Context, req *affiliatev1.AdmitRequest) (*affiliatev1.AdmitResponse, error) {
	found := checkKeyAccepted(ctx, admissionFrom(ctx).policy)
	if req.GetRequest() == nil {
		return admitResponse(found), nil
	}
	decoded, err := requestOf(req.GetMethod())
	if err != nil {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err := req.GetRequest().UnmarshalTo(decoded); err != nil {
		return nil, affiliate.Invalid("request", "must be a request of the method")
	}
	return admitResponse(append(ValidateItem(g.services[req.GetMethod()], decoded), found...)), nil
}

func admitResponse(found affiliate.Violations) *affiliatev1.AdmitResponse {
	response := &affiliatev1.AdmitResponse{}
	for _, v := range found {
		response.Violations = append(response.Violations, &affiliatev1.AdmitViolation{Field: v.Field, Message: v.Message})
	}
	return response
}
