package server

import (
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// OneAtATime returns a periodic job. River inserts it on schedule unless a job of this
// kind is already waiting or running. A job that fails is not retried, because the next
// scheduled job does the same work.
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
