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

// maxMessageBytes bounds each gRPC request and response (RELIABILITY.md 6.6).
const maxMessageBytes = 4 << 20

// maxConcurrentStreams bounds the concurrent calls of one connection.
const maxConcurrentStreams = 100

// inProcessNetwork is the network name in the peer address of in-process calls.
const inProcessNetwork = "inproc"

// stopTimeout is how long Serve waits for running calls when it stops.
const stopTimeout = 15 * time.Second

// Service is a generated service description and its implementation.
type Service struct {
	Desc *grpc.ServiceDesc
	Impl any
}

// Config configures a Server. A field is required unless its comment describes a zero
// value.
type Config struct {
	Credentials CredentialStore
	Tokens      *TokenKeys
	Limiter     Limiter
	Log         *slog.Logger
	Now         func() time.Time
	// TrustedProxies are the addresses whose metadata x-client-ip and x-request-id the
	// server accepts. If it is empty, only the in-process channel may send them.
	TrustedProxies []netip.Prefix
	// TLS is for the network listener. nil means plain text, for a private network.
	TLS *tls.Config
	// Metrics observes each call. nil means no metrics.
	Metrics *Metrics
}

// Server is the gRPC core. It serves the same services, with the same interceptors, over
// the network and through a channel in the same process.
type Server struct {
	network   *grpc.Server
	inProcess *channel
	health    *health.Server
}

// New returns a server. It fails if a method has no policy.
func New(cfg Config, services ...Service) (*Server, error) {
	services = append(services, Service{&affiliatev1.GateService_ServiceDesc, newGate(services)})
	descs := make([]*grpc.ServiceDesc, len(services))
	for i, s := range services {
		descs[i] = s.Desc
	}
	if err := checkPolicies(descs); err != nil {
		return nil, err
	}
	p := &pipeline{
		authenticator: authenticator{store: cfg.Credentials, tokens: cfg.Tokens, now: cfg.Now},
		limiter:       cfg.Limiter,
		log:           cfg.Log,
		now:           cfg.Now,
		trusted:       cfg.TrustedProxies,
	}
	var links []grpc.UnaryServerInterceptor
	for _, l := range p.chain() {
		links = append(links, l.intercept)
	}
	p.unary = chainInterceptors(links)

	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(links...),
		grpc.ChainStreamInterceptor(p.interceptStream),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
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
	s := &Server{network: grpc.NewServer(options...), inProcess: newChannel(p, handler), health: health.NewServer()}
	for _, service := range services {
		s.network.RegisterService(service.Desc, service.Impl)
		s.inProcess.RegisterService(service.Desc, service.Impl)
	}
	healthpb.RegisterHealthServer(s.network, s.health)
	reflection.Register(s.network)
	return s, nil
}

// Channel returns the connection for a gateway in the same process. Its calls run the
// same interceptors but use no socket. The server trusts the client address and the
// request id that they carry.
func (s *Server) Channel() grpc.ClientConnInterface { return s.inProcess }

// Serve serves gRPC on a private listener until ctx ends. It then waits up to
// stopTimeout for running calls and cancels those that remain.
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

// chainInterceptors combines interceptors into one. The first is the outermost.
func chainInterceptors(links []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		for i := len(links) - 1; i >= 0; i-- {
			next, l := handler, links[i]
			handler = func(ctx context.Context, req any) (any, error) { return l(ctx, req, info, next) }
		}
		return handler(ctx, req)
	}
}
