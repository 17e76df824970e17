// Package stack runs the processes of the service in tests of operations, with a database
// of their own.
package stack

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/tools/servers"
)

// noLimit is a rate limit that no test reaches.
const noLimit = "1000000000"

// Stack is the settings and the addresses of the processes. The fields with addresses
// contain the hosts and ports of the public and of the metrics ports.
type Stack struct {
	Settings []string
	Database string // the URL of the database

	Gateway, Collector, Landing, GRPC                             string
	CoreMetrics, GatewayMetrics, CollectorMetrics, LandingMetrics string
}

// New creates a database on the Postgres of withservers, applies the migrations, and
// chooses addresses. The given settings override the default settings of a stack.
func New(t *testing.T, settings ...string) *Stack {
	t.Helper()
	redis := os.Getenv("TRIBUTARY_TEST_REDIS_URL")
	if redis == "" {
		t.Fatal("no servers: run `make operations`")
	}
	addresses, err := servers.FreeAddresses(8)
	if err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	s := &Stack{
		Database: newDatabase(t),
		Gateway:  addresses[0], Collector: addresses[1], Landing: addresses[2], GRPC: addresses[3],
		CoreMetrics: addresses[4], GatewayMetrics: addresses[5], CollectorMetrics: addresses[6], LandingMetrics: addresses[7],
	}
	s.Settings = append([]string{
		"TRIBUTARY_DATABASE_URL=" + s.Database, "TRIBUTARY_REDIS_URL=" + redis,
		"TRIBUTARY_API_LISTEN=" + s.Gateway, "TRIBUTARY_COLLECTOR_LISTEN=" + s.Collector, "TRIBUTARY_LANDING_LISTEN=" + s.Landing,
		"TRIBUTARY_GRPC_LISTEN=" + s.GRPC, "TRIBUTARY_GRPC_ADDR=" + s.GRPC, "TRIBUTARY_LANDING_METRICS_LISTEN=" + s.LandingMetrics,
		"TRIBUTARY_SHUTDOWN_DELAY=0s", "TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_TRUSTED_PROXIES=127.0.0.1",
		"TRIBUTARY_JWT_KEYS=k:" + key, "TRIBUTARY_ENCRYPTION_KEYS=k:" + key, "TRIBUTARY_HASH_KEY=" + key,
		"TRIBUTARY_LIMIT_CONVERSIONS=" + noLimit, "TRIBUTARY_LIMIT_AUTH=" + noLimit, "TRIBUTARY_LIMIT_GENERAL=" + noLimit, "TRIBUTARY_LIMIT_TRACKING=" + noLimit,
	}, settings...)
	process.Run(t, s.Settings, process.Binary(t, "core"), "migrate")
	return s
}

// newDatabase creates an empty database and returns its URL.
func newDatabase(t *testing.T) string {
	t.Helper()
	target, err := url.Parse(os.Getenv("TRIBUTARY_TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal("TRIBUTARY_TEST_DATABASE_URL is not a URL")
	}
	conn, err := pgx.Connect(t.Context(), target.String())
	if err != nil {
		t.Fatal(err)
	}
	name := "operations_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := conn.Exec(t.Context(), "create database "+name); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	target.Path = "/" + name
	return target.String()
}

// with returns the settings of the stack with others after them. The last value of a
// setting applies.
func (s *Stack) with(settings ...string) []string {
	return slices.Concat(s.Settings, settings)
}

// StartCore starts `core serve` and waits until it is ready.
func (s *Stack) StartCore(t *testing.T) *process.Process {
	t.Helper()
	return start(t, s.with("TRIBUTARY_METRICS_LISTEN="+s.CoreMetrics), s.CoreMetrics, "core", "serve")
}

// StartCoreWithGateway starts `core serve --gateway` and waits until it is ready.
func (s *Stack) StartCoreWithGateway(t *testing.T) *process.Process {
	t.Helper()
	return start(t, s.with("TRIBUTARY_METRICS_LISTEN="+s.CoreMetrics), s.CoreMetrics, "core", "serve", "--gateway")
}

// StartGateway starts a gateway and waits until it is ready.
func (s *Stack) StartGateway(t *testing.T) *process.Process {
	t.Helper()
	return start(t, s.with("TRIBUTARY_METRICS_LISTEN="+s.GatewayMetrics), s.GatewayMetrics, "gateway")
}

// StartCollector starts a collector and waits until it is ready.
func (s *Stack) StartCollector(t *testing.T) *process.Process {
	t.Helper()
	return start(t, s.with("TRIBUTARY_METRICS_LISTEN="+s.CollectorMetrics), s.CollectorMetrics, "collector")
}

// StartLanding applies the migrations of the landing service, starts it and waits until it
// is ready.
func (s *Stack) StartLanding(t *testing.T) *process.Process {
	t.Helper()
	process.Run(t, s.Settings, process.Binary(t, "landing"), "migrate")
	return start(t, s.Settings, s.LandingMetrics, "landing")
}

func start(t *testing.T, settings []string, metrics, binary string, args ...string) *process.Process {
	t.Helper()
	p := process.Start(t, settings, append([]string{process.Binary(t, binary)}, args...)...)
	p.AwaitReady(t, "http://"+metrics+"/readyz")
	return p
}
