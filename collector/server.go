package collector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector/journal"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

// shutdownTimeout bounds the shutdown delay and the last requests. After it come their
// batches (streamTimeout and flushTimeout at most), the return of unused tokens and
// finishTimeout: 20 seconds in all.
const shutdownTimeout = 12 * time.Second

// Directory looks up keys, codes and links; *directory.Reader implements it.
type Directory interface {
	PublicKey(ctx context.Context, digest [32]byte) (*edgev1.PublicKeyEntry, directory.State)
	ReferralCode(ctx context.Context, scope affiliate.Scope, code string) (*edgev1.ReferralCodeEntry, directory.State)
	Link(ctx context.Context, key string) (*edgev1.LinkEntry, directory.State)
	SigningKeys(ctx context.Context) (*edgev1.SigningKeys, directory.State)
}

// Limits counts requests; *ratelimit.Lease implements it.
type Limits interface {
	Take(ctx context.Context, zone ratelimit.Zone, subject string) ratelimit.Result
}

// Deps are the parts of a collector.
type Deps struct {
	Sink      Sink
	Directory Directory
	Limits    Limits
	// Journal takes batches that Sink does not take; nil means that they are refused.
	Journal *journal.Journal
	// Ready returns the name of a dependency that Sink lacks ("redis"), or "".
	Ready func(ctx context.Context) string
	// Background functions run beside the server until their context ends.
	Background []func(ctx context.Context)
	// A nil Log discards, a nil Registry is a new one, a nil Now is time.Now.
	Log      *slog.Logger
	Registry prometheus.Registerer
	Now      func() time.Time

	metrics   *metrics
	countries *countries
	// journalBroken: there is a folder for the journal, but it cannot be used.
	journalBroken bool
}

// Collector is the edge's HTTP surface. Make it with New or Open.
type Collector struct {
	now           func() time.Time
	log           *slog.Logger
	trusted       []netip.Prefix
	allowHTTP     bool
	limit         int64
	shards        int
	directory     Directory
	limits        Limits
	ready         func(ctx context.Context) string
	metrics       *metrics
	batches       *batcher
	durable       *durable // nil without a journal
	shutdownDelay time.Duration
	memory        *memory
	hashes        *hashes
	known         identities
	agents        *agents
	countries     *countries // nil without a file
	handler       http.Handler
	server        *http.Server
	stop          sync.Once
	stopping      atomic.Bool
	stopped       error
	sinkError     atomic.Int64 // time of the last log line about the sink, in Unix seconds

	background []func(ctx context.Context)
	closers    []io.Closer
}

// New makes a collector of the given parts. It starts goroutines, so it must be ended
// with Shutdown even if Run was never called.
func New(cfg Config, deps Deps) *Collector {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Registry == nil {
		deps.Registry = prometheus.NewRegistry()
	}
	if deps.metrics == nil {
		deps.metrics = newMetrics(deps.Registry)
	}
	if deps.Ready == nil {
		deps.Ready = func(context.Context) string { return "" }
	}
	c := &Collector{
		now: deps.Now, log: deps.Log,
		trusted: cfg.TrustedProxies, allowHTTP: cfg.AllowHTTP,
		limit: cfg.LimitTracking, shards: max(1, cfg.Shards),
		directory: deps.Directory, limits: deps.Limits, ready: deps.Ready,
		metrics: deps.metrics, memory: newMemory(), hashes: &hashes{key: cfg.HashKey}, known: newIdentities(),
		agents: newAgents(), countries: deps.countries,
		background: deps.Background, shutdownDelay: cfg.ShutdownDelay,
	}
	if c.countries != nil {
		c.background = append(c.background, c.countries.run)
	}
	if c.limit == 0 {
		c.limit = 1000
	}
	sink := deps.Sink
	if deps.Journal != nil {
		c.durable = &durable{stream: sink, missing: c.ready, journal: deps.Journal, away: make([]atomic.Bool, c.shards), metrics: c.metrics, log: c.log}
		c.background = append(c.background, c.durable.run)
		sink = c.durable
	}
	c.batches = newBatcher(sink, c.shards, c.metrics)
	c.metrics.watch(deps.Registry, c.batches, deps.Journal, deps.journalBroken, c.now)
	c.handler = httpedge.Guard(http.HandlerFunc(c.serve), c.reportPanic)
	c.server = httpedge.NewServer(c.handler, c.log)
	return c
}

