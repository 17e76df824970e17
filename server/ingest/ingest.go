// Package ingest copies clicks from the click stream in Redis into the database. A click
// that is processed several times is still stored only once. The click stream is divided
// into shards. Each process is one consumer of the stream, with one fetcher goroutine for
// each shard and one or two worker goroutines:
//
//	shard 0 ─▶ fetcher ─┐           ┌─▶ worker: decode, look up links, mark unique
//	shard 1 ─▶ fetcher ─┼─▶ queue ──┤           clicks, store, commit, acknowledge
//	   …                ┘           └─▶ worker
//
// A stream entry contains several clicks. A fetcher first reads the entries that its
// process has read before but not acknowledged, and then new entries. It also claims the
// entries of crashed processes from time to time. A worker takes waiting entries from the
// queue, until they have at least 5,000 clicks or the queue is empty, and stores their
// clicks in one batch. So batches are larger when more clicks arrive. A worker acknowledges
// entries after the commit. After a crash, entries are therefore processed again and not
// lost. If a click is stored again, nothing changes, because a row with its id exists.
//
// A click is unique if it is the first click of its visitor within 24 hours. The clicks
// of a batch are checked for this in Redis, before they are stored. If the check takes
// too long, they are stored as not unique, and a metric counts them. If the same click is
// checked again, the result is the same, and the stored row does not change.
//
// The package guarantees that each click that a collector has accepted becomes a row in
// the table clicks or a dead letter, unless Redis loses the click before it is stored. A
// dead letter is a record that cannot be stored as a click, with a reason. Dead letters
// are stored in a table. Malformed records, and records that the database rejects, are
// also written to a dead-letter stream. Entries are removed from the click stream after
// their clicks were stored.
//
// The package does not store clicks in a particular order. A click is stored some
// milliseconds after the collector's response, or later if the database cannot be
// reached. Entries that Redis has lost before they were read cannot be stored. The
// metrics entries_lost and groups_recreated count the losses that can be detected.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tributary-hq/tributary/affiliate/click"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Config configures an Ingester. A field that is zero has its default value.
type Config struct {
	// Workers is the number of goroutines that store clicks: 1 or 2, default 2. In
	// measurements, the second worker added about 14 percent to the throughput and a
	// third worker added nothing.
	Workers int
	// BatchRows is the number of clicks in a full batch; default 5,000.
	BatchRows int
	// ClaimEvery is how often a fetcher claims the entries of crashed processes; default
	// 10 s.
	ClaimEvery time.Duration
	// TrimEvery is how often the click streams and the dead-letter stream are trimmed;
	// default 10 s.
	TrimEvery time.Duration
	// StopTimeout is the longest time that Run stores entries after its context has
	// ended; default 10 s.
	StopTimeout time.Duration
	// FirstDelay is the pause before the first retry; default 100 ms. The pause doubles
	// with each further retry, up to 5 s.
	FirstDelay time.Duration
}

const (
	maxDelay = 5 * time.Second
	// storeTimeout is the time limit of one call of the database or of Redis. A call that
	// takes longer is treated like a failed connection.
	storeTimeout = 30 * time.Second
	// maxDataAttempts is the maximum number of attempts to store all records of an entry
	// together. If the database rejects the data in all these attempts, the records are
	// stored one by one.
	maxDataAttempts = 5
	// queueFactor is the size of the queue in full batches. The queue has room for the
	// next batch of each worker.
	queueFactor = 2
	// deadLetterRetention is how long a record stays in the dead-letter stream. Records
	// stay in the table of dead letters for the same time.
	deadLetterRetention = 90 * 24 * time.Hour
)

// Deps are the dependencies of an Ingester.
type Deps struct {
	Reader *clickstream.Reader
	DB     *postgres.DB
	// Visitors marks unique clicks. If it is nil, all clicks are stored as not unique.
	Visitors Visitors
	Log      *slog.Logger          // default: nothing is logged
	Registry prometheus.Registerer // default: metrics are not exported
	Now      func() time.Time      // default: time.Now
	// StoredAt converts the time of an entry, which comes from the clock of Redis, to the
	// clock Now. Default: the time of the entry.
	StoredAt func(time.Time) time.Time
	// Tracer creates a span for each click whose request has a recorded trace. Default: no spans.
	Tracer trace.Tracer
}

// Ingester stores the clicks of the click stream. It is one consumer in the consumer
// group of the stream.
type Ingester struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	queue   *queue
	// expectedShards is the number of streams according to the configuration.
	expectedShards int
}

