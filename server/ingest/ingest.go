package ingest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Config tunes an Ingester; the zero value of a field means its default.
type Config struct {
	// Workers store at the same time; one or two, default 2. A second one adds
	// some 14 percent, a third nothing.
	Workers int
	// BatchRows is how many clicks a batch is filled to; default 5,000.
	BatchRows int
	// ClaimEvery is how often entries of dead consumers are looked for; default 10 s.
	ClaimEvery time.Duration
	// TrimEvery is how often what is stored is removed from the streams, and what is
	// too old from that of dead letters; default 10 s.
	TrimEvery time.Duration
	// StopTimeout bounds what a stop waits for batches under way; default 10 s.
	StopTimeout time.Duration
	// FirstDelay is the first pause after a failure; it doubles up to 5 s.
	// Default 100 ms.
	FirstDelay time.Duration
}

const (
	maxDelay = 5 * time.Second
	// storeTimeout ends a call to a store that hangs; it counts as unreachable.
	storeTimeout = 30 * time.Second
	// dataAttempts is how often a store may refuse an entry's data before the
	// entry is taken apart.
	dataAttempts = 5
	// queueFactor times BatchRows is what may wait in memory: the next batch
	// for each worker.
	queueFactor = 2
	// deadLettersKept is for how long the stream has what could not be stored: as
	// the table of dead letters has it.
	deadLettersKept = 90 * 24 * time.Hour
)

// Deps are the parts of an Ingester.
type Deps struct {
	Reader *clickstream.Reader
	Store  Store
	// Visitors nil means that no click is unique.
	Visitors Visitors
	// Log nil means none, Registry nil a private one, Now nil time.Now.
	Log      *slog.Logger
	Registry prometheus.Registerer
	Now      func() time.Time
}

// Ingester is one member of the consumer group.
type Ingester struct {
	cfg      Config
	reader   *clickstream.Reader
	store    Store
	visitors Visitors
	log      *slog.Logger
	now      func() time.Time
	metrics  *metrics
	queue    *queue
}

// New makes an Ingester; Run works.
func New(cfg Config, deps Deps) *Ingester {
	if cfg.Workers == 0 || cfg.Workers > 2 {
		cfg.Workers = 2
	}
	if cfg.BatchRows == 0 {
		cfg.BatchRows = 5000
	}
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{
		{&cfg.ClaimEvery, 10 * time.Second},
		{&cfg.TrimEvery, 10 * time.Second},
		{&cfg.StopTimeout, 10 * time.Second},
		{&cfg.FirstDelay, 100 * time.Millisecond},
	} {
		if *d.value == 0 {
			*d.value = d.otherwise
		}
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Registry == nil {
		deps.Registry = prometheus.NewRegistry()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Ingester{
		cfg: cfg, reader: deps.Reader, store: deps.Store, visitors: deps.Visitors, log: deps.Log, now: deps.Now,
		metrics: newMetrics(deps.Registry), queue: newQueue(queueFactor * cfg.BatchRows),
	}
}

// Run consumes until ctx ends; then it stores what it has in hand, for at most
// StopTimeout. What is left stays pending for the next start.
func (i *Ingester) Run(ctx context.Context) {
	working, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()

	var fetchers, workers sync.WaitGroup
	for shard := range i.reader.Shards() {
		fetchers.Go(func() { i.fetch(ctx, shard) })
	}
	fetchers.Go(func() { i.upkeep(ctx) })
	for range i.cfg.Workers {
		workers.Go(func() {
			for {
				entries := i.queue.pop(i.cfg.BatchRows)
				if len(entries) == 0 {
					return
				}
				i.process(working, entries)
				i.queue.done(entries)
			}
		})
	}

	<-ctx.Done()
	timer := time.AfterFunc(i.cfg.StopTimeout, giveUp)
	defer timer.Stop()
	// A fetcher that waits for room has to be let go first.
	i.queue.close()
	fetchers.Wait()
	workers.Wait()
}

// fetch reads one shard: what this consumer had not finished, then news, and
// each ClaimEvery what has been pending for too long. After a failure it begins
// again with its own: an answer may have been lost that was a delivery.
func (i *Ingester) fetch(ctx context.Context, shard int) {
	const none = ""
	own, delay := "0", i.cfg.FirstDelay
	var claimed time.Time
	for ctx.Err() == nil {
		var entries []clickstream.Entry
		var lost []string
		var err error
		i.queue.reading(shard)
		switch {
		case own != none:
			if entries, err = i.reader.Own(ctx, shard, own); err == nil {
				if own = none; len(entries) > 0 {
					own = entries[len(entries)-1].ID
				}
			}
		case i.now().Sub(claimed) >= i.cfg.ClaimEvery:
			var more bool
			// A dead consumer may leave thousands; the queue's bound is what slows
			// taking them over.
			if entries, lost, more, err = i.reader.Claim(ctx, shard); err == nil && !more {
				claimed = i.now()
			}
		default:
			entries, err = i.reader.Next(ctx, shard)
		}
		if len(lost) > 0 {
			i.metrics.lost.Add(float64(len(lost)))
			i.log.Error("entries vanished from the click stream before they were acknowledged", "shard", shard, "entries", lost)
		}
		for _, entry := range entries {
			// A vanished one has nothing to store; Claim reports it.
			if entry.Batch != nil {
				i.queue.push(entry)
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				i.log.Warn("the click stream cannot be read", "shard", shard, "error", err)
			}
			own = "0"
			pause(ctx, delay)
			delay = min(2*delay, maxDelay)
			continue
		}
		delay = i.cfg.FirstDelay
	}
}

// upkeep trims the streams and watches the age of what is pending.
func (i *Ingester) upkeep(ctx context.Context) {
	for pause(ctx, i.cfg.TrimEvery) {
		oldest := time.Duration(0)
		for shard := range i.reader.Shards() {
			trimmed, err := i.reader.Trim(ctx, shard)
			if err != nil && ctx.Err() == nil {
				i.log.Warn("the click stream cannot be trimmed", "shard", shard, "error", err)
			}
			i.metrics.trimmed.Add(float64(trimmed))
			if id, err := i.reader.OldestPending(ctx, shard); err == nil && id != "" {
				oldest = max(oldest, i.now().Sub(clickstream.EntryTime(id)))
			}
		}
		i.metrics.oldest.Set(oldest.Seconds())
		if _, err := i.reader.TrimDeadLetters(ctx, i.now().Add(-deadLettersKept)); err != nil && ctx.Err() == nil {
			i.log.Warn("dead letters of clicks cannot be trimmed", "error", err)
		}
	}
}

// pause sleeps and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
