package processor

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

// ConnectProcessor checks a restricted key, registers a webhook endpoint, and stores the
// connection. If the connection cannot be stored, the endpoint is deleted again. The endpoint
// of an existing connection receives events until a job deletes it.
func (s *Service) ConnectProcessor(ctx context.Context, req *affiliatev1.ConnectProcessorRequest) (*affiliatev1.ProcessorConnection, error) {
	name, api, err := s.processor(req.GetProcessor())
	if err != nil {
		return nil, err
	}
	if s.PublicURL == "" {
		return nil, &affiliate.Error{
			Reason: affiliate.ReasonServiceUnavailable, Message: "The operator must set TRIBUTARY_PUBLIC_URL before accounts can be connected.",
		}
	}
	scope, key, at := server.PrincipalFrom(ctx).Scope(), req.GetRestrictedKey(), s.now()
	switch mode, ok := api.Mode(key); {
	case !ok:
		return nil, affiliate.Refuse(affiliate.ReasonProcessorKeyInvalid)
	case mode != scope.Mode:
		return nil, affiliate.Refuse(affiliate.ReasonModeMismatch)
	}
	if err := s.checkPermissions(ctx, scope, api, key); err != nil {
		return nil, err
	}
	account, err := api.Account(ctx, key)
	if err != nil {
		return nil, s.refusalOf(ctx, err)
	}
	id := processor.ConnectionIDOf(scope, name)
	existing, err := processors.Connection(ctx, s.DB, scope, name)
	if err != nil {
		return nil, err
	}
	if existing != nil && existing.Account != account {
		return nil, affiliate.Refuse(affiliate.ReasonProcessorAlreadyConnected)
	}
	// Endpoints of earlier attempts, whose secrets were lost, would use up the account's limit.
	keep := ""
	if existing != nil {
		keep = existing.Endpoint
	}
	url := s.webhookURL(name, id)
	if _, err := api.DeleteOtherEndpoints(ctx, key, url, keep, at.Add(-processor.EndpointGrace)); err != nil {
		return nil, s.refusalOf(ctx, err)
	}
	endpoint, err := api.CreateEndpoint(ctx, key, url)
	if err != nil {
		return nil, s.refusalOf(ctx, err)
	}
	connection := processor.Connection{
		ID: id, Scope: scope, Processor: name, Account: account, Endpoint: endpoint.ID,
		CreateConversions: req.CreateConversions == nil || req.GetCreateConversions(), IncludeOutOfBand: req.GetIncludeOutOfBand(),
		ConnectedAt: at, UpdatedAt: at,
	}
	keys := processor.Keys{
		Key: s.seal(id, sealedKey, []byte(key)), Secret: s.seal(id, sealedSecret, []byte(endpoint.Secret)),
	}
	stored, isNew, err := s.storeConnection(ctx, connection, keys)
	if err != nil {
		return nil, errors.Join(err, s.deleteUnused(context.WithoutCancel(ctx), scope, name, key, endpoint.ID))
	}
	if !isNew {
		server.SetHTTPStatus(ctx, http.StatusOK)
	}
	return s.statusOf(ctx, stored)
}

// deleteUnused deletes an endpoint that could not be stored. The endpoint stays if it is
// stored: the error can mean that the response to COMMIT was lost.
func (s *Service) deleteUnused(ctx context.Context, scope affiliate.Scope, name conversion.ProcessorName, key, endpoint string) error {
	stored, err := processors.Connection(ctx, s.DB, scope, name)
	if err != nil || stored != nil && stored.Endpoint == endpoint {
		return err
	}
	return s.Processors[name].DeleteEndpoint(ctx, key, endpoint)
}

func (s *Service) checkPermissions(ctx context.Context, scope affiliate.Scope, processor Processor, key string) error {
	promoCodes, err := processors.SyncsPromoCodes(ctx, s.DB, scope)
	if err != nil {
		return err
	}
	fees, err := processors.SubtractsFees(ctx, s.DB, scope)
	if err != nil {
		return err
	}
	missing, err := processor.MissingPermissions(ctx, key, Needs{PromoCodes: promoCodes, Fees: fees})
	if err != nil {
		return s.refusalOf(ctx, err)
	}
	if len(missing) > 0 {
		return missingPermissions(slices.Sorted(slices.Values(missing)))
	}
	return nil
}

// storeConnection stores a new connection, or replaces the keys and the endpoint of the
// existing connection to the same account.
func (s *Service) storeConnection(
	ctx context.Context, connection processor.Connection, keys processor.Keys,
) (stored processor.LockedProcessorConnection, isNew bool, err error) {
	by := server.ActorFrom(ctx)
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := postgres.LockWorkspace(ctx, tx, connection.Workspace); err != nil {
			return err
		}
		existing, err := processors.LockConnection(ctx, tx, connection.Scope, connection.Processor)
		if err != nil {
			return err
		}
		stored, isNew = processor.LockedProcessorConnection{Connection: connection, Keys: keys}, existing == nil
		action := "processor.connect"
		if existing != nil {
			action = "processor.reconnect"
			if stored, err = existing.Reconnect(connection, keys); err != nil {
				return err
			}
		}
		if err := processors.PutConnection(ctx, tx, stored); err != nil {
			return err
		}
		if existing != nil {
			// The processor does not repeat the events of an endpoint that is deleted.
			if err := s.beginResync(ctx, tx, stored.Connection, resyncAfterReconnection(*existing, connection.UpdatedAt)); err != nil {
				return err
			}
		}
		if isNew {
			if err := tx.Notify(ctx, connection.Notification(notification.NotifyProcessorConnected, by.User, connection.UpdatedAt)); err != nil {
				return err
			}
		}
		err = tx.Enqueue(ctx,
			processor.TidyProcessorEndpoints{Workspace: connection.Workspace, Connection: connection.ID},
			processor.SyncPromoCodes{Workspace: connection.Workspace, Mode: connection.Mode},
		)
		if err != nil {
			return err
		}
		return tx.Audit(ctx, stored.AuditLine(action, by, connection.UpdatedAt))
	})
	return stored, isNew, err
}

