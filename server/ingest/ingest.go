package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Config configures an Ingester. The zero value of a field means its default.
type Config struct {
	// Workers is the number of goroutines that store; one or two, default 2. A second
	// one adds about 14 percent of throughput, a third none.
	Workers int
	// BatchRows is the number of clicks in a full batch; default 5,000.
	BatchRows int
	// ClaimEvery is the time between two claims of entries of dead consumers; default
	// 10 s.
	ClaimEvery time.Duration
	// TrimEvery is the time between two trims of the streams and of the stream of dead
	// letters; default 10 s.
	TrimEvery time.Duration
	// StopTimeout bounds how long a stop waits for the current batches; default 10 s.
	StopTimeout time.Duration
	// FirstDelay is the first pause after a failure. It doubles up to 5 s. Default
	// 100 ms.
	FirstDelay time.Duration
}

const (
	maxDelay = 5 * time.Second
	// storeTimeout ends a call of a store that hangs. The store counts as unreachable.
	storeTimeout = 30 * time.Second
	// dataAttempts is how often a store may refuse the data of an entry before its
	// records are stored one by one.
	dataAttempts = 5
	// queueFactor times BatchRows is the number of clicks that may wait in memory: the
	// next batch of each worker.
	queueFactor = 2
	// deadLettersKept is how long the stream of dead letters keeps a record, as long as
	// the table of dead letters does.
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

// New makes an Ingester. Run consumes.
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

// Run consumes until ctx ends. Then it stores the entries that it has read, for at most
// StopTimeout. The others stay pending for the next start.
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
	// A fetcher may be waiting for room in the queue.
	i.queue.close()
	fetchers.Wait()
	workers.Wait()
}

// fetch reads one shard: first the unfinished entries of this consumer, then new ones,
// and every ClaimEvery entries that were pending for too long. After a failure it
// starts again with its own entries, because a response that was lost may have
// delivered some. Before that it checks whether Redis has lost its latest writes.
func (i *Ingester) fetch(ctx context.Context, shard int) {
	const none = ""
	own, delay, failed := "0", i.cfg.FirstDelay, false
	var claimed time.Time
	for ctx.Err() == nil {
		var entries []clickstream.Entry
		var lost []string
		var err error
		i.queue.reading(shard)
		switch {
		case failed:
			if err = i.checkRewound(ctx, shard); err == nil {
				failed = false
			}
		case own != none:
			if entries, err = i.reader.Own(ctx, shard, own); err == nil {
				if own = none; len(entries) > 0 {
					own = entries[len(entries)-1].ID
				}
			}
		case i.now().Sub(claimed) >= i.cfg.ClaimEvery:
			var more bool
			// A dead consumer may leave thousands of entries. The queue's bound limits the
			// speed at which they are claimed.
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
			// An entry that vanished has nothing to store. Claim reports it.
			if entry.Batch != nil {
				i.queue.push(entry)
			}
		}
		if errors.Is(err, clickstream.ErrGroupLost) {
			i.metrics.recreated.Inc()
			i.log.Warn("the click stream was lost: clicks that were not stored yet are lost", "shard", shard, "error", err)
			own = none
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				i.log.Warn("the click stream cannot be read", "shard", shard, "error", err)
			}
			own, failed = "0", true
			pause(ctx, delay)
			delay = min(2*delay, maxDelay)
			continue
		}
		delay = i.cfg.FirstDelay
	}
}

// checkRewound counts and logs that a stream went back to an older entry.
func (i *Ingester) checkRewound(ctx context.Context, shard int) error {
	rewound, err := i.reader.Rewound(ctx, shard)
	if rewound {
		i.metrics.lost.Inc()
		i.log.Warn("the click stream lost its latest entries: clicks that were not stored yet are lost", "shard", shard)
	}
	return err
}

// upkeep trims the streams and measures the age of the oldest pending entry.
func (i *Ingester) upkeep(ctx context.Context) {
	for pause(ctx, i.cfg.TrimEvery) {
		oldest := time.Duration(0)
		for shard := range i.reader.Shards() {
			trimmed, err := i.reader.Trim(ctx, shard)
			if err != nil && ctx.Err() == nil {
				i.log.Warn("the click stream cannot be trimmed", "shard", shard, "error", err)
			}
			i.metrics.trimmed.Add(float64(trimmed))
			if err := i.checkRewound(ctx, shard); err != nil && ctx.Err() == nil {
				i.log.Warn("the groups of the click stream cannot be read", "shard", shard, "error", err)
			}
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

// pause sleeps and reports whether ctx is still valid.
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
