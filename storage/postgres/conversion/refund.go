package conversion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// Every refund is first stored as a parked refund, which means that it is not applied
// yet. A transaction that has locked the refund's conversion then applies it. If the
// conversion exists, the transaction that stores the refund also applies it. Otherwise
// the transaction that later records the conversion applies it. When a refund and its
// conversion are stored at the same time, neither transaction sees the uncommitted row of
// the other. A periodic job finds such refunds with SalesWithParkedRefunds and applies
// them.
//
// A sale is identified by its external transaction id, which is the merchant's own id.
// The conversion is the record of the sale. A sale whose conversion was not reported yet
// can already have parked refunds.

// insertRefund inserts a refund, or nothing if the refund's external id exists already.
// Only this statement detects duplicates, including duplicates of parked refunds.
const insertRefund = `
	insert into refunds (workspace_id, id, mode, external_refund_id, external_transaction_id, asked_cents, reason, created_at, expires_at)
	values (@workspace, @id, @mode, @external_refund_id, @external_transaction_id, @asked_cents, @reason, @created_at, @expires_at)
	on conflict (workspace_id, mode, external_refund_id) do nothing`

var lockConversionByExternalID = `
	select ` + conversionColumns + `
	from conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = $3
	for no key update`

const applyRefund = `
	update refunds set conversion_id = $4, amount_cents = $5, applied_at = $6
	where workspace_id = $1 and mode = $2 and id = $3 and conversion_id is null`

const updateRefunded = `
	update conversions set refunded_amount_cents = $4, status = $5, version = $6
	where workspace_id = $1 and mode = $2 and id = $3`

// LockRefundedOrErased stores a new refund as parked and locks its conversion, as
// LockRefunded does. It also finds a sale that was erased, and then erases the ids of the
// refund. The look-up follows the insert of the refund, so it also finds a sale that was
// erased before the insert. Errors: REFUND_DUPLICATE.
func LockRefundedOrErased(ctx context.Context, tx *postgres.Tx, refund conversion.Refund) (*conversion.LockedSale, error) {
	sale, err := LockRefunded(ctx, tx, refund.Scope, refund.ExternalTransactionID, &refund)
	if err != nil || sale != nil {
		return sale, err
	}
	pseudonym, err := findErasedSale(ctx, tx, refund.Scope, refund.ExternalTransactionID)
	if err != nil || pseudonym == "" {
		return nil, err
	}
	if sale, err = LockRefunded(ctx, tx, refund.Scope, pseudonym, nil); err != nil {
		return nil, err
	}
	if sale == nil {
		return nil, fmt.Errorf("the erased sale of refund %s does not exist", refund.ID)
	}
	return sale, eraseNewRefund(ctx, tx, refund, sale.ID, pseudonym)
}

// LockRefunded locks the conversion of a sale, stores the new refund as parked, and locks
// the other parked refunds, in this order. If refund is nil, there is no new refund. If the
// conversion does not exist, the result is nil. LockRefunded needs one round trip, and those
// of payouts.LockCommissions if the conversion has a commission. It does not read what the
// payment processor has reported. Errors: REFUND_DUPLICATE.
func LockRefunded(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, external string, refund *conversion.Refund,
) (*conversion.LockedSale, error) {
	var sale *conversion.LockedSale
	var parked []conversion.Refund
	var decisions []decisionSummary
	var commissions []affiliate.CommissionID
	var newRefund conversion.RefundID
	batch := &pgx.Batch{}
	batch.Queue(lockConversionByExternalID, scope.Workspace, scope.Mode, external).Query(func(rows pgx.Rows) error {
		stored, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[conversion.StoredConversion])
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		sale = &conversion.LockedSale{StoredConversion: stored}
		return err
	})
	if refund != nil {
		newRefund = refund.ID
		batch.Queue(insertRefund, pgx.NamedArgs{
			"workspace": scope.Workspace, "id": refund.ID, "mode": scope.Mode, "external_refund_id": refund.ExternalRefundID,
			"external_transaction_id": external, "asked_cents": refund.RequestedCents, "reason": refund.Reason,
			"created_at": refund.CreatedAt, "expires_at": refund.ExpiresAt,
		}).Exec(func(tag pgconn.CommandTag) error {
			return postgres.RefuseIfNone(tag, nil, affiliate.ReasonRefundDuplicate)
		})
		queueErasedRefund(tx, batch, scope, refund.ExternalRefundID)
	}
	queueParked(batch, scope, external, newRefund, &parked)
	queueInForce(batch, scope, external, &decisions, &commissions)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("lock the refunded conversion: %w", err)
	}
	if sale == nil {
		return nil, nil
	}
	if len(decisions) != 1 {
		return nil, fmt.Errorf("conversion %s has %d decisions in force", sale.ID, len(decisions))
	}
	sale.Decision, sale.Parked = decisions[0].decision(sale.StoredConversion), parked
	locked, err := payouts.LockCommissions(ctx, tx, scope, commissions)
	if len(locked) > 0 {
		sale.Commission = &locked[0]
	}
	return sale, err
}

// queueInForce queues the statements that read the decision in force about a conversion and
// the id of the commission of this decision.
func queueInForce(batch *pgx.Batch, scope affiliate.Scope, external string, decisions *[]decisionSummary, commissions *[]affiliate.CommissionID) {
	const decisionInForce = `
		select d.id, d.method, d.reason_code as reason, d.explanation, d.clicked_at, d.expires_at
		from conversions c
		join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
		where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = $3`
	const commissionInForce = `
		select m.id
		from conversions c
		join commissions m on m.workspace_id = c.workspace_id and m.mode = c.mode and m.decision_id = c.decision_id
		where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = $3`
	postgres.QueueList(batch, decisions, decisionInForce, scope.Workspace, scope.Mode, external)
	postgres.QueueValues(batch, commissions, commissionInForce, scope.Workspace, scope.Mode, external)
}

// decisionSummary has the fields of a decision that events contain.
type decisionSummary struct {
	ID          affiliate.DecisionID
	Method      *attribution.Method
	Reason      attribution.Reason
	Explanation string
	ClickedAt   *time.Time
	ExpiresAt   *time.Time
}

func (r decisionSummary) decision(c conversion.StoredConversion) attribution.Decision {
	return attribution.Decision{
		ID: r.ID, Conversion: c.ID, Attributed: c.Attributed, Method: r.Method, Reason: r.Reason, Explanation: r.Explanation,
		Program: c.Program, Participant: c.Participant, Link: c.Link, ClickedAt: r.ClickedAt, ExpiresAt: r.ExpiresAt,
	}
}

// queueReversal adds the statements that store a conversion after refunds or a reversal, the
// applied refunds and the stats to a batch.
func queueReversal(batch *pgx.Batch, c conversion.Conversion, applied []conversion.Refund, deltas []analytics.StatsDelta) {
	batch.Queue(updateRefunded, c.Workspace, c.Mode, c.ID, c.RefundedAmountCents, c.Status, c.Version)
	for _, refund := range applied {
		batch.Queue(applyRefund, c.Workspace, c.Mode, refund.ID, c.ID, refund.AmountCents, refund.AppliedAt).
			Exec(func(tag pgconn.CommandTag) error {
				if tag.RowsAffected() == 0 {
					return fmt.Errorf("refund %s is already applied although it was locked as parked", refund.ID)
				}
				return nil
			})
	}
	counters.Queue(batch, deltas...)
	postgres.QueueConversionLog(batch, c.Scope, c.ID)
}
