// Package check proves, every night, that what the service keeps twice agrees:
// the ledger with the commissions and the balances, payouts with what they list,
// counters with what they count.
//
// It guarantees that a disagreement is told of within a day, one error line for
// each check. It repairs nothing: a disagreement is a fault of the service, and
// its cause has to be found first. What it finds in detail `core check` prints.
package check

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

const (
	// runTime is when the job runs, after midnight UTC.
	runTime = 3*time.Hour + 30*time.Minute
	// timeout bounds a run, which holds a snapshot of the database meanwhile; it is
	// below the time after which a job counts as lost.
	timeout = 5 * time.Minute
)

// Store makes the checks.
type Store interface {
	// CheckAccounts makes all checks in one snapshot, without a lock that a writer
	// could meet.
	CheckBooks(ctx context.Context, now func() time.Time) ([]affiliate.CheckResult, error)
}

// Worker works affiliate.CheckAccounts.
type Worker struct {
	river.WorkerDefaults[affiliate.CheckAccounts]
	store Store
	log   *slog.Logger
	now   func() time.Time
}

// New makes the worker; now is the clock that is held against the database's.
func New(store Store, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{store: store, log: log, now: now}
}

// nightly is a schedule of once a day.
type nightly struct{}

// Next is the first time after now.
func (nightly) Next(now time.Time) time.Time {
	next := now.UTC().Truncate(24 * time.Hour).Add(runTime)
	if !next.After(now) {
		next = next.Add(24 * time.Hour)
	}
	return next
}

// PeriodicJob is the job as a River client inserts it by itself, at 03:30 UTC. It
// is tried once: what fails tonight is checked tomorrow, or by hand.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(nightly{}, affiliate.CheckAccounts{}, false)
}

// Timeout bounds one run.
func (w *Worker) Timeout(*river.Job[affiliate.CheckAccounts]) time.Duration { return timeout }

// Work makes the checks. Violations are logged and do not fail the job: to
// repeat it would change nothing.
func (w *Worker) Work(ctx context.Context, _ *river.Job[affiliate.CheckAccounts]) error {
	results, err := w.store.CheckBooks(ctx, w.now)
	if err != nil {
		return fmt.Errorf("check of the books: %w", err)
	}
	compared := int64(0)
	for _, r := range results {
		compared += r.Compared
		if r.Violated > 0 {
			w.log.LogAttrs(ctx, slog.LevelError, "the books disagree", slog.String("check", r.Name), slog.String("compares", r.Compares),
				slog.Int64("compared", r.Compared), slog.Int64("violated", r.Violated), slog.String("first", r.Violations[0]))
		}
	}
	if Violated(results) == 0 {
		w.log.LogAttrs(ctx, slog.LevelInfo, "the books agree", slog.Int("checks", len(results)), slog.Int64("compared", compared))
	}
	return nil
}

// Violated is how many of the checks found something.
func Violated(results []affiliate.CheckResult) int {
	n := 0
	for _, r := range results {
		if r.Violated > 0 {
			n++
		}
	}
	return n
}

// Print writes the results for a person: a line for each check, and one for each
// violation that is shown.
func Print(w io.Writer, results []affiliate.CheckResult) error {
	for _, r := range results {
		verdict := "ok      "
		if r.Violated > 0 {
			verdict = "VIOLATED"
		}
		if _, err := fmt.Fprintf(w, "%s  %s: %s: %d compared, %d violated\n", verdict, r.Name, r.Compares, r.Compared, r.Violated); err != nil {
			return err
		}
		for _, line := range r.Violations {
			if _, err := fmt.Fprintf(w, "    %s\n", line); err != nil {
				return err
			}
		}
		if more := r.Violated - int64(len(r.Violations)); more > 0 {
			if _, err := fmt.Fprintf(w, "    and %d more\n", more); err != nil {
				return err
			}
		}
	}
	return nil
}
