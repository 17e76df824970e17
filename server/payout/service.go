// Package payout serves payout batches and the payouts in them. The proto file of the
// service contains a drawing of the payout statuses, and the file affiliate/payout/payout.go
// contains the table of allowed status changes.
//
// The package guarantees that a commission is in at most one open payout, even if
// requests run in parallel. Several requests with the same Idempotency-Key create one
// batch. When a payout is confirmed, sent or retried, the service checks again that its
// commissions are payable. The ledger entries of payouts contain exactly the amounts that
// were sent.
//
// The package does not transfer money. The merchant processes and exports a batch,
// transfers the money and reports the result of each payout. An export changes nothing. A refund does not stop a payout that is already
// processing. The refunded amount becomes a debt of the participant, and the next payout
// is reduced by this amount.
package payout

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// Config holds the dependencies of a Service.
type Config struct {
	DB *postgres.DB
	// Seal decrypts payout accounts for exports.
	Seal Opener
	// Now is the clock.
	Now func() time.Time
}

// Opener decrypts payout accounts. Package seal implements it.
type Opener interface {
	Open(sealed, aad []byte) ([]byte, error)
}

// Service implements affiliate.v1.PayoutService.
type Service struct {
	affiliatev1.UnimplementedPayoutServiceServer

	db   *postgres.DB
	seal Opener
	now  func() time.Time
}

