package collector

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
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

// shutdownTimeout bounds the shutdown delay and the wait for the last requests. After the
// wait, the collector writes the batches of these requests (bounded by streamTimeout and
// flushTimeout), returns unused rate limit tokens and replays the journal (bounded by
// finalDrainTimeout). The whole shutdown takes at most 20 seconds.
const shutdownTimeout = 12 * time.Second

// linkFile is the name of the file in the folder of the journal that contains the last known
// short links, so that visitors are redirected after a restart without Redis.
const linkFile = "links.json"

// Directory looks up keys, codes and links. *directory.Reader implements this interface.
type Directory interface {
	PublicKey(ctx context.Context, digest [32]byte) (*edgev1.PublicKeyEntry, directory.State)
	ReferralCode(ctx context.Context, scope affiliate.Scope, code string) (*edgev1.ReferralCodeEntry, directory.State)
	Link(ctx context.Context, key string) (*edgev1.LinkEntry, directory.State)
	SigningKeys(ctx context.Context) (*edgev1.SigningKeys, directory.State)
}

// Deps are the parts that a collector depends on.
type Deps struct {
	Sink      Sink
	Directory Directory
	Limits    *ratelimit.Lease
	// Journal stores the batches that Sink does not accept. If Journal is nil, the clicks
	// of these batches are refused.
	Journal *journal.Journal
	// MissingDependency returns the name of a dependency that Sink needs and cannot
	// reach, such as "redis". It returns "" if Sink works.
	MissingDependency func(ctx context.Context) string
	// Background contains functions that run as long as the server runs. They return when
	// their context ends.
	Background []func(ctx context.Context)
	// Log, Registry and Now may be nil. The default Log discards its messages, the
	// default Registry is a new one, and the default Now is time.Now.
	Log      *slog.Logger
	Registry prometheus.Registerer
	Now      func() time.Time

	metrics   *metrics
	countries *countries
	// journalBroken is true if Config.JournalDir is set but the folder cannot be used.
	journalBroken bool
}

// Collector is the HTTP server of the edge. Create it with New or Open.
type Collector struct {
	cfg            Config
	deps           Deps
	refusedProxies httpedge.RefusedProxies
	visitors       *ratelimit.Lease // limit per public key and client address, in this process
	batches        *batcher
	journalSink    *journalSink // nil without a journal
	proposals      *proposalCache
	hashes         *hasher
	keys           keyCache
	agents         *agentCache
	handler        http.Handler
	server         *http.Server
	shutdownOnce   sync.Once
	stopping       atomic.Bool
	shutdownErr    error
	lastSinkLog    atomic.Int64 // time of the last line of logSinkError, in Unix seconds
	closers        []io.Closer
}

// New creates a collector from the given parts. New starts goroutines, so the caller must
// call Shutdown even if it never called Run.
func New(cfg Config, deps Deps) *Collector {
	cfg.LimitTracking, cfg.Shards = cmp.Or(cfg.LimitTracking, 1000), max(1, cfg.Shards)
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Registry == nil {
		deps.Registry = prometheus.NewRegistry()
	}
	if deps.MissingDependency == nil {
		deps.MissingDependency = func(context.Context) string { return "" }
	}
	if deps.metrics == nil {
		deps.metrics = newMetrics(deps.Registry)
	}
	deps.Log = cmp.Or(deps.Log, slog.New(slog.DiscardHandler))
	visitors := ratelimit.NewLease(nil, ratelimit.Options{HashKey: cfg.HashKey, Now: deps.Now})
	deps.Background = append(deps.Background, visitors.Run)
	if deps.countries != nil {
		deps.Background = append(deps.Background, deps.countries.run)
	}
	c := &Collector{
		cfg: cfg, visitors: visitors, proposals: newProposalCache(), hashes: &hasher{key: cfg.HashKey}, keys: newKeyCache(), agents: newAgentCache(),
	}
	sink := deps.Sink
	if deps.Journal != nil {
		c.journalSink = &journalSink{
			stream: sink, missingDependency: deps.MissingDependency, journal: deps.Journal,
			unavailable: make([]atomic.Bool, cfg.Shards), metrics: deps.metrics, log: deps.Log,
		}
		deps.Background = append(deps.Background, c.journalSink.run)
		sink = c.journalSink
	}
	c.deps, c.batches = deps, newBatcher(sink, cfg.Shards, deps.metrics)
	deps.metrics.watch(deps.Registry, c.batches, deps.Journal, deps.journalBroken, time.Now) // queue and journal use the machine's clock
	c.handler = httpedge.RecoverPanics(http.HandlerFunc(c.serve), c.reportPanic)
	handler := c.handler
	if cfg.Traces != nil {
		handler = cfg.Traces.Handler(handler, traced)
	}
	c.server = httpedge.NewServer(handler, deps.Log)
	return c
}

