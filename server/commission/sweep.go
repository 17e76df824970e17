package commission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

const (
	// SweepInterval is the time between two sweeps. A sweep searches for commissions
	// whose hold period has ended and approves them.
	SweepInterval = 5 * time.Second
	// sweepLimit is the maximum number of commissions that one sweep approves.
	sweepLimit = 1000
	// sweepTimeout limits the duration of a sweep. It is longer than SweepInterval, so sweeps may overlap.
	sweepTimeout = time.Minute
)

// NewSweepWorker returns the worker of the job commission.ApproveDueCommissions; now is its
// clock.
func NewSweepWorker(db *postgres.DB, log *slog.Logger, now func() time.Time) *server.Worker[commission.ApproveDueCommissions] {
	run := func(ctx context.Context, _ *river.Job[commission.ApproveDueCommissions]) error {
		return sweep(ctx, db, log, now())
	}
	return &server.Worker[commission.ApproveDueCommissions]{Limit: sweepTimeout, Run: run}
}

// SweepJob returns the periodic job that a River client inserts every SweepInterval. The
// next sweep replaces a failed job.
func SweepJob() *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(SweepInterval), func() (river.JobArgs, *river.InsertOpts) {
		return commission.ApproveDueCommissions{}, &river.InsertOpts{MaxAttempts: 1}
	}, &river.PeriodicJobOpts{RunOnStart: true})
}

// sweep runs one sweep. Failed approvals are logged, with their number and the first error.
func sweep(ctx context.Context, db *postgres.DB, log *slog.Logger, now time.Time) error {
	sweep, err := ApproveDue(ctx, db, now.UTC().Truncate(time.Millisecond), sweepLimit)
	if sweep.Failed > 0 {
		log.LogAttrs(ctx, slog.LevelError, "commissions could not be approved",
			slog.Int("failed", sweep.Failed), slog.String("first", sweep.FirstFailure.Error()))
	}
	if sweep.Approved > 0 {
		log.LogAttrs(ctx, slog.LevelInfo, "commissions approved after their hold",
			slog.Int("approved", sweep.Approved), slog.Int("skipped", sweep.Skipped))
	}
	if err != nil {
		return fmt.Errorf("sweep of due commissions: %w", err)
	}
	return nil
}

// ApproveDue approves at most limit commissions that are due at the given time, each in a
// separate transaction. It skips locked commissions, so several processes can call it at
// the same time. A commission that cannot be approved does not count towards limit, and
// the next sweep tries to approve it again. If ApproveDue returns an error, the
// commissions that it has approved before the error stay approved.
func ApproveDue(ctx context.Context, db *postgres.DB, now time.Time, limit int) (commission.ApprovalCounts, error) {
	var sweep commission.ApprovalCounts
	var cursor commission.DueCommission
	for sweep.Approved < limit {
		due, err := commissions.Due(ctx, db, now, cursor, limit-sweep.Approved)
		if err != nil {
			return sweep, err
		}
		if len(due) == 0 {
			return sweep, nil
		}
		for _, d := range due {
			err := approveDue(ctx, db, d, now)
			var refused *affiliate.Error
			switch {
			case err == nil:
				sweep.Approved++
			case errors.As(err, &refused):
				sweep.Skipped++
			case ctx.Err() != nil:
				return sweep, ctx.Err()
			default:
				sweep.Failed++
				if sweep.FirstFailure == nil {
					sweep.FirstFailure = fmt.Errorf("commission %s: %w", d.ID, err)
				}
			}
		}
		cursor = due[len(due)-1]
	}
	return sweep, nil
}

// approveDue locks a commission and approves it if it is still due. Errors: NOT_FOUND if
// another transaction has locked the commission, and the errors of commission.Locked.Move.
func approveDue(ctx context.Context, db *postgres.DB, d commission.DueCommission, now time.Time) error {
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		locked, err := commissions.TryLock(ctx, tx, d.Scope, d.Program, d.ID)
		if err != nil {
			return err
		}
		change, err := locked.Move(commission.Transition{
			Scope: d.Scope, Program: d.Program, Commission: d.ID,
			Move: commission.MoveAutoApprove, Actor: affiliate.System, At: now,
		})
		if err != nil {
			return err
		}
		return payouts.ApplyCommissionChanges(ctx, tx, change)
	})
}
