// Package stats folds counts: what changes a count adds a delta beside the
// change, and this job moves the deltas into the sums a moment later, so that
// nobody who counts waits for another.
//
//	clicks, conversions, refunds ──▶ stats_deltas ──▶ totals, hours
//
// It guarantees that a sum with the deltas that wait for it is exact at any
// time, however many folders run, fail or die. It does not promise that a sum by
// itself is up to date: after a crash the job may stand still until the queue
// gives its lost run up, and readers add the deltas meanwhile.
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
	// Every is how often deltas are folded.
	Every = 2 * time.Second
	// batch bounds the deltas of one transaction.
	batch = 20_000
	// runFor is when a run that always finds more leaves the rest to the next,
	// timeout ends one that meets a slow database.
	runFor  = 30 * time.Second
	timeout = time.Minute
)

// Store does the work.
type Store interface {
	// FoldStats moves up to limit deltas into the sums and tells how many. It may
	// run in any number of processes at a time.
	FoldStats(ctx context.Context, limit int) (folded int64, err error)
}

// Worker works affiliate.FoldStats.
type Worker struct {
	river.WorkerDefaults[affiliate.FoldStats]
	store Store
	log   *slog.Logger
	now   func() time.Time
}

// New makes the worker; now is its clock.
func New(store Store, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{store: store, log: log, now: now}
}

// PeriodicJob is the job as a River client inserts it by itself, one at a time.
// It is tried once: the next run does what this one left.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(Every), affiliate.FoldStats{}, true)
}

// Timeout bounds one run.
func (w *Worker) Timeout(*river.Job[affiliate.FoldStats]) time.Duration { return timeout }

// Work folds until nothing waits, or until the run has lasted long enough.
func (w *Worker) Work(ctx context.Context, _ *river.Job[affiliate.FoldStats]) error {
	started := w.now()
	for {
		folded, err := w.store.FoldStats(ctx, batch)
		if err != nil {
			return fmt.Errorf("folding of counts: %w", err)
		}
		if folded < batch {
			return nil
		}
		if lasted := w.now().Sub(started); lasted >= runFor {
			w.log.LogAttrs(ctx, slog.LevelWarn, "counts come in faster than they are folded", slog.Duration("lasted", lasted))
			return nil
		}
	}
}
