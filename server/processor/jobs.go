package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

const (
	// applyTimeout is the longest time of one attempt to apply an event. It includes several
	// requests to the processor.
	applyTimeout = 2 * time.Minute
	// resyncTimeout is the longest time of a part of a resync.
	resyncTimeout = 5 * time.Minute
	// longestPart and shortestPart are the limits of the period of a part.
	longestPart  = 24 * time.Hour
	shortestPart = time.Minute
	// storeTimeout is the longest time for storing the outcome of an attempt.
	storeTimeout = 10 * time.Second
	// resyncBatch is the number of events that a resync stores in one transaction.
	resyncBatch = 100
)

// retryDelays are the times between two attempts to apply an event. Together they are about
// affiliate.ProcessorEventLifetime.
var retryDelays = [affiliate.ProcessorAttempts - 1]time.Duration{
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
	river.AddWorker(workers, &promoCodeWorker{service: s})
	river.AddWorker(workers, &promoCodesWorker{service: s})
}

type applyWorker struct {
	river.WorkerDefaults[affiliate.ApplyProcessorEvent]
	service *Service
}

// Timeout returns the time limit of one attempt.
func (*applyWorker) Timeout(*river.Job[affiliate.ApplyProcessorEvent]) time.Duration {
	return applyTimeout
}

// NextRetry returns the time of the next attempt. The delay varies by a tenth in both
// directions, so that the events of an outage are not all applied at the same time. The
// function uses the system's clock, because River compares the result with that clock.
func (*applyWorker) NextRetry(job *river.Job[affiliate.ApplyProcessorEvent]) time.Time {
	return nextRetry(job.Attempt)
}

func nextRetry(attempt int) time.Time {
	delay := retryDelays[max(0, min(attempt, len(retryDelays))-1)]
	return time.Now().Add(delay*9/10 + rand.N(delay/5)) //nolint:gosec // not security relevant
}

func (w *applyWorker) Work(ctx context.Context, job *river.Job[affiliate.ApplyProcessorEvent]) error {
	wait, err := w.service.Apply(ctx, job.Args.ProcessorEventKey, job.Attempt >= job.MaxAttempts)
	if err == nil && wait > 0 {
		return river.JobSnooze(wait)
	}
	return err
}

// Apply makes one attempt to apply a stored event and stores the outcome. If the event is
// parked, wait is the time until the next attempt. If last is true, an error ends the work:
// the event has failed, and the merchant is notified.
func (s *Service) Apply(ctx context.Context, key affiliate.ProcessorEventKey, last bool) (wait time.Duration, err error) {
	event, err := s.Store.Event(ctx, key)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) || event.Body == nil && err == nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	connection, connected, err := s.connectionOf(ctx, key.Workspace, key.Connection)
	if err != nil {
		return 0, err
	}
	if !connected || event.Account != "" && event.Account != connection.Account {
		return 0, s.store(ctx, event, ignored(affiliate.IgnoredDisconnected))
	}
	result, err := s.apply(ctx, event, connection)
	if err != nil {
		reason := failureReason(err)
		s.Log.LogAttrs(ctx, slog.LevelWarn, "an event of a payment processor could not be applied",
			slog.String("workspace", key.Workspace.String()), slog.String("event", key.Event), slog.String("reason", string(reason)), slog.Any("error", err))
		if last {
			return 0, s.fail(ctx, event, connection.ProcessorConnection, reason)
		}
		if event.Status == affiliate.ProcessorEventParked {
			return 0, err // the event still waits
		}
		return 0, errors.Join(err, s.store(ctx, event, outcome{status: affiliate.ProcessorEventReceived, reason: reason}))
	}
	if result.status == affiliate.ProcessorEventParked {
		wait = parkedDelay(s.now().Sub(event.ReceivedAt))
	}
	return wait, s.store(ctx, event, result)
}

