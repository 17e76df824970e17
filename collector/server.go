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

// shutdownTimeout bounds the farewell and the requests under way. Behind it come
// their batches (streamTimeout and flushTimeout at most), the limits' last word and
// finishTimeout: 20 seconds in all.
const shutdownTimeout = 12 * time.Second

// Directory is what a collector looks up; *directory.Reader is one.
type Directory interface {
	PublicKey(ctx context.Context, digest [32]byte) (*edgev1.PublicKeyEntry, directory.State)
	ReferralCode(ctx context.Context, scope affiliate.Scope, code string) (*edgev1.ReferralCodeEntry, directory.State)
	Link(ctx context.Context, key string) (*edgev1.LinkEntry, directory.State)
	SigningKeys(ctx context.Context) (*edgev1.SigningKeys, directory.State)
}

// Limits counts requests; *ratelimit.Lease is one.
type Limits interface {
	Take(ctx context.Context, zone ratelimit.Zone, subject string) ratelimit.Result
}

// Deps are the parts that a collector is made of.
type Deps struct {
	Sink      Sink
	Directory Directory
	Limits    Limits
	// Journal takes what Sink cannot; nil: nothing does.
	Journal *journal.Journal
	// Ready names what Sink misses ("redis"), or is empty.
	Ready func(ctx context.Context) string
	// Background, when set, runs beside the server until its context ends.
	Background []func(ctx context.Context)
	// Log nil means none, Registry nil a private one, Now nil time.Now.
	Log      *slog.Logger
	Registry prometheus.Registerer
	Now      func() time.Time

	metrics   *metrics
	countries *countries
}

// Collector is the edge's HTTP surface. Make it with New or Open.
type Collector struct {
	now       func() time.Time
	log       *slog.Logger
	trusted   []netip.Prefix
	allowHTTP bool
	limit     int64
	shards    int
	directory Directory
	limits    Limits
	ready     func(ctx context.Context) string
	metrics   *metrics
	batches   *batcher
	durable   *durable // nil without a journal
	farewell  time.Duration
	memory    *memory
	hashes    *hashes
	known     identities
	agents    *agents
	countries *countries // nil without a file
	handler   http.Handler
	server    *http.Server
	stop      sync.Once
	stopping  atomic.Bool
	stopped   error
	sinkError atomic.Int64 // when the last one was logged, Unix seconds

	background []func(ctx context.Context)
	closers    []io.Closer
}

// New makes a collector of given parts. Its batches fly at once: it has to be
// ended with Shutdown, whether or not Run was called.
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
		background: deps.Background, farewell: cfg.Farewell,
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
	c.metrics.watch(deps.Registry, c.batches, deps.Journal, c.now)
	c.handler = httpedge.Guard(http.HandlerFunc(c.serve), c.reportPanic)
	c.server = httpedge.NewServer(c.handler, c.log)
	return c
}

// Open connects a collector to its Redis. It does not wait for Redis: an edge
// starts without it and says so in its readiness.
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
	var disk *journal.Journal
	if cfg.JournalDir != "" {
		if disk, err = journal.Open(journal.Config{Dir: cfg.JournalDir, JoinBytes: batchBytes, JoinClicks: batchRecords, Log: log}); err != nil {
			return fail(fmt.Errorf("TRIBUTARY_JOURNAL_DIR: %w", err))
		}
		clients = append(clients, disk)
	} else {
		log.Warn("without TRIBUTARY_JOURNAL_DIR clicks are refused while the stream's Redis does not answer")
	}
	writer := clickstream.NewWriter(stream, cfg.Shards)
	reader := directory.NewReader(lookups, time.Now)
	lease := ratelimit.NewLease(limits, ratelimit.Options{HashKey: cfg.HashKey, Log: log, Fallback: m.fallback})
	c := New(cfg, Deps{
		Sink: writer, Directory: reader, Limits: lease, Journal: disk,
		Ready: func(ctx context.Context) string {
			if writer.Ping(ctx) != nil {
				return "redis"
			}
			return ""
		},
		Background: []func(context.Context){reader.Run, lease.Run},
		Log:        log, Registry: registry, metrics: m, countries: countries,
	})
	c.closers = clients
	return c, nil
}

// Handler answers everything under /v1/ and /r/.
func (c *Collector) Handler() http.Handler { return c.handler }

// Run serves on listener, over TLS when config is not nil, until ctx ends or
// Shutdown is called, and then drains.
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

// Shutdown ends readiness, goes on answering for the farewell while it asks its
// clients to go elsewhere, stops accepting, lets requests under way have their
// answers, and flushes. A second call returns what the first did.
func (c *Collector) Shutdown(ctx context.Context) error {
	c.stop.Do(func() {
		c.stopping.Store(true)
		farewell := time.NewTimer(c.farewell)
		defer farewell.Stop()
		select {
		case <-farewell.C:
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
	// shutdown is what a stopping collector names in its readiness.
	shutdown = "shutdown"
)

// NotReady names what keeps this collector from taking clicks, or is empty. With
// a journal that can be written it needs nothing else.
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

// SinkNotReady names what keeps clicks from the stream at this moment, or is
// empty. Balancers may prefer collectors with a healthy sink over those that
// live on their journals.
func (c *Collector) SinkNotReady(ctx context.Context) string {
	if c.stopping.Load() {
		return shutdown
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return c.ready(ctx)
}

// serveHealth answers a probe; missing names what the probe asks for and is not
// there.
func (c *Collector) serveHealth(w http.ResponseWriter, missing string) {
	h := w.Header()
	if missing != "" {
		message := missing + " is not reachable."
		if missing == shutdown {
			message = "This collector is shutting down."
		}
		h["Retry-After"] = []string{"1"}
		// A probe is nobody who was refused: it is not counted.
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

// logSinkError says once a second at most that clicks are refused.
func (c *Collector) logSinkError(err error) {
	now := c.now().Unix()
	if last := c.sinkError.Load(); last != now && c.sinkError.CompareAndSwap(last, now) {
		c.log.Error("clicks are refused: the sink does not acknowledge", "error", err)
	}
}