// New returns an Ingester. Run starts it.
func New(cfg Config, deps Deps) *Ingester {
	cfg.Workers, cfg.BatchRows = min(cmp.Or(cfg.Workers, 2), 2), cmp.Or(cfg.BatchRows, 5000)
	cfg.ClaimEvery, cfg.TrimEvery = cmp.Or(cfg.ClaimEvery, 10*time.Second), cmp.Or(cfg.TrimEvery, 10*time.Second)
	cfg.StopTimeout, cfg.FirstDelay = cmp.Or(cfg.StopTimeout, 10*time.Second), cmp.Or(cfg.FirstDelay, 100*time.Millisecond)
	deps.Log = cmp.Or(deps.Log, slog.New(slog.DiscardHandler))
	if deps.Registry == nil {
		deps.Registry = prometheus.NewRegistry()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.StoredAt == nil {
		deps.StoredAt = func(t time.Time) time.Time { return t }
	}
	if deps.Tracer == nil {
		deps.Tracer = noop.Tracer{}
	}
	return &Ingester{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry), queue: newQueue(queueFactor * cfg.BatchRows), expectedShards: deps.Reader.Shards(),
	}
}

// Run stores the clicks of the stream until ctx ends. After that it reads no new entries,
// but it still stores the entries that it has read, for at most StopTimeout. Entries that
// are not stored by then are not acknowledged, so they are read again after the next
// start.
func (i *Ingester) Run(ctx context.Context) {
	workerCtx, cancelWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelWorkers()

	var fetchers, workers sync.WaitGroup
	for shard := range i.deps.Reader.Shards() {
		fetchers.Go(func() { i.fetch(ctx, shard) })
	}
	fetchers.Go(func() { i.upkeep(ctx) })
	fetchers.Go(func() { i.discover(ctx, &fetchers) })
	for range i.cfg.Workers {
		workers.Go(func() {
			for {
				entries := i.queue.pop(i.cfg.BatchRows)
				if len(entries) == 0 {
					return
				}
				i.process(workerCtx, entries)
				i.queue.done(entries)
			}
		})
	}

	<-ctx.Done()
	timer := time.AfterFunc(i.cfg.StopTimeout, cancelWorkers)
	defer timer.Stop()
	// Fetchers may be waiting because the queue is full. They continue when it is closed.
	i.queue.close()
	fetchers.Wait()
	workers.Wait()
}

// fetch reads the entries of one shard until ctx ends. It first reads the pending entries
// of this consumer. Entries are pending if they were delivered but not acknowledged.
// After that it reads new entries. Every ClaimEvery, it also claims entries that have been
// pending for other consumers for too long.
//
// After a failed read, fetch checks whether Redis has lost its latest writes. It then
// reads the pending entries again, because Redis may have delivered entries in a response
// that did not arrive.
func (i *Ingester) fetch(ctx context.Context, shard int) {
	// The next read of pending entries starts after the entry pendingCursor. If
	// pendingCursor is noPending, all pending entries have been read.
	const noPending, firstPending = "", "0"
	pendingCursor, delay, failed := firstPending, i.cfg.FirstDelay, false
	var lastClaim time.Time
	for ctx.Err() == nil {
		var entries []clickstream.Entry
		var lost []string
		var err error
		i.queue.beginRead(shard)
		switch {
		case failed:
			if err = i.checkRewound(ctx, shard); err == nil {
				failed = false
			}
		case pendingCursor != noPending:
			if entries, err = i.deps.Reader.Pending(ctx, shard, pendingCursor); err == nil {
				if pendingCursor = noPending; len(entries) > 0 {
					pendingCursor = entries[len(entries)-1].ID
				}
			}
		case i.deps.Now().Sub(lastClaim) >= i.cfg.ClaimEvery:
			var more bool
			// A crashed process may have left thousands of entries. If there are more,
			// the next iteration claims them without a pause, but waits when the queue is
			// full.
			if entries, lost, more, err = i.deps.Reader.Claim(ctx, shard); err == nil && !more {
				lastClaim = i.deps.Now()
			}
		default:
			entries, err = i.deps.Reader.Next(ctx, shard)
		}
		if len(lost) > 0 {
			i.metrics.lost.Add(float64(len(lost)))
			i.deps.Log.Error("entries disappeared from the click stream before they were acknowledged", "shard", shard, "entries", lost)
		}
		for _, entry := range entries {
			// An entry without a batch was deleted from Redis while it was pending. Claim
			// returns such entries in lost.
			if entry.Batch != nil {
				i.queue.push(entry)
			}
			if shard >= i.expectedShards {
				i.metrics.unexpected.Add(float64(entry.Clicks))
			}
		}
		if errors.Is(err, clickstream.ErrGroupLost) {
			i.metrics.recreated.Inc()
			i.deps.Log.Warn("the click stream was lost, and with it all clicks that were not yet stored", "shard", shard, "error", err)
			pendingCursor = noPending
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				i.deps.Log.Warn("the click stream cannot be read", "shard", shard, "error", err)
			}
			pendingCursor, failed = firstPending, true
			pause(ctx, delay)
			delay = min(2*delay, maxDelay)
			continue
		}
		delay = i.cfg.FirstDelay
	}
}

