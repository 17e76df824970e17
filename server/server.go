package server

import (
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
	"google.golang.org/grpc/stats"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// maxMessage bounds a gRPC message in either direction (RELIABILITY.md 6.6).
const maxMessage = 4 << 20

// maxStreams bounds the concurrent calls of one connection.
const maxStreams = 100

// inProcessNetwork is the network that the in-process channel's peer names.
const inProcessNetwork = "inproc"

// stopTimeout is how long running calls may take to end.
const stopTimeout = 15 * time.Second

// Service is one generated service with what implements it.
type Service struct {
	Desc *grpc.ServiceDesc
	Impl any
}

// Config is what the frame needs. All fields are required unless marked.
type Config struct {
	Credentials CredentialStore
	Tokens      *TokenKeys
	Limiter     Limiter
	Log         *slog.Logger
	Now         func() time.Time
	// TrustedProxies may say who a client is (x-client-ip, x-request-id); empty:
	// only the in-process channel may.
	TrustedProxies []netip.Prefix
	// TLS of the network listener; nil: plain text, for a private network.
	TLS *tls.Config
	// Metrics observes each call; nil: none does.
	Metrics *Metrics
}

// Server is the gRPC core: one chain of interceptors, one set of services, two
// ways in.
type Server struct {
	network   *grpc.Server
	inProcess *channel
	health    *health.Server
}

// New builds a server. It fails when a method has no policy.
func New(cfg Config, services ...Service) (*Server, error) {
	services = append(services, Service{&affiliatev1.GateService_ServiceDesc, newGate(services)})
	descs := make([]*grpc.ServiceDesc, len(services))
	for i, s := range services {
		descs[i] = s.Desc
	}
	if err := checkPolicies(descs); err != nil {
		return nil, err
	}
	f := &frame{
		authenticator: authenticator{store: cfg.Credentials, tokens: cfg.Tokens, now: cfg.Now},
		limiter:       cfg.Limiter,
		log:           cfg.Log,
		now:           cfg.Now,
		trusted:       cfg.TrustedProxies,
	}
	var links []grpc.UnaryServerInterceptor
	for _, l := range f.chain() {
		links = append(links, l.intercept)
	}
	f.links = chained(links)

	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(links...),
		grpc.ChainStreamInterceptor(f.interceptStream),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute}),
	}
	if cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(cfg.TLS)))
	}
	var handler stats.Handler
	if cfg.Metrics != nil {
		handler = cfg.Metrics
		options = append(options, grpc.StatsHandler(handler))
	}
	s := &Server{network: grpc.NewServer(options...), inProcess: newChannel(f, handler), health: health.NewServer()}
	for _, service := range services {
		s.network.RegisterService(service.Desc, service.Impl)
		s.inProcess.RegisterService(service.Desc, service.Impl)
	}
	healthpb.RegisterHealthServer(s.network, s.health)
	reflection.Register(s.network)
	return s, nil
}

// Channel is the way in for a gateway in the same process: the same chain, no
// sockets. What it says about the client is believed.
func (s *Server) Channel() grpc.ClientConnInterface { return s.inProcess }

// Serve answers on a private listener until ctx ends, then lets running calls
// end, for a while.
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

// chained folds interceptors into one, the first outermost.
func chained(links []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		for i := len(links) - 1; i >= 0; i-- {
			next, l := handler, links[i]
			handler = func(ctx context.Context, req any) (any, error) { return l(ctx, req, info, next) }
		}
		return handler(ctx, req)
	}
}
