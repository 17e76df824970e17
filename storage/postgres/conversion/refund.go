package conversion

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// Every refund is first stored as parked, which means not applied yet. The transaction that
// stores a refund also applies it if the conversion exists. Otherwise the transaction that
// later records the conversion applies it. When a refund and its conversion are stored at the
// same time, neither transaction sees the uncommitted row of the other. A periodic job finds
// such refunds with SalesWithParkedRefunds and applies them.
//
// A sale is identified by its external transaction id, the merchant's own id. It can have
// parked refunds before its conversion, the record of the sale, is reported.

// insertRefund inserts a refund, or nothing if the refund's external id exists already.
// Only this statement detects duplicates, including duplicates of parked refunds.
var insertRefund = postgres.RowsOf[conversion.Refund](`
	insert into refunds ({columns})
	values {rows}
	on conflict (workspace_id, mode, external_refund_id) do nothing`)

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

// LockRefunded locks the conversion of a sale, stores the new refund as parked, and locks the
// other parked refunds, in this order. If refund is nil, there is no new refund. If the
// conversion does not exist, the result is nil. LockRefunded needs one round trip, and the
// round trips of payouts.LockCommissions if the conversion has a commission. It does not read
// the reports of the payment processor. Errors: REFUND_DUPLICATE.
func LockRefunded(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, external string, refund *conversion.Refund,
) (*conversion.LockedSale, error) {
	var stored *conversion.StoredConversion
	var parked []conversion.Refund
	var decision *attribution.Decision
	var commissions []affiliate.CommissionID
	var newRefund conversion.RefundID
	batch := &pgx.Batch{}
	postgres.QueueFirst(batch, &stored, lockConversionByExternalID, scope.Workspace, scope.Mode, external)
	if refund != nil {
		newRefund = refund.ID
		for _, q := range insertRefund.Queue(batch, *refund) {
			q.Exec(postgres.IfNone(affiliate.Refuse(affiliate.ReasonRefundDuplicate)))
		}
		queueErasedRefund(tx, batch, scope, refund.ExternalRefundID)
	}
	queueParked(batch, scope, external, newRefund, &parked)
	queueInForce(batch, scope, external, &decision, &commissions)
	if err := postgres.Send(ctx, tx, batch); err != nil || stored == nil {
		return nil, err
	}
	sale := &conversion.LockedSale{StoredConversion: *stored, Parked: parked}
	return sale, completeSale(ctx, tx, sale, decision, commissions)
}

// queueInForce queues the statements that read the decision in force about a conversion, with the
// fields that events contain, and the id of the commission of this decision.
func queueInForce(batch *pgx.Batch, scope affiliate.Scope, external string, decision **attribution.Decision, commissions *[]affiliate.CommissionID) {
	const decisionInForce = `
		select d.id, d.conversion_id, d.attributed, d.method, d.reason_code, d.explanation, d.program_id, d.participant_id,
			d.clicked_at, d.expires_at
		from conversions c
		join attribution_decisions d on d.workspace_id = c.workspace_id and d.mode = c.mode and d.id = c.decision_id
		where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = $3`
	const commissionInForce = `
		select m.id
		from conversions c
		join commissions m on m.workspace_id = c.workspace_id and m.mode = c.mode and m.decision_id = c.decision_id
		where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = $3`
	batch.Queue(decisionInForce, scope.Workspace, scope.Mode, external).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByNameLax[attribution.Decision])
		if len(found) > 0 {
			*decision = found[0]
		}
		return err
	})
	postgres.QueueValues(batch, commissions, commissionInForce, scope.Workspace, scope.Mode, external)
}

// completeSale sets the decision in force of a locked sale, and its commission, which it locks.
func completeSale(ctx context.Context, tx *postgres.Tx, sale *conversion.LockedSale, decision *attribution.Decision, commissions []affiliate.CommissionID) error {
	if decision == nil {
		return fmt.Errorf("conversion %s has no decision in force", sale.ID)
	}
	sale.Decision = *decision
	sale.Decision.Link = sale.Link
	locked, err := payouts.LockCommissions(ctx, tx, sale.Scope, commissions)
	if len(locked) > 0 {
		sale.Commission = &locked[0]
	}
	return err
}