// connectionOf returns the connection of a job. connected is false if the merchant has
// disconnected the account.
func (s *Service) connectionOf(
	ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ProcessorConnectionID,
) (c affiliate.LockedProcessorConnection, connected bool, err error) {
	c, err = s.Store.ConnectionOfJob(ctx, workspace, id)
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
func (s *Service) store(ctx context.Context, event affiliate.StoredProcessorEvent, result outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return s.Store.InTx(ctx, func(tx Tx) error { return tx.SetEventOutcome(ctx, result.of(event), s.now()) })
}

// of returns the event with the outcome.
func (o outcome) of(event affiliate.StoredProcessorEvent) affiliate.StoredProcessorEvent {
	event.Status, event.Reason, event.Conversion, event.Charge = o.status, o.reason, o.conversion, o.charge
	return event
}

// fail stores that no attempt has succeeded. The first failure of a day causes a
// notification.
func (s *Service) fail(ctx context.Context, event affiliate.StoredProcessorEvent, c affiliate.ProcessorConnection, reason affiliate.ProcessorIgnored) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return s.Store.InTx(ctx, func(tx Tx) error {
		now := s.now()
		failed := outcome{status: affiliate.ProcessorEventFailed, reason: reason}
		if err := tx.SetEventOutcome(ctx, failed.of(event), now); err != nil {
			return err
		}
		first, err := tx.ClaimFailureNotice(ctx, c, now)
		if err != nil || !first {
			return err
		}
		return tx.Notify(ctx, c.FailureNotification(reason, now))
	})
}

// abandonedInterval is the time between two searches for abandoned events.
const abandonedInterval = time.Hour

// abandonedBatch is the number of abandoned events that one search ends at most.
const abandonedBatch = 1_000

type abandonedWorker struct {
	river.WorkerDefaults[affiliate.EndAbandonedEvents]
	service *Service
}

// AbandonedJob returns the periodic job that ends abandoned events.
func AbandonedJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(abandonedInterval), affiliate.EndAbandonedEvents{}, true)
}

func (w *abandonedWorker) Work(ctx context.Context, _ *river.Job[affiliate.EndAbandonedEvents]) error {
	return w.service.EndAbandoned(ctx)
}

