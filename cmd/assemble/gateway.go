package assemble

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/gateway"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// RunGateway serves REST over a network connection to the core until ctx ends.
func RunGateway(ctx context.Context, cfg settings.Gateway, api, metrics net.Listener, log *slog.Logger) error {
	coreTLS, err := cfg.CoreTLS()
	if err != nil {
		return fmt.Errorf("TRIBUTARY_GRPC_TLS_CA: %w", err)
	}
	transport := insecure.NewCredentials()
	if coreTLS != nil {
		transport = credentials.NewTLS(coreTLS)
	}
	conn, err := grpc.NewClient(cfg.CoreAddr, grpc.WithTransportCredentials(transport),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: server.PingInterval, Timeout: 10 * time.Second}))
	if err != nil {
		return fmt.Errorf("TRIBUTARY_GRPC_ADDR: %w", err)
	}
	defer func() { _ = conn.Close() }()
	handler, err := gateway.New(gateway.Config{
		Conn:           conn,
		TrustedProxies: cfg.TrustedProxies,
		AllowHTTP:      cfg.AllowHTTP,
		AllowedOrigins: cfg.Origins,
		Stopping:       ctx.Done(),
		Log:            log,
		Now:            time.Now,
	})
	if err != nil {
		return err
	}
	apiTLS, err := cfg.ServerTLS()
	if err != nil {
		return fmt.Errorf("TRIBUTARY_TLS_CERT: %w", err)
	}
	ready := func(ctx context.Context) error {
		_, err := affiliatev1.NewHealthServiceClient(conn).CheckReadiness(ctx, &affiliatev1.CheckReadinessRequest{})
		return err
	}
	return runAll(ctx, map[string]func(context.Context) error{
		"API":     func(ctx context.Context) error { return serveHTTP(ctx, api, handler, apiTLS, log) },
		"metrics": func(ctx context.Context) error { return serveMetrics(ctx, metrics, private.NewRegistry(), ready, log) },
	})
}