// Open connects a collector to its Redis. It does not wait for Redis: until Redis
// answers, the collector runs and is not ready.
func Open(cfg Config, log *slog.Logger, registry prometheus.Registerer) (*Collector, error) {
	var clients []io.Closer
	connect := func(at clickstream.Endpoint, faults *error) redis.UniversalClient {
		client, err := clickstream.Connect(at)
		if err != nil {
			*faults = errors.Join(*faults, err)
			return nil
		}
		clients = append(clients, client)
		return client
	}
	fail := func(err error) (*Collector, error) {
		for _, client := range clients {
			_ = client.Close()
		}
		return nil, err
	}
	var faults error
	stream, lookups, limits := connect(cfg.Stream, &faults), connect(cfg.Cache, &faults), connect(cfg.Cache, &faults)
	countries, err := openCountries(cfg.CountryDB, log)
	if faults = errors.Join(faults, err); faults != nil {
		return fail(faults)
	}
	m := newMetrics(registry)
	disk := openJournal(cfg.JournalDir, log)
	if disk != nil {
		clients = append(clients, disk)
	}
	writer := clickstream.NewWriter(stream, cfg.Shards)
	reader := directory.NewReader(lookups, time.Now)
	lease := ratelimit.NewLease(limits, ratelimit.Options{HashKey: cfg.HashKey, Log: log, Fallback: m.fallback, Timeout: cfg.LimitTimeout})
	c := New(cfg, Deps{
		Sink: writer, Directory: reader, Limits: lease, Journal: disk,
		Ready: func(ctx context.Context) string {
			if writer.Ping(ctx) != nil {
				return "redis"
			}
			return ""
		},
		Background: []func(context.Context){
			reader.Run, lease.Run,
			func(ctx context.Context) { clickstream.CheckDurability(ctx, stream, log) },
		},
		Log: log, Registry: registry, metrics: m, countries: countries,
		journalBroken: cfg.JournalDir != "" && disk == nil,
	})
	c.closers = clients
	return c, nil
}

// openJournal returns nil without a folder, or if the folder cannot be used: a
// collector works without its journal while Redis answers.
func openJournal(dir string, log *slog.Logger) *journal.Journal {
	if dir == "" {
		log.Warn("without TRIBUTARY_JOURNAL_DIR clicks are refused while the stream's Redis does not answer")
		return nil
	}
	opened, err := journal.Open(journal.Config{Dir: dir, JoinBytes: batchBytes, JoinClicks: batchRecords, Log: log})
	if err != nil {
		log.Warn("the journal cannot be used: clicks are refused while the stream's Redis does not answer, and clicks in the journal wait for a restart",
			"variable", "TRIBUTARY_JOURNAL_DIR", "error", err)
		return nil
	}
	return opened
}

// Handler serves all paths under /v1/ and /r/.
func (c *Collector) Handler() http.Handler { return c.handler }

// Run serves on listener, over TLS if config is not nil, until ctx ends or Shutdown is
// called. Then it drains.
func (c *Collector) Run(ctx context.Context, listener net.Listener, config *tls.Config) error {
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, run := range c.background {
		running.Go(func() { run(background) })
	}
	served := make(chan error, 1)
	go func() { served <- httpedge.Serve(c.server, listener, config) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		served <- nil
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = errors.Join(err, c.Shutdown(drain), <-served)
	end()
	running.Wait()
	if c.durable != nil {
		c.durable.finish(context.WithoutCancel(ctx))
	}
	for _, closer := range c.closers {
		err = errors.Join(err, closer.Close())
	}
	return err
}

// Shutdown ends readiness, serves with Connection: close during the shutdown delay,
// stops accepting, waits for the last requests and flushes their batches. A second call
// returns the result of the first.
func (c *Collector) Shutdown(ctx context.Context) error {
	c.stop.Do(func() {
		c.stopping.Store(true)
		delay := time.NewTimer(c.shutdownDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
		}
		if err := c.server.Shutdown(ctx); err != nil {
			c.stopped = errors.Join(fmt.Errorf("requests were cut off: %w", err), c.server.Close())
		}
		c.batches.close()
	})
	return c.stopped
}

const (
	readyTimeout = 500 * time.Millisecond
	// shutdown is the reason of a collector that is shutting down.
	shutdown = "shutdown"
)

// NotReady returns the name of the dependency without which this collector refuses
// clicks, or "". A collector with a working journal is always ready.
func (c *Collector) NotReady(ctx context.Context) string {
	if c.stopping.Load() {
		return shutdown
	}
	missing := c.SinkNotReady(ctx)
	if missing != "" && c.durable != nil && c.durable.journal.Ready() == nil {
		return ""
	}
	return missing
}

// SinkNotReady returns the name of the dependency that keeps clicks from the stream
// now, or "". Balancers may prefer collectors that do not need their journals.
func (c *Collector) SinkNotReady(ctx context.Context) string {
	if c.stopping.Load() {
		return shutdown
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return c.ready(ctx)
}

// serveHealth responds to a probe. missing is the name of the missing dependency.
func (c *Collector) serveHealth(w http.ResponseWriter, missing string) {
	h := w.Header()
	if missing != "" {
		message := missing + " is not reachable."
		if missing == shutdown {
			message = "This collector is shutting down."
		}
		h["Retry-After"] = []string{"1"}
		// Probes do not count as refused requests.
		httpedge.WriteError(w, http.StatusServiceUnavailable, affiliate.ReasonServiceUnavailable, message)
		return
	}
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	_, _ = io.WriteString(w, `{"status":"ok"}`+"\n")
}

func (c *Collector) mintRequestID() string {
	return affiliate.NewID[struct{}](c.now()).String()
}

func (c *Collector) reportPanic(r *http.Request, thrown any, stack []byte) {
	c.metrics.reject(affiliate.ReasonInternal)
	c.log.Error("panic", "path", r.URL.Path, "panic", fmt.Sprint(thrown), "stack", string(stack))
}

// logSinkError logs that clicks are refused, at most once per second.
func (c *Collector) logSinkError(err error) {
	now := c.now().Unix()
	if last := c.sinkError.Load(); last != now && c.sinkError.CompareAndSwap(last, now) {
		c.log.Error("clicks are refused: the sink does not acknowledge", "error", err)
	}
}
