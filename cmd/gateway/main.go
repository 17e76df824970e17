// Command gateway serves the REST API in a separate process. It forwards the requests to
// the core over gRPC.
//
//	gateway                          serve the REST API
//	gateway healthcheck [--serving|--ready]
//	                                 check that the gateway on this machine runs (with
//	                                 --serving: and is not stopping; with --ready: and is
//	                                 ready); the exit code is 0 if so
//	gateway version                  print version and commit
//
// The core must trust the gateway's host as a proxy (TRIBUTARY_TRUSTED_PROXIES of the
// core). Otherwise the core would use the address of the gateway as the address of every
// client. The settings are read from the environment; docs/operations/settings.md lists
// them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/cmd/version"
)

func main() { private.Main("gateway", nil, run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) == 0:
		return serve(ctx)
	case args[0] == "healthcheck":
		cfg, err := settings.Read[settings.GatewayMetrics]()
		if err != nil {
			return err
		}
		return private.Check(ctx, cfg.MetricsListen, args[1:])
	case len(args) == 1 && args[0] == "version":
		_, err := fmt.Fprintln(out, version.String())
		return err
	}
	return errors.New("usage: gateway | gateway healthcheck [--serving|--ready] | gateway version")
}

func serve(ctx context.Context) error {
	cfg, err := settings.Read[settings.Gateway]()
	if err != nil {
		return err
	}
	log := tracing.NewLogger(os.Stderr, cfg.LogLevel)
	files := certificates.New(log)
	files.ReloadOnHangup()
	settings.WarnUnknown(log, os.Environ())
	var listen net.ListenConfig
	api, err := listen.Listen(ctx, "tcp", cfg.APIListen)
	if err != nil {
		return err
	}
	metrics, err := listen.Listen(ctx, "tcp", cfg.MetricsListen)
	if err != nil {
		return err
	}
	log.Info("gateway is listening", "version", version.String(), "address", api.Addr().String(), "metrics", metrics.Addr().String(), "core", cfg.CoreAddr)
	return assemble.RunGateway(ctx, cfg, files, api, metrics, log, clock.New(time.Now))
}