// discover starts a fetcher for each stream beyond the configured number as soon as the
// stream has entries. Without it, the clicks of a collector that is configured with more
// streams than this process would stay in Redis unread.
func (i *Ingester) discover(ctx context.Context, fetchers *sync.WaitGroup) {
	started := i.deps.Reader.Shards()
	for ok := true; ok; ok = pause(ctx, i.cfg.TrimEvery) {
		shards, err := i.deps.Reader.Discover(ctx)
		if err != nil && ctx.Err() == nil {
			i.deps.Log.Warn("the click stream cannot be searched for further streams", "error", err)
		}
		if shards == started {
			continue
		}
		i.deps.Log.Warn("collectors use more streams than TRIBUTARY_STREAM_SHARDS of this core, which now reads them too",
			"setting", i.expectedShards, "streams", shards)
		for shard := started; shard < shards; shard++ {
			fetchers.Go(func() { i.fetch(ctx, shard) })
		}
		started = shards
	}
}

// checkRewound checks whether the position of the consumer group has moved back to an
// older entry. This happens if Redis has lost its latest writes. checkRewound counts and
// logs the loss.
func (i *Ingester) checkRewound(ctx context.Context, shard int) error {
	rewound, err := i.deps.Reader.Rewound(ctx, shard)
	if rewound {
		i.metrics.lost.Inc()
		i.deps.Log.Warn("the click stream lost its latest entries, and with them clicks that were not yet stored", "shard", shard)
	}
	return err
}

func (i *Ingester) upkeep(ctx context.Context) {
	usageFailed := i.measureUsage(ctx, false)
	for pause(ctx, i.cfg.TrimEvery) {
		oldest := time.Duration(0)
		for shard := range i.deps.Reader.Shards() {
			trimmed, err := i.deps.Reader.Trim(ctx, shard)
			if err != nil && ctx.Err() == nil {
				i.deps.Log.Warn("the click stream cannot be trimmed", "shard", shard, "error", err)
			}
			i.metrics.trimmed.Add(float64(trimmed))
			if err := i.checkRewound(ctx, shard); err != nil && ctx.Err() == nil {
				i.deps.Log.Warn("the consumer groups of the click stream cannot be read", "shard", shard, "error", err)
			}
			if id, err := i.deps.Reader.OldestPending(ctx, shard); err == nil && id != "" {
				oldest = max(oldest, i.deps.Now().Sub(clickstream.EntryTime(id)))
			}
		}
		i.metrics.oldest.Set(oldest.Seconds())
		usageFailed = i.measureUsage(ctx, usageFailed)
		if _, err := i.deps.Reader.TrimDeadLetters(ctx, i.deps.Now().Add(-deadLetterRetention)); err != nil && ctx.Err() == nil {
			i.deps.Log.Warn("dead letters of clicks cannot be trimmed", "error", err)
		}
	}
}

// measureUsage measures the size of the streams. failed is true if the last call failed.
// measureUsage logs only the first of several failures, because the user of Redis may not
// be permitted to run the commands. It returns true if it failed.
func (i *Ingester) measureUsage(ctx context.Context, failed bool) bool {
	usage, err := i.deps.Reader.Usage(ctx)
	if err == nil {
		i.metrics.entries.Set(float64(usage.Entries))
		i.metrics.bytes.Set(float64(usage.Bytes))
		i.metrics.usedMemory.Set(float64(usage.UsedMemory))
		i.metrics.maxMemory.Set(float64(usage.MaxMemory))
		return false
	}
	if !failed && ctx.Err() == nil {
		i.deps.Log.Warn("the size of the click stream cannot be read", "error", err)
	}
	return true
}

// pause waits for the duration d and returns true. It returns false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Visitors checks which clicks are the first click of their visitor within 24 hours.
type Visitors interface {
	// MarkUnique sets the field Unique of the clicks. It takes less than a second. It
	// returns the number of clicks that it could not check. If a click is checked again,
	// the result is the same.
	MarkUnique(ctx context.Context, clicks []*click.Click) (unknown int)
}
