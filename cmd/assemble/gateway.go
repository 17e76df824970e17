package assemble

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/gateway"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/health"
)

// balancing distributes the calls to all addresses of the core's name. A core that stops sends
// GOAWAY on its connections, and the gateway then uses other connections. The gateway does not
// watch the health of cores. If it did and a proxy was the only address, all calls would fail
// from the report that one core is not healthy until the GOAWAY of this core.
const balancing = `{"loadBalancingConfig": [{"round_robin": {}}]}`

// reconnect bounds the time until a gateway uses a core that is available again. An attempt to
// connect takes at most MinConnectTimeout, and the pause before the next attempt takes at most
// MaxDelay plus a fifth of it (Jitter): 4.8 seconds together. The defaults of gRPC are for
// servers on the internet.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 1500 * time.Millisecond},
	MinConnectTimeout: 3 * time.Second,
}

// connectToCore returns a connection to the core. It does not wait until the connection is established.
func connectToCore(address string, transport credentials.TransportCredentials, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(transport), grpc.WithDefaultServiceConfig(balancing), grpc.WithConnectParams(reconnect),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: server.PingInterval, Timeout: 10 * time.Second}),
	}, options...)...)
}

// RunGateway serves REST over a network connection to the core until ctx ends. It adds the TLS
// files of the settings to the given files. It compares the clock with the clock of the core.
func RunGateway(ctx context.Context, cfg settings.Gateway, files *certificates.Files, api, metrics net.Listener, log *slog.Logger, process *clock.Clock) error {
	coreTLS, err := cfg.CoreTLS(files)
	if err != nil {
		return err
	}
	transport := insecure.NewCredentials()
	if coreTLS != nil {
		transport = renewedTLS{credentials.NewTLS(coreTLS()), coreTLS}
	}
	registry := private.NewRegistry()
	registry.MustRegister(files)
	traces, err := tracing.Open(cfg.Traces, "tributary-gateway", registry, log)
	if err != nil {
		return err
	}
	defer traces.Close()
	conn, err := connectToCore(cfg.CoreAddr, transport, clientTraces(traces)...)
	if err != nil {
		return fmt.Errorf("TRIBUTARY_GRPC_ADDR: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := process.Compare(ctx, clock.Server{Name: "the core", Time: coreTime(conn)}, log, registry); err != nil {
		return err
	}
	handler, err := gateway.New(gateway.Config{
		Conn:           conn,
		TrustedProxies: cfg.TrustedProxies,
		AllowHTTP:      cfg.AllowHTTP,
		AllowedOrigins: cfg.Origins,
		Stopping:       ctx,
		Log:            log,
		Registry:       registry,
		Now:            process.Now,
	})
	if err != nil {
		return err
	}
	apiTLS, err := cfg.ServerTLS(files)
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) error {
		_, err := affiliatev1.NewHealthServiceClient(conn).CheckReadiness(ctx, &affiliatev1.CheckReadinessRequest{})
		return err
	}
	return runAll(ctx, map[string]func(context.Context) error{
		"API": func(ctx context.Context) error {
			return serveHTTP(ctx, api, httpedge.NewServer(traces.Handler(handler, gateway.Traced), log), apiTLS, cfg.ShutdownDelay)
		},
		"metrics": func(ctx context.Context) error {
			return serveMetrics(ctx, metrics, registry, ready, cfg.ShutdownDelay, log)
		},
		"TLS files": files.Run,
		"clock":     func(ctx context.Context) error { process.Run(ctx); return nil },
		"core":      func(ctx context.Context) error { logCore(ctx, conn, cfg.CoreAddr, log); return nil },
	})
}

func coreTime(conn *grpc.ClientConn) func(context.Context) (time.Time, error) {
	service := affiliatev1.NewHealthServiceClient(conn)
	return func(ctx context.Context) (time.Time, error) {
		var header metadata.MD
		if _, err := service.CheckLiveness(ctx, &affiliatev1.CheckLivenessRequest{}, grpc.Header(&header)); err != nil {
			return time.Time{}, err
		}
		values := header.Get(health.TimeKey)
		if len(values) == 0 {
			return time.Time{}, errors.New("the core is older than the gateway and does not send its time")
		}
		return time.Parse(time.RFC3339Nano, values[0])
	}
}

// logCore logs whether the gateway reaches a core, at the start and after each change,
// until ctx ends.
func logCore(ctx context.Context, conn *grpc.ClientConn, address string, log *slog.Logger) {
	var logged connectivity.State // Idle is never logged
	for {
		conn.Connect()
		state := conn.GetState()
		if state != logged {
			switch state {
			case connectivity.Ready:
				log.LogAttrs(ctx, slog.LevelInfo, "the core is reached", slog.String("core", address))
				logged = state
			case connectivity.TransientFailure:
				log.LogAttrs(ctx, slog.LevelWarn, "the core is not reached; check the address, and the TLS settings of both sides",
					slog.String("core", address), slog.String("setting", "TRIBUTARY_GRPC_ADDR"))
				logged = state
			default: // idle, connecting or shut down
			}
		}
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// renewedTLS uses a new TLS configuration for each connection, because the certificate
// authority of the core can change.
type renewedTLS struct {
	credentials.TransportCredentials
	config func() *tls.Config
}

func (r renewedTLS) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(r.config()).ClientHandshake(ctx, authority, conn)
}

func (r renewedTLS) Clone() credentials.TransportCredentials {
	return renewedTLS{r.TransportCredentials.Clone(), r.config}
}
