// Package upkeep is the hourly job that maintains the tables:
//
//   - It creates the partitions of clicks and events in advance.
//   - It deletes old rows: ended sessions, stored responses of idempotency keys, origins of
//     users and dead letters of clicks. It cancels remaining deliveries of disabled
//     endpoints.
//   - It drops events and deliveries after a month.
//   - It applies the retention of clicks. After 90 days it removes everything that
//     identifies a visitor. After 13 months it replaces the clicks of a day by their sums.
//
// Each run also does the work that earlier runs did not do, so a missed run does no harm.
// The job deletes no data that a merchant can still read or that a calculation still
// needs. A run has limited time. If there is much to do, for example in the first run on a
// large table, several runs share the work.
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
	// interval is how often the job runs. It also runs when the process starts.
	interval = time.Hour
	// daysAhead is how many days in advance partitions are created.
	daysAhead = 7
	// daysBack is for how many past days partitions are created. After an outage, a
	// collector's journal can deliver clicks that are several days old.
	daysBack = 7
	// deleteBatch is the maximum number of rows in one deletion.
	deleteBatch = 1000
	// sessionRetention is how long an ended session is kept for the investigation of
	// incidents.
	sessionRetention = 24 * time.Hour
	// visitorRetention is how long clicks and dead letters of clicks contain data that
	// identifies a visitor.
	visitorRetention = 90 * 24 * time.Hour
	// maxPurgeTime and maxRollTime are how long a run starts new parts of the purge and of
	// the replacement of old clicks. One part takes at most two minutes.
	maxPurgeTime = 2 * time.Minute
	maxRollTime  = time.Minute
	// timeout is long enough to finish the last part.
	timeout = 5*time.Minute + 30*time.Second
)

// Store is the part of the database that the job uses. A method with a limit processes at
// most that many rows and returns their number.
type Store interface {
	// EnsureClickPartitions creates the missing daily partitions from first to last, both
	// included, and returns how many it created.
	EnsureClickPartitions(ctx context.Context, first, last time.Time) (created int, err error)
	// StrayClicks counts the clicks in the default partition, up to a limit.
	StrayClicks(ctx context.Context) (int, error)
	// EnsureEventPartitions is EnsureClickPartitions for events and their deliveries, whose
	// partitions contain one week.
	EnsureEventPartitions(ctx context.Context, first, last time.Time) (created int, err error)
	// StrayEvents counts the events and deliveries in the default partitions.
	StrayEvents(ctx context.Context) (int, error)
	// DropOldEvents drops the partitions of events and deliveries that the API no longer
	// returns. In the default partitions it deletes such rows, up to rows at a time.
	DropOldEvents(ctx context.Context, rows int) (int64, error)
	// CancelRemaining cancels deliveries to disabled endpoints that the job of the endpoint has
	// not canceled.
	CancelRemaining(ctx context.Context, now time.Time, limit int) (int64, error)
	// DeleteEndedSessions deletes sessions that ended before a time.
	DeleteEndedSessions(ctx context.Context, before time.Time, limit int) (int64, error)
	// DropExpiredIdempotencyKeys deletes idempotency keys with their responses after their
	// expiry.
	DropExpiredIdempotencyKeys(ctx context.Context, now time.Time, limit int) (int64, error)
	// DeleteOldOrigins deletes origins of users that were last seen before a time.
	DeleteOldOrigins(ctx context.Context, before time.Time, limit int) (int64, error)
	// DropDeadLetters deletes dead letters of clicks from before a time.
	DropDeadLetters(ctx context.Context, before time.Time, limit int) (int64, error)
	// PurgeClicks removes the data that identifies visitors from clicks before a time. It
	// works in batches and calls more before each of them. It stops when more returns false
	// and returns the number of changed clicks.
	PurgeClicks(ctx context.Context, before time.Time, more func() bool) (int64, error)
	// RollClicks selects one day that ended at least 13 months ago, stores the sums of its
	// clicks and deletes the clicks. If the day is large, it does this for a part of it. It
	// returns the number of deleted clicks. found is false if there is no such day.
	RollClicks(ctx context.Context) (clicks int64, found bool, err error)
}

// Worker runs the job affiliate.Upkeep.
type Worker struct {
	river.WorkerDefaults[affiliate.Upkeep]
	store Store
	log   *slog.Logger
	now   func() time.Time
}

