package processor

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

const (
	// statusTimeout is how long a request for the status waits for the processor.
	statusTimeout = 3 * time.Second
	// unknownStatus is the status of an endpoint if the processor does not respond.
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

// statusOf returns the state of a connection. If the processor does not respond, the
// endpoint's status is unknown.
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
	out := &affiliatev1.ListProcessorEventsResponse{
		Data: make([]*affiliatev1.ProcessorEvent, len(events)), Total: server.Total(ctx, total), Page: int32(page.Number), Limit: int32(page.Size), // #nosec G115 -- checked numbers
	}
	for i, e := range events {
		out.Data[i] = &affiliatev1.ProcessorEvent{
			Id: e.Event, Type: e.Type, ReceivedAt: server.Timestamp(e.ReceivedAt),
			Status: server.EnumValue[affiliatev1.ProcessorEventOutcome](e.Status), Reason: server.OptionalString(string(e.Reason)),
			ConversionId: server.OptionalID(e.Conversion),
		}
	}
	return out, nil
}
