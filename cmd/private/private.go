// Package private serves the private port of a process: the metrics, the health and
// readiness probes, and the profiles of the Go runtime. The port has no TLS and no
// authentication. It must be in a network that only operators can reach.
package private

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tributary-hq/tributary/httpedge"
)

// NewRegistry returns a registry with the metrics of the Go runtime, of the process and of
// the binary.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newBuildInfo())
	return registry
}

// writeTimeout is the longest time of a response. It limits the duration of a profile,
// which is 30 seconds by default (/debug/pprof/profile?seconds=30).
const writeTimeout = 5 * time.Minute

// NewServer returns the server of the private port. If ready returns an error, /readyz
// responds with status 503 and the text of the error.
func NewServer(gatherer prometheus.Gatherer, ready func(context.Context) error, log *slog.Logger) *http.Server {
	server := httpedge.NewServer(handler(gatherer, ready), log)
	server.WriteTimeout = writeTimeout
	return server
}

func handler(gatherer prometheus.Gatherer, ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	return mux
}
