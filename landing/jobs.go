package landing

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/storage/pgsession"
)

const (
	// mailWorkers is the number of mails that a process sends at the same time.
	mailWorkers = 2
	// rescueAfter is the time after which the jobs of a crashed process run again. It is
	// longer than the time limits of all jobs.
	rescueAfter = 6 * time.Minute
	// cancelTimeout is the maximum time for jobs to end after they were cancelled.
	cancelTimeout = 5 * time.Second

	upkeepInterval = 24 * time.Hour
	upkeepTimeout  = 5 * time.Minute
	upkeepRetry    = time.Hour // after a failure of a daily job
	// upkeepBatch is the maximum number of rows that one statement of a daily job reads or
	// deletes.
	upkeepBatch = 1000
)

// Jobs returns a client that runs the jobs of the service: the mails to the operator, and
// the daily jobs. If mailer is nil, the client does not run mail jobs. They stay in the queue.
func (s *Service) Jobs(mailer *Mailer) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &purgeWorker{service: s})
	river.AddWorker(workers, &lostMailsWorker{service: s})
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
	config := &river.Config{
		Queues:               queues,
		Workers:              workers,
		PeriodicJobs:         []*river.PeriodicJob{daily(purge{}), daily(lostMails{})},
		RescueStuckJobsAfter: rescueAfter,
		Logger:               s.log,
	}
	pgsession.UseTime(config, s.serverTime)
	return s.store.WorkerClient(config)
}

// StopJobs stops a client that Jobs has returned. It cancels the jobs that do not end within
// patience, such as a mail to a server that does not respond. They run again later.
func (s *Service) StopJobs(ctx context.Context, jobs *river.Client[pgx.Tx], patience time.Duration) {
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if jobs.Stop(stop) == nil {
		return
	}
	stop, cancel = context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if err := jobs.StopAndCancel(stop); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the jobs have not ended; other processes run them again", slog.Any("error", err))
	}
}

// daily returns a job that River inserts daily, and when a process becomes the leader of
// the job queue. The job never runs twice at the same time.
func daily(args river.JobArgs) *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(upkeepInterval), func() (river.JobArgs, *river.InsertOpts) {
		return args, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
			rivertype.JobStateRetryable, rivertype.JobStateScheduled,
		}}}
	}, &river.PeriodicJobOpts{ID: args.Kind(), RunOnStart: true})
}

// purge is the job that deletes old rows.
type purge struct{}

// Kind returns the name of the job in the database.
func (purge) Kind() string { return "purge" }

type purgeWorker struct {
	river.WorkerDefaults[purge]
	service *Service
}

// Timeout returns the time limit of one attempt.
func (*purgeWorker) Timeout(*river.Job[purge]) time.Duration { return upkeepTimeout }

// NextRetry returns the time of the next attempt.
func (w *purgeWorker) NextRetry(*river.Job[purge]) time.Time {
	return w.service.serverTime().Add(upkeepRetry)
}

// Work deletes the rows that are at least 12 months old.
func (w *purgeWorker) Work(ctx context.Context, _ *river.Job[purge]) error {
	_, err := w.service.store.Purge(ctx, w.service.now(), upkeepBatch)
	return err
}

// lostMails is the job that enqueues the mails of messages that have lost their job, for
// example because River has discarded it.
type lostMails struct{}

// Kind returns the name of the job in the database.
func (lostMails) Kind() string { return "lost_mails" }

type lostMailsWorker struct {
	river.WorkerDefaults[lostMails]
	service *Service
}

// Timeout returns the time limit of one attempt.
func (*lostMailsWorker) Timeout(*river.Job[lostMails]) time.Duration { return upkeepTimeout }

// NextRetry returns the time of the next attempt.
func (w *lostMailsWorker) NextRetry(*river.Job[lostMails]) time.Time {
	return w.service.serverTime().Add(upkeepRetry)
}

// Work enqueues the missing mails.
func (w *lostMailsWorker) Work(ctx context.Context, _ *river.Job[lostMails]) error {
	enqueued, err := w.service.store.EnqueueLostMails(ctx, upkeepBatch)
	if enqueued > 0 {
		w.service.log.LogAttrs(ctx, slog.LevelWarn, "contact messages had lost their mail jobs", slog.Int("enqueued", enqueued))
	}
	return err
}
