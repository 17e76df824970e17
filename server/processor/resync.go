package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

const (
	// resyncTimeout is the longest time of a part of a resync.
	resyncTimeout = 5 * time.Minute
	// longestPart and shortestPart are the limits of the period of a part.
	longestPart  = 24 * time.Hour
	shortestPart = time.Minute
	// resyncBatch is the number of events that a resync stores in one transaction.
	resyncBatch = 100
)

type resyncWorker struct {
	river.WorkerDefaults[processor.ResyncProcessor]
	service *Service
}

// Timeout returns the time limit of one attempt.
func (*resyncWorker) Timeout(*river.Job[processor.ResyncProcessor]) time.Duration {
	return resyncTimeout
}

// NextRetry returns the time of the next attempt.
func (w *resyncWorker) NextRetry(job *river.Job[processor.ResyncProcessor]) time.Time {
	return w.service.nextRetry(job.Attempt)
}

func (w *resyncWorker) Work(ctx context.Context, job *river.Job[processor.ResyncProcessor]) error {
	return w.service.Resync(ctx, job.Args)
}

// Resync reads the events of one part of a resync and stores those that have not arrived,
// with their jobs. Events that have failed or were ignored begin again. Then Resync enqueues
// the next part. A part is a day, or less if a day has too many events.
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

// beginResync begins a resync of a locked connection.
func (s *Service) beginResync(ctx context.Context, tx *postgres.Tx, c processor.Connection, since time.Time) error {
	// The processor's clock may differ from this one.
	begun, job := c.BeginResync(since, s.now().Add(clockSkew))
	if err := processors.SetResync(ctx, tx, begun); err != nil {
		return err
	}
	return tx.Enqueue(ctx, job)
}

// resyncPart stores the events from the begin of a part to its end.
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

// nextPart enqueues the part of a resync that has the given begin and length. If all events
// are read, the resync ends. If another resync has replaced this one, or if the job runs a
// second time, nextPart does nothing.
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
