// Package server contains the parts of the gRPC core that all services share:
// authentication, authorisation, rate limits, validation, and the conversion of Go
// errors into gRPC statuses. The services themselves are in subpackages. The packages
// in cmd create the services and the server.
//
// Each method has a policy, which states the credentials, the roles and the rate limit of
// its callers. The package guarantees that no method with a policy runs before the call
// has passed the checks of the policy. A server does not start if one of its methods has
// no policy. Only gRPC reflection and the streaming health check run without a policy.
// They are available on the gRPC port only. Calls over the network and calls in the
// same process run the same chain of interceptors:
//
//	panic guard → request id → access log → error mapping → recovery → deadline
//	  → authentication → rate limit → authorisation → other mode → validation → handler
//
// Authentication identifies the caller and rejects no call. A call with a bad credential
// is rejected later, in the authorisation step, after the rate limit has counted the
// call. The rate limit therefore also applies to a client that guesses credentials.
//
// The package contains no business rules. It accepts a client address and a request id
// in a call's metadata if the call comes from the in-process channel or from a
// configured proxy, and ignores them in all other calls.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// maxMessageBytes is the maximum size of a gRPC request or response
// (docs/grpc.md#connections).
const maxMessageBytes = 4 << 20

// maxConcurrentStreams is the maximum number of concurrent calls on one connection. A
// gateway has one connection to the core, and each open stream of notifications is a call.
const maxConcurrentStreams = 10_000

// minPingInterval is the shortest time between two pings of a client. A gateway pings
// every PingInterval, so that it notices a dead connection while streams of notifications
// are silent.
const (
	PingInterval    = 30 * time.Second
	minPingInterval = PingInterval / 2
)

const maxConnectionAge = 5 * time.Minute

const inProcessNetwork = "inproc"

// stopTimeout is the longest time that Serve waits for running calls when it stops.
const stopTimeout = 15 * time.Second

// Service is a generated service description and its implementation.
type Service struct {
	Desc *grpc.ServiceDesc
	Impl any
}

// Config configures a Server. A field is required unless its comment says what the zero
// value means.
type Config struct {
	// DB is the database, with the credentials and, for a missing record, the records of the other mode.
	DB      *postgres.DB
	Tokens  *TokenKeys
	Limiter Limiter
	Log     *slog.Logger
	Now     func() time.Time
	// TrustedProxies contains the networks of trusted proxies. The server uses the
	// metadata x-client-ip and x-request-id of calls from these networks. If it is empty,
	// the server uses them only for in-process calls.
	TrustedProxies []netip.Prefix
	// RequireVerifiedEmail makes some methods require that the caller's e-mail address is
	// verified (Policy.Verified).
	RequireVerifiedEmail bool
	// TLS is the configuration of connections over the network. nil means connections
	// without TLS, which are safe only in a private network.
	TLS *tls.Config
	// Metrics measures calls. nil means that calls are not measured.
	Metrics *Metrics
	// Traces records spans of calls. nil means that no spans are recorded.
	Traces *Traces
	// MaxConnectionAge is the time after which a client must open a new connection. Calls and
	// streams that are running continue on the old one. A client looks up the addresses of the
	// cores only when it connects, so it uses a new core after this time at the latest. 0 means
	// 5 minutes.
	MaxConnectionAge time.Duration
}

// Server serves the gRPC services of the core, over the network and through a channel in
// the same process. Both ways run the same interceptors.
type Server struct {
	network   *grpc.Server
	inProcess *channel
	health    *health.Server
}

// New returns a server. It fails if a method has no policy.
func New(cfg Config, services ...Service) (*Server, error) {
	services = append(services, Service{&affiliatev1.GateService_ServiceDesc, newGate(services)})
	if err := checkPolicies(services); err != nil {
		return nil, err
	}
	p := &pipeline{
		db:            cfg.DB,
		authenticator: authenticator{db: cfg.DB, keys: accounts.NewKeys(cfg.DB), tokens: cfg.Tokens, now: cfg.Now},
		limiter:       cfg.Limiter,
		log:           cfg.Log,
		now:           cfg.Now,
		trusted:       cfg.TrustedProxies,

		requireVerified: cfg.RequireVerifiedEmail,
	}
	var interceptors []grpc.UnaryServerInterceptor
	for _, step := range p.chain() {
		interceptors = append(interceptors, step.intercept)
	}
	p.unary = chainInterceptors(interceptors)

	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(interceptors...),
		grpc.ChainStreamInterceptor(p.interceptStream),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute, MaxConnectionAge: cmp.Or(cfg.MaxConnectionAge, maxConnectionAge)}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval}),
	}
	if cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(cfg.TLS)))
	}
	var handlers statsHandlers
	if cfg.Traces != nil {
		handlers.all = append(handlers.all, tracer{Traces: *cfg.Traces, pipeline: p})
	}
	if cfg.Metrics != nil {
		handlers.all = append(handlers.all, cfg.Metrics)
	}
	options = append(options, grpc.StatsHandler(handlers))
	s := &Server{network: grpc.NewServer(options...), inProcess: newChannel(p, handlers), health: health.NewServer()}
	for _, service := range services {
		s.network.RegisterService(service.Desc, service.Impl)
		s.inProcess.RegisterService(service.Desc, service.Impl)
	}
	healthpb.RegisterHealthServer(s.network, s.health)
	reflection.Register(s.network)
	return s, nil
}

// Channel returns a client connection for a gateway in the same process. Calls on this
// connection run the same interceptors as other calls but use no socket. The server
// trusts the client address and the request id in the metadata of these calls.
func (s *Server) Channel() grpc.ClientConnInterface { return s.inProcess }

// Serve serves gRPC on a listener of a private network until ctx ends. After that it
// waits for running calls, for at most stopTimeout, and cancels the calls that are still
// running.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.network.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("gRPC: %w", err)
	case <-ctx.Done():
	}
	s.health.Shutdown()
	stopped := make(chan struct{})
	go func() { s.network.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(stopTimeout):
		s.network.Stop()
	}
	if err := <-failed; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("gRPC: %w", err)
	}
	return nil
}

// chainInterceptors combines interceptors into one. The first interceptor of the list
// runs first.
func chainInterceptors(interceptors []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		for i := len(interceptors) - 1; i >= 0; i-- {
			next, intercept := handler, interceptors[i]
			handler = func(ctx context.Context, req any) (any, error) { return intercept(ctx, req, info, next) }
		}
		return handler(ctx, req)
	}
}
