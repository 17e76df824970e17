// Package stats contains the job that keeps statistics totals up to date. A transaction
// that changes a count, for example because a click arrived, does not update the total.
// Instead it inserts the difference, which is called a delta, as a row into the table
// stats_deltas. Transactions therefore do not wait for each other to update the same
// total. Every two seconds, the job adds the deltas to the totals and deletes the deltas.
//
//	clicks, conversions, refunds ──▶ stats_deltas ──job──▶ totals
//
// The package guarantees that the sum of a total and its remaining deltas is exact at any
// time, even if several jobs run at the same time, fail or crash. It does not guarantee
// that the total alone is up to date. For example, if the process crashes during a run,
// the next run starts when the job queue has detected the crash. Queries therefore always
// add the remaining deltas to the totals.
package stats

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

const (
	// Interval is the time between two runs of the job.
	Interval = 2 * time.Second
	// batchSize is the maximum number of deltas that one transaction adds to the totals.
	batchSize = 20_000
	// maxRunTime is the time after which a run starts no further transaction. The next
	// run processes the remaining deltas.
	maxRunTime = 30 * time.Second
	// timeout is the time after which a run is cancelled, for example because the
	// database is slow.
	timeout = time.Minute
)

// New returns the worker of the job analytics.FoldStats; now is its clock.
func New(db *postgres.DB, log *slog.Logger, now func() time.Time) *server.Worker[analytics.FoldStats] {
	return &server.Worker[analytics.FoldStats]{Limit: timeout, Run: func(ctx context.Context, _ *river.Job[analytics.FoldStats]) error {
		return fold(ctx, db, log, now)
	}}
}

// PeriodicJob returns the job that a River client inserts every Interval. At most one job
// runs at a time. A failed job is not retried, because the next job processes the same
// deltas.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(Interval), analytics.FoldStats{}, true)
}

// fold adds deltas to the totals until no deltas remain or maxRunTime has passed.
func fold(ctx context.Context, db *postgres.DB, log *slog.Logger, now func() time.Time) error {
	started := now()
	for {
		folded, err := counters.Fold(ctx, db, batchSize)
		if err != nil {
			return fmt.Errorf("add statistics deltas to the totals: %w", err)
		}
		if folded < batchSize {
			return nil
		}
		if lasted := now().Sub(started); lasted >= maxRunTime {
			log.LogAttrs(ctx, slog.LevelWarn, "statistics deltas arrive faster than they are processed", slog.Duration("lasted", lasted))
			return nil
		}
	}
}
