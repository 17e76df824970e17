// Package stats adds statistics deltas to the stored totals. A transaction that changes a
// count, for example a new click, inserts a delta row instead of updating a total.
// Transactions therefore never wait for each other because of a total. This job adds the
// deltas to the totals every two seconds and deletes them.
//
//	clicks, conversions, refunds ──▶ stats_deltas ──▶ totals, hours
//
// It guarantees that a total plus its remaining deltas is exact at any time, also if
// several jobs run, fail or crash. It does not promise that a total alone is up to date.
// After a crash no job runs until the queue has detected the lost run. Readers therefore
// always add the remaining deltas to the totals.
package stats

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

const (
	// Interval is how often deltas are folded.
	Interval = 2 * time.Second
	// batchSize is the maximum number of deltas in one transaction.
	batchSize = 20_000
	// maxRunTime is the time after which a run starts no further batch and leaves the
	// remaining deltas to the next run.
	maxRunTime = 30 * time.Second
	// timeout cancels a run, for example if the database is slow.
	timeout = time.Minute
)

// Store is the part of the database that the job uses.
type Store interface {
	// FoldStats adds up to limit deltas to the totals and returns their number. It can run
	// in several processes at the same time.
	FoldStats(ctx context.Context, limit int) (folded int64, err error)
}

// Worker runs the job affiliate.FoldStats.
type Worker struct {
	river.WorkerDefaults[affiliate.FoldStats]
	store Store
	log   *slog.Logger
	now   func() time.Time
}

// New returns a Worker; now is its clock.
func New(store Store, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{store: store, log: log, now: now}
}

// PeriodicJob returns the job that a River client inserts periodically. Only one runs at a
// time. A failed job is not retried, because the next one processes the same deltas.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(Interval), affiliate.FoldStats{}, true)
}

// Timeout returns the time limit of one run.
func (w *Worker) Timeout(*river.Job[affiliate.FoldStats]) time.Duration { return timeout }

// Work adds deltas to the totals until no delta remains or maxRunTime has passed.
func (w *Worker) Work(ctx context.Context, _ *river.Job[affiliate.FoldStats]) error {
	started := w.now()
	for {
		folded, err := w.store.FoldStats(ctx, batchSize)
		if err != nil {
			return fmt.Errorf("add statistics deltas to the totals: %w", err)
		}
		if folded < batchSize {
			return nil
		}
		if lasted := w.now().Sub(started); lasted >= maxRunTime {
			w.log.LogAttrs(ctx, slog.LevelWarn, "statistics deltas arrive faster than they are processed", slog.Duration("lasted", lasted))
			return nil
		}
	}
}
