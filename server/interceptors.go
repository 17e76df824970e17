package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

// callTimeout ends a call that has no nearer deadline of its own; it lies under
// the 30 s in which an HTTP answer has to be written.
const callTimeout = 20 * time.Second

// link is one interceptor and the reason for its place.
type link struct {
	name      string
	why       string
	intercept grpc.UnaryServerInterceptor
}

// chain is the one place that names the order, outermost first. A test holds it.
func (f *frame) chain() []link {
	return []link{
		{"panic guard", "a panic in any link below must not end the process", f.guard},
		{"request id", "everything below logs and answers under it", f.identifyCaller},
		{"access log", "sees the outcome as the caller sees it", f.logAccess},
		{"error mapping", "the only place where Go errors become statuses", f.mapErrors},
		{"recovery", "a panic in a handler is an error like any other, mapped and logged above", f.recover},
		{"deadline", "nothing below may run for ever", f.setDeadline},
		{"authentication", "settles who calls; refuses later, so that refusals are counted", f.authenticate},
		{"rate limit", "counts under the principal, or under the address of a refused credential", f.limit},
		{"authorisation", "401 and 403, after the count", f.authorise},
		{"validation", "a refused caller never learns what is wrong with the body", f.validate},
	}
}

// frame holds what the interceptors need.
type frame struct {
	authenticator authenticator
	limiter       Limiter
	log           *slog.Logger
	now           func() time.Time
	trusted       []netip.Prefix
	// links is the chain in one piece.
	links grpc.UnaryServerInterceptor
}

func (f *frame) guard(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			f.logPanic(ctx, info.FullMethod, p)
			err = refusalStatus(affiliate.Refuse(affiliate.ReasonInternal)).Err()
		}
	}()
	return next(ctx, req)
}

func (f *frame) logPanic(ctx context.Context, method string, p any) {
	f.log.LogAttrs(ctx, slog.LevelError, "panic", slog.String("request_id", RequestID(ctx)),
		slog.String("method", method), slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
}

// identifyCaller takes the request id and the client's address from the
// metadata when the in-process channel or a trusted proxy brought them; anybody
// else is known by its own address, and gets a fresh id unless it sent a valid
// one.
func (f *frame) identifyCaller(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(f.withCaller(ctx), req)
}

func (f *frame) withCaller(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	var c caller
	var believed bool
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		if p.Addr.Network() == inProcessNetwork {
			believed = true
		} else if addr, err := netip.ParseAddrPort(p.Addr.String()); err == nil {
			c.address = addr.Addr().WithZone("").Unmap()
			for _, prefix := range f.trusted {
				believed = believed || prefix.Contains(c.address)
			}
		}
	}
	if believed {
		if addr, err := netip.ParseAddr(first(md, "x-client-ip")); err == nil {
			c.address = addr.WithZone("").Unmap()
		}
	}
	if c.requestID = first(md, "x-request-id"); !believed || !httpedge.ValidRequestID(c.requestID) {
		c.requestID = affiliate.NewID[caller](f.now()).String()
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-request-id", c.requestID))
	return withCaller(ctx, c)
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// logAccess writes one line a call, from an allow-list: never a credential, a
// body, an e-mail address or a whole network address.
func (f *frame) logAccess(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start := f.now()
	resp, err := next(ctx, req)
	c := callerFrom(ctx)
	f.log.LogAttrs(ctx, slog.LevelInfo, "call",
		slog.String("request_id", c.requestID),
		slog.String("method", info.FullMethod),
		slog.String("code", status.Code(err).String()),
		slog.String("client", httpedge.AddressPrefix(c.address)),
		slog.Duration("took", f.now().Sub(start)))
	return resp, err
}

func (f *frame) mapErrors(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	if err == nil {
		return resp, nil
	}
	if isAccident(err) {
		f.log.LogAttrs(ctx, slog.LevelError, "accident", slog.String("request_id", RequestID(ctx)),
			slog.String("method", info.FullMethod), slog.String("error", err.Error()))
	}
	return nil, toStatus(err).Err()
}

func (f *frame) recover(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			f.logPanic(ctx, info.FullMethod, p)
			err = affiliate.Refuse(affiliate.ReasonInternal)
		}
	}()
	return next(ctx, req)
}

func (f *frame) setDeadline(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	timeout := callTimeout
	if ctx.Value(streamKey{}) != nil {
		timeout = streamTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return next(ctx, req)
}

// admission is what authentication, rate limit and authorisation hand on.
type admission struct {
	policy   Policy
	identity identity
}

type admissionKey struct{}

func (f *frame) authenticate(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := info.FullMethod
	if ask, ok := req.(*affiliatev1.AdmitRequest); ok && method == affiliatev1.GateService_Admit_FullMethodName {
		method = ask.GetMethod()
	}
	policy, ok := policies[method]
	if !ok {
		// Unreachable for our own methods (checkPolicies); an Admit of a method
		// that is not served.
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	id := identity{principal: Principal{Kind: Nobody}, fault: missing}
	if policy.Accept&Nobody == 0 {
		var err error
		if id, err = f.authenticator.identify(ctx); err != nil {
			return nil, err
		}
	}
	ctx = context.WithValue(ctx, admissionKey{}, admission{policy, id})
	return next(WithPrincipal(ctx, id.principal), req)
}

func admissionOf(ctx context.Context) admission {
	// Set by authenticate, which every call passes: the order is under test.
	return ctx.Value(admissionKey{}).(admission)
}

func (f *frame) limit(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	a := admissionOf(ctx)
	if err := limit(ctx, f.limiter, a.policy, a.identity); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (f *frame) authorise(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	a := admissionOf(ctx)
	if err := a.policy.authorise(a.identity); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (f *frame) validate(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if admissionOf(ctx).identity.badMode {
		return nil, affiliate.Invalid("X-Mode", "must be one of test, live")
	}
	if err := validate(info.Server, req); err != nil {
		return nil, err
	}
	return next(ctx, req)
}
