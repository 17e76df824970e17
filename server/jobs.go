package server

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/storage/postgres"
)

// JobFailures counts the failed attempts of jobs. It is the river.ErrorHandler of the job
// queue.
type JobFailures struct{ failed, discarded *prometheus.CounterVec }

// NewJobFailures returns the counters of the given queues.
func NewJobFailures(registry prometheus.Registerer, queues []string) *JobFailures {
	auto := promauto.With(registry)
	f := &JobFailures{
		failed: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_jobs_failed_total",
			Help: "Failed attempts of jobs, by queue.",
		}, []string{"queue"}),
		discarded: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_jobs_discarded_total",
			Help: "Jobs that are not repeated any more because the last of several attempts has failed, by queue. " +
				"Jobs with a single attempt are not counted, because a later job does the same work.",
		}, []string{"queue"}),
	}
	for _, queue := range queues {
		f.failed.WithLabelValues(queue)
		f.discarded.WithLabelValues(queue)
	}
	return f
}

// HandleError implements river.ErrorHandler.
func (f *JobFailures) HandleError(_ context.Context, job *rivertype.JobRow, _ error) *river.ErrorHandlerResult {
	f.count(job)
	return nil
}

// HandlePanic implements river.ErrorHandler.
func (f *JobFailures) HandlePanic(_ context.Context, job *rivertype.JobRow, _ any, _ string) *river.ErrorHandlerResult {
	f.count(job)
	return nil
}

func (f *JobFailures) count(job *rivertype.JobRow) {
	f.failed.WithLabelValues(job.Queue).Inc()
	if job.Attempt >= job.MaxAttempts && job.MaxAttempts > 1 {
		f.discarded.WithLabelValues(job.Queue).Inc()
	}
}

// NewJobGauges returns the gauges of the given queues. A scrape costs one statement, which
// searches an index five times for each queue and counts at most 1,000 entries of a queue.
func NewJobGauges(db *postgres.DB, queues []string, now func() time.Time) *Gauges {
	return NewGauges("jobs", func(ctx context.Context, set SetGauge) error {
		stats, err := db.JobQueueStats(ctx, queues)
		for _, queue := range stats {
			age := 0.0
			if queue.OldestWaiting != nil {
				age = max(0, now().Sub(*queue.OldestWaiting).Seconds())
			}
			set(0, age, queue.Queue)
			set(1, float64(queue.Retrying), queue.Queue)
		}
		return err
	},
		Gauge{"tributary_jobs_oldest_waiting_seconds", "Time since the oldest job that waits for a worker could run, by queue. 0 if none waits.", []string{"queue"}},
		Gauge{"tributary_jobs_retrying", "Jobs that have failed and wait for their next attempt, by queue. At most 1,000 of a queue are counted.", []string{"queue"}},
	)
}

// RetryAt returns the time of the next attempt of a job. now is the time of Postgres, with
// which River compares the result, and delays are the times between two attempts. The delay
// varies by a tenth in both directions, so that the jobs of an outage do not all run at the
// same time.
func RetryAt(now time.Time, delays []time.Duration, attempt int) time.Time {
	delay := delays[max(0, min(attempt, len(delays))-1)]
	return now.Add(delay*9/10 + rand.N(delay/5)) //nolint:gosec // not security relevant
}

// OneAtATime returns a periodic job that never runs twice at the same time. At each
// scheduled time, River inserts the job unless a job of the same kind is waiting or
// running. A job that fails is not retried, because the next scheduled job does the same
// work.
func OneAtATime(schedule river.PeriodicSchedule, job river.JobArgs, runOnStart bool) *river.PeriodicJob {
	return river.NewPeriodicJob(schedule, func() (river.JobArgs, *river.InsertOpts) {
		return job, &river.InsertOpts{
			MaxAttempts: 1,
			UniqueOpts: river.UniqueOpts{ByState: []rivertype.JobState{
				rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
				rivertype.JobStateRetryable, rivertype.JobStateScheduled,
			}},
		}
	}, &river.PeriodicJobOpts{ID: job.Kind(), RunOnStart: runOnStart})
}

// Worker is a river.Worker that calls a function.
type Worker[A river.JobArgs] struct {
	river.WorkerDefaults[A]
	// Run does the work of a job.
	Run func(ctx context.Context, job *river.Job[A]) error
	// Limit is the time after which River cancels an attempt. Default: the timeout of the River client.
	Limit time.Duration
	// Retry returns the time of the next attempt after the given number of attempts. Default: River's schedule.
	Retry func(attempts int) time.Time
}

// Work implements river.Worker.
func (w *Worker[A]) Work(ctx context.Context, job *river.Job[A]) error { return w.Run(ctx, job) }

// Timeout implements river.Worker.
func (w *Worker[A]) Timeout(*river.Job[A]) time.Duration { return w.Limit }

// NextRetry implements river.Worker.
func (w *Worker[A]) NextRetry(job *river.Job[A]) time.Time {
	if w.Retry == nil {
		return time.Time{}
	}
	return w.Retry(job.Attempt)
}

// ForArgs returns a function for Worker.Run that calls run with the arguments of the job.
func ForArgs[A river.JobArgs](run func(ctx context.Context, args A) error) func(context.Context, *river.Job[A]) error {
	return func(ctx context.Context, job *river.Job[A]) error { return run(ctx, job.Args) }
}

// Snooze returns the result of a job that may have to wait. If err is nil and wait is
// positive, River runs the job again after this time. Otherwise it returns err.
func Snooze(wait time.Duration, err error) error {
	if err == nil && wait > 0 {
		return river.JobSnooze(wait)
	}
	return err
}
