package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

func (s *Service) tidyEndpoints(ctx context.Context, job processor.TidyProcessorEndpoints) error {
	left, err := s.TidyEndpoints(ctx, job)
	if err == nil && left > 0 {
		return river.JobSnooze(processor.EndpointGrace)
	}
	return err
}

// TidyEndpoints deletes all endpoints of a connection at the processor except the current one.
// It keeps endpoints that may belong to a running attempt to connect, and returns their number.
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

func (s *Service) removeEndpoint(ctx context.Context, job *river.Job[processor.RemoveProcessorEndpoint]) error {
	return s.RemoveEndpoint(ctx, job.Args, job.Attempt >= job.MaxAttempts)
}

// RemoveEndpoint deletes the endpoint of a disconnected connection at the processor, and then the connection
// with its key. If the deletion fails in the last attempt, or because the key is no longer accepted or lacks
// a permission, the endpoint stays. The processor disables it after some days without success.
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
		// Endpoints that were replaced earlier can still exist.
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
	connection.Endpoint = job.Endpoint // so that a later connection is not dropped
	return processors.DropConnection(ctx, s.DB, connection.Connection)
}

const checkBatch = 500

// CheckEndpoints enqueues a check of the endpoint of each connection.
func (s *Service) CheckEndpoints(ctx context.Context, _ processor.CheckProcessorEndpoints) error {
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

// CheckEndpoint notifies the merchant when the endpoint of a connection no longer works: it was
// disabled or deleted at the processor, or the key is no longer accepted. It notifies again only if
// the endpoint has worked in between. If the processor does not respond, or the
// key lacks the permission to read the endpoint, CheckEndpoint changes nothing.
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

const (
	// statusTimeout is how long a request for the status waits for the processor.
	statusTimeout = 3 * time.Second
	// unknownStatus is the status of an endpoint if it could not be read from the processor.
	unknownStatus = "unknown"
)

// GetProcessorConnection returns the state of the connection.
func (s *Service) GetProcessorConnection(ctx context.Context, req *affiliatev1.GetProcessorConnectionRequest) (*affiliatev1.ProcessorConnection, error) {
	name, _, err := s.processor(req.GetProcessor())
	if err != nil {
		return nil, err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	connection, err := processors.Connection(ctx, s.DB, scope, name)
	if err != nil {
		return nil, err
	}
	if connection == nil {
		return &affiliatev1.ProcessorConnection{Processor: string(name), Mode: server.EnumValue[affiliatev1.Mode](scope.Mode)}, nil
	}
	return s.statusOf(ctx, *connection)
}

// statusOf returns the state of a connection. If the endpoint's status cannot be read from
// the processor, it is unknown.
func (s *Service) statusOf(ctx context.Context, c processor.LockedProcessorConnection) (*affiliatev1.ProcessorConnection, error) {
	now := s.now()
	health, err := processors.Health(ctx, s.DB, c.Connection, now)
	if err != nil {
		return nil, err
	}
	endpointStatus, err := s.endpointStatus(ctx, c)
	if err != nil {
		return nil, err
	}
	id, url, lag := c.ID.String(), s.webhookURL(c.Processor, c.ID), int64(0)
	if health.OldestWaitingAt != nil {
		lag = max(0, int64(now.Sub(*health.OldestWaitingAt)/time.Second))
	}
	return &affiliatev1.ProcessorConnection{
		Connected: true, Processor: string(c.Processor), Mode: server.EnumValue[affiliatev1.Mode](c.Mode),
		Id: &id, AccountId: &c.Account, WebhookUrl: &url, EndpointStatus: &endpointStatus,
		CreateConversions: &c.CreateConversions, IncludeOutOfBand: &c.IncludeOutOfBand,
		LastEventAt: server.OptionalTimestamp(health.LastEventAt), Lag: &lag, SignatureFailures: &health.SignatureFailures,
		ConnectedAt: server.Timestamp(c.ConnectedAt),
	}, nil
}

func (s *Service) endpointStatus(ctx context.Context, c processor.LockedProcessorConnection) (string, error) {
	key, err := s.keyOf(c)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := s.Processors[c.Processor].EndpointStatus(ctx, key, c.Endpoint)
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "the status of a processor's endpoint cannot be read", slog.Any("error", err))
		return unknownStatus, nil
	}
	return status, nil
}

func (s *Service) webhookURL(name conversion.ProcessorName, id processor.ConnectionID) string {
	return s.PublicURL + "/webhooks/" + string(name) + "/" + id.String()
}

// ListProcessorEvents returns one page of the events that have arrived.
func (s *Service) ListProcessorEvents(ctx context.Context, req *affiliatev1.ListProcessorEventsRequest) (*affiliatev1.ListProcessorEventsResponse, error) {
	if _, _, err := s.processor(req.GetProcessor()); err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	events, total, err := processors.Events(ctx, s.DB, server.PrincipalFrom(ctx).Scope(), page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListProcessorEventsResponse{
		Data:  server.ConvertAll(events, eventToProto),
		Total: server.Total(ctx, total), Page: int32(page.Number), Limit: int32(page.Size), // #nosec G115 -- checked numbers
	}, nil
}

func eventToProto(e processor.StoredProcessorEvent) *affiliatev1.ProcessorEvent {
	return &affiliatev1.ProcessorEvent{
		Id: e.Event, Type: e.Type, ReceivedAt: server.Timestamp(e.ReceivedAt),
		Status: server.EnumValue[affiliatev1.ProcessorEventOutcome](e.Status), Reason: server.OptionalString(string(e.Reason)),
		ConversionId: server.OptionalID(e.Conversion),
	}
}
