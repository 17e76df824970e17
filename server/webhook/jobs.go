package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

const (
	// jobBlockSize is the maximum number of deliveries that a job changes in one
	// transaction. These deliveries are a block.
	jobBlockSize = 5000
	// lockedRetry is the time after which a job runs again if it has found locked
	// deliveries.
	lockedRetry = time.Second
	// maxJobTime is the time after which a run starts no further block. The next run of
	// the job continues.
	maxJobTime = 4 * time.Minute
	// jobTimeout is the time after which a run is cancelled. It must be shorter than the
	// time after which River treats a running job as lost (cmd/assemble).
	jobTimeout = 5 * time.Minute
)

// AddWorkers registers the workers of this package's jobs. The workers use now as their
// clock.
func AddWorkers(workers *river.Workers, db *postgres.DB, now func() time.Time) {
	w := blockWorker{db: db, now: now}
	river.AddWorker(workers, &server.Worker[webhook.CancelDeliveries]{Run: w.cancel, Limit: jobTimeout})
	river.AddWorker(workers, &server.Worker[webhook.RecoverDeliveries]{Run: w.recover, Limit: jobTimeout})
}

type blockWorker struct {
	db  *postgres.DB
	now func() time.Time
}

// cancel cancels the waiting deliveries of an endpoint that was disabled or deleted. The
// endpoint's epoch is a number that increases when the endpoint is disabled or deleted, so
// these are the deliveries of earlier epochs.
func (w blockWorker) cancel(ctx context.Context, job *river.Job[webhook.CancelDeliveries]) error {
	err := runBlocks(maxJobTime, func() (int, error) { return w.cancelBlock(ctx, job.Args, jobBlockSize) })
	if err != nil {
		return fmt.Errorf("cancel the deliveries of endpoint %s: %w", job.Args.Endpoint, err)
	}
	return nil
}

// cancelBlock cancels at most limit deliveries and returns their number. The end time
// that it stores for these deliveries is the time at which the endpoint was disabled or
// deleted, and not the current time. A recovery that was requested before cancelBlock ran
// therefore includes these deliveries.
func (w blockWorker) cancelBlock(ctx context.Context, job webhook.CancelDeliveries, limit int) (canceled int, err error) {
	scope, now := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, currentTime(w.now)
	err = w.db.InTx(ctx, func(tx *postgres.Tx) error {
		canceled = 0
		endpoint, err := webhooks.EndpointOrDeleted(ctx, tx, scope, job.Endpoint)
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookNotFound)) {
			return nil
		}
		if err != nil {
			return err
		}
		endedAt := endpoint.UpdatedAt
		if now.Before(endedAt) {
			endedAt = now // the clock of the process that changed the endpoint is fast
		}
		canceled, err = webhooks.CancelBlock(ctx, tx, scope, job.Endpoint, endpoint.Epoch, endedAt, limit)
		return err
	})
	return canceled, err
}

func (w blockWorker) recover(ctx context.Context, job *river.Job[webhook.RecoverDeliveries]) error {
	err := runBlocks(maxJobTime, func() (int, error) { return w.recoverBlock(ctx, job.Args, jobBlockSize) })
	if err != nil {
		return fmt.Errorf("recover deliveries of endpoint %s: %w", job.Args.Endpoint, err)
	}
	return nil
}

// recoverBlock restarts at most limit deliveries and returns their number. If all
// remaining deliveries are locked, for example because another job cancels them, it
// returns an error that makes River run the job again after lockedRetry. If the endpoint
// was disabled or deleted after the recovery was requested, recoverBlock does nothing.
func (w blockWorker) recoverBlock(ctx context.Context, job webhook.RecoverDeliveries, limit int) (recovered int, err error) {
	scope, now := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, currentTime(w.now)
	var locked int64
	err = w.db.InTx(ctx, func(tx *postgres.Tx) error {
		recovered, locked = 0, 0
		endpoint, err := webhooks.Endpoint(ctx, tx, scope, job.Endpoint)
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookNotFound)) || err == nil && !endpoint.Active {
			return nil
		}
		if err != nil {
			return err
		}
		recovered, err = webhooks.RecoverBlock(ctx, tx, job, endpoint.Epoch, now, limit)
		if err == nil && recovered < limit {
			locked, err = webhooks.CountRecoverable(ctx, tx, job, endpoint.Epoch)
		}
		return err
	})
	if err == nil && locked > 0 {
		err = river.JobSnooze(lockedRetry)
	}
	return recovered, err
}

func currentTime(now func() time.Time) time.Time { return now().UTC().Truncate(time.Millisecond) } // the precision of the API

// runBlocks calls the function block until one call processes fewer than jobBlockSize
// deliveries. If this takes longer than maxTime, runBlocks returns an error that makes
// River run the job again immediately.
func runBlocks(maxTime time.Duration, block func() (int, error)) error {
	for began := time.Now(); ; {
		n, err := block()
		switch {
		case err != nil || n < jobBlockSize:
			return err
		case time.Since(began) >= maxTime:
			return river.JobSnooze(0)
		}
	}
}
