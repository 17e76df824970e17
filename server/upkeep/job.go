// Package upkeep keeps the tables in shape: partitions exist before the clicks
// that go into them, what has ended (sessions, answers under idempotency keys,
// origins of users) does not pile up, events and deliveries go after a month, and clicks grow old as the merchant is promised: without anything that
// tells visitors apart after 90 days, as a day's sums after 13 months.
//
// Each run repeats what an earlier one may have left, so a missed run is made
// good by the next. It does not delete anything that the business may still
// ask for. What a run has no time for it leaves: a purge that is behind, as that
// of the first run over a large table, takes several.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

const (
	// every is how often the job runs, besides once at each start.
	every = time.Hour
	// daysAhead is how far ahead partitions of clicks are made, daysBack how far
	// back: a journal replayed after an outage brings clicks of days ago.
	daysAhead = 7
	daysBack  = 7
	// forgetBatch bounds one deletion, forgetAfter is how long an ended session
	// stays for those who look into an incident.
	forgetBatch = 1000
	forgetAfter = 24 * time.Hour
	// visitorsKept is for how long clicks, and records that became none, tell their
	// visitors apart.
	visitorsKept = 90 * 24 * time.Hour
	// purgeTime and rollTime are how long a job goes on beginning pieces of that
	// work; timeout has room for the last piece, of two minutes at most.
	purgeTime = 2 * time.Minute
	rollTime  = time.Minute
	timeout   = 5*time.Minute + 30*time.Second
)

// Store does the work.
type Store interface {
	// EnsureClickPartitions makes the daily partitions from one day to another,
	// both included, and tells how many were missing.
	EnsureClickPartitions(ctx context.Context, first, last time.Time) (made int, err error)
	// StrayClicks counts clicks that no partition was made for, up to a bound.
	StrayClicks(ctx context.Context) (int, error)
	// EnsureEventPartitions and StrayEvents do the same for events and their
	// deliveries, whose partitions are of a week.
	EnsureEventPartitions(ctx context.Context, first, last time.Time) (made int, err error)
	StrayEvents(ctx context.Context) (int, error)
	// DropOldEvents drops events and deliveries that nobody can ask for any more,
	// whole weeks of them.
	DropOldEvents(ctx context.Context, rows int) (int64, error)
	// CancelRemaining cancels deliveries to endpoints that were turned off which their job has
	// not met, a batch at a time.
	CancelRemaining(ctx context.Context, now time.Time, limit int) (int64, error)
	// DeleteEndedSessions deletes sessions that ended before an instant, a batch at a time.
	DeleteEndedSessions(ctx context.Context, before time.Time, limit int) (int64, error)
	// DropExpiredIdempotencyKeys deletes answers that are kept no longer, a batch at a
	// time.
	DropExpiredIdempotencyKeys(ctx context.Context, now time.Time, limit int) (int64, error)
	// DeleteOldOrigins deletes origins of users that were last seen before an instant,
	// a batch at a time.
	DeleteOldOrigins(ctx context.Context, before time.Time, limit int) (int64, error)
	// DropDeadLetters deletes records of clicks of before an instant that could not
	// be stored, a batch at a time.
	DropDeadLetters(ctx context.Context, before time.Time, limit int) (int64, error)
	// PurgeClicks takes what tells visitors apart from clicks of before an instant,
	// in batches before each of which it asks more, and tells of how many.
	PurgeClicks(ctx context.Context, before time.Time, more func() bool) (int64, error)
	// RollClicks sums a day of clicks that ended 13 months ago up and drops it, or a
	// piece of a large one, and tells how many clicks that were; false: there is none.
	RollClicks(ctx context.Context) (clicks int64, did bool, err error)
}

// Worker works affiliate.Upkeep.
type Worker struct {
	river.WorkerDefaults[affiliate.Upkeep]
	store Store
	log   *slog.Logger
	now   func() time.Time
}

// NewWorker makes the worker.
func NewWorker(store Store, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{store: store, log: log, now: now}
}

// PeriodicJob runs the job every hour, and at the start of a process.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(every), affiliate.Upkeep{}, true)
}

