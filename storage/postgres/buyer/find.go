package buyer

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// The statements below add conversions of a buyer to the list of an erasure. They find the
// conversions with a property by an index, and read one part of them: at most @most conversions
// after the id @after, in the order of the ids. They do not add a conversion that is already
// erased, or that happened and was stored after @until. The index returns all conversions with
// the property for each part. A buyer has few conversions. Only an address that a shop reports
// for all its guests has more conversions than one part.
const (
	addSalesOfTransaction = addSales + `
		where c.workspace_id = @workspace and c.mode in ('test', 'live') and c.external_transaction_id = @value` + inParts
	addSalesOfAlias = addSales + `
		join conversion_aliases a on a.workspace_id = c.workspace_id and a.mode = c.mode and a.conversion_id = c.id
		where c.workspace_id = @workspace and a.workspace_id = @workspace and a.mode in ('test', 'live') and a.id = @value` + inParts
	addSalesOfCharge = addSales + `
		join processor_charges g on g.workspace_id = c.workspace_id and g.mode = c.mode and g.conversion_id = c.id
		where c.workspace_id = @workspace and g.workspace_id = @workspace and g.mode in ('test', 'live') and g.id in (
				select @value::text
				union all
				select h.charge_id from processor_charge_aliases h
				where h.workspace_id = @workspace and h.mode in ('test', 'live') and h.id = @value
			)` + inParts
	addSalesOfProcessorCustomer = addSales + `
		where c.workspace_id = @workspace and c.mode in ('test', 'live') and c.processor ->> 'customer_id' = @value` + inParts
	addSalesOfCustomer = addSales + `
		where c.workspace_id = @workspace and c.mode in ('test', 'live') and c.customer_ref = @value` + inParts
	addSalesOfEmail = addSales + `
		where c.workspace_id = @workspace and c.mode in ('test', 'live') and c.customer_email_hash = @value` + inParts

	addSales = `
		with found as (
			select c.workspace_id, c.id, c.mode, c.buyer_erased_at
			from conversions c`
	inParts = `
				and c.id > @after and least(c.occurred_at, c.created_at) <= @until
			order by c.id
			limit @most
		), added as (
			insert into buyer_erasure_sales (workspace_id, operation_id, conversion_id, mode)
			select f.workspace_id, @operation, f.id, f.mode
			from found f
			where f.buyer_erased_at is null
			on conflict (workspace_id, operation_id, conversion_id) do nothing
		)
		select f.id from found f order by f.id desc limit 1`
)

// findBatch is the maximum number of conversions that one statement adds to a list.
const findBatch = 5_000

// AddSalesOf adds conversions with a property to the list of an erasure. The property is the
// external transaction id (also an id of a payment processor), the customer of the payment
// processor, the reference of the customer, or the hash of the e-mail address. AddSalesOf and
// AddSales add no conversion that happened and was stored after e.Until().
func AddSalesOf(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, by privacy.SaleProperty, value any) error {
	for _, statement := range statementsBy(by) {
		var after affiliate.ConversionID
		for {
			last, err := postgres.Values[affiliate.ConversionID](ctx, tx, statement, pgx.NamedArgs{
				"workspace": e.Workspace, "operation": e.ID, "value": value, "after": after, "most": findBatch,
				"until": e.Until(),
			})
			if err != nil {
				return err
			}
			if len(last) == 0 {
				break
			}
			after = last[0]
		}
	}
	return nil
}

// statementsBy returns the statements that find conversions by a property.
func statementsBy(p privacy.SaleProperty) []string {
	switch p {
	case privacy.SaleOfTransaction:
		return []string{addSalesOfTransaction, addSalesOfAlias, addSalesOfCharge}
	case privacy.SaleOfProcessorCustomer:
		return []string{addSalesOfProcessorCustomer}
	case privacy.SaleOfCustomerRef:
		return []string{addSalesOfCustomer}
	default:
		return []string{addSalesOfEmail}
	}
}

