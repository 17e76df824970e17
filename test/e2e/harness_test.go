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
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/edge"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/ratelimit"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const (
	// startLimit bounds the start of a system, and patience the wait for what is
	// done in the background, on a machine with every core busy.
	startLimit = 30 * time.Second
	patience   = 20 * time.Second
	// askAgain is the pause between two looks at something awaited.
	askAgain = 10 * time.Millisecond
)

// The key that signs access tokens, so that tests can forge with and without it.
const signingKeyID = "e2e"

var signingSeed = bytes.Repeat([]byte{7}, 32)

// clock is the time of a whole system. It runs with the machine's clock, some
// way ahead, until it is stopped.
type clock struct {
	mu      sync.Mutex
	ahead   time.Duration
	stopped time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		return c.stopped
	}
	return time.Now().Add(c.ahead)
}

// stop makes time pass only by advance.
func (c *clock) stop() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = now
}

// resume ends a stop: time is where it would be without.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = time.Time{}
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		c.stopped = c.stopped.Add(d)
	}
	c.ahead += d
}

// setup is what a test wants different from the others. The zero value is a core
// with its gateway in one process and a collector, on fresh servers, with limits
// that no test meets by accident.
type setup struct {
	// env overrides the documented variables.
	env map[string]string
	// database and redis replace the fresh ones.
	database, redis string
	// apart runs the gateway over a network connection to the core, and the
	// collector as its command opens it, on the machine's clock.
	apart bool
}

// system is the running service.
type system struct {
	clock *clock
	// The addresses of the REST API, the collector and the private ports.
	api, edge, grpc, metrics string
	// database is for the few things that no API shows yet.
	database string
	logs     *logBuffer
	http     *http.Client
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
	env := map[string]string{
		"TRIBUTARY_DATABASE_URL":      s.database,
		"TRIBUTARY_REDIS_URL":         s.redis,
		"TRIBUTARY_JWT_KEYS":          signingKeyID + ":" + base64.StdEncoding.EncodeToString(signingSeed),
		"TRIBUTARY_ENCRYPTION_KEYS":   "e2e:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"TRIBUTARY_HASH_KEY":          base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32)),
		"TRIBUTARY_LINK_URL":          "https://go.example",
		"TRIBUTARY_SHUTDOWN_DELAY":    "0s",
		"TRIBUTARY_ALLOW_HTTP":        "true",
		"TRIBUTARY_TRUSTED_PROXIES":   "127.0.0.0/8",
		"TRIBUTARY_LIMIT_TRACKING":    "1000000",
		"TRIBUTARY_LIMIT_CONVERSIONS": "1000000",
		"TRIBUTARY_LIMIT_AUTH":        "1000000",
		"TRIBUTARY_LIMIT_GENERAL":     "1000000",

		"TRIBUTARY_WEBHOOK_ALLOW_CIDRS": "127.0.0.0/8",
		"TRIBUTARY_WEBHOOK_CA_FILE":     authorityFile(t),
	}
	maps.Copy(env, s.env)

	sys := &system{
		clock:    &clock{},
		database: s.database,
		logs:     &logBuffer{},
		http:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: startLimit},
	}
	log := slog.New(slog.NewJSONHandler(sys.logs, nil))
	var parts processes
	t.Cleanup(func() {
		sys.http.CloseIdleConnections()
		parts.stop(t)
		if t.Failed() {
			t.Logf("what the system logged:\n%s", sys.logs.loud())
		}
	})

	core, err := assemble.NewCore(t.Context(), parse[settings.Core](t, env), log, sys.clock.now)
	if err != nil {
		t.Fatalf("build the core: %v", err)
	}
	on := assemble.Listeners{GRPC: listen(t), Metrics: listen(t)}
	sys.grpc, sys.metrics = on.GRPC.Addr().String(), address(on.Metrics)
	api := listen(t)
	sys.api = address(api)
	if !s.apart {
		on.API = api
	}
	parts.run("core", func(ctx context.Context) error {
		defer core.Close()
		return core.Run(ctx, on)
	})
	if s.apart {
		env["TRIBUTARY_GRPC_ADDR"] = sys.grpc
		cfg, private := parse[settings.Gateway](t, env), listen(t)
		parts.run("gateway", func(ctx context.Context) error {
			return assemble.RunGateway(ctx, cfg, api, private, log)
		})
	}
	clicks := listen(t)
	sys.edge = address(clicks)
	parts.run("collector", openCollector(t, env, s.apart, sys.clock.now, log, clicks))

	eventually(t, startLimit, "the system is ready", func() error {
		if got := sys.caller().send(t, http.MethodGet, sys.metrics+"/readyz", nil); got.status != http.StatusOK {
			return fmt.Errorf("readiness answers %d", got.status)
		}
		// Until the core has told the directory of what there is, an edge believes
		// any key whose checksum is right.
		stranger := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest).Reveal()
		got := sys.caller().as(stranger).with("X-Forwarded-Proto", "https").
			send(t, http.MethodPost, sys.edge+"/v1/clicks", object{"referral_code": "nobody"})
		if got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
			return fmt.Errorf("the collector answers %d to a key that nobody has", got.status)
		}
		return nil
	})
	return sys
}

