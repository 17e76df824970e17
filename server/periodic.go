package server

import (
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// OneAtATime is a job as a River client inserts it by itself, unless one is
// waiting or at work. It is tried once: the next one makes up for it.
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
