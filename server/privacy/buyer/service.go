package buyer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	buyers "github.com/tributary-hq/tributary/storage/postgres/buyer"
)

// Log is the erasure log, a file outside the database. Append returns after the entry is on
// the disk.
type Log interface {
	Append(entry privacy.ErasureLogEntry) error
}

// EventOpener decrypts stored events of payment processors. Package processor implements it.
type EventOpener interface {
	OpenEvent(connection processor.ConnectionID, sealed []byte) ([]byte, error)
}

// Analytics keeps the sums of the analytics. Package server/analytics implements it.
type Analytics interface {
	// AddAll adds all entries of the log of a workspace to the sums. If it is called after an
	// erasure, neither the log nor the sums contain the erased values.
	AddAll(ctx context.Context, workspace affiliate.WorkspaceID) error
}

// Config holds the dependencies of a Service.
type Config struct {
	DB         *postgres.DB
	Events     EventOpener
	ErasureLog Log
	Analytics  Analytics
	// BuyerKeys are the keys of the hashes that conversions store. ErasureKeys are the keys of
	// the digests that stay after an erasure.
	BuyerKeys   privacy.BuyerKeys
	ErasureKeys privacy.ErasureKeys
	// Disabled makes all methods return FEATURE_DISABLED. The job of an erasure that is already
	// registered still runs.
	Disabled bool
	Log      *slog.Logger
	Now      func() time.Time
}

// Service implements affiliate.v1.BuyerErasureService.
type Service struct {
	affiliatev1.UnimplementedBuyerErasureServiceServer
	Config
}

// New returns a Service.
func New(c Config) *Service { return &Service{Config: c} }

// now returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }

// Precheck implements server.Prechecker. Errors: FEATURE_DISABLED, IDEMPOTENCY_KEY_REQUIRED.
func (s *Service) Precheck(ctx context.Context, req proto.Message) error {
	if s.Disabled {
		return affiliate.Refuse(affiliate.ReasonFeatureDisabled)
	}
	if _, creates := req.(*affiliatev1.EraseBuyerRequest); !creates {
		return nil
	}
	if _, ok, _ := server.IdempotencyKeyFrom(ctx); !ok {
		return affiliate.Refuse(affiliate.ReasonIdempotencyKeyRequired)
	}
	return nil
}

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	r, ok := req.(*affiliatev1.EraseBuyerRequest)
	if !ok || r.GetBuyer() == nil {
		return found
	}
	kind, value, one := identityIn(r.GetBuyer())
	if !one {
		found.Add("buyer", "must have exactly one of email, customerId, externalTransactionId, processorCustomerId")
	} else if _, ok := s.BuyerKeys.Identity(affiliate.WorkspaceID{}, kind, value); !ok {
		found.Add("buyer.email", "must be an e-mail address")
	}
	return found
}

// identityIn returns the value that names the buyer. The result one is false unless exactly
// one value is set.
func identityIn(b *affiliatev1.BuyerIdentity) (kind privacy.BuyerIdentityKind, value string, one bool) {
	for _, field := range []struct {
		kind  privacy.BuyerIdentityKind
		value string
	}{
		{privacy.BuyerEmail, b.GetEmail()},
		{privacy.BuyerCustomerID, b.GetCustomerId()},
		{privacy.BuyerTransactionID, b.GetExternalTransactionId()},
		{privacy.BuyerProcessorCustomer, b.GetProcessorCustomerId()},
	} {
		if field.value == "" {
			continue
		}
		if one {
			return "", "", false
		}
		kind, value, one = field.kind, field.value, true
	}
	return kind, value, one
}