// openCollector makes a collector that shares the system's clock, or the one
// that the command would run.
func openCollector(t *testing.T, env map[string]string, asCommand bool, now func() time.Time, log *slog.Logger, on net.Listener) func(context.Context) error {
	t.Helper()
	read := parse[settings.Collector](t, env)
	cfg := edge.Config(read)
	if asCommand {
		c, err := collector.Open(cfg, log, prometheus.NewRegistry())
		if err != nil {
			t.Fatalf("open the collector: %v", err)
		}
		return func(ctx context.Context) error { return c.Run(ctx, on, nil) }
	}
	client, err := clickstream.Connect(cfg.Cache)
	if err != nil {
		t.Fatalf("collector's Redis: %v", err)
	}
	reader := directory.NewReader(client, now)
	lease := ratelimit.NewLease(client, ratelimit.Options{HashKey: cfg.HashKey, Now: now, Timeout: cfg.LimitTimeout})
	c := collector.New(cfg, collector.Deps{
		Sink: clickstream.NewWriter(client, cfg.Shards), Directory: reader, Limits: lease,
		Background: []func(context.Context){reader.Run, lease.Run},
		Log:        log, Now: now,
	})
	return func(ctx context.Context) error { return errors.Join(c.Run(ctx, on, nil), client.Close()) }
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

// processes are what runs; they stop in the reverse order, so that nobody loses
// what it leans on.
type processes struct{ running []process }

type process struct {
	name  string
	end   context.CancelFunc
	ended chan error
}

func (p *processes) run(name string, body func(context.Context) error) {
	ctx, end := context.WithCancel(context.Background())
	one := process{name, end, make(chan error, 1)}
	go func() { one.ended <- body(ctx) }()
	p.running = append(p.running, one)
}

func (p *processes) stop(t *testing.T) {
	t.Helper()
	for len(p.running) > 0 {
		last := p.running[len(p.running)-1]
		p.running = p.running[:len(p.running)-1]
		last.end()
		if err := <-last.ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the %s ended with: %v", last.name, err)
		}
	}
}

// dial is a gRPC connection to the core's private port.
func (sys *system) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(sys.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// eventually asks until the answer is nil.
func eventually(t *testing.T, within time.Duration, what string, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s: %v", within, what, err)
		}
		time.Sleep(askAgain)
	}
}

// logBuffer keeps what the system logs.
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

// loud are the lines that somebody would be woken for.
func (b *logBuffer) loud() string {
	var loud strings.Builder
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"level":"WARN"`) {
			loud.WriteString(line)
		}
	}
	return loud.String()
}
