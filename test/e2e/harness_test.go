package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	clocks "github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/edge"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/ratelimit"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const (
	// startTimeout is the maximum time for the start of a system. waitTimeout is the
	// maximum time to wait for work in the background. Both are long because the machine
	// may be busy.
	startTimeout = 30 * time.Second
	waitTimeout  = 20 * time.Second
	// pollInterval is the first pause between two checks of a condition. Most checks are
	// requests, which take time from the other tests.
	pollInterval = 25 * time.Millisecond
)

// signingKeyID is the id of the key that signs access tokens, and signingSeed is the seed
// of its private key. Tests use them to forge tokens.
const signingKeyID = "e2e"

var signingSeed = bytes.Repeat([]byte{7}, 32)

// clock is the clock of a system. While it runs, it shows the time of the machine's clock
// plus offset. While it is stopped, it shows the time stoppedAt.
type clock struct {
	mu        sync.Mutex
	offset    time.Duration
	stoppedAt time.Time // zero while the clock runs
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stoppedAt.IsZero() {
		return c.stoppedAt
	}
	return time.Now().Add(c.offset)
}

// stop stops the clock. After that, only advance changes the time.
func (c *clock) stop() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stoppedAt = now
}

// resume starts the clock again. The clock jumps to the time that it would have without
// the stop.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stoppedAt = time.Time{}
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stoppedAt.IsZero() {
		c.stoppedAt = c.stoppedAt.Add(d)
	}
	c.offset += d
}

// setup configures a system. With the zero value, the system has a core that also runs
// the gateway, a collector, a new database and a new Redis, and rate limits that no test
// reaches.
type setup struct {
	// env overrides environment variables.
	env map[string]string
	// database and redis are URLs of servers to use instead of new ones.
	database, redis string
	// at is the time of the system when it starts. Default: the time of the machine.
	at time.Time
	// separateProcesses starts a gateway that is connected to the core over the network.
	// It also opens the collector in the same way as cmd/collector does. This
	// collector uses the machine's clock and not the clock of the test.
	separateProcesses bool
}

// system is the running service.
type system struct {
	clock *clock
	// api, edge, grpc and metrics are the addresses of the REST API, the collector, the
	// gRPC port and the metrics port.
	api, edge, grpc, metrics string
	// database is the URL of the database. Tests use it for data that the API does not
	// return.
	database string
	logs     *logBuffer
	http     *http.Client
	// stop stops the system before the end of the test.
	stop func()
}

// hashKey is the key of digests and unsubscribe links.
var hashKey = bytes.Repeat([]byte{9}, 32)

// environment returns the settings of all processes of a system.
func (s setup) environment(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{
		"TRIBUTARY_DATABASE_URL":        s.database,
		"TRIBUTARY_REDIS_URL":           s.redis,
		"TRIBUTARY_JWT_KEYS":            signingKeyID + ":" + base64.StdEncoding.EncodeToString(signingSeed),
		"TRIBUTARY_ENCRYPTION_KEYS":     "e2e:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"TRIBUTARY_HASH_KEY":            base64.StdEncoding.EncodeToString(hashKey),
		"TRIBUTARY_LINK_URL":            "https://go.example",
		"TRIBUTARY_SHUTDOWN_DELAY":      "0s",
		"TRIBUTARY_ALLOW_HTTP":          "true",
		"TRIBUTARY_TRUSTED_PROXIES":     "127.0.0.0/8",
		"TRIBUTARY_LIMIT_TRACKING":      "1000000",
		"TRIBUTARY_LIMIT_CONVERSIONS":   "1000000",
		"TRIBUTARY_LIMIT_AUTH":          "1000000",
		"TRIBUTARY_LIMIT_GENERAL":       "1000000",
		"TRIBUTARY_LIMIT_SESSION":       "1000000",
		"TRIBUTARY_LIMIT_RESEND":        "1000000",
		"TRIBUTARY_LIMIT_ERASURE":       "1000000",
		"TRIBUTARY_LIMIT_BUYER_ERASURE": "1000000",
		"TRIBUTARY_LIMIT_EXPORT":        "1000000",
		"TRIBUTARY_LIMIT_UNSUBSCRIBE":   "1000000",

		"TRIBUTARY_LIMIT_INVITES":        "1000000",
		"TRIBUTARY_LIMIT_INVITE_ADDRESS": "1000000",

		"TRIBUTARY_REGISTRATION_MERCHANT": "open",
		"TRIBUTARY_PUBLIC_URL":            "https://api.example",
		"TRIBUTARY_STRIPE_API_URL":        stripeURL(t),
		"TRIBUTARY_WEBHOOK_ALLOW_CIDRS":   "127.0.0.0/8",
		"TRIBUTARY_WEBHOOK_CA_FILE":       authorityFile(t),
	}
	maps.Copy(env, s.env)
	return env
}

