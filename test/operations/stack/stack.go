// Package stack runs the processes of the service in tests of operations.
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
	Database string // the URL of the database, if New created it

	Gateway, Collector, Landing, GRPC                             string
	CoreMetrics, GatewayMetrics, CollectorMetrics, LandingMetrics string
}

// New returns a stack with the Redis of withservers and with a new database on its Postgres,
// and applies the migrations. The given settings override the default settings of a stack.
func New(t *testing.T, settings ...string) *Stack {
	t.Helper()
	redis := os.Getenv("TRIBUTARY_TEST_REDIS_URL")
	if redis == "" {
		t.Fatal("no servers: run `make operations`")
	}
	database := newDatabase(t)
	s := At(t, append([]string{"TRIBUTARY_DATABASE_URL=" + database, "TRIBUTARY_REDIS_URL=" + redis}, settings...)...)
	s.Database = database
	process.Run(t, s.Settings, process.Binary(t, "core"), "migrate")
	return s
}

// At returns a stack whose settings contain the URLs of its servers, and chooses addresses.
// It does not apply the migrations.
func At(t *testing.T, settings ...string) *Stack {
	t.Helper()
	addresses, err := servers.FreeAddresses(8)
	if err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	s := &Stack{
		Gateway: addresses[0], Collector: addresses[1], Landing: addresses[2], GRPC: addresses[3],
		CoreMetrics: addresses[4], GatewayMetrics: addresses[5], CollectorMetrics: addresses[6], LandingMetrics: addresses[7],
	}
	s.Settings = append([]string{
		"TRIBUTARY_API_LISTEN=" + s.Gateway, "TRIBUTARY_COLLECTOR_LISTEN=" + s.Collector, "TRIBUTARY_LANDING_LISTEN=" + s.Landing,
		"TRIBUTARY_GRPC_LISTEN=" + s.GRPC, "TRIBUTARY_GRPC_ADDR=" + s.GRPC, "TRIBUTARY_LANDING_METRICS_LISTEN=" + s.LandingMetrics,
		"TRIBUTARY_LINK_URL=https://go.example", "TRIBUTARY_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8",
		"TRIBUTARY_SHUTDOWN_DELAY=0s", "TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_TRUSTED_PROXIES=127.0.0.1", "TRIBUTARY_REGISTRATION_MERCHANT=open",
		"TRIBUTARY_JWT_KEYS=k:" + key, "TRIBUTARY_ENCRYPTION_KEYS=k:" + key, "TRIBUTARY_HASH_KEY=" + key,
		"TRIBUTARY_LIMIT_CONVERSIONS=" + noLimit, "TRIBUTARY_LIMIT_AUTH=" + noLimit, "TRIBUTARY_LIMIT_GENERAL=" + noLimit,
		"TRIBUTARY_LIMIT_TRACKING=" + noLimit, "TRIBUTARY_LIMIT_TRACKING_ADDRESS=0",
	}, settings...)
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

// With returns the settings of the stack with others after them. The last value of a
// setting applies.
func (s *Stack) With(settings ...string) []string {
	return slices.Concat(s.Settings, settings)
}

// StartCore starts `core serve` and waits until it is ready.
func (s *Stack) StartCore(t *testing.T) *process.Process {
	t.Helper()
	return s.start(t, s.CoreMetrics, nil, "core", "serve")
}

// StartCoreWithGateway starts `core serve --gateway` and waits until it is ready.
func (s *Stack) StartCoreWithGateway(t *testing.T, settings ...string) *process.Process {
	t.Helper()
	core := s.start(t, s.CoreMetrics, settings, "core", "serve", "--gateway")
	core.AwaitReady(t, "http://"+s.Gateway+"/api/v1/health/ready")
	return core
}

// StartGateway starts a gateway and waits until it is ready.
func (s *Stack) StartGateway(t *testing.T) *process.Process {
	t.Helper()
	return s.start(t, s.GatewayMetrics, nil, "gateway")
}

// StartCollector starts a collector and waits until it is ready.
func (s *Stack) StartCollector(t *testing.T) *process.Process {
	t.Helper()
	return s.start(t, s.CollectorMetrics, nil, "collector")
}

// StartLanding applies the migrations of the landing service, starts it and waits until it
// is ready.
func (s *Stack) StartLanding(t *testing.T, settings ...string) *process.Process {
	t.Helper()
	process.Run(t, s.Settings, process.Binary(t, "landing"), "migrate")
	return s.start(t, s.LandingMetrics, settings, "landing")
}

// start starts a program whose metrics port has the given address.
func (s *Stack) start(t *testing.T, metrics string, settings []string, binary string, args ...string) *process.Process {
	t.Helper()
	p := process.Start(t, append(s.With(settings...), "TRIBUTARY_METRICS_LISTEN="+metrics), append([]string{process.Binary(t, binary)}, args...)...)
	p.AwaitReady(t, "http://"+metrics+"/readyz")
	return p
}
