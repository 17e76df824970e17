package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// jobBlock bounds the deliveries of one transaction.
	jobBlock = 5000
	// lockedPause is the time to the next run of a job that has found locked deliveries.
	lockedPause = time.Second
	// jobRun is how long a run of a job goes on beginning blocks; the next run takes
	// what it leaves. jobTimeout ends a run that hangs. Both lie below the time after
	// which the jobs of a process are taken for lost (cmd/assemble).
	jobRun     = 4 * time.Minute
	jobTimeout = 5 * time.Minute
)

// AddWorkers registers the workers of this package's jobs; now is their clock.
func AddWorkers(workers *river.Workers, store Store, now func() time.Time) {
	river.AddWorker(workers, &cancelWorker{store: store, now: now})
	river.AddWorker(workers, &recoverWorker{store: store, now: now})
}

// cancelWorker marks the waiting deliveries of ended epochs as canceled.
type cancelWorker struct {
	river.WorkerDefaults[affiliate.CancelDeliveries]
	store Store
	now   func() time.Time
}

// Timeout bounds a run.
func (*cancelWorker) Timeout(*river.Job[affiliate.CancelDeliveries]) time.Duration { return jobTimeout }

// Work cancels block after block.
func (w *cancelWorker) Work(ctx context.Context, job *river.Job[affiliate.CancelDeliveries]) error {
	err := inBlocks(jobRun, func() (int, error) { return w.cancelBlock(ctx, job.Args, jobBlock) })
	if err != nil {
		return fmt.Errorf("cancel the deliveries of endpoint %s: %w", job.Args.Endpoint, err)
	}
	return nil
}

// cancelBlock cancels up to limit deliveries and returns their number. They ended when
// the endpoint was disabled or deleted, which is its last change, so that a recovery
// that was requested before this block ran includes them.
func (w *cancelWorker) cancelBlock(ctx context.Context, job affiliate.CancelDeliveries, limit int) (canceled int, err error) {
	scope, now := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, at(w.now)
	err = w.store.InTx(ctx, func(tx Tx) error {
		canceled = 0
		endpoint, err := tx.EndpointOrDeleted(ctx, scope, job.Endpoint)
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookNotFound)) {
			return nil
		}
		if err != nil {
			return err
		}
		endedAt := endpoint.UpdatedAt
		if now.Before(endedAt) {
			endedAt = now // the clock of another process is ahead
		}
		canceled, err = tx.CancelBlock(ctx, scope, job.Endpoint, endpoint.Epoch, endedAt, limit)
		return err
	})
	return canceled, err
}

// recoverWorker restarts the deliveries of a recovery.
type recoverWorker struct {
	river.WorkerDefaults[affiliate.RecoverDeliveries]
	store Store
	now   func() time.Time
}

// Timeout bounds a run.
func (*recoverWorker) Timeout(*river.Job[affiliate.RecoverDeliveries]) time.Duration {
	return jobTimeout
}

// Work restarts block after block.
func (w *recoverWorker) Work(ctx context.Context, job *river.Job[affiliate.RecoverDeliveries]) error {
	err := inBlocks(jobRun, func() (int, error) { return w.recoverBlock(ctx, job.Args, jobBlock) })
	if err != nil {
		return fmt.Errorf("recover deliveries of endpoint %s: %w", job.Args.Endpoint, err)
	}
	return nil
}

// recoverBlock restarts up to limit deliveries and returns their number. If all that are
// left are locked, for example because they are being marked as canceled, the error makes
// the queue begin another run soon. If the endpoint was disabled or deleted since the
// request, the recovery is void.
func (w *recoverWorker) recoverBlock(ctx context.Context, job affiliate.RecoverDeliveries, limit int) (recovered int, err error) {
	scope, now := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, at(w.now)
	var locked int64
	err = w.store.InTx(ctx, func(tx Tx) error {
		recovered, locked = 0, 0
		endpoint, err := tx.Endpoint(ctx, scope, job.Endpoint)
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookNotFound)) || err == nil && !endpoint.Active {
			return nil
		}
		if err != nil {
			return err
		}
		recovered, err = tx.RecoverBlock(ctx, job, endpoint.Epoch, now, limit)
		if err == nil && recovered < limit {
			locked, err = tx.CountRecoverable(ctx, job, endpoint.Epoch)
		}
		return err
	})
	if err == nil && locked > 0 {
		err = river.JobSnooze(lockedPause)
	}
	return recovered, err
}

// at returns the instant of a block or a call.
func at(now func() time.Time) time.Time { return now().UTC().Truncate(time.Millisecond) }

// inBlocks runs block after block until one has fewer than jobBlock deliveries. After
// atMost it returns the error that makes the queue begin another run at once.
func inBlocks(atMost time.Duration, block func() (int, error)) error {
	for began := time.Now(); ; {
		done, err := block()
		switch {
		case err != nil || done < jobBlock:
			return err
		case time.Since(began) >= atMost:
			return river.JobSnooze(0)
		}
	}
}