// start runs a system until the test ends.
func start(t *testing.T, s setup) *system {
	t.Helper()
	if s.database == "" {
		s.database = pgtest.New(t)
	}
	if s.redis == "" {
		s.redis = redistest.New(t)
	}
	env := s.environment(t)
	sys := &system{
		clock:    &clock{},
		database: s.database,
		logs:     &logBuffer{},
		http:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: startTimeout},
	}
	if !s.at.IsZero() {
		sys.clock.advance(time.Until(s.at))
	}
	log := tracing.NewLogger(sys.logs, slog.LevelInfo)
	var parts processes
	sys.stop = func() {
		t.Helper()
		sys.http.CloseIdleConnections()
		parts.stop(t)
	}
	t.Cleanup(func() {
		sys.stop()
		if t.Failed() {
			t.Logf("warnings and errors of the system:\n%s", sys.logs.warnings())
		}
	})

	core, err := assemble.NewCore(t.Context(), parse[settings.Core](t, env), certificates.New(log), log, clocks.Manual(sys.clock.now))
	if err != nil {
		t.Fatalf("create the core: %v", err)
	}
	listeners := assemble.Listeners{GRPC: listen(t), Metrics: listen(t)}
	sys.grpc, sys.metrics = listeners.GRPC.Addr().String(), address(listeners.Metrics)
	api := listen(t)
	sys.api = address(api)
	if !s.separateProcesses {
		listeners.API = api
	}
	parts.run("core", func(ctx context.Context) error {
		defer core.Close()
		return core.Run(ctx, listeners)
	})
	if s.separateProcesses {
		env["TRIBUTARY_GRPC_ADDR"] = sys.grpc
		cfg, metrics := parse[settings.Gateway](t, env), listen(t)
		parts.run("gateway", func(ctx context.Context) error {
			return assemble.RunGateway(ctx, cfg, certificates.New(log), api, metrics, log, clocks.New(time.Now))
		})
	}
	clicks := listen(t)
	sys.edge = address(clicks)
	parts.run("collector", openCollector(t, env, s.separateProcesses, sys.clock.now, log, clicks))

	eventually(t, startTimeout, "the system is ready", func() error {
		if got := sys.client().send(t, http.MethodGet, sys.metrics+"/readyz", nil); got.status != http.StatusOK {
			return fmt.Errorf("readiness returns %d", got.status)
		}
		// Until the edge directory is complete, the collector accepts every key with a
		// valid checksum. So wait until it rejects a key that no workspace has.
		unknownKey := account.NewKey(account.PublicKey, affiliate.ModeTest).Reveal()
		got := sys.client().withCredential(unknownKey).withHeader("X-Forwarded-Proto", "https").
			send(t, http.MethodPost, sys.edge+"/v1/clicks", object{"referral_code": "nobody"})
		if got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
			return fmt.Errorf("the collector returns %d for an unknown key", got.status)
		}
		return nil
	})
	return sys
}

