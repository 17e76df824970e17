package processor

import (
	"context"
	"errors"
	"log/slog"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

type tidyWorker struct {
	river.WorkerDefaults[processor.TidyProcessorEndpoints]
	service *Service
}

func (w *tidyWorker) Work(ctx context.Context, job *river.Job[processor.TidyProcessorEndpoints]) error {
	left, err := w.service.TidyEndpoints(ctx, job.Args)
	if err == nil && left > 0 {
		return river.JobSnooze(processor.EndpointGrace)
	}
	return err
}

// TidyEndpoints deletes all endpoints of a connection at the processor except the current one.
// Endpoints that may belong to a running attempt to connect stay; their number is left.
func (s *Service) TidyEndpoints(ctx context.Context, job processor.TidyProcessorEndpoints) (left int, err error) {
	createdBefore := s.now().Add(-processor.EndpointGrace)
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
	river.WorkerDefaults[processor.RemoveProcessorEndpoint]
	service *Service
}

func (w *removeWorker) Work(ctx context.Context, job *river.Job[processor.RemoveProcessorEndpoint]) error {
	return w.service.RemoveEndpoint(ctx, job.Args, job.Attempt >= job.MaxAttempts)
}

// RemoveEndpoint deletes the endpoint of a disconnected connection at the processor, and
// then the connection with its key. If the key is no longer accepted, or this is the last
// attempt, the endpoint stays: the processor disables it after some days without success.
func (s *Service) RemoveEndpoint(ctx context.Context, job processor.RemoveProcessorEndpoint, last bool) error {
	connection, err := processors.ConnectionOrDeleted(ctx, s.DB, job.Workspace, job.Connection)
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
	api := s.Processors[connection.Processor]
	err = api.DeleteEndpoint(ctx, key, job.Endpoint)
	if err == nil && connection.Deleted {
		// Replaced endpoints may not be deleted yet.
		url := s.webhookURL(connection.Processor, connection.ID)
		_, err = api.DeleteOtherEndpoints(ctx, key, url, "", s.now().Add(-processor.EndpointGrace))
	}
	var missing *PermissionError
	if err != nil && !last && !errors.Is(err, ErrBadKey) && !errors.As(err, &missing) {
		return err
	}
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "the endpoint of a disconnected account stays at the payment processor", slog.Any("error", err))
	}
	connection.Endpoint = job.Endpoint // a later connection stays
	return processors.DropConnection(ctx, s.DB, connection.Connection)
}

// checkBatch is the number of connections whose checks are enqueued in one transaction.
const checkBatch = 500

type checksWorker struct {
	river.WorkerDefaults[processor.CheckProcessorEndpoints]
	service *Service
}

func (w *checksWorker) Work(ctx context.Context, _ *river.Job[processor.CheckProcessorEndpoints]) error {
	return w.service.CheckEndpoints(ctx)
}

// CheckEndpoints enqueues a check of the endpoint of each connection.
func (s *Service) CheckEndpoints(ctx context.Context) error {
	var after processor.ConnectionID
	for {
		checks, err := processors.ConnectionsAfter(ctx, s.DB, after, checkBatch)
		if err != nil || len(checks) == 0 {
			return err
		}
		jobs := make([]affiliate.Job, len(checks))
		for i, check := range checks {
			jobs[i] = check
		}
		if err := s.DB.InTx(ctx, func(tx *postgres.Tx) error { return tx.Enqueue(ctx, jobs...) }); err != nil {
			return err
		}
		after = checks[len(checks)-1].Connection
	}
}

type checkWorker struct {
	river.WorkerDefaults[processor.CheckProcessorEndpoint]
	service *Service
}

func (w *checkWorker) Work(ctx context.Context, job *river.Job[processor.CheckProcessorEndpoint]) error {
	return w.service.CheckEndpoint(ctx, job.Args)
}

// CheckEndpoint notifies the merchant when the endpoint of a connection no longer works: it was
// disabled or deleted at the processor, or the key is no longer accepted. The next
// notification follows only after the endpoint has worked again. If the processor does not
// respond, nothing is known.
func (s *Service) CheckEndpoint(ctx context.Context, job processor.CheckProcessorEndpoint) error {
	connection, connected, err := s.connectionOf(ctx, job.Workspace, job.Connection)
	if err != nil || !connected {
		return err
	}
	key, err := s.keyOf(connection)
	if err != nil {
		return err
	}
	status, err := s.Processors[connection.Processor].EndpointStatus(ctx, key, connection.Endpoint)
	var missing *PermissionError
	switch {
	case errors.Is(err, ErrBadKey):
		status = processor.EndpointKeyInvalid
	case errors.As(err, &missing), errors.Is(err, ErrUnavailable):
		return nil
	case err != nil:
		return err
	}
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		changed, err := processors.SetEndpointFailing(ctx, tx, connection.Connection, status != processor.EndpointEnabled)
		if err != nil || !changed || status == processor.EndpointEnabled {
			return err
		}
		return tx.Notify(ctx, connection.EndpointNotification(status, s.now()))
	})
}