// NewWorker returns a Worker; now is its clock.
func NewWorker(store Store, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{store: store, log: log, now: now}
}

// PeriodicJob returns the job that a River client inserts every hour and when it starts.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(interval), affiliate.Upkeep{}, true)
}

// Timeout returns the time limit of one run.
func (w *Worker) Timeout(*river.Job[affiliate.Upkeep]) time.Duration { return timeout }

// Work calls Run and then applies the retention of clicks and events. The purge of
// visitors runs first and does not depend on the following steps. Dropping a day can fail
// while a transaction uses the table.
func (w *Worker) Work(ctx context.Context, _ *river.Job[affiliate.Upkeep]) error {
	if err := w.Run(ctx); err != nil {
		return err
	}
	return errors.Join(w.purge(ctx), w.roll(ctx), w.dropEvents(ctx))
}

func (w *Worker) purge(ctx context.Context) error {
	now := w.now()
	until := now.Add(maxPurgeTime)
	if _, err := w.store.PurgeClicks(ctx, now.Add(-visitorRetention), func() bool { return w.now().Before(until) }); err != nil {
		return fmt.Errorf("purge visitors of old clicks: %w", err)
	}
	return nil
}

func (w *Worker) roll(ctx context.Context) error {
	for until := w.now().Add(maxRollTime); w.now().Before(until); {
		clicks, found, err := w.store.RollClicks(ctx)
		if err != nil {
			return fmt.Errorf("replace clicks of 13 months ago by sums: %w", err)
		}
		if !found {
			return nil
		}
		w.log.LogAttrs(ctx, slog.LevelInfo, "clicks of 13 months ago were replaced by their sums", slog.Int64("clicks", clicks))
	}
	return nil
}

func (w *Worker) dropEvents(ctx context.Context) error {
	dropped, err := w.store.DropOldEvents(ctx, deleteBatch)
	if err != nil {
		return fmt.Errorf("drop old events: %w", err)
	}
	if dropped > 0 {
		w.log.LogAttrs(ctx, slog.LevelInfo, "old events and deliveries were dropped", slog.Int64("partitions_and_rows", dropped))
	}
	return nil
}

// Run does the part of the job that a process needs when it starts, mainly the partition
// of the current day, and the deletions that take little time.
func (w *Worker) Run(ctx context.Context) error {
	now := w.now().UTC()
	if _, err := w.store.EnsureClickPartitions(ctx, now.AddDate(0, 0, -daysBack), now.AddDate(0, 0, daysAhead)); err != nil {
		return fmt.Errorf("create partitions of clicks: %w", err)
	}
	stray, err := w.store.StrayClicks(ctx)
	if err != nil {
		return fmt.Errorf("count clicks in the default partition: %w", err)
	}
	if stray > 0 {
		w.log.LogAttrs(ctx, slog.LevelWarn, "clicks are in the default partition", slog.Int("rows_at_least", stray))
	}
	// A failure is not serious. An event without a partition is stored in the default
	// partition and moved later.
	if _, err := w.store.EnsureEventPartitions(ctx, now.AddDate(0, 0, -daysBack), now.AddDate(0, 0, daysAhead)); err != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "partitions of events could not be created", slog.Any("error", err))
	}
	if stray, err = w.store.StrayEvents(ctx); err != nil {
		return fmt.Errorf("count events in the default partitions: %w", err)
	}
	if stray > 0 {
		w.log.LogAttrs(ctx, slog.LevelWarn, "events or deliveries are in a default partition", slog.Int("rows_at_least", stray))
	}
	for _, task := range []struct {
		name string
		at   time.Time
		fn   func(context.Context, time.Time, int) (int64, error)
	}{
		{"ended sessions", now.Add(-sessionRetention), w.store.DeleteEndedSessions},
		{"idempotency keys", now, w.store.DropExpiredIdempotencyKeys},
		{"origins of users", now.Add(-affiliate.OriginRetention), w.store.DeleteOldOrigins},
		{"dead letters of clicks", now.Add(-visitorRetention), w.store.DropDeadLetters},
		{"deliveries of disabled endpoints", now, w.store.CancelRemaining},
	} {
		for n := int64(deleteBatch); n == deleteBatch; {
			if n, err = task.fn(ctx, task.at, deleteBatch); err != nil {
				return fmt.Errorf("clean up %s: %w", task.name, err)
			}
		}
	}
	return nil
}