// openCollector opens a collector with the system's clock. If asCommand is set, it opens
// the collector like cmd/collector, with the machine's clock.
func openCollector(t *testing.T, env map[string]string, asCommand bool, now func() time.Time, log *slog.Logger, listener net.Listener) func(context.Context) error {
	t.Helper()
	read, registry := parse[settings.Collector](t, env), prometheus.NewRegistry()
	cfg := edge.Config(read, nil)
	if asCommand {
		traces, err := tracing.Open(read.Traces, "tributary-collector", registry, log)
		if err != nil {
			t.Fatalf("open the traces: %v", err)
		}
		cfg.Traces = traces
		c, err := collector.Open(cfg, log, registry)
		if err != nil {
			t.Fatalf("open the collector: %v", err)
		}
		return func(ctx context.Context) error {
			defer traces.Close()
			return c.Run(ctx, listener, nil)
		}
	}
	stream, lookups, limits := connectRedis(t, cfg.Stream), connectRedis(t, cfg.Cache), connectRedis(t, cfg.Cache)
	reader := directory.NewReader(lookups, now)
	lease := ratelimit.NewLease(limits, ratelimit.Options{HashKey: cfg.HashKey, Now: now, Timeout: cfg.LimitTimeout})
	c := collector.New(cfg, collector.Deps{
		Sink: clickstream.NewWriter(stream, cfg.Shards), Directory: reader, Limits: lease,
		Background: []func(context.Context){reader.Run, lease.Run},
		Log:        log, Now: now,
	})
	return func(ctx context.Context) error {
		return errors.Join(c.Run(ctx, listener, nil), stream.Close(), lookups.Close(), limits.Close())
	}
}

// connectRedis returns a client, which the caller must close.
func connectRedis(t *testing.T, endpoint clickstream.Endpoint) redis.UniversalClient {
	t.Helper()
	client, err := clickstream.Connect(endpoint)
	if err != nil {
		t.Fatalf("Redis: %v", err)
	}
	return client
}

func parse[T any](t *testing.T, env map[string]string) T {
	t.Helper()
	lines := make([]string, 0, len(env))
	for name, value := range env {
		lines = append(lines, name+"="+value)
	}
	cfg, err := settings.Parse[T](lines)
	if err != nil {
		t.Fatalf("settings: %v", err)
	}
	return cfg
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func address(l net.Listener) string { return "http://" + l.Addr().String() }

// processes contains the running parts of a system. stop stops them in the reverse order
// of their start, so that each part stops before the parts that it depends on.
type processes struct{ running []process }

type process struct {
	name   string
	cancel context.CancelFunc
	result chan error
}

func (p *processes) run(name string, body func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	started := process{name, cancel, make(chan error, 1)}
	go func() { started.result <- body(ctx) }()
	p.running = append(p.running, started)
}

func (p *processes) stop(t *testing.T) {
	t.Helper()
	for len(p.running) > 0 {
		last := p.running[len(p.running)-1]
		p.running = p.running[:len(p.running)-1]
		last.cancel()
		if err := <-last.result; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the %s stopped with the error %v", last.name, err)
		}
	}
}

// dial returns a gRPC connection to the core's private port.
func (sys *system) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(sys.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// eventually calls check repeatedly until it returns nil. The test fails if this takes
// longer than timeout. description says what the test waits for. A pause between two calls
// is at least an eighth of the time so far, so that a long wait needs few calls.
func eventually(t *testing.T, timeout time.Duration, description string, check func() error) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(max(pollInterval, time.Since(began)/8)) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > timeout {
			t.Fatalf("after %v this condition does not hold: %s: %v", timeout, description, err)
		}
	}
}

// logBuffer stores the log of a system.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// warnings returns the lines with the level WARN or ERROR.
func (b *logBuffer) warnings() string {
	var found strings.Builder
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"level":"WARN"`) {
			found.WriteString(line)
		}
	}
	return found.String()
}