// Timeout bounds one job.
func (w *Worker) Timeout(*river.Job[affiliate.Upkeep]) time.Duration { return timeout }

// Work runs once, and then ages clicks. The purge comes first and does not depend
// on the rest: a table that is in use may keep the job from dropping a day.
func (w *Worker) Work(ctx context.Context, _ *river.Job[affiliate.Upkeep]) error {
	if err := w.Run(ctx); err != nil {
		return err
	}
	return errors.Join(w.purge(ctx), w.roll(ctx), w.dropEvents(ctx))
}

func (w *Worker) purge(ctx context.Context) error {
	now := w.now()
	until := now.Add(purgeTime)
	if _, err := w.store.PurgeClicks(ctx, now.Add(-visitorsKept), func() bool { return w.now().Before(until) }); err != nil {
		return fmt.Errorf("visitors of old clicks: %w", err)
	}
	return nil
}

func (w *Worker) roll(ctx context.Context) error {
	for until := w.now().Add(rollTime); w.now().Before(until); {
		clicks, did, err := w.store.RollClicks(ctx)
		if err != nil {
			return fmt.Errorf("clicks of 13 months ago: %w", err)
		}
		if !did {
			return nil
		}
		w.log.LogAttrs(ctx, slog.LevelInfo, "clicks of 13 months ago were summed up and dropped", slog.Int64("clicks", clicks))
	}
	return nil
}

func (w *Worker) dropEvents(ctx context.Context) error {
	dropped, err := w.store.DropOldEvents(ctx, forgetBatch)
	if err != nil {
		return fmt.Errorf("old events: %w", err)
	}
	if dropped > 0 {
		w.log.LogAttrs(ctx, slog.LevelInfo, "old events and deliveries were dropped", slog.Int64("partitions_and_rows", dropped))
	}
	return nil
}

// Run is what a starting process wants at once, today's partition above all, and
// what takes no time worth mentioning.
func (w *Worker) Run(ctx context.Context) error {
	now := w.now().UTC()
	if _, err := w.store.EnsureClickPartitions(ctx, now.AddDate(0, 0, -daysBack), now.AddDate(0, 0, daysAhead)); err != nil {
		return fmt.Errorf("partitions of clicks: %w", err)
	}
	stray, err := w.store.StrayClicks(ctx)
	if err != nil {
		return fmt.Errorf("default partition of clicks: %w", err)
	}
	if stray > 0 {
		w.log.LogAttrs(ctx, slog.LevelWarn, "clicks lie in the default partition", slog.Int("rows_at_least", stray))
	}
	// Without its week an event goes into the default partition, and moves along later.
	if _, err := w.store.EnsureEventPartitions(ctx, now.AddDate(0, 0, -daysBack), now.AddDate(0, 0, daysAhead)); err != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "partitions of events were not made", slog.Any("error", err))
	}
	if stray, err = w.store.StrayEvents(ctx); err != nil {
		return fmt.Errorf("default partitions of events: %w", err)
	}
	if stray > 0 {
		w.log.LogAttrs(ctx, slog.LevelWarn, "events or deliveries lie in a default partition", slog.Int("rows_at_least", stray))
	}
	for _, forget := range []struct {
		what string
		ago  time.Time
		some func(context.Context, time.Time, int) (int64, error)
	}{
		{"ended sessions", now.Add(-forgetAfter), w.store.DeleteEndedSessions},
		{"idempotency keys", now, w.store.DropExpiredIdempotencyKeys},
		{"origins of users", now.Add(-affiliate.OriginRetention), w.store.DeleteOldOrigins},
		{"dead letters of clicks", now.Add(-visitorsKept), w.store.DropDeadLetters},
		{"deliveries of endpoints that are off", now, w.store.CancelRemaining},
	} {
		for gone := int64(forgetBatch); gone == forgetBatch; {
			if gone, err = forget.some(ctx, forget.ago, forgetBatch); err != nil {
				return fmt.Errorf("%s: %w", forget.what, err)
			}
		}
	}
	return nil
}