// Open creates a collector and connects it to Redis. It does not wait for Redis. Until
// Redis is reachable, the collector runs but reports that it is not ready.
func Open(cfg Config, log *slog.Logger, registry prometheus.Registerer) (*Collector, error) {
	var closers []io.Closer
	var errs error
	connect := func(endpoint clickstream.Endpoint) redis.UniversalClient {
		client, err := clickstream.Connect(endpoint)
		if err == nil {
			closers = append(closers, client)
			if cfg.Traces != nil {
				err = cfg.Traces.InstrumentRedis(client)
			}
		}
		errs = errors.Join(errs, err)
		return client
	}
	stream, lookups, limits := connect(cfg.Stream), connect(cfg.Cache), connect(cfg.Cache)
	countries, err := openCountries(cfg.CountryDB, log)
	if errs = errors.Join(errs, err); errs != nil {
		for _, closer := range closers {
			_ = closer.Close()
		}
		return nil, errs
	}
	registry.MustRegister(clickstream.PoolCollector{"collector_stream": stream, "collector_directory": lookups, "collector_limits": limits})
	m, clickJournal := newMetrics(registry), openJournal(cfg.JournalDir, log)
	writer, reader := clickstream.NewWriter(stream, cfg.Shards), directory.NewReader(lookups, time.Now)
	lease := ratelimit.NewLease(limits, ratelimit.Options{
		HashKey: cfg.HashKey, Now: cfg.Now, Log: log, Timeout: cfg.LimitTimeout,
		Fallback: func(zone string) { m.fallbacks.WithLabelValues(zone).Inc() },
	})
	background := []func(context.Context){reader.Run, lease.Run, func(ctx context.Context) { clickstream.CheckDurability(ctx, stream, log) }}
	if clickJournal != nil {
		closers = append(closers, clickJournal)
		path := filepath.Join(cfg.JournalDir, linkFile)
		if err := reader.LoadLinks(path); err != nil {
			log.Warn("the copy of the short links cannot be read", "error", err)
		}
		background = append(background, func(ctx context.Context) { reader.SaveLinks(ctx, path, log) })
	}
	c := New(cfg, Deps{
		Sink: writer, Directory: reader, Limits: lease, Journal: clickJournal, MissingDependency: redisDependency(writer.Ping, log),
		Background: background, Log: log, Registry: registry, Now: cfg.Now, metrics: m, countries: countries,
		journalBroken: cfg.JournalDir != "" && clickJournal == nil,
	})
	c.closers = closers
	return c, nil
}

// redisDependency returns a function for Deps.MissingDependency. The function logs why
// Redis is not available, and logs again when the reason changes.
func redisDependency(ping func(context.Context) error, log *slog.Logger) func(context.Context) string {
	var mu sync.Mutex
	var logged string // the reason, or "" while Redis is available
	return func(ctx context.Context) string {
		err := ping(ctx)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			if logged != "" {
				log.LogAttrs(ctx, slog.LevelInfo, "the click stream's Redis is available again")
			}
			logged = ""
			return ""
		}
		// The circuit breaker hides the reason, and a canceled check has none.
		if reason := failureReason(err); reason != logged && !errors.Is(err, clickstream.ErrBreakerOpen) && !errors.Is(err, context.Canceled) {
			log.LogAttrs(ctx, slog.LevelWarn, "the click stream's Redis is not available", slog.Any("error", err))
			logged = reason
		}
		return "redis"
	}
}

// failureReason returns the text of err without the addresses of a connection, because
// each connection has another port.
func failureReason(err error) string {
	var connection *net.OpError
	if errors.As(err, &connection) {
		return connection.Op + ": " + connection.Err.Error()
	}
	return err.Error()
}

// openJournal opens the journal in dir. It returns nil if dir is empty or cannot be used,
// because a collector without a journal works while Redis is reachable.
func openJournal(dir string, log *slog.Logger) *journal.Journal {
	if dir == "" {
		log.Warn("TRIBUTARY_JOURNAL_DIR is not set: clicks are refused while the stream's Redis is not reachable")
		return nil
	}
	opened, err := journal.Open(journal.Config{Dir: dir, JoinBytes: batchBytes, JoinClicks: batchRecords, Log: log})
	if err != nil {
		log.Warn("the journal cannot be used: clicks are refused while the stream's Redis is not reachable, and clicks in the journal wait for a restart",
			"variable", "TRIBUTARY_JOURNAL_DIR", "error", err)
		return nil
	}
	return opened
}

