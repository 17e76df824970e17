//go:build operations

// Package balancer tests the health checks that load balancers use, on real processes.
package balancer

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/stack"
)

// noticed is the longest time until a process notices a signal or a lost server.
const noticed = 30 * time.Second

// A balancer must not remove a process because the Redis of the caches is down, and must
// remove it while it stops but still serves requests.
func TestServing(t *testing.T) {
	caches := redistest.Start(t)
	s := stack.New(t, "TRIBUTARY_CACHE_REDIS_URL="+caches.URL, "TRIBUTARY_SHUTDOWN_DELAY=10s")
	core := s.StartCore(t)
	// The core stops after the gateway, which calls it.
	programs := []struct {
		name, metrics string
		public        string // a URL, or empty for a core without a gateway
		needsCaches   bool   // whether the program is not ready without the Redis of the caches
		running       *process.Process
	}{
		{name: "gateway", metrics: s.GatewayMetrics, public: s.Gateway + "/api/v1/health", needsCaches: true, running: s.StartGateway(t)},
		{name: "collector", metrics: s.CollectorMetrics, public: s.Collector + "/v1/health", running: s.StartCollector(t)},
		{name: "landing", metrics: s.LandingMetrics, public: s.Landing + "/api/v1/health", running: s.StartLanding(t)},
		{name: "core", metrics: s.CoreMetrics, needsCaches: true, running: core},
	}
	status := func(url string) int { return process.Status(t.Context(), "http://"+url) }
	for _, p := range programs {
		if got := status(p.metrics + "/servingz"); got != http.StatusOK {
			t.Errorf("/servingz of the %s returns %d, want 200", p.name, got)
		}
	}
	caches.Kill9()
	for _, p := range programs {
		want := http.StatusOK
		if p.needsCaches {
			want = http.StatusServiceUnavailable
		}
		process.Eventually(t, noticed, "/readyz of the "+p.name+" notices that the Redis of the caches is down", func() bool {
			return status(p.metrics+"/readyz") == want
		})
		if got := status(p.metrics + "/servingz"); got != http.StatusOK {
			t.Errorf("/servingz of the %s returns %d without the Redis of the caches, want 200", p.name, got)
		}
	}
	for _, p := range programs {
		p.running.Signal(t, syscall.SIGTERM)
		process.Eventually(t, noticed, "/servingz of the "+p.name+" fails during the shutdown delay", func() bool {
			return status(p.metrics+"/servingz") == http.StatusServiceUnavailable
		})
		if got := status(p.metrics + "/healthz"); got != http.StatusOK {
			t.Errorf("/healthz of the %s returns %d during the shutdown delay, want 200", p.name, got)
		}
		if p.public == "" {
			continue
		}
		if got := status(p.public); got != http.StatusOK {
			t.Errorf("the public port of the %s returns %d during the shutdown delay, want 200", p.name, got)
		}
	}
}
