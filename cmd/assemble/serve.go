package assemble

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/httpedge"
)

// drainTimeout is the maximum time for running requests to end when a server stops.
const drainTimeout = 15 * time.Second

// runAll runs parts at the same time until ctx ends or one of them returns. Then it
// cancels the context of all parts and waits for them. A part that returns before its
// context is canceled counts as failed.
func runAll(ctx context.Context, parts map[string]func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, part := range parts {
		group.Go(func() error {
			err := part(ctx)
			switch {
			case err != nil && !errors.Is(err, context.Canceled):
				return fmt.Errorf("%s: %w", name, err)
			case ctx.Err() == nil:
				return fmt.Errorf("%s: stopped unexpectedly", name)
			}
			return nil
		})
	}
	return group.Wait()
}

// serveHTTP runs a server on a listener until ctx ends. Then it waits for the running
// requests to end.
func serveHTTP(ctx context.Context, listener net.Listener, s *http.Server, config *tls.Config) error {
	failed := make(chan error, 1)
	go func() { failed <- httpedge.Serve(s, listener, config) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := s.Shutdown(stop); err != nil {
		return errors.Join(err, s.Close())
	}
	return <-failed
}

// serveMetrics serves the private port.
func serveMetrics(ctx context.Context, listener net.Listener, gatherer prometheus.Gatherer, ready func(context.Context) error, log *slog.Logger) error {
	return serveHTTP(ctx, listener, private.NewServer(gatherer, ready, log), nil)
}
