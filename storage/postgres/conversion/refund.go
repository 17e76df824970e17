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
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
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

const lockConversionByExternalID = `
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

// Refund stores a refund and applies it to its conversion. If the conversion
// does not exist, the refund stays parked. The refunds of one conversion are applied one
// after another, first the parked refunds. Errors: REFUND_DUPLICATE,
// REFUND_EXCEEDS_AMOUNT. In these cases nothing is stored.
func Refund(ctx context.Context, db *postgres.DB, refund conversion.Refund) (conversion.RefundOutcome, error) {
	var outcome conversion.RefundOutcome
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		outcome = conversion.RefundOutcome{Refund: refund}
		conversion, err := lockRefundedConversion(ctx, tx, refund.Scope, refund.ExternalTransactionID, &refund)
		if err == nil && conversion == nil {
			conversion, err = lockErasedConversion(ctx, tx, refund)
		}
		if err != nil || conversion == nil {
			return err
		}
		refunds := conversion.refundChanges(refund.CreatedAt)
		for _, parked := range conversion.parked {
			refunds.applyParked(parked)
		}
		if outcome.Refund, err = refunds.apply(refund); err != nil {
			return err
		}
		outcome.Commission, err = writeRefunds(ctx, tx, conversion, refunds)
		outcome.Conversion = &refunds.conversion
		return err
	})
	return outcome, err
}

// lockErasedConversion returns the conversion of a refund whose sale was erased, and erases the
// ids of the refund, which is stored as parked. The conversion and its parked refunds are
// locked. If the refund belongs to no erased sale, the result is nil. The look-up
// follows the insert of the refund, so it also finds a sale that was erased before the insert.
func lockErasedConversion(ctx context.Context, tx *postgres.Tx, refund conversion.Refund) (*refundedConversion, error) {
	pseudonym, err := findErasedSale(ctx, tx, refund.Scope, refund.ExternalTransactionID)
	if err != nil || pseudonym == "" {
		return nil, err
	}
	conversion, err := lockRefundedConversion(ctx, tx, refund.Scope, pseudonym, nil)
	if err != nil {
		return nil, err
	}
	if conversion == nil {
		return nil, fmt.Errorf("the erased sale of refund %s does not exist", refund.ID)
	}
	return conversion, eraseNewRefund(ctx, tx, refund, conversion.ID, pseudonym)
}

// refundedConversion is a conversion to which refunds are applied, and its parked
// refunds. The conversion and the refunds are locked.
type refundedConversion struct {
	conversion.StoredConversion
	decision   attribution.Decision // the decision in force
	parked     []conversion.Refund  // oldest first
	commission *commission.Locked   // the commission of the decision in force, in any status; nil if it has none
}

// lockRefundedConversion locks the conversion of a sale, stores the new refund, and locks
// the parked refunds, in this order. If refund is nil, there is no new refund. If the
// conversion does not exist, lockRefundedConversion returns nil. It needs one round trip,
// and those of payouts.LockCommissions if the conversion has a commission. Errors:
// REFUND_DUPLICATE.
func lockRefundedConversion(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, external string, refund *conversion.Refund,
) (*refundedConversion, error) {
	var refunded *refundedConversion
	var parked []conversion.Refund
	var decisions []decisionSummary
	var commissions []affiliate.CommissionID
	var newRefund conversion.RefundID
	batch := &pgx.Batch{}
	batch.Queue(lockConversionByExternalID, scope.Workspace, scope.Mode, external).Query(func(rows pgx.Rows) error {
		stored, err := pgx.CollectExactlyOneRow(rows, scanConversion)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		refunded = &refundedConversion{StoredConversion: stored}
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
	if refunded == nil {
		return nil, nil
	}
	if len(decisions) != 1 {
		return nil, fmt.Errorf("conversion %s has %d decisions in force", refunded.ID, len(decisions))
	}
	refunded.decision, refunded.parked = decisions[0].decision(refunded.StoredConversion), parked
	locked, err := payouts.LockCommissions(ctx, tx, scope, commissions)
	if err != nil {
		return nil, err
	}
	if len(locked) > 0 {
		refunded.commission = &locked[0]
	}
	return refunded, nil
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
	batch.Queue(decisionInForce, scope.Workspace, scope.Mode, external).Query(func(rows pgx.Rows) (err error) {
		*decisions, err = pgx.CollectRows(rows, pgx.RowToStructByName[decisionSummary])
		return err
	})
	batch.Queue(commissionInForce, scope.Workspace, scope.Mode, external).Query(func(rows pgx.Rows) (err error) {
		*commissions, err = pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
		return err
	})
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

// refundChanges collects the changes that refunds make to a conversion, in memory. It
// leaves out the change of the commission, which depends on the total of all refunds.
type refundChanges struct {
	conversion conversion.Conversion // the conversion after all refunds in applied
	decision   attribution.Decision  // the decision in force
	at         time.Time

	applied []conversion.Refund
	deltas  []analytics.StatsDelta
	events  []affiliate.Event
}

func (s *refundedConversion) refundChanges(at time.Time) *refundChanges {
	return &refundChanges{conversion: s.Conversion, decision: s.decision, at: at}
}

// apply adds a new refund to the changes. Errors: REFUND_EXCEEDS_AMOUNT if the refund
// exceeds the remaining amount.
func (r *refundChanges) apply(refund conversion.Refund) (conversion.Refund, error) {
	after, cents, refusal := r.conversion.Refund(refund.RequestedCents)
	if refusal != nil {
		return refund, refusal
	}
	return r.record(refund, after, cents), nil
}

// applyParked adds a parked refund to the changes. If the refund exceeds the remaining
// amount, only the remaining amount is refunded.
func (r *refundChanges) applyParked(refund conversion.Refund) {
	after, cents := r.conversion.RefundParked(refund.RequestedCents)
	r.record(refund, after, cents)
}

// record adds an applied refund to the changes. The refunded revenue is subtracted from
// the stats of the current hour. The number of conversions in the stats does not
// change.
func (r *refundChanges) record(refund conversion.Refund, after conversion.Conversion, cents int64) conversion.Refund {
	before := r.conversion
	r.conversion = after
	refund.Conversion, refund.AmountCents, refund.AppliedAt = &after.ID, &cents, &r.at
	r.applied = append(r.applied, refund)
	if after.Version == before.Version {
		return refund
	}
	r.events = append(r.events, after.RefundedEvent(before, r.decision, r.at))
	if d := r.decision; d.Attributed && after.EventType.Priced() && cents > 0 {
		r.deltas = append(r.deltas, analytics.StatsDelta{
			Scope: after.Scope, Program: *d.Program, Participant: *d.Participant, Link: d.Link, At: r.at,
			Currency: after.Sale.Paid.Currency, RevenueCents: -cents,
		})
	}
	return refund
}

// queue adds the statements that store the conversion, the refunds and the stats to a
// batch.
func (r *refundChanges) queue(batch *pgx.Batch) {
	if len(r.applied) == 0 {
		return
	}
	c := r.conversion
	batch.Queue(updateRefunded, c.Scope.Workspace, c.Scope.Mode, c.ID, c.RefundedAmountCents, c.Status, c.Version)
	for _, refund := range r.applied {
		batch.Queue(applyRefund, c.Scope.Workspace, c.Scope.Mode, refund.ID, c.ID, refund.AmountCents, refund.AppliedAt).
			Exec(func(tag pgconn.CommandTag) error {
				if tag.RowsAffected() == 0 {
					return fmt.Errorf("refund %s is already applied although it was locked as parked", refund.ID)
				}
				return nil
			})
	}
	counters.Queue(batch, r.deltas...)
	postgres.QueueConversionLog(batch, c.Scope, c.ID)
}

// writeRefunds stores applied refunds and everything that follows from them, including
// the events. It returns the commission after the refunds.
func writeRefunds(ctx context.Context, tx *postgres.Tx, conversion *refundedConversion, refunds *refundChanges) (*commission.Commission, error) {
	var changes []commission.Change
	var earned *commission.Commission
	if conversion.commission != nil {
		var err error
		if changes, err = conversion.commission.FollowRefunds(refunds.conversion.SaleRefunds(), commission.RefundedSale, refunds.at); err != nil {
			return nil, err
		}
		earned = &conversion.commission.Commission
	}
	if err := payouts.UpdatePayouts(ctx, tx, changes); err != nil {
		return nil, err
	}
	batch := &pgx.Batch{}
	refunds.queue(batch)
	commissions.QueueChanges(batch, changes...)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("write refunds: %w", err)
	}
	events := refunds.events
	for _, change := range changes {
		events, earned = append(events, change.Events()...), &change.After
	}
	return earned, tx.Publish(ctx, events...)
}
