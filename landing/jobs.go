package landing

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/landing/store"
)

const (
	// mailWorkers is the number of mails that a process sends at the same time.
	mailWorkers = 2
	// rescueAfter is the time after which the jobs of a crashed process run again. It is
	// longer than the time limits of all jobs.
	rescueAfter = 6 * time.Minute

	purgeInterval = 24 * time.Hour
	purgeTimeout  = 5 * time.Minute
	// purgeBatch is the maximum number of rows that one statement of the purge deletes.
	purgeBatch = 1000
)

// Jobs returns a client that runs the jobs of the service: the purge, and the mails to the
// operator. If mailer is nil, the client does not run mail jobs. They stay in the queue.
func (s *Service) Jobs(mailer *Mailer) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &purgeWorker{service: s})
	queues := map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}
	mails := &mailWorker{service: s}
	if mailer != nil {
		mails.Mailer = *mailer
		queues[store.MailQueue] = river.QueueConfig{MaxWorkers: mailWorkers}
	}
	if mails.RetryDelay == nil {
		mails.RetryDelay = retryDelay
	}
	// The worker is necessary even without the queue: the leader of the processes rescues
	// the jobs of crashed processes, and discards those of a kind that it does not know.
	river.AddWorker(workers, mails)
	return s.store.WorkerClient(&river.Config{
		Queues:               queues,
		Workers:              workers,
		PeriodicJobs:         []*river.PeriodicJob{purgeJob()},
		RescueStuckJobsAfter: rescueAfter,
		Logger:               s.log,
	})
}

// purge is the job that deletes old rows.
type purge struct{}

// Kind returns the name of the job in the database.
func (purge) Kind() string { return "purge" }

// purgeJob returns the job that River inserts daily, and at each start of a process. The
// job never runs twice at the same time.
func purgeJob() *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(purgeInterval), func() (river.JobArgs, *river.InsertOpts) {
		return purge{}, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
			rivertype.JobStateRetryable, rivertype.JobStateScheduled,
		}}}
	}, &river.PeriodicJobOpts{ID: purge{}.Kind(), RunOnStart: true})
}

type purgeWorker struct {
	river.WorkerDefaults[purge]
	service *Service
}

// Timeout returns the time limit of one attempt.
func (*purgeWorker) Timeout(*river.Job[purge]) time.Duration { return purgeTimeout }

// Work deletes the rows that are at least 12 months old.
func (w *purgeWorker) Work(ctx context.Context, _ *river.Job[purge]) error {
	purged, err := w.service.store.Purge(ctx, w.service.now(), purgeBatch)
	w.service.metrics.purged.WithLabelValues("waitlist").Add(float64(purged.Waitlist))
	w.service.metrics.purged.WithLabelValues("contacts").Add(float64(purged.Contacts))
	return err
}
