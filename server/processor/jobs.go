package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

const (
	// applyTimeout is the longest time of one attempt to apply an event. It includes several
	// requests to the processor.
	applyTimeout = 2 * time.Minute
	// storeTimeout is the longest time for storing the outcome of an attempt.
	storeTimeout = 10 * time.Second
	// attemptTime is the time after which an attempt has surely ended, although the clocks of
	// processes differ.
	attemptTime = applyTimeout + storeTimeout + 30*time.Second
)

// retryDelays are the times between two attempts to apply an event. Together they are about
// processor.EventLifetime.
var retryDelays = [processor.Attempts - 1]time.Duration{
	10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
	4 * time.Hour, 8 * time.Hour, 12 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &applyWorker{service: s})
	river.AddWorker(workers, &abandonedWorker{service: s})
	river.AddWorker(workers, &resyncWorker{service: s})
	river.AddWorker(workers, &tidyWorker{service: s})
	river.AddWorker(workers, &removeWorker{service: s})
	river.AddWorker(workers, &checksWorker{service: s})
	river.AddWorker(workers, &checkWorker{service: s})
	river.AddWorker(workers, &promoCodeWorker{service: s})
	river.AddWorker(workers, &promoCodesWorker{service: s})
}

// periodicInterval is the time between two runs of a periodic job.
const periodicInterval = time.Hour

// PeriodicJobs returns the jobs that end abandoned events and check the endpoints.
func PeriodicJobs() []*river.PeriodicJob {
	return []*river.PeriodicJob{
		server.OneAtATime(river.PeriodicInterval(periodicInterval), processor.EndAbandonedEvents{}, true),
		server.OneAtATime(river.PeriodicInterval(periodicInterval), processor.CheckProcessorEndpoints{}, true),
	}
}

type applyWorker struct {
	river.WorkerDefaults[processor.ApplyProcessorEvent]
	service *Service
}

// Timeout returns the time limit of one attempt.
func (*applyWorker) Timeout(*river.Job[processor.ApplyProcessorEvent]) time.Duration {
	return applyTimeout
}

// NextRetry returns the time of the next attempt.
func (w *applyWorker) NextRetry(job *river.Job[processor.ApplyProcessorEvent]) time.Time {
	return w.service.nextRetry(job.Attempt)
}

func (s *Service) nextRetry(attempt int) time.Time {
	return server.RetryAt(s.ServerTime(), retryDelays[:], attempt)
}

func (w *applyWorker) Work(ctx context.Context, job *river.Job[processor.ApplyProcessorEvent]) error {
	wait, err := w.service.Apply(ctx, job.Args.EventKey, job.Attempt >= job.MaxAttempts)
	if err == nil && wait > 0 {
		return river.JobSnooze(wait)
	}
	return err
}

// Apply makes one attempt to apply a stored event and stores the outcome. If the event is
// parked, wait is the time until the next attempt. If last is true or the event is
// malformed, an error ends the work: the event has failed, and the merchant is notified.
func (s *Service) Apply(ctx context.Context, key processor.EventKey, last bool) (wait time.Duration, err error) {
	event, err := processors.BeginAttempt(ctx, s.DB, key, s.now().Add(attemptTime))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	connection, connected, err := s.connectionOf(ctx, key.Workspace, key.Connection)
	if err != nil {
		return 0, err
	}
	if !connected || event.Account != connection.Account {
		return 0, s.store(ctx, event, ignored(processor.IgnoredDisconnected))
	}
	result, err := s.apply(ctx, event, connection)
	if err != nil {
		reason := failureReason(err)
		s.Log.LogAttrs(ctx, slog.LevelWarn, "an event of a payment processor could not be applied",
			slog.String("workspace", key.Workspace.String()), slog.String("event", key.Event), slog.String("reason", string(reason)), slog.Any("error", err))
		if last || errors.Is(err, ErrMalformed) {
			return 0, s.fail(ctx, event, connection.Connection, reason)
		}
		if event.Charge != "" {
			return 0, err // the event still waits, and needs no attempt
		}
		return 0, errors.Join(err, s.store(ctx, event, outcome{status: processor.EventReceived, reason: reason}))
	}
	if result.status == processor.EventParked {
		wait = parkedDelay(s.now().Sub(event.ReceivedAt))
	}
	return wait, s.store(ctx, event, result)
}

// connectionOf returns the connection of a job. connected is false if the merchant has
// disconnected the account.
func (s *Service) connectionOf(
	ctx context.Context, workspace affiliate.WorkspaceID, id processor.ConnectionID,
) (c processor.LockedProcessorConnection, connected bool, err error) {
	c, err = processors.ConnectionOrDeleted(ctx, s.DB, workspace, id)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return c, false, nil
	}
	return c, err == nil && !c.Deleted, err
}

// parkedDelay returns the time until the next attempt to apply a parked event of an age: a
// quarter of the age, but at least 15 seconds and at most a day. A refund does not need the
// attempt: the transaction that records a sale is followed by its refunds.
func parkedDelay(age time.Duration) time.Duration {
	return max(15*time.Second, min(age/4, 24*time.Hour))
}

// store stores the outcome of an attempt, even if the attempt has used up its time.
func (s *Service) store(ctx context.Context, event processor.StoredProcessorEvent, result outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error { return processors.SetEventOutcome(ctx, tx, result.of(event), s.now()) })
}

// of returns the event with the outcome.
func (o outcome) of(event processor.StoredProcessorEvent) processor.StoredProcessorEvent {
	event.Status, event.Reason, event.Conversion, event.Charge = o.status, o.reason, o.conversion, o.charge
	return event
}

// fail stores that no attempt has succeeded. The first failure of a day causes a
// notification.
func (s *Service) fail(ctx context.Context, event processor.StoredProcessorEvent, c processor.Connection, reason processor.Ignored) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		now := s.now()
		failed := outcome{status: processor.EventFailed, reason: reason}
		if err := processors.SetEventOutcome(ctx, tx, failed.of(event), now); err != nil {
			return err
		}
		first, err := processors.ClaimFailureNotice(ctx, tx, c, now)
		if err != nil || !first {
			return err
		}
		return tx.Notify(ctx, c.FailureNotification(reason, now))
	})
}

// abandonedBatch is the number of abandoned events that one search ends at most.
const abandonedBatch = 1_000

type abandonedWorker struct {
	river.WorkerDefaults[processor.EndAbandonedEvents]
	service *Service
}

func (w *abandonedWorker) Work(ctx context.Context, _ *river.Job[processor.EndAbandonedEvents]) error {
	return w.service.EndAbandoned(ctx)
}

// EndAbandoned stores for events without an outcome that they have failed, if no attempt can
// follow any more. A resync begins the work on them again.
func (s *Service) EndAbandoned(ctx context.Context) error {
	events, err := processors.AbandonedEvents(ctx, s.DB, s.now().Add(-processor.EventAbandoned), abandonedBatch)
	if err != nil {
		return err
	}
	for _, event := range events {
		connection, connected, err := s.connectionOf(ctx, event.Workspace, event.Connection)
		switch {
		case err == nil && connected:
			err = s.fail(ctx, event, connection.Connection, processor.FailedInternal)
		case err == nil:
			err = s.store(ctx, event, ignored(processor.IgnoredDisconnected))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
