package conversion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// claimCharges assigns charges to the conversion that has one of their ids as an alias or
// as its external id. A charge is assigned once.
const claimCharges = `
	update processor_charges g set conversion_id = $3
	from (
		select distinct h.charge_id
		from (
			select a.id from conversion_aliases a where a.workspace_id = $1 and a.mode = $2 and a.conversion_id = $3
			union all
			select c.external_transaction_id from conversions c where c.workspace_id = $1 and c.mode = $2 and c.id = $3
		) as t
		join processor_charge_aliases h on h.workspace_id = $1 and h.mode = $2 and h.id = t.id
	) as found
	where g.workspace_id = $1 and g.mode = $2 and g.id = found.charge_id and g.conversion_id is null`

// markApplied stores that the current states of the charges of a conversion are applied. The check
// of refunds (package check) does not compare a charge whose newest state is not applied yet.
const markApplied = `
	update processor_charges g set applied_number = g.read_number
	where g.workspace_id = $1 and g.mode = $2 and g.conversion_id = $3 and g.applied_number <> g.read_number`

// reversedCharges returns the charges of a conversion with their disputes.
const reversedCharges = `
	select g.currency, g.amount_cents, g.refunded_cents, g.happened_at, (
		select coalesce(json_agg(json_build_object('ID', d.id, 'Status', d.status, 'AmountCents', d.amount_cents) order by d.id), '[]')
		from processor_disputes d
		where d.workspace_id = g.workspace_id and d.mode = g.mode and d.charge_id = g.id
	) as disputes
	from processor_charges g
	where g.workspace_id = $1 and g.mode = $2 and g.conversion_id = $3
	order by g.id`

// reportedRefunds sums the refunds of a conversion that were reported to the API.
const reportedRefunds = `
	select coalesce(sum(amount_cents), 0)::bigint
	from refunds
	where workspace_id = $1 and mode = $2 and conversion_id = $3`

