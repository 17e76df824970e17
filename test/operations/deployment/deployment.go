//go:build operations

package deployment

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/servers"
)

// noLimit is a rate limit that no test reaches.
const noLimit = "1000000000"

// Key returns a key of 32 bytes for a setting.
func Key(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

// Deployment has the settings and addresses of one core with a gateway, one collector and
// one landing service. They keep their addresses when they are started again.
type Deployment struct {
	Dir string
	API service.API
	// Collector and Landing are addresses.
	Collector, Landing          string
	coreMetrics, landingMetrics string
	settings                    []string
}

// New returns a deployment with its files in dir. The settings are added to those of all
// programs.
func New(t testing.TB, dir string, settings ...string) *Deployment {
	t.Helper()
	addresses, err := servers.FreeAddresses(7)
	if err != nil {
		t.Fatal(err)
	}
	return &Deployment{
		Dir: dir, API: service.API{Address: addresses[0]}, Collector: addresses[1], Landing: addresses[2],
		coreMetrics: addresses[4], landingMetrics: addresses[6],
		settings: append([]string{
			"TRIBUTARY_API_LISTEN=" + addresses[0], "TRIBUTARY_COLLECTOR_LISTEN=" + addresses[1], "TRIBUTARY_LANDING_LISTEN=" + addresses[2],
			"TRIBUTARY_GRPC_LISTEN=" + addresses[3], "TRIBUTARY_LANDING_METRICS_LISTEN=" + addresses[6],
			"TRIBUTARY_JWT_KEYS=k:" + Key("j"), "TRIBUTARY_ENCRYPTION_KEYS=k:" + Key("e"), "TRIBUTARY_HASH_KEY=" + Key("h"),
			"TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_SHUTDOWN_DELAY=0s", "TRIBUTARY_LINK_URL=https://go.example", "TRIBUTARY_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8",
			"TRIBUTARY_LIMIT_CONVERSIONS=" + noLimit, "TRIBUTARY_LIMIT_AUTH=" + noLimit, "TRIBUTARY_LIMIT_GENERAL=" + noLimit,
			"TRIBUTARY_LIMIT_TRACKING=" + noLimit,
		}, settings...),
	}
}

// Settings returns the settings of all programs, followed by the given ones, which take
// precedence.
func (d *Deployment) Settings(more ...string) []string {
	return append(slices.Clone(d.settings), more...)
}

// StartCore starts the core with a gateway and returns when it is ready.
func (d *Deployment) StartCore(t testing.TB, settings ...string) *Process {
	t.Helper()
	core := Start(t, d.Dir, d.Settings(append(settings, "TRIBUTARY_METRICS_LISTEN="+d.coreMetrics)...), "core", "serve", "--gateway")
	core.AwaitReady(t, "http://"+d.coreMetrics+"/readyz")
	core.AwaitReady(t, "http://"+d.API.Address+"/api/v1/health/ready")
	return core
}

// StartCollector starts the collector and returns when it is ready.
func (d *Deployment) StartCollector(t testing.TB) *Process {
	t.Helper()
	metrics, err := servers.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	collector := Start(t, d.Dir, d.Settings("TRIBUTARY_METRICS_LISTEN="+metrics[0]), "collector")
	collector.AwaitReady(t, "http://"+d.Collector+"/v1/health/ready")
	return collector
}

// StartLanding starts the landing service and returns when it is ready.
func (d *Deployment) StartLanding(t testing.TB) *Process {
	t.Helper()
	landing := Start(t, d.Dir, d.Settings(), "landing")
	landing.AwaitReady(t, "http://"+d.landingMetrics+"/readyz")
	return landing
}
