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

// drain is how long requests under way may take when a server stops.
const drain = 15 * time.Second

// runAll runs parts side by side until ctx ends or one of them returns; then
// all of them are told to stop. A part that ends before it is told to, has
// failed.
func runAll(ctx context.Context, parts map[string]func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, part := range parts {
		group.Go(func() error {
			err := part(ctx)
			switch {
			case err != nil && !errors.Is(err, context.Canceled):
				return fmt.Errorf("%s: %w", name, err)
			case ctx.Err() == nil:
				return fmt.Errorf("%s: ended by itself", name)
			}
			return nil
		})
	}
	return group.Wait()
}

// serveHTTP answers on a public listener until ctx ends, and then lets requests
// under way end.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler, config *tls.Config, log *slog.Logger) error {
	s := httpedge.NewServer(handler, log)
	failed := make(chan error, 1)
	go func() { failed <- httpedge.Serve(s, listener, config) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := s.Shutdown(stop); err != nil {
		return errors.Join(err, s.Close())
	}
	return <-failed
}

// serveMetrics answers on the private port.
func serveMetrics(ctx context.Context, listener net.Listener, gatherer prometheus.Gatherer, ready func(context.Context) error, log *slog.Logger) error {
	return serveHTTP(ctx, listener, private.Handler(gatherer, ready), nil, log)
}
