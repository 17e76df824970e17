package server

import (
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

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