// New returns a Service.
func New(c Config) *Service { return &Service{db: c.DB, seal: c.Seal, now: c.Now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// PreviewPayouts returns the payouts that a new batch would contain. It also returns the
// participants without a payout, with the reason why the batch would exclude them.
func (s *Service) PreviewPayouts(ctx context.Context, req *affiliatev1.PreviewPayoutsRequest) (*affiliatev1.PayoutPreview, error) {
	page := server.PageOf(req)
	selection := selectionOf(server.PrincipalFrom(ctx).Scope(), req, s.currentTime())
	due, err := payouts.Due(ctx, s.db, selection)
	if err != nil {
		return nil, err
	}
	sortPreview(due)
	first := min(page.Offset(), int64(len(due)))
	last := min(first+int64(page.Size), int64(len(due)))
	data := make([]*affiliatev1.PayoutPreviewLine, 0, last-first)
	for _, d := range due[first:last] {
		data = append(data, previewLine(d))
	}
	return &affiliatev1.PayoutPreview{
		Data: data, Total: int64(len(due)), Cutoff: server.Timestamp(selection.Cutoff), Totals: toTotals(previewTotals(due)),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// CreatePayoutBatch creates a batch of draft payouts. If several batches are created in
// parallel, each commission is in only one of the batches. Errors:
// IDEMPOTENCY_KEY_REQUIRED, PAYOUT_STATE_INVALID if nothing can be paid.
func (s *Service) CreatePayoutBatch(ctx context.Context, req *affiliatev1.CreatePayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	text, ok, _ := server.IdempotencyKeyFrom(ctx)
	if !ok {
		return nil, affiliate.Refuse(affiliate.ReasonIdempotencyKeyRequired)
	}
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	key := affiliate.IdempotencyKey{
		Method: affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName, Key: text, Fingerprint: server.Fingerprint(nil, req), At: at,
	}
	newBatch := payout.NewBatch{Selection: selectionOf(scope, req, at), By: server.ActorFrom(ctx)}
	response := &affiliatev1.PayoutBatch{}
	replayed := false
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		stored, err := postgres.ClaimKey(ctx, tx, scope, key)
		if err != nil {
			return err
		}
		if replayed = stored != nil; replayed {
			return proto.Unmarshal(stored, response)
		}
		// This read takes no locks. It determines which participants must be locked.
		candidates, err := payouts.Due(ctx, tx, newBatch.Selection)
		if err != nil {
			return err
		}
		participants := payout.BatchParticipants(candidates)
		if len(participants) == 0 {
			return payout.NothingPayable(candidates)
		}
		due, free, err := payouts.LockDue(ctx, tx, newBatch.Selection, participants)
		if err != nil {
			return err
		}
		draft, err := newBatch.Draft(due, free)
		if err != nil {
			return err
		}
		batch, err := payouts.InsertBatch(ctx, tx, draft, newBatch.By)
		if err != nil {
			return err
		}
		response = toBatch(batch)
		if stored, err = proto.Marshal(response); err != nil {
			return err
		}
		return postgres.StoreResponse(ctx, tx, scope, key, stored)
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	return response, nil
}

// ListPayoutBatches returns one page of the workspace's batches in the mode of the call.
func (s *Service) ListPayoutBatches(ctx context.Context, req *affiliatev1.ListPayoutBatchesRequest) (*affiliatev1.ListPayoutBatchesResponse, error) {
	page := server.PageOf(req)
	status := payout.BatchStatus(server.EnumName(req.GetStatus()))
	batches, total, err := payouts.ListBatches(ctx, s.db, server.PrincipalFrom(ctx).Scope(), status, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.PayoutBatch, len(batches))
	for i, b := range batches {
		data[i] = toBatch(b)
	}
	return &affiliatev1.ListPayoutBatchesResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetPayoutBatch returns one batch.
func (s *Service) GetPayoutBatch(ctx context.Context, req *affiliatev1.GetPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	return batchCall(req, func(id payout.BatchID) (payout.Batch, error) {
		return payouts.GetBatch(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id)
	})
}

// ConfirmPayoutBatch confirms a draft batch. Its payouts can then be paid. If two members
// have to confirm the batch, the first call only records the confirmation.
func (s *Service) ConfirmPayoutBatch(ctx context.Context, req *affiliatev1.ConfirmPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	caller := server.PrincipalFrom(ctx)
	return batchCall(req, func(id payout.BatchID) (payout.Batch, error) {
		return payouts.ConfirmBatch(ctx, s.db, caller.Scope(), id, payout.Confirmation{
			By: server.ActorFrom(ctx), User: caller.AccountableUser(), At: s.currentTime(),
		})
	})
}

// ProcessPayoutBatch changes the pending payouts of a batch to processing.
func (s *Service) ProcessPayoutBatch(ctx context.Context, req *affiliatev1.ProcessPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	return batchCall(req, func(id payout.BatchID) (payout.Batch, error) {
		return payouts.ProcessBatch(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id, s.currentTime(), server.ActorFrom(ctx))
	})
}

// CancelPayoutBatch cancels the payouts of a batch. Errors: PAYOUT_STATE_INVALID if a
// payout of the batch was already sent.
func (s *Service) CancelPayoutBatch(ctx context.Context, req *affiliatev1.CancelPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	return batchCall(req, func(id payout.BatchID) (payout.Batch, error) {
		return payouts.CancelBatch(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id, s.currentTime(), server.ActorFrom(ctx))
	})
}

// batchCall calls fn with the batch id in the request's path and converts the result.
func batchCall(
	req interface{ GetBatchId() string }, fn func(payout.BatchID) (payout.Batch, error),
) (*affiliatev1.PayoutBatch, error) {
	id, err := server.PathID[payout.BatchID](req.GetBatchId())
	if err != nil {
		return nil, err
	}
	batch, err := fn(id)
	if err != nil {
		return nil, err
	}
	return toBatch(batch), nil
}

// ListPayouts returns one page of the workspace's payouts in the mode of the call.
func (s *Service) ListPayouts(ctx context.Context, req *affiliatev1.ListPayoutsRequest) (*affiliatev1.ListPayoutsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	items, total, err := payouts.List(ctx, s.db, server.PrincipalFrom(ctx).Scope(), payout.Filter{
		Status:      payout.Status(server.EnumName(req.GetStatus())),
		Program:     server.ParseOptionalID[affiliate.ProgramID](req.ProgramId),
		Participant: server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId),
		Batch:       server.ParseOptionalID[payout.BatchID](req.BatchId),
		Created:     created,
	}, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Payout, len(items))
	for i, p := range items {
		data[i] = toProto(p)
	}
	return &affiliatev1.ListPayoutsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetPayout returns one payout with its commissions.
func (s *Service) GetPayout(ctx context.Context, req *affiliatev1.GetPayoutRequest) (*affiliatev1.PayoutDetail, error) {
	id, err := server.PathID[affiliate.PayoutID](req.GetPayoutId())
	if err != nil {
		return nil, err
	}
	p, err := payouts.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return toDetail(p), nil
}

// MarkPayoutPaid records that the partner received the money.
func (s *Service) MarkPayoutPaid(ctx context.Context, req *affiliatev1.MarkPayoutPaidRequest) (*affiliatev1.Payout, error) {
	t := payout.Transition{Move: payout.MoveMarkPaid, Reference: &req.Reference}
	if req.GetPaidAt() != nil {
		t.PaidAt = req.GetPaidAt().AsTime().Truncate(time.Millisecond)
	}
	return s.move(ctx, req, t)
}

// MarkPayoutFailed records that the payment failed.
func (s *Service) MarkPayoutFailed(ctx context.Context, req *affiliatev1.MarkPayoutFailedRequest) (*affiliatev1.Payout, error) {
	return s.move(ctx, req, payout.Transition{Move: payout.MoveMarkFailed, Reason: &req.Reason})
}

// RetryPayout makes a failed payout pending again.
func (s *Service) RetryPayout(ctx context.Context, req *affiliatev1.RetryPayoutRequest) (*affiliatev1.Payout, error) {
	return s.move(ctx, req, payout.Transition{Move: payout.MoveRetry})
}

// CancelPayout cancels a payout.
func (s *Service) CancelPayout(ctx context.Context, req *affiliatev1.CancelPayoutRequest) (*affiliatev1.Payout, error) {
	return s.move(ctx, req, payout.Transition{Move: payout.MoveCancel})
}

func (s *Service) move(ctx context.Context, req interface{ GetPayoutId() string }, t payout.Transition) (*affiliatev1.Payout, error) {
	id, err := server.PathID[affiliate.PayoutID](req.GetPayoutId())
	if err != nil {
		return nil, err
	}
	t.Actor, t.At = server.ActorFrom(ctx), s.currentTime()
	if t.PaidAt.IsZero() {
		t.PaidAt = t.At
	}
	p, err := payouts.Move(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id, t)
	if err != nil {
		return nil, err
	}
	return toProto(p), nil
}

// ListPartnerPayouts returns one page of the partner's own payouts.
func (s *Service) ListPartnerPayouts(ctx context.Context, req *affiliatev1.ListPartnerPayoutsRequest) (*affiliatev1.ListPartnerPayoutsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	program, err := caller.ProgramFilter(server.ParseOptionalID[affiliate.ProgramID](req.ProgramId))
	if err != nil {
		return nil, err
	}
	items, total, err := payouts.ListOfPartner(ctx, s.db, caller.User, caller.Mode, payout.Filter{
		Status:  payout.Status(server.EnumName(req.GetStatus())),
		Program: program,
		Created: created,
	}, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.PartnerPayout, len(items))
	for i, p := range items {
		data[i] = toPartner(p)
	}
	return &affiliatev1.ListPartnerPayoutsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}