// LockSale locks a conversion, its commission and the unsent payout of the commission. It
// assigns to the conversion the charges that belong to it, and reads their refunds and
// disputes. The charges count as applied when the transaction commits. Errors: NOT_FOUND.
func LockSale(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ConversionID) (conversion.LockedSale, error) {
	var sale conversion.LockedSale
	var err error
	if sale.StoredConversion, err = postgres.OneRow[conversion.StoredConversion](tx.Query(ctx, lockConversion, scope.Workspace, scope.Mode, id)); err != nil {
		return sale, err
	}
	var decision *attribution.Decision
	var commissions []affiliate.CommissionID
	batch := &pgx.Batch{}
	batch.Queue(claimCharges, scope.Workspace, scope.Mode, id)
	batch.Queue(markApplied, scope.Workspace, scope.Mode, id)
	batch.Queue(reportedRefunds, scope.Workspace, scope.Mode, id).QueryRow(func(row pgx.Row) error { return row.Scan(&sale.Reversals.ReportedCents) })
	postgres.QueueList(batch, &sale.Reversals.Charges, reversedCharges, scope.Workspace, scope.Mode, id)
	queueInForce(batch, scope, sale.ExternalTransactionID, &decision, &commissions)
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return sale, err
	}
	if err := completeSale(ctx, tx, &sale, decision, commissions); err != nil || sale.Commission == nil {
		return sale, err
	}
	if c := sale.Commission; c.Status == commission.Refunded && c.Payout != nil {
		// If the refund has failed, the commission may have been paid in the meantime.
		const payoutStatus = `select p.status from payouts p where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
		c.PayoutStatus, err = postgres.Value[payout.Status](
			ctx, tx, payoutStatus, scope.Workspace, scope.Mode, c.Payout)
	}
	return sale, err
}

// LockDisputedSale locks the conversion of a reported dispute, even if its buyer was erased,
// and reads the earlier report of the dispute. Errors: NOT_FOUND, DISPUTE_DUPLICATE.
func LockDisputedSale(ctx context.Context, tx *postgres.Tx, report conversion.ReportedDispute) (conversion.SaleInDispute, error) {
	var sale conversion.SaleInDispute
	scope := report.Scope
	found, err := FindSale(ctx, tx, scope, []string{report.ExternalTransactionID})
	if err == nil && found.Conversion == nil {
		var pseudonym string
		if pseudonym, err = findErasedSale(ctx, tx, scope, report.ExternalTransactionID); pseudonym != "" {
			found, err = FindSale(ctx, tx, scope, []string{pseudonym})
		}
	}
	if err != nil {
		return sale, fmt.Errorf("find a disputed conversion: %w", err)
	}
	notFound := &affiliate.Error{Reason: affiliate.ReasonNotFound, Message: "No conversion has this external_transaction_id."}
	if found.Conversion == nil {
		return sale, notFound
	}
	stored, err := postgres.List[conversion.StoredConversion](
		ctx, tx, lockConversion, scope.Workspace, scope.Mode, found.Conversion)
	if err != nil {
		return sale, err
	}
	if len(stored) == 0 {
		return sale, notFound
	}
	sale.StoredConversion = stored[0]
	const find = `
		select d.status, d.amount_cents, d.charge_id
		from processor_disputes d
		where d.workspace_id = $1 and d.mode = $2 and d.id = any($3)`
	var dispute conversion.ProcessorDispute
	var charge string
	err = tx.QueryRow(ctx, find, scope.Workspace, scope.Mode, ChargeForms(tx, scope, report.ExternalDisputeID)).
		Scan(&dispute.Status, &dispute.AmountCents, &charge)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return sale, nil
	case err != nil:
		return sale, fmt.Errorf("read a reported dispute: %w", err)
	case !slices.Contains(ChargeForms(tx, scope, reportedCharge(sale.ID)), charge):
		return sale, affiliate.Refuse(affiliate.ReasonDisputeDuplicate)
	}
	sale.Dispute = &dispute
	return sale, nil
}

// reportedCharge returns the id of the charge for the disputes that the merchant reports.
func reportedCharge(conversion affiliate.ConversionID) string { return conversion.String() }

// PutReportedDispute stores a dispute about a locked sale, with replaced ids if the buyer
// was erased. Errors: DISPUTE_DUPLICATE.
func PutReportedDispute(ctx context.Context, tx *postgres.Tx, sale conversion.SaleInDispute, dispute conversion.ProcessorDispute, at time.Time) error {
	const putCharge = `
		insert into processor_charges (workspace_id, mode, id, currency, amount_cents, refunded_cents, conversion_id, read_number, updated_at)
		values ($1, $2, $3, $4, $5, 0, $6, 0, $7)
		on conflict (workspace_id, mode, id) do nothing`
	const putDispute = `
		insert into processor_disputes as d (workspace_id, mode, id, charge_id, status, amount_cents, updated_at)
		values ($1, $2, $3, $4, $5, $6, $7)
		on conflict (workspace_id, mode, id) do update set
			status = excluded.status, amount_cents = excluded.amount_cents, updated_at = excluded.updated_at
		where d.charge_id = excluded.charge_id`
	scope, paid, charge, id := sale.Scope, sale.Money, reportedCharge(sale.ID), dispute.ID
	if sale.BuyerErased {
		key, err := erasureKeyOf(ctx, tx, scope, nil, charge)
		if err != nil {
			return err
		}
		charge, id = key.ProcessorID(scope, charge), key.ProcessorID(scope, id)
	}
	batch := &pgx.Batch{}
	batch.Queue(putCharge, scope.Workspace, scope.Mode, charge, paid.Currency, paid.Cents, sale.ID, at)
	batch.Queue(putDispute, scope.Workspace, scope.Mode, id, charge, dispute.Status, dispute.AmountCents, at).
		Exec(postgres.IfNone(affiliate.Refuse(affiliate.ReasonDisputeDuplicate)))
	return postgres.Send(ctx, tx, batch)
}

// ApplyReversal stores a reversal or refunds of a locked sale and everything that follows from it.
func ApplyReversal(ctx context.Context, tx *postgres.Tx, r conversion.Reversal) error {
	if err := payouts.UpdatePayouts(ctx, tx, r.Changes); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	queueReversal(batch, r.Conversion, r.Refunds, r.Deltas)
	commissions.QueueChanges(batch, r.Changes...)
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return err
	}
	events := r.Events
	for _, change := range r.Changes {
		events = append(events, change.Events()...)
	}
	return tx.Publish(ctx, events...)
}