// AddSales adds conversions to the list of an erasure, by their ids.
func AddSales(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, ids []affiliate.ConversionID) error {
	const add = `
		insert into buyer_erasure_sales (workspace_id, operation_id, conversion_id, mode)
		select c.workspace_id, $2, c.id, c.mode
		from conversions c
		where c.workspace_id = $1 and c.mode in ('test', 'live') and c.id = any($3) and c.buyer_erased_at is null
			and least(c.occurred_at, c.created_at) <= $4
		on conflict (workspace_id, operation_id, conversion_id) do nothing`
	return postgres.Exec(ctx, tx, add, e.Workspace, e.ID, ids, e.Until())
}

// AddCustomers adds references of customers to the list of an erasure.
func AddCustomers(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, refs []string) error {
	const add = `
		insert into buyer_erasure_customers (workspace_id, operation_id, ref)
		select distinct $1::uuid, $2::uuid, t.ref from unnest($3::text[]) as t (ref)
		on conflict (workspace_id, operation_id, ref) do nothing`
	return postgres.Exec(ctx, tx, add, e.Workspace, e.ID, refs)
}

// FollowCustomers adds the conversions of at most limit customers in the list of an erasure
// that are not followed yet, marks these customers as followed, and returns their number.
func FollowCustomers(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, limit int) (int, error) {
	const next = `
		select u.ref from buyer_erasure_customers u
		where u.workspace_id = $1 and u.operation_id = $2 and not u.followed
		order by u.ref
		limit $3`
	const mark = `
		update buyer_erasure_customers set followed = true
		where workspace_id = $1 and operation_id = $2 and ref = any($3)`
	refs, err := postgres.Values[string](ctx, tx, next, e.Workspace, e.ID, limit)
	if err != nil || len(refs) == 0 {
		return 0, err
	}
	for _, ref := range refs {
		if err := AddSalesOf(ctx, tx, e, privacy.SaleOfCustomerRef, ref); err != nil {
			return 0, err
		}
	}
	_, err = tx.Exec(ctx, mark, e.Workspace, e.ID, refs)
	return len(refs), err
}

// UnfollowedSales returns at most limit conversions in the list of an erasure for which no
// further conversions were searched. It also returns conversions that were deleted, for example
// with all test data.
func UnfollowedSales(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, limit int) ([]privacy.FoundSale, error) {
	const read = `
		select s.conversion_id as id, c.customer_ref, c.processor ->> 'customer_id' as processor_customer
		from (
			select s.conversion_id, s.mode from buyer_erasure_sales s
			where s.workspace_id = $1 and s.operation_id = $2 and s.mode in ('test', 'live') and not s.followed
			order by s.conversion_id
			limit $3
		) as s
		left join conversions c on c.workspace_id = $1 and c.mode = s.mode and c.id = s.conversion_id`
	return postgres.List[privacy.FoundSale](ctx, tx, read, e.Workspace, e.ID, limit)
}

