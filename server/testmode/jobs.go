package testmode

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate/privacy"
)

const (
	// jobTime is the time after which a run of the job stops. The job then runs again.
	// jobTimeout is the time limit of a run, including its last transaction.
	jobTime    = 3 * time.Minute
	jobTimeout = 4 * time.Minute
	// jobPause is the time between two runs, in which other jobs can run.
	jobPause = time.Second
	// maxRetryDelay is the longest time between a failure and the next attempt.
	maxRetryDelay = time.Minute
)

// AddWorkers registers the worker of this package's job.
func (s *Service) AddWorkers(workers *river.Workers) { river.AddWorker(workers, &worker{service: s}) }

type worker struct {
	river.WorkerDefaults[privacy.DeleteTestData]
	service *Service
}

// Timeout returns the time limit of one run.
func (*worker) Timeout(*river.Job[privacy.DeleteTestData]) time.Duration { return jobTimeout }

// NextRetry returns the time of the next attempt after a failure.
func (w *worker) NextRetry(job *river.Job[privacy.DeleteTestData]) time.Time {
	return w.service.ServerTime().Add(min(time.Duration(job.Attempt)*time.Second, maxRetryDelay))
}

func (w *worker) Work(ctx context.Context, job *river.Job[privacy.DeleteTestData]) error {
	reset := privacy.TestDataReset{Workspace: job.Args.Workspace, ID: job.Args.Reset}
	_, done, err := w.service.Delete(ctx, reset, w.service.now().Add(jobTime))
	if err == nil && !done {
		return river.JobSnooze(jobPause)
	}
	return err
}
