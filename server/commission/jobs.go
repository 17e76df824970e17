package commission

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// SweepEvery is how often commissions whose hold has elapsed are looked for.
	SweepEvery = 5 * time.Second
	// sweepLimit bounds what one sweep approves; the rest is the next one's.
	sweepLimit = 1000
	// sweepTimeout ends a sweep that meets a slow database. Sweeps may overlap.
	sweepTimeout = time.Minute
)

// SweepStore does the work of a sweep.
type SweepStore interface {
	// ApproveDueCommissions approves up to limit commissions that are due at now.
	// It may run in several processes at a time. The error is about the sweep as
	// a whole, and what the sweep tells of before it is done.
	ApproveDueCommissions(ctx context.Context, now time.Time, limit int) (affiliate.CommissionSweep, error)
}

// SweepWorker works affiliate.ApproveDueCommissions.
type SweepWorker struct {
	river.WorkerDefaults[affiliate.ApproveDueCommissions]
	store SweepStore
	log   *slog.Logger
	now   func() time.Time
}

// NewSweepWorker makes the worker.
func NewSweepWorker(store SweepStore, log *slog.Logger, now func() time.Time) *SweepWorker {
	return &SweepWorker{store: store, log: log, now: now}
}

// SweepJob is the job as a River client inserts it by itself, every SweepEvery.
// It is tried once: the next sweep does what this one left.
func SweepJob() *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(SweepEvery), func() (river.JobArgs, *river.InsertOpts) {
		return affiliate.ApproveDueCommissions{}, &river.InsertOpts{MaxAttempts: 1}
	}, &river.PeriodicJobOpts{RunOnStart: true})
}

// Timeout bounds one sweep.
func (w *SweepWorker) Timeout(*river.Job[affiliate.ApproveDueCommissions]) time.Duration {
	return sweepTimeout
}

// Work runs one sweep. A commission that cannot be approved is logged, one line
// a sweep, and does not fail the job.
func (w *SweepWorker) Work(ctx context.Context, _ *river.Job[affiliate.ApproveDueCommissions]) error {
	sweep, err := w.store.ApproveDueCommissions(ctx, w.now().UTC().Truncate(time.Millisecond), sweepLimit)
	if sweep.Failed > 0 {
		w.log.LogAttrs(ctx, slog.LevelError, "commissions could not be approved",
			slog.Int("failed", sweep.Failed), slog.String("first", sweep.FirstFailure.Error()))
	}
	if sweep.Approved > 0 {
		w.log.LogAttrs(ctx, slog.LevelInfo, "commissions approved after their hold",
			slog.Int("approved", sweep.Approved), slog.Int("left", sweep.Left))
	}
	if err != nil {
		return fmt.Errorf("sweep of due commissions: %w", err)
	}
	return nil
}
