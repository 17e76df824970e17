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
	return &affiliatev1.PayoutPreview{
		Data: server.ConvertAll(due[first:last], previewLine), Total: int64(len(due)), Cutoff: server.Timestamp(selection.Cutoff),
		Totals: toTotals(previewTotals(due)),
		Page:   int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
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
	selection, actor := selectionOf(scope, req, at), server.ActorFrom(ctx)
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
		candidates, err := payouts.Due(ctx, tx, selection)
		if err != nil {
			return err
		}
		participants := payout.BatchParticipants(candidates)
		if len(participants) == 0 {
			return payout.NothingPayable(candidates)
		}
		draft, err := lockDraft(ctx, tx, selection, participants, actor)
		if err != nil {
			return err
		}
		if err := payouts.Insert(ctx, tx, draft); err != nil {
			return err
		}
		batch := draft.Batch
		if err := payouts.SetTotals(ctx, tx, &batch); err != nil {
			return err
		}
		if err := tx.Publish(ctx, draft.Events()...); err != nil {
			return err
		}
		if err := auditBatch(ctx, tx, batch, "create", at, actor, nil, map[string]any{
			"program_ids": batch.Programs, "cutoff": affiliate.FormatTime(batch.Cutoff), "payout_count": len(draft.Payouts),
		}); err != nil {
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

// lockDraft locks participants and their unassigned commissions, and returns a new batch with their payouts.
func lockDraft(
	ctx context.Context, tx *postgres.Tx, selection payout.Selection, participants []affiliate.ParticipantID, actor affiliate.Actor,
) (payout.DraftBatch, error) {
	if err := payouts.LockParticipants(ctx, tx, selection.Scope, participants); err != nil {
		return payout.DraftBatch{}, err
	}
	due, err := payouts.DueTo(ctx, tx, selection, participants)
	if err != nil {
		return payout.DraftBatch{}, err
	}
	unassigned, err := payouts.LockUnassigned(ctx, tx, selection.Scope, participants, selection.Cutoff)
	if err != nil {
		return payout.DraftBatch{}, err
	}
	return selection.Draft(due, unassigned, actor)
}

// ListPayoutBatches returns one page of the workspace's batches in the mode of the call.
func (s *Service) ListPayoutBatches(ctx context.Context, req *affiliatev1.ListPayoutBatchesRequest) (*affiliatev1.ListPayoutBatchesResponse, error) {
	page := server.PageOf(req)
	status := payout.BatchStatus(server.EnumName(req.GetStatus()))
	batches, total, err := payouts.ListBatches(ctx, s.db, server.PrincipalFrom(ctx).Scope(), status, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListPayoutBatchesResponse{
		Data: server.ConvertAll(batches, toBatch), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetPayoutBatch returns one batch.
func (s *Service) GetPayoutBatch(ctx context.Context, req *affiliatev1.GetPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	id := server.PathID[payout.BatchID](req.GetBatchId())
	batch, err := payouts.GetBatch(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id)
	if err == nil {
		err = payouts.SetTotals(ctx, s.db, &batch)
	}
	if err != nil {
		return nil, err
	}
	return toBatch(batch), nil
}

// ConfirmPayoutBatch confirms a draft batch, so that its payouts can be paid, or stores the
// first of two confirmations (payout.Batch.Confirm). To confirm a batch, it first removes
// commissions that are no longer payable from their payouts, and computes amounts and adjustments
// again. If the new amount of a payout cannot be paid, it cancels the payout. Then it copies the
// accounts of the partners to the payouts. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
func (s *Service) ConfirmPayoutBatch(ctx context.Context, req *affiliatev1.ConfirmPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	caller := server.PrincipalFrom(ctx)
	return s.changeBatch(ctx, req, func(tx *postgres.Tx, id payout.BatchID, t payout.Transition) (payout.Batch, error) {
		limit, err := payouts.ConfirmationLimit(ctx, tx, caller.Scope(), t.At)
		if err != nil {
			return payout.Batch{}, err
		}
		batch, err := payouts.LockBatch(ctx, tx, caller.Scope(), id)
		if err != nil {
			return batch, err
		}
		if err := payouts.SetTotals(ctx, tx, &batch); err != nil {
			return batch, err
		}
		oldStatus := batch.Status
		confirmed, complete, refusal := batch.Confirm(payout.Confirmation{By: t.Actor, User: caller.AccountableUser(), At: t.At}, limit)
		if refusal != nil {
			return batch, refusal
		}
		if complete {
			t.Move = payout.MoveConfirm
			batch, err = confirmPayouts(ctx, tx, confirmed, t)
		} else if batch, err = payouts.UpdateBatch(ctx, tx, confirmed, t.At); err == nil {
			err = tx.Notify(ctx, confirmed.AwaitingNotification(t.At))
		}
		if err == nil {
			err = auditMove(ctx, tx, &batch, oldStatus, "confirm", t)
		}
		return batch, err
	})
}

// changeBatch runs fn in a transaction, with the id of the batch in the request and a
// transition without a move. fn returns the changed batch.
func (s *Service) changeBatch(
	ctx context.Context, req interface{ GetBatchId() string }, fn func(tx *postgres.Tx, id payout.BatchID, t payout.Transition) (payout.Batch, error),
) (*affiliatev1.PayoutBatch, error) {
	id := server.PathID[payout.BatchID](req.GetBatchId())
	t := payout.Transition{Actor: server.ActorFrom(ctx), At: s.currentTime()}
	var batch payout.Batch
	err := s.db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		batch, err = fn(tx, id, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return toBatch(batch), nil
}

// auditMove sets the totals of a changed batch and writes the audit record about the change.
func auditMove(ctx context.Context, tx *postgres.Tx, batch *payout.Batch, before payout.BatchStatus, verb string, t payout.Transition) error {
	if err := payouts.SetTotals(ctx, tx, batch); err != nil {
		return err
	}
	after := map[string]any{"status": batch.Status}
	if t.Move != payout.MoveCancel {
		after["payouts"] = batch.Counts
	}
	return auditBatch(ctx, tx, *batch, verb, t.At, t.Actor, map[string]any{"status": before}, after)
}

// confirmPayouts confirms the draft payouts of a locked batch.
func confirmPayouts(ctx context.Context, tx *postgres.Tx, batch payout.Batch, t payout.Transition) (payout.Batch, error) {
	drafts, err := payouts.LockOfBatch(ctx, tx, batch, payout.Draft)
	if err != nil {
		return batch, err
	}
	// The methods must not change between the check and the copy.
	if err := payouts.LockMethods(ctx, tx, drafts); err != nil {
		return batch, err
	}
	if batch, err = recheck(ctx, tx, batch, drafts, t); err != nil {
		return batch, err
	}
	return batch, payouts.CopyAccounts(ctx, tx, batch)
}

// recheck moves locked payouts to the next status and computes their amounts again. It
// locks participants and commissions, and releases the commissions that are not payable.
func recheck(ctx context.Context, tx *postgres.Tx, batch payout.Batch, open []payout.Payout, t payout.Transition) (payout.Batch, error) {
	participants, ids := make([]affiliate.ParticipantID, len(open)), make([]affiliate.PayoutID, len(open))
	for i, p := range open {
		participants[i], ids[i] = p.Participant, p.ID
	}
	if err := payouts.LockParticipants(ctx, tx, batch.Scope, participants); err != nil {
		return batch, err
	}
	held, err := payouts.LockAssigned(ctx, tx, batch.Scope, ids, batch.Cutoff)
	if err != nil {
		return batch, err
	}
	due, err := payouts.DueTo(ctx, tx, payout.Selection{Scope: batch.Scope, Cutoff: batch.Cutoff, At: t.At}, participants)
	if err != nil {
		return batch, err
	}
	rechecked, err := t.Recheck(open, due, held)
	if err != nil {
		return batch, err
	}
	if err := payouts.ReleaseCommissions(ctx, tx, batch.Scope, rechecked.Released, t.At); err != nil {
		return batch, err
	}
	// A canceled payout keeps its amount and its list of commissions.
	if err := payouts.PruneContents(ctx, tx, batch.Scope, rechecked.Open, rechecked.Kept); err != nil {
		return batch, err
	}
	if err := payouts.RecordContents(ctx, tx, batch.Scope, rechecked.Kept); err != nil {
		return batch, err
	}
	return payouts.Apply(ctx, tx, batch, t.At, rechecked.Changes...)
}

// ProcessPayoutBatch changes the pending payouts of a batch to processing. It checks each
// payout again, as ConfirmPayoutBatch does. Errors: NOT_FOUND, PAYOUT_STATE_INVALID if the
// batch is neither confirmed nor processing.
func (s *Service) ProcessPayoutBatch(ctx context.Context, req *affiliatev1.ProcessPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	return s.changeBatch(ctx, req, func(tx *postgres.Tx, id payout.BatchID, t payout.Transition) (payout.Batch, error) {
		batch, err := payouts.LockBatch(ctx, tx, server.PrincipalFrom(ctx).Scope(), id)
		if err != nil {
			return batch, err
		}
		oldStatus := batch.Status
		if !oldStatus.Sendable() {
			return batch, batch.Refuse()
		}
		pending, err := payouts.LockOfBatch(ctx, tx, batch, payout.Pending)
		if err != nil {
			return batch, err
		}
		if len(pending) == 0 {
			err = payouts.SetTotals(ctx, tx, &batch)
			return batch, err
		}
		t.Move = payout.MoveProcess
		if batch, err = recheck(ctx, tx, batch, pending, t); err != nil {
			return batch, err
		}
		err = auditMove(ctx, tx, &batch, oldStatus, "process", t)
		return batch, err
	})
}

// CancelPayoutBatch cancels a batch with its draft and pending payouts. Errors: NOT_FOUND,
// PAYOUT_STATE_INVALID if a payout of the batch was already sent.
func (s *Service) CancelPayoutBatch(ctx context.Context, req *affiliatev1.CancelPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	return s.changeBatch(ctx, req, func(tx *postgres.Tx, id payout.BatchID, t payout.Transition) (payout.Batch, error) {
		batch, err := payouts.LockBatch(ctx, tx, server.PrincipalFrom(ctx).Scope(), id)
		if err != nil {
			return batch, err
		}
		oldStatus := batch.Status
		if !oldStatus.Cancelable() {
			return batch, batch.Refuse()
		}
		unsent, err := payouts.LockOfBatch(ctx, tx, batch, payout.Draft, payout.Pending)
		if err != nil {
			return batch, err
		}
		t.Move = payout.MoveCancel
		changes, ids := make([]payout.Change, len(unsent)), make([]affiliate.PayoutID, len(unsent))
		for i, p := range unsent {
			change, refusal := t.Apply(p)
			if refusal != nil {
				return batch, refusal
			}
			changes[i], ids[i] = change, p.ID
		}
		if err := payouts.ReleaseAll(ctx, tx, batch.Scope, ids, t.At); err != nil {
			return batch, err
		}
		if batch, err = payouts.Apply(ctx, tx, batch, t.At, changes...); err != nil {
			return batch, err
		}
		err = auditMove(ctx, tx, &batch, oldStatus, "cancel", t)
		return batch, err
	})
}

// auditBatch writes an audit record about a member's action on a batch.
func auditBatch(ctx context.Context, tx *postgres.Tx, batch payout.Batch, verb string, at time.Time, by affiliate.Actor, before, after any) error {
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: batch.Workspace, Mode: &batch.Mode, Actor: by, At: at,
		Action: "payout_batch." + verb, ResourceType: "payout_batch", ResourceID: batch.ID, Before: before, After: after,
	})
}