// resyncAfterReconnection returns the time since which events are read after a reconnection.
// The processor repeats events for three days. An endpoint that has failed may have received
// nothing for longer.
func resyncAfterReconnection(before processor.LockedProcessorConnection, at time.Time) time.Time {
	since := at.Add(-processor.RotatedProcessorSecretGrace)
	if before.EndpointFailing {
		since = at.Add(-processor.MaxResyncAge)
	}
	if since.Before(before.ConnectedAt) {
		return before.ConnectedAt
	}
	return since
}

// UpdateProcessorConnection changes options of the connection. An option in the mask without a value
// gets its default.
func (s *Service) UpdateProcessorConnection(ctx context.Context, req *affiliatev1.UpdateProcessorConnectionRequest) (*affiliatev1.ProcessorConnection, error) {
	name, _, err := s.processor(req.GetProcessor())
	if err != nil {
		return nil, err
	}
	scope, at := server.PrincipalFrom(ctx).Scope(), s.now()
	var stored processor.LockedProcessorConnection
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		connection, err := processors.LockConnection(ctx, tx, scope, name)
		if err != nil {
			return err
		}
		if connection == nil {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		stored = *connection
		for _, path := range req.GetUpdateMask().GetPaths() {
			switch path {
			case "create_conversions":
				stored.CreateConversions = req.CreateConversions == nil || req.GetCreateConversions()
			case "include_out_of_band":
				stored.IncludeOutOfBand = req.GetIncludeOutOfBand()
			}
		}
		if stored.CreateConversions == connection.CreateConversions && stored.IncludeOutOfBand == connection.IncludeOutOfBand {
			return nil
		}
		stored.UpdatedAt = at
		if err := processors.SetOptions(ctx, tx, stored.Connection); err != nil {
			return err
		}
		return tx.Audit(ctx, stored.UpdateLine(connection.Connection, server.ActorFrom(ctx)))
	})
	if err != nil {
		return nil, err
	}
	return s.statusOf(ctx, stored)
}

// DisconnectProcessor ends the connection. A job deletes the endpoint at the processor.
func (s *Service) DisconnectProcessor(ctx context.Context, req *affiliatev1.DisconnectProcessorRequest) (*affiliatev1.DisconnectProcessorResponse, error) {
	name, _, err := s.processor(req.GetProcessor())
	if err != nil {
		return nil, err
	}
	caller, by, at := server.PrincipalFrom(ctx), server.ActorFrom(ctx), s.now()
	scope, user := caller.Scope(), caller.AccountableUser()
	return postgres.InTx(ctx, s.DB, func(tx *postgres.Tx) (*affiliatev1.DisconnectProcessorResponse, error) {
		connection, err := processors.LockConnection(ctx, tx, scope, name)
		if err != nil {
			return nil, err
		}
		if connection == nil {
			return nil, affiliate.Refuse(affiliate.ReasonNotFound)
		}
		if err := processors.DisconnectConnection(ctx, tx, connection.Connection, at); err != nil {
			return nil, err
		}
		if err := tx.Enqueue(ctx, processor.RemoveProcessorEndpoint{
			Workspace: scope.Workspace, Connection: connection.ID, Endpoint: connection.Endpoint,
		}); err != nil {
			return nil, err
		}
		if err := tx.Notify(ctx, connection.Notification(notification.NotifyProcessorDisconnected, &user, at)); err != nil {
			return nil, err
		}
		return &affiliatev1.DisconnectProcessorResponse{}, tx.Audit(ctx, connection.AuditLine("processor.disconnect", by, at))
	})
}

// ResyncProcessor starts the job that reads the events of the account since the requested time.
func (s *Service) ResyncProcessor(ctx context.Context, req *affiliatev1.ResyncProcessorRequest) (*affiliatev1.ResyncProcessorResponse, error) {
	name, _, err := s.processor(req.GetProcessor())
	if err != nil {
		return nil, err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	return postgres.InTx(ctx, s.DB, func(tx *postgres.Tx) (*affiliatev1.ResyncProcessorResponse, error) {
		connection, err := processors.LockConnection(ctx, tx, scope, name)
		if err != nil {
			return nil, err
		}
		if connection == nil {
			return nil, affiliate.Refuse(affiliate.ReasonNotFound)
		}
		if err := tx.Audit(ctx, connection.AuditLine("processor.resync", server.ActorFrom(ctx), s.now())); err != nil {
			return nil, err
		}
		started := &affiliatev1.ResyncProcessorResponse{Status: affiliatev1.ResyncStatus_RESYNC_STATUS_PROCESSING}
		return started, s.beginResync(ctx, tx, connection.Connection, req.GetSince().AsTime())
	})
}