// queueReversal queues the statements that store a conversion after refunds or a reversal, its refunds and stats.
func queueReversal(batch *pgx.Batch, c conversion.Conversion, applied []conversion.Refund, deltas []analytics.StatsDelta) {
	batch.Queue(updateRefunded, c.Workspace, c.Mode, c.ID, c.RefundedAmountCents, c.Status, c.Version)
	for _, refund := range applied {
		batch.Queue(applyRefund, c.Workspace, c.Mode, refund.ID, c.ID, refund.AmountCents, refund.AppliedAt).
			Exec(postgres.IfNone(fmt.Errorf("refund %s is already applied although it was locked as parked", refund.ID)))
	}
	counters.Queue(batch, deltas...)
	postgres.QueueConversionLog(batch, c.Scope, c.ID)
}

// parkedBatch is the maximum number of parked refunds that one transaction applies.
const parkedBatch = 100

// lockParkedSQL locks the parked refunds of a sale, except the refund with the id $4. It
// finds them by the external transaction id of the sale.
var lockParkedSQL = `
	select ` + postgres.Columns[conversion.Refund]("r") + `
	from refunds r
	where r.workspace_id = $1 and r.mode = $2 and r.external_transaction_id = $3 and r.conversion_id is null and r.id <> $4
	order by r.created_at, r.id
	limit $5
	for update`

// selectParkedFor selects the given conversions that have parked refunds, with one search for each.
const selectParkedFor = `
	select t.id
	from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as t (workspace_id, mode, external_transaction_id, id)
	cross join lateral (
		select from refunds r
		where r.workspace_id = t.workspace_id and r.mode = t.mode and r.external_transaction_id = t.external_transaction_id
			and r.conversion_id is null
		limit 1) as r`

// queueParked queues the locks of the parked refunds of a sale, oldest first.
func queueParked(batch *pgx.Batch, scope affiliate.Scope, external string, excluded conversion.RefundID, parked *[]conversion.Refund) {
	postgres.QueueList(batch, parked, lockParkedSQL, scope.Workspace, scope.Mode, external, excluded, parkedBatch)
}

// pageParked reads sales of all workspaces that have parked refunds, and whether their
// conversions exist. It searches the index of conversions once per sale. The lateral
// join with a limit keeps the planner from scanning all conversions.
const pageParked = `
	select p.workspace_id, p.mode, p.external_transaction_id, c.known is not null as known
	from (
		select distinct workspace_id, mode, external_transaction_id
		from refunds
		where conversion_id is null and (workspace_id, mode, external_transaction_id) > ($1, $2, $3)
		order by workspace_id, mode, external_transaction_id
		limit $4
	) as p
	left join lateral (
		select true as known
		from conversions c
		where c.workspace_id = p.workspace_id and c.mode = p.mode and c.external_transaction_id = p.external_transaction_id
		limit 1
	) as c on true
	order by p.workspace_id, p.mode, p.external_transaction_id`

// SalesWithParkedRefunds returns sales of all workspaces that have parked refunds and
// whose conversions exist now. One call checks at most limit sales with parked refunds,
// in the order of their keys, starting after the given sale. next is the sale after which
// the next call starts. It is the zero value when no sales are left to check.
func SalesWithParkedRefunds(
	ctx context.Context, db *postgres.DB, after conversion.ParkedSale, limit int,
) (sales []conversion.ParkedSale, next conversion.ParkedSale, err error) {
	type parkedRow struct {
		conversion.ParkedSale
		Known bool
	}
	page, err := postgres.List[parkedRow](ctx, db, pageParked, after.Workspace, after.Mode, after.ExternalTransactionID, limit)
	if err != nil {
		return nil, next, err
	}
	for _, row := range page {
		if row.Known {
			sales = append(sales, row.ParkedSale)
		}
	}
	if len(page) == limit {
		next = page[limit-1].ParkedSale
	}
	return sales, next, nil
}

const dropExpiredRefunds = `
	delete from refunds r
	using (
		select workspace_id, id from refunds
		where conversion_id is null and expires_at <= $1
		order by expires_at
		limit $2
		for update skip locked) as expired
	where r.workspace_id = expired.workspace_id and r.id = expired.id`

// DropExpiredRefunds deletes at most limit expired parked refunds, and returns their number.
func DropExpiredRefunds(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, dropExpiredRefunds, now, limit)
	return tag.RowsAffected(), err
}
