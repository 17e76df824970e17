package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// jobBlock bounds the deliveries of one transaction.
	jobBlock = 5000
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

type cancelWorker struct {
	river.WorkerDefaults[affiliate.CancelDeliveries]
	store Store
	now   func() time.Time
}

func (*cancelWorker) Timeout(*river.Job[affiliate.CancelDeliveries]) time.Duration { return jobTimeout }

func (w *cancelWorker) Work(ctx context.Context, job *river.Job[affiliate.CancelDeliveries]) error {
	err := inBlocks(jobRun, func() (int, error) { return w.store.CancelSome(ctx, job.Args, at(w.now), jobBlock) })
	if err != nil {
		return fmt.Errorf("cancel the deliveries of endpoint %s: %w", job.Args.Endpoint, err)
	}
	return nil
}

type recoverWorker struct {
	river.WorkerDefaults[affiliate.RecoverDeliveries]
	store Store
	now   func() time.Time
}

func (*recoverWorker) Timeout(*river.Job[affiliate.RecoverDeliveries]) time.Duration {
	return jobTimeout
}

func (w *recoverWorker) Work(ctx context.Context, job *river.Job[affiliate.RecoverDeliveries]) error {
	err := inBlocks(jobRun, func() (int, error) { return w.store.RecoverSome(ctx, job.Args, at(w.now), jobBlock) })
	if err != nil {
		return fmt.Errorf("recover deliveries of endpoint %s: %w", job.Args.Endpoint, err)
	}
	return nil
}

// at is the instant of a block, as that of a call.
func at(now func() time.Time) time.Time { return now().UTC().Truncate(time.Millisecond) }

// inBlocks does block after block until one has fewer than jobBlock. When it has
// taken so long, it returns what makes the queue begin another run at once.
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