// EndAbandoned stores for events without an outcome that they have failed, if no attempt can
// follow any more. A resync begins the work on them again.
func (s *Service) EndAbandoned(ctx context.Context) error {
	events, err := s.Store.AbandonedEvents(ctx, s.now().Add(-affiliate.ProcessorEventAbandoned), abandonedBatch)
	if err != nil {
		return err
	}
	for _, event := range events {
		connection, connected, err := s.connectionOf(ctx, event.Workspace, event.Connection)
		switch {
		case err == nil && connected:
			err = s.fail(ctx, event, connection.ProcessorConnection, affiliate.FailedInternal)
		case err == nil:
			err = s.store(ctx, event, ignored(affiliate.IgnoredDisconnected))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type resyncWorker struct {
	river.WorkerDefaults[affiliate.ResyncProcessor]
	service *Service
}

// Timeout returns the time limit of one attempt.
func (*resyncWorker) Timeout(*river.Job[affiliate.ResyncProcessor]) time.Duration {
	return resyncTimeout
}

// NextRetry returns the time of the next attempt.
func (*resyncWorker) NextRetry(job *river.Job[affiliate.ResyncProcessor]) time.Time {
	return nextRetry(job.Attempt)
}

func (w *resyncWorker) Work(ctx context.Context, job *river.Job[affiliate.ResyncProcessor]) error {
	return w.service.Resync(ctx, job.Args)
}

// Resync reads the events of one part of a resync and stores those that have not arrived,
// with their jobs. Events that have failed or were ignored begin again. Then Resync enqueues
// the next part. A part is a day, or less if a day has too many events.
func (s *Service) Resync(ctx context.Context, job affiliate.ResyncProcessor) error {
	connection, connected, err := s.connectionOf(ctx, job.Workspace, job.Connection)
	if err != nil || !connected || connection.Resync.Number != job.Number {
		return err
	}
	if job.Until.IsZero() { // a job of an older version
		job.From, job.Until = job.Since, s.now()
	}
	for part := longestPart; ; part /= 2 {
		end := job.From.Add(part)
		if end.After(job.Until) {
			end = job.Until
		}
		err := s.resyncPart(ctx, job, connection, end)
		if errors.Is(err, ErrTooManyEvents) && part > shortestPart {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the events of connection %s: %w", connection.ID, err)
		}
		return s.nextPart(ctx, job, connection.ProcessorConnection, end)
	}
}

// resyncPart stores the events from the begin of a part to its end.
func (s *Service) resyncPart(ctx context.Context, job affiliate.ResyncProcessor, connection affiliate.LockedProcessorConnection, end time.Time) error {
	key, err := s.keyOf(connection)
	if err != nil {
		return err
	}
	processor := s.Processors[connection.Processor]
	var batch []affiliate.StoredProcessorEvent
	flush := func() error {
		err := s.Store.InTx(ctx, func(tx Tx) error {
			for _, event := range batch {
				if err := storeEvent(ctx, tx, event); err != nil {
					return err
				}
			}
			return nil
		})
		batch = batch[:0]
		return err
	}
	err = processor.Events(ctx, key, job.From, end, func(body []byte) error {
		event, ok := processor.Envelope(body)
		if !ok || event.Account != "" || event.Live != (connection.Scope.Mode == affiliate.ModeLive) {
			return nil
		}
		stored := s.newEvent(connection.ProcessorConnection, event, body, s.now())
		stored.Resync, stored.Since = true, &job.Since
		if batch = append(batch, stored); len(batch) < resyncBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// nextPart enqueues the part of a resync that begins at a time. If all events are read, the
// resync ends. If another resync has replaced this one, nextPart does nothing.
func (s *Service) nextPart(ctx context.Context, job affiliate.ResyncProcessor, c affiliate.ProcessorConnection, begin time.Time) error {
	return s.Store.InTx(ctx, func(tx Tx) error {
		current, err := tx.LockConnection(ctx, c.Scope, c.Processor)
		if err != nil || current == nil || current.Resync.Number != job.Number {
			return err
		}
		next := current.ProcessorConnection
		if !begin.Before(job.Until) {
			next.Resync.From = nil
			return tx.SetResync(ctx, next)
		}
		next.Resync.From, job.From = &begin, begin
		if err := tx.SetResync(ctx, next); err != nil {
			return err
		}
		return tx.Enqueue(ctx, job)
	})
}

type tidyWorker struct {
	river.WorkerDefaults[affiliate.TidyProcessorEndpoints]
	service *Service
}

func (w *tidyWorker) Work(ctx context.Context, job *river.Job[affiliate.TidyProcessorEndpoints]) error {
	left, err := w.service.TidyEndpoints(ctx, job.Args)
	if err == nil && left > 0 {
		return river.JobSnooze(affiliate.ProcessorEndpointGrace)
	}
	return err
}

// TidyEndpoints deletes all endpoints of a connection at the processor except the current one.
// Endpoints that may belong to a running attempt to connect stay; their number is left.
func (s *Service) TidyEndpoints(ctx context.Context, job affiliate.TidyProcessorEndpoints) (left int, err error) {
	createdBefore := s.now().Add(-affiliate.ProcessorEndpointGrace)
	connection, connected, err := s.connectionOf(ctx, job.Workspace, job.Connection)
	if err != nil || !connected {
		return 0, err
	}
	key, err := s.keyOf(connection)
	if err != nil {
		return 0, err
	}
	url := s.webhookURL(connection.Processor, connection.ID)
	return s.Processors[connection.Processor].DeleteOtherEndpoints(ctx, key, url, connection.Endpoint, createdBefore)
}

type removeWorker struct {
	river.WorkerDefaults[affiliate.RemoveProcessorEndpoint]
	service *Service
}

func (w *removeWorker) Work(ctx context.Context, job *river.Job[affiliate.RemoveProcessorEndpoint]) error {
	return w.service.RemoveEndpoint(ctx, job.Args, job.Attempt >= job.MaxAttempts)
}

// RemoveEndpoint deletes the endpoint of a disconnected connection at the processor, and
// then the connection with its key. If the key is no longer accepted, or this is the last
// attempt, the endpoint stays: the processor disables it after some days without success.
func (s *Service) RemoveEndpoint(ctx context.Context, job affiliate.RemoveProcessorEndpoint, last bool) error {
	connection, err := s.Store.ConnectionOfJob(ctx, job.Workspace, job.Connection)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil
	}
	if err != nil {
		return err
	}
	key, err := s.keyOf(connection)
	if err != nil {
		return err
	}
	err = s.Processors[connection.Processor].DeleteEndpoint(ctx, key, job.Endpoint)
	var missing *PermissionError
	if err != nil && !last && !errors.Is(err, ErrBadKey) && !errors.As(err, &missing) {
		return err
	}
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "the endpoint of a disconnected account stays at the payment processor", slog.Any("error", err))
	}
	return s.Store.DropConnection(ctx, connection.ProcessorConnection)
}
