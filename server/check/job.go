// Package check runs consistency checks every night. The database contains some data
// twice, in two different forms. A check compares the two forms. For example, one check
// compares the commissions with their ledger entries, another check compares the ledger
// entries with the balances, and several checks compare counters with the rows that they
// count.
//
// The nightly job logs one error for each check that finds violations. Its results are
// stored, and each core exports them as metrics. The package guarantees that a violation
// is logged by the next run that succeeds. The time until then is at most a day, unless a
// run fails. The command `core check` runs the same checks and prints the violations.
//
// The package does not repair violations. A violation is the result of a bug, and an
// automatic repair would hide the bug.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
)

const (
	// sinceMidnight is the time of the nightly run: 03:30 UTC.
	sinceMidnight = 3*time.Hour + 30*time.Minute
	// timeout is the longest time of a run, which keeps a snapshot open. It is shorter
	// than the time after which River treats a running job as lost.
	timeout = 5 * time.Minute
)

// New returns the worker of the job affiliate.CheckBooks. The last check compares the clock
// of this process, which the function now reads, with the clock of the database.
func New(db *postgres.DB, log *slog.Logger, now func() time.Time) *server.Worker[affiliate.CheckBooks] {
	run := func(ctx context.Context, _ *river.Job[affiliate.CheckBooks]) error {
		return runAndLog(ctx, db, log, now)
	}
	return &server.Worker[affiliate.CheckBooks]{Limit: timeout, Run: run}
}

// nightly is a schedule that runs a job every day at 03:30 UTC.
type nightly struct{}

// Next returns the time of the first run after now.
func (nightly) Next(now time.Time) time.Time {
	next := now.UTC().Truncate(24 * time.Hour).Add(sinceMidnight)
	if !next.After(now) {
		next = next.Add(24 * time.Hour)
	}
	return next
}

// PeriodicJob returns the job that a River client inserts every day at 03:30 UTC. If it
// fails, an operator can run `core check`.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(nightly{}, affiliate.CheckBooks{}, false)
}

// runAndLog runs the checks, stores their results and logs violations. They do not make the
// job fail, because a retry would find the same ones.
func runAndLog(ctx context.Context, db *postgres.DB, log *slog.Logger, now func() time.Time) error {
	results, err := Run(ctx, db, now) // results is not empty if a later check returned the error
	compared := int64(0)
	for _, r := range results {
		compared += r.Compared
		if r.Violated > 0 {
			log.LogAttrs(ctx, slog.LevelError, "a consistency check failed", slog.String("check", r.Name), slog.String("compares", r.Compares),
				slog.Int64("compared", r.Compared), slog.Int64("violated", r.Violated), slog.String("first", r.Violations[0]))
		}
	}
	if err != nil {
		return fmt.Errorf("run the consistency checks: %w", err)
	}
	if Violated(results) == 0 {
		log.LogAttrs(ctx, slog.LevelInfo, "all consistency checks passed", slog.Int("checks", len(results)), slog.Int64("compared", compared))
	}
	return nil
}

// Run runs the checks and stores their results. If a check cannot run, or the results
// cannot be stored, Run also returns the results of the checks that ran.
func Run(ctx context.Context, db *postgres.DB, now func() time.Time) ([]affiliate.CheckResult, error) {
	at := now()
	results, err := checks.Run(ctx, db, now)
	return results, errors.Join(err, checks.StoreResults(context.WithoutCancel(ctx), db, results, at))
}

// Violated returns the number of checks that found a violation.
func Violated(results []affiliate.CheckResult) int {
	n := 0
	for _, r := range results {
		if r.Violated > 0 {
			n++
		}
	}
	return n
}

// Print writes a line for each check, followed by one for each stored violation.
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

// NewGauges returns the gauges of the latest results. The age of a check that has never run is
// the time since the start of this process, so that a new service has no alert.
func NewGauges(db *postgres.DB, now func() time.Time) *server.Gauges {
	started := now()
	return server.NewGauges("checks", func(ctx context.Context, set server.SetGauge) error {
		checks, err := checks.Latest(ctx, db)
		if err != nil {
			return err
		}
		oldest := now()
		for _, c := range checks {
			at := started
			if c.CheckedAt != nil {
				at = *c.CheckedAt
			}
			if at.Before(oldest) {
				oldest = at
			}
			set(0, float64(c.Violated), c.Name)
		}
		set(1, now().Sub(oldest).Seconds())
		return nil
	},
		server.Gauge{
			Name: "tributary_check_violations", Labels: []string{"check"},
			Help: "Differences that the latest run of a consistency check found, by check.",
		},
		server.Gauge{
			Name: "tributary_check_oldest_result_seconds",
			Help: "Time since the latest run of the consistency check that has not run for the longest time.",
		},
	)
}
