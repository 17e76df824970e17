package payout

import (
	"context"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// MarkPayoutPaid records that the partner received the money.
func (s *Service) MarkPayoutPaid(ctx context.Context, req *affiliatev1.MarkPayoutPaidRequest) (*affiliatev1.Payout, error) {
	return s.move(ctx, req, payment(req.GetReference(), req.GetPaidAt()))
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

// move makes one move of a payout. Concurrent moves of a payout run one after another.
// Errors: NOT_FOUND, PAYOUT_STATE_INVALID, and for MoveMarkPaid also PERIOD_CLOSED and
// VALIDATION_ERROR for PaidAt.
func (s *Service) move(ctx context.Context, req interface{ GetPayoutId() string }, t payout.Transition) (*affiliatev1.Payout, error) {
	id := server.PathID[affiliate.PayoutID](req.GetPayoutId())
	scope := server.PrincipalFrom(ctx).Scope()
	t.Actor, t.At = server.ActorFrom(ctx), s.currentTime()
	if t.PaidAt.IsZero() {
		t.PaidAt = t.At
	}
	var item payout.Item
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		batch, p, err := payouts.Lock(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		change, refusal := t.Apply(p)
		if refusal != nil {
			return refusal
		}
		writer := commissions.NewWriter()
		switch t.Move {
		case payout.MoveMarkPaid:
			change, err = payCommissions(ctx, tx, change, writer)
		case payout.MoveRetry:
			change, err = readdCommissions(ctx, tx, change)
		default:
			err = payouts.ReleaseAll(ctx, tx, scope, []affiliate.PayoutID{id}, t.At)
		}
		if err != nil {
			return err
		}
		if _, err := payouts.Apply(ctx, tx, batch, change.Transition.At, change); err != nil {
			return err
		}
		if err := auditPayout(ctx, tx, change); err != nil {
			return err
		}
		if item, err = payouts.Get(ctx, tx, scope, id); err != nil {
			return err
		}
		return writer.End(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return toProto(item), nil
}

// payChunk is the maximum number of a payout's commissions in memory at the same time.
const payChunk = 1000

// payCommissions marks the commissions of a payout as paid and publishes their events. It returns
// the change of the payout. If the period of the change is closed, its date is the start of the open
// period. The actor of the changes of the commissions is the system, not the user who marks the payout
// as paid. The caller calls End of the writer at the end of the transaction.
//
// A commission that was rejected or refunded after the payout was sent keeps its status. Its
// ledger entry is a debt, which the next payout subtracts. Errors: PERIOD_CLOSED.
func payCommissions(ctx context.Context, tx *postgres.Tx, change payout.Change, writer *commissions.Writer) (payout.Change, error) {
	p := change.Before
	// All transactions that add ledger entries lock the commissions before they call HoldBooks.
	ids, err := payouts.LockContents(ctx, tx, p.Scope, p.ID)
	if err != nil {
		return change, err
	}
	closed, err := postgres.HoldBooks(ctx, tx, p.Workspace)
	if err != nil {
		return change, err
	}
	t, refusal := change.Transition.InOpenPeriod(closed)
	if refusal == nil {
		change, refusal = t.Apply(p)
	}
	if refusal != nil {
		return change, refusal
	}
	for block := range slices.Chunk(ids, payChunk) {
		locked, err := commissions.Lock(ctx, tx, p.Scope, block)
		if err != nil {
			return change, err
		}
		var changes []commission.Change
		var events []affiliate.Event
		for _, c := range locked {
			if c.Status != commission.Approved {
				continue
			}
			paid, err := c.Move(commission.Transition{
				Scope: p.Scope, Program: c.Program, Commission: c.ID, Move: commission.MovePay, Actor: affiliate.System, At: t.At,
				PaidAt: t.PaidAt, Payout: &p.ID,
			})
			if err != nil {
				return change, err
			}
			changes, events = append(changes, paid), append(events, paid.Events()...)
		}
		if err := writer.Write(ctx, tx, changes...); err != nil {
			return change, err
		}
		if err := tx.Publish(ctx, events...); err != nil {
			return change, err
		}
	}
	return change, nil
}

// readdCommissions adds commissions to a failed payout again. It adds a commission if the
// payout contained it before, it is still payable, and it is in no other payout. It returns
// the change of the payout with the new amounts (payout.Change.Readd).
func readdCommissions(ctx context.Context, tx *postgres.Tx, change payout.Change) (payout.Change, error) {
	p, at := change.Before, change.Transition.At
	participants := []affiliate.ParticipantID{p.Participant}
	if err := payouts.LockParticipants(ctx, tx, p.Scope, participants); err != nil {
		return change, err
	}
	released, err := payouts.LockReleased(ctx, tx, p.Scope, p.ID, at)
	if err != nil {
		return change, err
	}
	due, err := payouts.DueTo(ctx, tx, payout.Selection{Scope: p.Scope, Cutoff: at, At: at}, participants)
	if err != nil {
		return change, err
	}
	if change, err = change.Readd(released, due); err != nil {
		return change, err
	}
	for i := range released {
		released[i].Payout = &p.ID
	}
	if err := payouts.PruneContents(ctx, tx, p.Scope, []affiliate.PayoutID{p.ID}, released); err != nil {
		return change, err
	}
	return change, payouts.AssignCommissions(ctx, tx, p.Scope, released, at)
}

// auditedPayout has the fields of a payout that a member can change, for audit records.
type auditedPayout struct {
	Status      payout.Status `json:"status"`
	AmountCents int64         `json:"amount_cents"`
	Reference   *string       `json:"reference,omitempty"`
	Failure     *string       `json:"failure_reason,omitempty"`
}

func auditedPayoutOf(p payout.Payout) auditedPayout {
	return auditedPayout{p.Status, p.AmountCents, p.Reference, p.FailureReason}
}

func auditPayout(ctx context.Context, tx *postgres.Tx, change payout.Change) error {
	p, t := change.After, change.Transition
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: p.Workspace, Mode: &p.Mode, Actor: t.Actor, At: t.At,
		Action: "payout." + string(t.Move), ResourceType: "payout", ResourceID: p.ID,
		Before: auditedPayoutOf(change.Before), After: auditedPayoutOf(p),
	})
}
