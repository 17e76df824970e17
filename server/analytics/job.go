package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

const (
	// interval is the time between two runs of the job.
	interval = 2 * time.Second
	// maxScopes is the maximum number of workspaces and modes that a run looks up at once.
	maxScopes = 1000
	// maxRunTime is the time after which a run starts no further transaction. The next run
	// adds the remaining entries.
	maxRunTime = 30 * time.Second
	// timeout is the time after which a run is cancelled, for example because the database is
	// slow.
	timeout = time.Minute
)

// Worker runs the job analytics.AddAnalytics.
type Worker struct {
	river.WorkerDefaults[analytics.AddAnalytics]
	db  *postgres.DB
	log *slog.Logger
	now func() time.Time
}

// NewWorker returns a Worker; now is its clock.
func NewWorker(db *postgres.DB, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{db: db, log: log, now: now}
}

// PeriodicJob returns the job that a River client inserts every two seconds. At most one job
// runs at a time. A failed job is not retried, because the next job adds the same entries.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(interval), analytics.AddAnalytics{}, true)
}

// Timeout returns the time limit of one run.
func (w *Worker) Timeout(*river.Job[analytics.AddAnalytics]) time.Duration { return timeout }

// Work adds the entries of the log to the sums, until none are left or maxRunTime has passed.
// It skips a workspace and mode whose sums another transaction changes at the same time, for
// example that of a request. An error in one workspace does not stop the work for the others.
func (w *Worker) Work(ctx context.Context, _ *river.Job[analytics.AddAnalytics]) error {
	started := w.now()
	scopes, err := rollups.Waiting(ctx, w.db, maxScopes)
	if err != nil {
		return err
	}
	var failed []error
	for len(scopes) > 0 {
		var left []affiliate.Scope
		for _, scope := range scopes {
			r, err := fold(ctx, w.db, w.log, scope, w.now())
			if err != nil {
				failed = append(failed, fmt.Errorf("workspace %s, %s: %w", scope.Workspace, scope.Mode, err))
			}
			if r.more {
				left = append(left, scope)
			}
			if lasted := w.now().Sub(started); lasted >= maxRunTime {
				w.log.LogAttrs(ctx, slog.LevelWarn, "clicks and conversions arrive faster than they are added to the analytics", slog.Duration("lasted", lasted))
				return errors.Join(failed...)
			}
		}
		scopes = left
	}
	return errors.Join(failed...)
}