// EraseBuyer registers the erasure of a buyer, or joins an active erasure of the same buyer.
// Errors: FEATURE_DISABLED, IDEMPOTENCY_KEY_REQUIRED, IDEMPOTENCY_KEY_REUSED,
// ACTIVE_OPERATION_CONFLICT.
func (s *Service) EraseBuyer(ctx context.Context, req *affiliatev1.EraseBuyerRequest) (*affiliatev1.BuyerErasure, error) {
	if err := s.Precheck(ctx, req); err != nil {
		return nil, err
	}
	key, _, _ := server.IdempotencyKeyFrom(ctx)
	workspace, now := server.PrincipalFrom(ctx).Workspace, s.now()
	kind, value, _ := identityIn(req.GetBuyer())
	identity, _ := s.BuyerKeys.Identity(workspace, kind, value)
	fingerprints := s.ErasureKeys.Fingerprints(workspace, identity)
	var operation privacy.BuyerErasureID
	var replayed bool
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		// The lock makes requests of a workspace run one after another, so each key and
		// each buyer is registered once.
		if err := postgres.LockWorkspace(ctx, tx, workspace); err != nil {
			return err
		}
		known, registered, found, err := buyers.ErasureOfKey(ctx, tx, workspace, key, now)
		replayed = found
		switch {
		case err != nil:
			return err
		case found && !fingerprints.Has(registered):
			return affiliate.Refuse(affiliate.ReasonIdempotencyKeyReused)
		case found:
			operation = known
			return nil
		}
		active, err := buyers.LockActiveErasure(ctx, tx, workspace, identity)
		if err != nil {
			return err
		}
		if active != nil {
			joined, err := active.Join(identity, now)
			if err != nil {
				return err
			}
			*active, operation = joined, active.ID
			if err := buyers.Join(ctx, tx, *active); err != nil {
				return err
			}
			if err := buyers.PutKey(ctx, tx, *active, key, fingerprints.First(), now.Add(privacy.BuyerErasureKeyLifetime)); err != nil {
				return err
			}
			if err := s.resolve(ctx, tx, *active, value); err != nil {
				return err
			}
			return s.appendToLog(*active)
		}
		e := s.newErasure(workspace, identity, privacy.EraseFollow, now)
		operation = e.ID
		if err := s.register(ctx, tx, e, key, server.ActorFrom(ctx)); err != nil {
			return err
		}
		if err := s.resolve(ctx, tx, e, value); err != nil {
			return err
		}
		return s.appendToLog(e)
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	return &affiliatev1.BuyerErasure{
		OperationId: operation.String(), State: affiliatev1.BuyerErasureStatus_BUYER_ERASURE_STATUS_PROCESSING,
	}, nil
}

func (s *Service) newErasure(workspace affiliate.WorkspaceID, identity privacy.BuyerIdentity, step privacy.BuyerErasureStep, now time.Time) privacy.BuyerErasure {
	return privacy.BuyerErasure{
		ID: affiliate.NewID[privacy.BuyerErasureID](now), Workspace: workspace, Identity: identity,
		Status: privacy.BuyerErasureProcessing, Progress: privacy.BuyerErasureProgress{Step: step}, CreatedAt: now, RequestedAt: now,
	}
}

// resourceErasure is the type of the resource in the audit log.
const resourceErasure = "buyer_erasure"

// register stores a new erasure with its job and its Idempotency-Key. The audit log does not
// say who the buyer is.
func (s *Service) register(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, key string, by affiliate.Actor) error {
	fingerprints := s.ErasureKeys.Fingerprints(e.Workspace, e.Identity)
	if err := buyers.InsertErasure(ctx, tx, e); err != nil {
		return err
	}
	if err := buyers.TakeOver(ctx, tx, e, fingerprints); err != nil {
		return err
	}
	if err := buyers.PutKey(ctx, tx, e, key, fingerprints.First(), e.CreatedAt.Add(privacy.BuyerErasureKeyLifetime)); err != nil {
		return err
	}
	if err := tx.Enqueue(ctx, privacy.EraseBuyer{Workspace: e.Workspace, Operation: e.ID}); err != nil {
		return err
	}
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: e.Workspace, Actor: by, At: e.CreatedAt, Action: "buyer.erase", ResourceType: resourceErasure, ResourceID: e.ID,
	})
}

// resolve adds the sales that only the value of the identity can find. The job does not know the value.
func (s *Service) resolve(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, value string) error {
	switch e.Identity.Kind {
	case privacy.BuyerTransactionID:
		if err := buyers.AddSalesOf(ctx, tx, e, privacy.SaleOfTransaction, value); err != nil {
			return err
		}
		return buyers.DeleteUnknownSale(ctx, tx, e.Workspace, value, e.RequestedAt)
	case privacy.BuyerProcessorCustomer:
		return buyers.AddSalesOf(ctx, tx, e, privacy.SaleOfProcessorCustomer, value)
	case privacy.BuyerEmail, privacy.BuyerCustomerID:
		// The job finds these by the hash.
	}
	return nil
}