// Handler returns the HTTP handler for all paths under /v1/ and /r/.
func (c *Collector) Handler() http.Handler { return c.handler }

// Run serves requests on listener until ctx ends or Shutdown is called. Then it shuts the
// collector down, replays the journal and returns. If config is not nil, Run serves
// HTTPS.
func (c *Collector) Run(ctx context.Context, listener net.Listener, config *tls.Config) error {
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, run := range c.deps.Background {
		running.Go(func() { run(background) })
	}
	served := make(chan error, 1)
	go func() { served <- httpedge.Serve(c.server, listener, config) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		served <- nil // for the second receive from served, below
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = errors.Join(err, c.Shutdown(shutdownCtx), <-served)
	stopBackground()
	running.Wait()
	if c.journalSink != nil {
		c.journalSink.finalDrain(context.WithoutCancel(ctx))
	}
	for _, closer := range c.closers {
		err = errors.Join(err, closer.Close())
	}
	return err
}

// Shutdown stops the collector. It reports that it is not ready, but serves requests
// during the shutdown delay, with Connection: close in each response. Then it closes its
// port, waits for the last requests and writes their batches. A second call returns the
// result of the first.
func (c *Collector) Shutdown(ctx context.Context) error {
	c.shutdownOnce.Do(func() {
		c.stopping.Store(true)
		select {
		case <-time.After(c.cfg.ShutdownDelay):
		case <-ctx.Done():
		}
		if err := c.server.Shutdown(ctx); err != nil {
			c.shutdownErr = errors.Join(fmt.Errorf("requests were cut off: %w", err), c.server.Close())
		}
		c.batches.close()
	})
	return c.shutdownErr
}

const (
	// readyTimeout bounds the check whether the dependencies can be reached.
	readyTimeout = 500 * time.Millisecond
	// shutdown is the result of MissingDependency while the collector is shutting down.
	shutdown = "shutdown"
)

// MissingDependency returns the reason why the collector is not ready: the name of a
// missing dependency, or "shutdown". It returns "" if the collector is ready. A collector
// with a working journal is ready even if the stream is unavailable.
func (c *Collector) MissingDependency(ctx context.Context) string {
	if c.stopping.Load() {
		return shutdown
	}
	missing := c.MissingSinkDependency(ctx)
	if missing != "" && c.journalSink != nil && c.journalSink.journal.Ready() == nil {
		return ""
	}
	return missing
}

// MissingSinkDependency returns the reason why clicks cannot be written to the stream:
// the name of a missing dependency, or "shutdown". It returns "" if the stream accepts
// clicks. A load balancer can use it to prefer collectors that do not need their
// journals now.
func (c *Collector) MissingSinkDependency(ctx context.Context) string {
	if c.stopping.Load() {
		return shutdown
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return c.deps.MissingDependency(ctx)
}

func (c *Collector) serveHealth(w http.ResponseWriter, missing string) {
	h := w.Header()
	if missing != "" {
		message := missing + " is not reachable."
		if missing == shutdown {
			message = "This collector is shutting down."
		}
		h["Retry-After"] = []string{"1"}
		// Do not use c.refuse, because the metric of refused requests must not count
		// probes.
		httpedge.WriteError(w, http.StatusServiceUnavailable, affiliate.ReasonServiceUnavailable, message)
		return
	}
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	_, _ = io.WriteString(w, `{"status":"ok"}`+"\n")
}

func (c *Collector) reportPanic(r *http.Request, value any, stack []byte) {
	c.deps.metrics.reject(affiliate.ReasonInternal)
	c.deps.Log.ErrorContext(r.Context(), "panic", "path", r.URL.Path, "panic", fmt.Sprint(value), "stack", string(stack))
}

// logSinkError logs why a click could not be stored. It writes at most one line per
// second.
func (c *Collector) logSinkError(ctx context.Context, err error) {
	now := c.deps.Now().Unix()
	if last := c.lastSinkLog.Load(); last != now && c.lastSinkLog.CompareAndSwap(last, now) {
		c.deps.Log.ErrorContext(ctx, "clicks are refused: they cannot be stored", "error", err)
	}
}
