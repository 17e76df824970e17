package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
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
	river.AddWorker(workers, &server.Worker[processor.ApplyProcessorEvent]{Run: s.applyEvent, Limit: applyTimeout, Retry: s.nextRetry})
	river.AddWorker(workers, &server.Worker[processor.EndAbandonedEvents]{Run: server.ForArgs(s.EndAbandoned)})
	river.AddWorker(workers, &server.Worker[processor.ResyncProcessor]{Run: server.ForArgs(s.Resync), Limit: resyncTimeout, Retry: s.nextRetry})
	river.AddWorker(workers, &server.Worker[processor.TidyProcessorEndpoints]{Run: server.ForArgs(s.tidyEndpoints)})
	river.AddWorker(workers, &server.Worker[processor.RemoveProcessorEndpoint]{Run: s.removeEndpoint})
	river.AddWorker(workers, &server.Worker[processor.CheckProcessorEndpoints]{Run: server.ForArgs(s.CheckEndpoints)})
	river.AddWorker(workers, &server.Worker[processor.CheckProcessorEndpoint]{Run: server.ForArgs(s.CheckEndpoint)})
	river.AddWorker(workers, &server.Worker[promocode.SyncPromoCode]{Run: server.ForArgs(s.SyncPromoCode), Retry: s.nextRetry})
	river.AddWorker(workers, &server.Worker[processor.SyncPromoCodes]{Run: server.ForArgs(s.SyncPromoCodes)})
}

const periodicInterval = time.Hour

// PeriodicJobs returns the jobs that end abandoned events and check the endpoints.
func PeriodicJobs() []*river.PeriodicJob {
	return []*river.PeriodicJob{
		server.OneAtATime(river.PeriodicInterval(periodicInterval), processor.EndAbandonedEvents{}, true),
		server.OneAtATime(river.PeriodicInterval(periodicInterval), processor.CheckProcessorEndpoints{}, true),
	}
}

func (s *Service) nextRetry(attempt int) time.Time {
	return server.RetryAt(s.ServerTime(), retryDelays[:], attempt)
}

func (s *Service) applyEvent(ctx context.Context, job *river.Job[processor.ApplyProcessorEvent]) error {
	return server.Snooze(s.Apply(ctx, job.Args.EventKey, job.Attempt >= job.MaxAttempts))
}

// Apply makes one attempt to apply a stored event and stores the outcome. If the event is
// parked, wait is the time until the next attempt. If last is true or the event is malformed, an
// error is final: the event has failed, and the first failure of a day notifies the merchant.
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
			return 0, err // the event stays parked; the charge is also applied when its sale is recorded
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

// parkedDelay returns the time until the next attempt to apply a parked event of the given age: a
// quarter of the age, but at least 15 seconds and at most a day. Refunds do not depend on this
// attempt, because the refunds of a sale are also applied after the transaction that records the sale.
func parkedDelay(age time.Duration) time.Duration {
	return max(15*time.Second, min(age/4, 24*time.Hour))
}

// store stores the outcome of an attempt, even if the attempt has used up its time.
func (s *Service) store(ctx context.Context, event processor.StoredProcessorEvent, result outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error { return processors.SetEventOutcome(ctx, tx, result.of(event), s.now()) })
}

func (o outcome) of(event processor.StoredProcessorEvent) processor.StoredProcessorEvent {
	event.Status, event.Reason, event.Conversion, event.Charge = o.status, o.reason, o.conversion, o.charge
	return event
}

// fail stores that an event has failed. The first failure of a day causes a notification.
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

const abandonedBatch = 1_000

// EndAbandoned finds events without an outcome for which no attempt can follow any more. They have
// failed, or are ignored if the account is disconnected. A resync begins the work on them again.
func (s *Service) EndAbandoned(ctx context.Context, _ processor.EndAbandonedEvents) error {
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

const (
	// resyncTimeout is the longest time of a job that reads one part of a resync.
	resyncTimeout = 5 * time.Minute
	// longestPart and shortestPart are the limits of the period of a part.
	longestPart  = 24 * time.Hour
	shortestPart = time.Minute
	// resyncBatch is the number of events that a resync stores in one transaction.
	resyncBatch = 100
)

// Resync reads the events of one part of a resync and stores the events that have not
// arrived, with their jobs. It starts the work on failed and ignored events again. Then
// Resync enqueues the next part. A part is a day, or less if a day has too many events.
func (s *Service) Resync(ctx context.Context, job processor.ResyncProcessor) error {
	connection, connected, err := s.connectionOf(ctx, job.Workspace, job.Connection)
	if err != nil || !connected {
		return err
	}
	if connection.Number != job.Number || connection.Account != job.Account {
		return nil
	}
	part := cmp.Or(job.Part, longestPart)
	end := job.From.Add(part)
	if end.After(job.Until) {
		end = job.Until
	}
	err = s.resyncPart(ctx, job, connection, end)
	if errors.Is(err, ErrTooManyEvents) && part > shortestPart {
		return s.nextPart(ctx, job, connection.Connection, job.From, part/2)
	}
	if err != nil {
		return fmt.Errorf("read the events of connection %s: %w", connection.ID, err)
	}
	return s.nextPart(ctx, job, connection.Connection, end, min(2*part, longestPart))
}

func (s *Service) beginResync(ctx context.Context, tx *postgres.Tx, c processor.Connection, since time.Time) error {
	// The processor's clock may differ from the clock of this process.
	begun, job := c.BeginResync(since, s.now().Add(clockSkew))
	if err := processors.SetResync(ctx, tx, begun); err != nil {
		return err
	}
	return tx.Enqueue(ctx, job)
}

// resyncPart stores the events from the beginning of a part (job.From) to the time end.
func (s *Service) resyncPart(ctx context.Context, job processor.ResyncProcessor, connection processor.LockedProcessorConnection, end time.Time) error {
	key, err := s.keyOf(connection)
	if err != nil {
		return err
	}
	api := s.Processors[connection.Processor]
	var batch []processor.StoredProcessorEvent
	flush := func() error {
		err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
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
	err = api.Events(ctx, key, job.From, end, func(body []byte) error {
		event, ok := api.Envelope(body)
		if !ok || event.Account != "" || event.Live != (connection.Mode == affiliate.ModeLive) {
			return nil
		}
		stored := s.newEvent(connection.Connection, event, body, s.now())
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

// nextPart enqueues the part of a resync that has the given beginning and length. If all
// events are read, the resync ends. If another resync has replaced this one, or if the job
// runs a second time, nextPart does nothing.
func (s *Service) nextPart(ctx context.Context, job processor.ResyncProcessor, c processor.Connection, begin time.Time, length time.Duration) error {
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		current, err := processors.LockConnection(ctx, tx, c.Scope, c.Processor)
		if err != nil || current == nil || current.Number != job.Number {
			return err
		}
		if from := current.From; from == nil || !from.Equal(job.From) {
			return nil
		}
		next := current.Connection
		if !begin.Before(job.Until) {
			next.Since, next.From = nil, nil
			return processors.SetResync(ctx, tx, next)
		}
		next.From, job.From, job.Part = &begin, begin, length
		if err := processors.SetResync(ctx, tx, next); err != nil {
			return err
		}
		return tx.Enqueue(ctx, job)
	})
}