// appendToLog appends the erasure to the erasure log. It is the last action of the transaction:
// if it fails, the erasure is not registered. An entry of a transaction that does not commit is
// harmless, because the request has asked for the erasure.
func (s *Service) appendToLog(e privacy.BuyerErasure) error {
	for _, entry := range e.Entries() {
		if err := s.ErasureLog.Append(entry); err != nil {
			return err
		}
	}
	return nil
}

// ListBuyerErasures returns one page of the erasures of the workspace. Errors: FEATURE_DISABLED.
func (s *Service) ListBuyerErasures(ctx context.Context, req *affiliatev1.ListBuyerErasuresRequest) (*affiliatev1.ListBuyerErasuresResponse, error) {
	if err := s.Precheck(ctx, req); err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	erasures, total, err := buyers.Erasures(ctx, s.DB, server.PrincipalFrom(ctx).Workspace, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListBuyerErasuresResponse{
		Data: server.ConvertAll(erasures, func(e privacy.ListedBuyerErasure) *affiliatev1.ListedBuyerErasure {
			return &affiliatev1.ListedBuyerErasure{
				OperationId: e.ID.String(), Status: server.EnumValue[affiliatev1.BuyerErasureStatus](e.Status),
				CreatedAt: server.Timestamp(e.CreatedAt), FinishedAt: server.OptionalTimestamp(e.FinishedAt),
			}
		}),
		Total: server.Total(ctx, total), Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetBuyerErasure returns the status of an erasure. Errors: FEATURE_DISABLED,
// OPERATION_NOT_FOUND.
func (s *Service) GetBuyerErasure(ctx context.Context, req *affiliatev1.GetBuyerErasureRequest) (*affiliatev1.BuyerErasureState, error) {
	if err := s.Precheck(ctx, req); err != nil {
		return nil, err
	}
	id, ok := affiliate.ParseID[privacy.BuyerErasureID](req.GetOperationId())
	if !ok {
		return nil, affiliate.Refuse(affiliate.ReasonOperationNotFound)
	}
	e, err := buyers.Erasure(ctx, s.DB, server.PrincipalFrom(ctx).Workspace, id)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil, affiliate.Refuse(affiliate.ReasonOperationNotFound)
	}
	if err != nil {
		return nil, err
	}
	return &affiliatev1.BuyerErasureState{
		OperationId: e.ID.String(), Status: server.EnumValue[affiliatev1.BuyerErasureStatus](e.Status),
	}, nil
}

// Replay registers an erasure again after a restore of the database. The erasure log contains only
// the digest of the identity, so for a digest that conversions do not store, the job computes the
// digests of the ids of all conversions of the workspace. If the erasure is already being
// processed, it is not registered again, but starts again with this search. The erasure covers the
// conversions up to the time of the request. Errors: NOT_FOUND if the workspace does not exist.
func (s *Service) Replay(ctx context.Context, workspace affiliate.WorkspaceID, identity privacy.BuyerIdentity, requestedAt time.Time) error {
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := postgres.LockWorkspace(ctx, tx, workspace); err != nil {
			return err
		}
		active, err := buyers.LockActiveErasure(ctx, tx, workspace, identity)
		if err != nil {
			return err
		}
		if active != nil {
			if requestedAt.After(active.RequestedAt) {
				active.RequestedAt = requestedAt
			}
			active.Progress = privacy.BuyerErasureProgress{Step: privacy.EraseSearch}
			return buyers.Join(ctx, tx, *active)
		}
		e := s.newErasure(workspace, identity, privacy.EraseSearch, s.now())
		e.RequestedAt = requestedAt
		// If this erasure fails, the next erasure of the buyer finds it by the fingerprint that
		// is stored with the key. No request has a key with a colon.
		return s.register(ctx, tx, e, "replay:"+e.ID.String(), affiliate.System)
	})
}