// HasSales reports whether the list of an erasure has conversions, and whether some are not
// erased.
func HasSales(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (found, unerased bool, err error) {
	const read = `
		select exists (
			select from buyer_erasure_sales s
			where s.workspace_id = $1 and s.operation_id = $2 and s.mode in ('test', 'live')
		), exists (
			select from buyer_erasure_sales s
			where s.workspace_id = $1 and s.operation_id = $2 and s.mode in ('test', 'live') and not s.erased
		)`
	err = tx.QueryRow(ctx, read, e.Workspace, e.ID).Scan(&found, &unerased)
	return found, unerased, err
}

// UnfollowCustomers marks all customers in the list of an erasure as not followed.
func UnfollowCustomers(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) error {
	const update = `update buyer_erasure_customers set followed = false where workspace_id = $1 and operation_id = $2 and followed`
	return postgres.Exec(ctx, tx, update, e.Workspace, e.ID)
}

// MarkFollowed stores that further conversions of the buyers of the given conversions were searched.
func MarkFollowed(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, ids []affiliate.ConversionID) error {
	const mark = `
		update buyer_erasure_sales set followed = true
		where workspace_id = $1 and operation_id = $2 and mode in ('test', 'live') and conversion_id = any($3)`
	return postgres.Exec(ctx, tx, mark, e.Workspace, e.ID, ids)
}

// searchSales reads conversions in the order of their ids.
const searchSales = `
	select c.id, c.external_transaction_id, c.processor ->> 'customer_id' as processor_customer, array(
		select a.id from conversion_aliases a
		where a.workspace_id = c.workspace_id and a.mode = c.mode and a.conversion_id = c.id
		union all
		select unnest(array_remove(array[g.id, h.id], null))
		from processor_charges g
		left join processor_charge_aliases h on h.workspace_id = g.workspace_id and h.mode = g.mode and h.charge_id = g.id
		where g.workspace_id = c.workspace_id and g.mode = c.mode and g.conversion_id = c.id
	) as aliases
	from conversions c
	where c.workspace_id = $1 and c.mode in ('test', 'live') and c.id > $2 and c.buyer_erased_at is null
	order by c.id
	limit $3`

// SearchSales returns at most limit conversions of the workspace after the given id that are
// not erased. The caller compares digests of their ids with the identity of an erasure.
func SearchSales(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, after affiliate.ConversionID, limit int) ([]privacy.SaleIDs, error) {
	return postgres.List[privacy.SaleIDs](ctx, tx, searchSales, workspace, after, limit)
}

// HasProcessorEvents reports whether events of payment processors of the workspace are stored.
func HasProcessorEvents(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (bool, error) {
	const read = `select exists (select from processor_events e where e.workspace_id = $1 and e.mode in ('test', 'live'))`
	return postgres.Value[bool](ctx, tx, read, workspace)
}

// ParkedSales returns the external transaction ids of the parked refunds of a workspace, in
// both modes. The caller compares their digests with the identity of an erasure.
func ParkedSales(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) ([]string, error) {
	const read = `
		select distinct r.external_transaction_id from refunds r
		where r.workspace_id = $1 and r.mode in ('test', 'live') and r.conversion_id is null`
	return postgres.Values[string](ctx, tx, read, workspace)
}

// DeleteUnknownSale deletes the data of a transaction whose sale is not recorded: its parked
// refunds, and the charges that a payment processor has reported, with their disputes. It
// empties the events that wait for the sale of such a charge.
func DeleteUnknownSale(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, external string, at time.Time) error {
	const deleteRefunds = `
		delete from refunds r
		where r.workspace_id = $1 and r.mode = $2 and r.external_transaction_id = $3 and r.conversion_id is null
			and not exists (
				select from conversions c
				where c.workspace_id = r.workspace_id and c.mode = r.mode and c.external_transaction_id = r.external_transaction_id
			)`
	const deleteCharges = `
		with unknown as (
			delete from processor_charges g
			where g.workspace_id = $1 and g.mode = $2 and g.id = any($3) and g.conversion_id is null
				and not exists (
					select from processor_charge_aliases h
					join conversion_aliases a on a.workspace_id = h.workspace_id and a.mode = h.mode and a.id = h.id
					where h.workspace_id = g.workspace_id and h.mode = g.mode and h.charge_id = g.id
				)
			returning g.id
		), aliases as (
			delete from processor_charge_aliases h using unknown u
			where h.workspace_id = $1 and h.mode = $2 and h.charge_id = u.id
		), events as (
			update processor_events e set body = null, charge_id = null, attempt_until = null, status = 'ignored', reason = $4, processed_at = $5
			from unknown u
			where e.workspace_id = $1 and e.mode = $2 and e.charge_id = u.id and e.body is not null
		)
		delete from processor_disputes d using unknown u
		where d.workspace_id = $1 and d.mode = $2 and d.charge_id = u.id`
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		if _, err := tx.Exec(ctx, deleteRefunds, workspace, mode, external); err != nil {
			return err
		}
		charges, err := conversions.ChargeIDs(ctx, tx, affiliate.Scope{Workspace: workspace, Mode: mode}, []string{external})
		if err != nil {
			return err
		}
		if len(charges) == 0 {
			continue
		}
		if _, err := tx.Exec(ctx, deleteCharges, workspace, mode, charges, processor.IgnoredErased, at); err != nil {
			return err
		}
	}
	return nil
}
