// Package private serves the private port of a process: the metrics, the health
// checks, and the profiles of the Go runtime. The port has no TLS and no
// authentication. It must be in a network that only operators can reach.
package private

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tributary-hq/tributary/cmd/version"
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

// NewServer returns the server of the private port of a process. ctx must end when the process begins to stop. The
// server has three health checks, which respond with 200 or 503:
//
//   - /healthz always succeeds. A supervisor restarts a process that does not respond.
//   - /servingz succeeds until ctx ends. It then fails, while the process still serves requests
//     for the shutdown delay. A load balancer uses this check, because it does not depend on
//     Postgres or Redis, which all processes share: if one of them is down, a balancer that uses
//     /readyz removes all processes, even if they still respond to most requests.
//   - /readyz succeeds until ctx ends, if the function ready returns no error. If it returns an error, the response
//     has the text of the error. Operators and scripts use this check to find a missing dependency.
func NewServer(ctx context.Context, gatherer prometheus.Gatherer, ready func(context.Context) error, log *slog.Logger) *http.Server {
	server := httpedge.NewServer(handler(ctx, gatherer, ready), log)
	server.WriteTimeout = writeTimeout
	return server
}

var errStopping = errors.New("the process is stopping")

func handler(ctx context.Context, gatherer prometheus.Gatherer, ready func(context.Context) error) http.Handler {
	serving := func(context.Context) error {
		if ctx.Err() != nil {
			return errStopping
		}
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", check())
	mux.HandleFunc("GET /servingz", check(serving))
	mux.HandleFunc("GET /readyz", check(serving, ready))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	return mux
}

// check returns the handler of a health check. If a condition returns an error, the handler responds with 503 and the
// first such error. If no condition returns an error, it responds with 200.
func check(conditions ...func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, condition := range conditions {
			if err := condition(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = io.WriteString(w, "ok\n")
	}
}

// newBuildInfo returns a gauge whose labels describe this binary.
func newBuildInfo() prometheus.Collector {
	release, commit := version.Describe()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "tributary_build_info",
		Help:        "1, with the version and the commit of the binary as labels.",
		ConstLabels: prometheus.Labels{"version": release, "commit": commit},
	})
	info.Set(1)
	return info
}

// checkTimeout is shorter than the default timeout of container health checks, which is 30
// seconds in Docker and 1 second in Kubernetes.
const checkTimeout = 900 * time.Millisecond

// ErrCheckUsage means that the arguments of the command healthcheck are wrong.
var ErrCheckUsage = errors.New("usage: healthcheck [--serving|--ready]")

// Main runs a program. SIGINT and SIGTERM cancel the context of the function run. If run returns an error, Main prints
// it and exits with status 2 if it is the given usage error, or with status 1 if it is another error.
func Main(name string, usage error, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		if errors.Is(err, usage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// Check is the command healthcheck of each program. It sends a request to the private port of the process that listens
// on the given address: to /healthz without an argument, to /servingz with --serving, and to /readyz with --ready.
// It returns nil if the status of the response is 200. Images without a shell use the command as their health check.
func Check(ctx context.Context, listen string, args []string) error {
	path := "/healthz"
	switch {
	case len(args) == 1 && args[0] == "--serving":
		path = "/servingz"
	case len(args) == 1 && args[0] == "--ready":
		path = "/readyz"
	case len(args) != 0:
		return ErrCheckUsage
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(listen)+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	const longest = 1000
	text, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s: %s", path, response.Status, strings.TrimSpace(string(text)))
}

// reachable returns an address at which a process that listens on the given address can be
// reached from the same machine. If the process listens on all addresses, this is a
// loopback address.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "", err == nil && ip == netip.IPv4Unspecified():
		host = "127.0.0.1"
	case err == nil && ip == netip.IPv6Unspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
