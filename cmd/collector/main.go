// Command collector runs one edge: it takes clicks over HTTP and appends them to
// the click stream. It needs Redis and nothing else; put as many of them near
// visitors as you like. Its settings come from the environment;
// docs/operations.md lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/httpedge"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, log)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "collector: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log *slog.Logger) (err error) {
	cfg, err := settings.Read[settings.Collector]()
	if err != nil {
		return err
	}
	config, err := cfg.ServerTLS()
	if err != nil {
		return fmt.Errorf("TRIBUTARY_TLS_CERT: %w", err)
	}
	// Both ports before anything else: a port that is taken is said at once.
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("TRIBUTARY_COLLECTOR_LISTEN: %w", err)
	}
	watched, err := listen.Listen(ctx, "tcp", cfg.MetricsListen)
	if err != nil {
		return errors.Join(fmt.Errorf("TRIBUTARY_METRICS_LISTEN: %w", err), listener.Close())
	}
	registry := private.NewRegistry()
	edge, err := collector.Open(cfg.Edge(), log, registry)
	if err != nil {
		return errors.Join(err, listener.Close(), watched.Close())
	}
	ready := func(ctx context.Context) error {
		if missing := edge.NotReady(ctx); missing != "" {
			return errors.New(missing)
		}
		return nil
	}
	metrics := httpedge.NewServer(private.Handler(registry, ready), log)
	// A collector that nobody can watch ends, as it does when it cannot serve.
	ctx, end := context.WithCancel(ctx)
	defer end()
	metricsServed := make(chan error, 1)
	go func() {
		defer end()
		metricsServed <- httpedge.Serve(metrics, watched, nil)
	}()

	log.Info("collector is listening", "address", listener.Addr().String(), "tls", config != nil, "metrics", watched.Addr().String())
	err = edge.Run(ctx, listener, config)

	ending, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(err, metrics.Shutdown(ending), <-metricsServed)
}
