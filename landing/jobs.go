package landing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/mail"
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
// the daily jobs. If mailer is nil, the client does not run mail jobs, which then stay in the queue.
func (s *Service) Jobs(mailer *Mailer) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &dailyWorker[purge]{service: s, work: s.purge})
	river.AddWorker(workers, &dailyWorker[lostMails]{service: s, work: s.enqueueLostMails})
	queues := map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}
	mails := &mailWorker{service: s}
	if mailer != nil {
		mails.Mailer = *mailer
		queues[store.MailQueue] = river.QueueConfig{MaxWorkers: mailWorkers}
	}
	if mails.RetryDelay == nil {
		mails.RetryDelay = retryDelay
	}
	// The worker is necessary even without the queue: the leader of the processes rescues the
	// jobs of crashed processes, and it discards jobs of a kind for which it has no worker.
	river.AddWorker(workers, mails)
	config := &river.Config{
		Queues:               queues,
		Workers:              workers,
		PeriodicJobs:         []*river.PeriodicJob{daily(purge{}), daily(lostMails{})},
		RescueStuckJobsAfter: rescueAfter,
		Logger:               s.config.Log,
	}
	pgsession.UseTime(config, s.config.ServerTime)
	return s.config.Store.WorkerClient(config)
}

// StopJobs stops a client that Jobs has returned. It waits for running jobs for the duration patience, and then cancels
// jobs that still run, such as a mail to a server that does not respond. Cancelled jobs run again later.
func (s *Service) StopJobs(ctx context.Context, jobs *river.Client[pgx.Tx], patience time.Duration) {
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if jobs.Stop(stop) == nil {
		return
	}
	stop, cancel = context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if err := jobs.StopAndCancel(stop); err != nil {
		s.config.Log.LogAttrs(ctx, slog.LevelWarn, "the jobs have not ended; other processes run them again", slog.Any("error", err))
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

// dailyWorker runs a daily job.
type dailyWorker[T river.JobArgs] struct {
	river.WorkerDefaults[T]
	service *Service
	work    func(ctx context.Context) error
}

func (*dailyWorker[T]) Timeout(*river.Job[T]) time.Duration { return upkeepTimeout }

func (w *dailyWorker[T]) NextRetry(*river.Job[T]) time.Time {
	return w.service.config.ServerTime().Add(upkeepRetry)
}

func (w *dailyWorker[T]) Work(ctx context.Context, _ *river.Job[T]) error { return w.work(ctx) }

type purge struct{}

func (purge) Kind() string { return "purge" }

// purge deletes the rows that are at least 12 months old.
func (s *Service) purge(ctx context.Context) error {
	_, err := s.config.Store.Purge(ctx, s.config.Now(), upkeepBatch)
	return err
}

type lostMails struct{}

func (lostMails) Kind() string { return "lost_mails" }

// enqueueLostMails enqueues the mails of messages that have lost their job, for example
// because River has discarded it.
func (s *Service) enqueueLostMails(ctx context.Context) error {
	enqueued, err := s.config.Store.EnqueueLostMails(ctx, upkeepBatch)
	if enqueued > 0 {
		s.config.Log.LogAttrs(ctx, slog.LevelWarn, "contact messages had lost their mail jobs", slog.Int("enqueued", enqueued))
	}
	return err
}

// Sender sends a message to the mail server. *mail.Sender implements it.
type Sender interface {
	Send(ctx context.Context, m mail.Message) error
}

// Mailer configures the mails to the operator. Each contact message is one mail.
type Mailer struct {
	Sender Sender
	// Operator is the recipient.
	Operator mail.Address
	// RetryDelay returns the time until the next attempt for a message of the given age. nil
	// means retryDelay.
	RetryDelay func(age time.Duration) time.Duration
}

const (
	// mailTimeout is the longest time of one attempt. The Sender stops earlier.
	mailTimeout = time.Minute
	// markTimeout limits the time to store that a message was mailed. It is separate from
	// mailTimeout: if the mark is not stored, the mail is sent again.
	markTimeout = 10 * time.Second

	minRetryDelay = time.Minute
	maxRetryDelay = time.Hour
)

// retryDelay returns the time until the next attempt for a message of the given age. Attempts
// never end: a message is mailed at most an hour after the mail server works again.
func retryDelay(age time.Duration) time.Duration {
	return min(max(age/2, minRetryDelay), maxRetryDelay)
}

type mailWorker struct {
	river.WorkerDefaults[store.MailContact]
	Mailer
	service *Service
}

func (*mailWorker) Timeout(*river.Job[store.MailContact]) time.Duration { return mailTimeout }

// NextRetry returns the time of the next attempt after a panic, or after the process has
// crashed.
func (w *mailWorker) NextRetry(job *river.Job[store.MailContact]) time.Time {
	now := w.service.config.ServerTime()
	return now.Add(w.RetryDelay(now.Sub(job.CreatedAt)))
}

// Work makes one attempt to mail a message. After a failure it snoozes the job. River does not
// count a snoozed run as an attempt. It counts only panics and crashes of the process.
func (w *mailWorker) Work(ctx context.Context, job *river.Job[store.MailContact]) error {
	err := w.attempt(ctx, job.Args)
	if err == nil {
		return nil
	}
	reason, level := failureInternal, slog.LevelError
	var failure *mail.SendError
	if errors.As(err, &failure) {
		reason = failure.Kind.String()
		if failure.Kind == mail.Temporary {
			level = slog.LevelWarn
		}
	}
	w.service.metrics.mailFailures.WithLabelValues(reason).Inc()
	delay := w.RetryDelay(w.service.config.ServerTime().Sub(job.CreatedAt))
	w.service.config.Log.LogAttrs(ctx, level, "a contact message could not be mailed",
		slog.String("message", job.Args.Message.String()), slog.Duration("retry_after", delay), slog.Any("error", err))
	return river.JobSnooze(delay)
}

func (w *mailWorker) attempt(ctx context.Context, args store.MailContact) error {
	m, found, err := w.service.config.Store.ContactMessage(ctx, args.Message)
	if err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	if !found || m.MailedAt != nil {
		return nil
	}
	content, err := document(m).Render()
	if err != nil {
		return err
	}
	err = w.Sender.Send(ctx, mail.Message{
		ID: m.ID.String(), To: w.Operator, ReplyTo: mail.Address{Name: m.Name, Address: m.Email}, Content: content, Date: m.CreatedAt,
	})
	if err != nil {
		return err
	}
	w.service.metrics.mails.Inc()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	if err := w.service.config.Store.MarkMailed(ctx, m.ID, w.service.config.Now()); err != nil {
		return fmt.Errorf("mark the message as mailed: %w", err)
	}
	return nil
}

// document returns the mail about a message. Package mail keeps the texts of the visitor
// from becoming markup, links or headers.
func document(m store.ContactMessage) mail.Document {
	return mail.Document{
		Brand:   "Tributary",
		Subject: "Contact form: " + m.Name,
		Heading: "Message from " + m.Name,
		Blocks: []mail.Block{
			{Facts: []mail.Fact{
				{Label: "Name", Value: m.Name},
				{Label: "E-mail", Value: m.Email},
				{Label: "Received", Value: m.CreatedAt.UTC().Format("2 January 2006 15:04 UTC")},
			}},
			{Paragraph: m.Message},
		},
		Footer: mail.Footer{Reason: "The contact form of your landing page sends this mail. The name and the address are not verified."},
	}
}
