package analytics

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// currentConversions reads the conversions as they are stored now. It searches the index of each
// table once for each conversion. The values of the deciding click follow in a second statement.
const currentConversions = `
	select c.id as conversion_id,
		case when c.attributed then c.program_id end as program_id,
		case when c.attributed then c.participant_id end as participant_id,
		case when c.attributed then c.link_id end as link_id,
		c.occurred_at, c.event_type, coalesce(case when c.attributed then c.customer_ref end, '') as customer_ref,
		case when c.attributed and d.method = 'click' then c.click_id end as click_id,
		coalesce(c.sub_id, '') as sub_id,
		coalesce(case when c.attributed and d.method = 'promo_code' then c.promo_code end, '') as promo_code,
		coalesce(c.currency, '') as currency, c.amount_cents, c.refunded_amount_cents as refunded_cents,
		coalesce(m.status, '') as commission_status, coalesce(m.amount_cents, 0) as commission_cents, coalesce(m.currency, '') as commission_currency,
		c.attributed and c.customer_ref is null and w.erased_at is null and c.buyer_erased_at is null as without_customer,
		t.erased_at is not null as participant_erased, w.erased_at is not null or c.buyer_erased_at is not null as all_erased
	from unnest($3::uuid[]) as n (id)
	cross join lateral (select * from conversions where workspace_id = $1 and mode = $2 and id = n.id limit 1) as c
	cross join lateral (select method from attribution_decisions where workspace_id = $1 and mode = $2 and id = c.decision_id limit 1) as d
	cross join (select erased_at from workspaces where id = $1) as w
	left join lateral (select * from commissions where workspace_id = $1 and mode = $2 and decision_id = c.decision_id limit 1) as m on true
	left join lateral (select erased_at from participants where workspace_id = $1 and mode = $2 and id = c.participant_id limit 1) as t on true`

// CurrentConversions returns the conversions as they are stored now. Conversions that were
// deleted are missing. FirstOfCustomer is not set.
func CurrentConversions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ConversionID,
) (map[affiliate.ConversionID]analytics.Conversion, error) {
	type currentRow struct {
		analytics.Conversion
		SubID             string
		PromoCode         string
		ParticipantErased bool
		AllErased         bool
	}
	rows, _ := tx.Query(ctx, currentConversions, scope.Workspace, scope.Mode, ids)
	current, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[currentRow])
	if err != nil {
		return nil, err
	}
	var clickIDs []affiliate.ClickID
	for _, r := range current {
		if !r.Click.IsZero() {
			clickIDs = append(clickIDs, r.Click)
		}
	}
	clicks, err := clickValues(ctx, tx, scope, clickIDs)
	if err != nil {
		return nil, err
	}
	found := make(map[affiliate.ConversionID]analytics.Conversion, len(current))
	for _, r := range current {
		c := r.Conversion
		c.ParticipantErased, c.AllErased = r.ParticipantErased, r.AllErased
		var values *analytics.Values
		if click, ok := clicks[c.Click]; ok {
			values = &click
		} else {
			c.ClickDeleted = !c.Click.IsZero()
		}
		c.SetValues(values, r.SubID, r.PromoCode)
		found[c.ID] = c
	}
	return found, nil
}

// selectClickValues reads clicks by their keys. clicked_at is the time inside the id. $5 and
// $6 are the first and the last of these times, so that Postgres opens few partitions.
const selectClickValues = `
	select ` + postgres.CountedClickColumns + `
	from unnest($3::uuid[], $4::timestamptz[]) as n (click_id, clicked)
	cross join lateral (
		select c.* from clicks c
		where c.workspace_id = $1 and c.mode = $2 and c.id = n.click_id and c.clicked_at = n.clicked and c.clicked_at between $5 and $6
		limit 1) as x`

// clickValues returns the values of the clicks that still exist.
func clickValues(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ClickID) (map[affiliate.ClickID]analytics.Values, error) {
	values := make(map[affiliate.ClickID]analytics.Values, len(ids))
	batch := &pgx.Batch{}
	conversions.EachClickSpan(ids, func(ids []affiliate.ClickID, times []time.Time, first, last time.Time) {
		batch.Queue(selectClickValues, scope.Workspace, scope.Mode, ids, times, first, last).Query(func(rows pgx.Rows) error {
			clicks, err := pgx.CollectRows(rows, postgres.CountedClick)
			for i := range clicks {
				values[clicks[i].ID] = analytics.ClickValues(&clicks[i])
			}
			return err
		})
	})
	return values, postgres.Send(ctx, tx, batch)
}

var countedConversions = `
	select ` + countedColumns + `
	from analytics_conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.conversion_id = any($3)`

// countedColumns are the columns of analytics_conversions c.
var countedColumns = postgres.Columns[analytics.Conversion]("c")

// CountedConversions returns the conversions with the values that were added to the sums.
// Conversions that are not part of the sums are missing. FirstOfCustomer is not set.
func CountedConversions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ConversionID,
) (map[affiliate.ConversionID]analytics.Conversion, error) {
	counted, err := postgres.List[analytics.Conversion](ctx, tx, countedConversions, scope.Workspace, scope.Mode, ids)
	found := make(map[affiliate.ConversionID]analytics.Conversion, len(counted))
	for _, c := range counted {
		found[c.ID] = c
	}
	return found, err
}

// countedRow is a conversion of a workspace and mode.
type countedRow struct {
	Workspace affiliate.WorkspaceID `db:"workspace_id,fixed"`
	Mode      affiliate.Mode        `db:"mode,fixed"`
	analytics.Conversion
}

var storeConversions = postgres.RowsOf[countedRow](`
	insert into analytics_conversions ({columns})
	values {rows}
	on conflict (workspace_id, mode, conversion_id) do update set ` + postgres.Excluded[countedRow]())

const deleteCounted = `delete from analytics_conversions where workspace_id = $1 and mode = $2 and conversion_id = any($3)`

// StoreCounted stores conversions with their values in the sums, and deletes those in deleted.
func StoreCounted(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, stored []analytics.Conversion, deleted []affiliate.ConversionID) error {
	batch := &pgx.Batch{}
	rows := make([]countedRow, len(stored))
	for i, c := range stored {
		rows[i] = countedRow{scope.Workspace, scope.Mode, c}
	}
	storeConversions.Queue(batch, rows...)
	if len(deleted) > 0 {
		batch.Queue(deleteCounted, scope.Workspace, scope.Mode, deleted)
	}
	return postgres.Send(ctx, tx, batch)
}

var selectCustomers = `
	select ` + postgres.Columns[analytics.Customer]("c") + ` from analytics_customers c
	where c.workspace_id = $1 and c.mode = $2 and c.customer_ref = any($3)`

// selectFirsts searches the index once for each customer.
const selectFirsts = `
	select n.customer_ref, f.conversion_id, f.occurred_at as first_at, f.program_id, f.participant_id, f.link_id, null::bytea as activity
	from unnest($3::text[]) as n (customer_ref)
	cross join lateral (
		select c.conversion_id, c.occurred_at, c.program_id, c.participant_id, c.link_id from analytics_conversions c
		where c.workspace_id = $1 and c.mode = $2 and c.customer_ref = n.customer_ref
			and c.program_id <> '00000000-0000-0000-0000-000000000000'
		order by c.occurred_at, c.conversion_id
		limit 1) as f`

// customerRow is a customer of a workspace and mode.
type customerRow struct {
	Workspace affiliate.WorkspaceID `db:"workspace_id,fixed"`
	Mode      affiliate.Mode        `db:"mode,fixed"`
	analytics.Customer
}

var storeCustomers = postgres.RowsOf[customerRow](`
	insert into analytics_customers ({columns})
	values {rows}
	on conflict (workspace_id, mode, customer_ref) do update set ` + postgres.Excluded[customerRow]())

const deleteCustomers = `delete from analytics_customers where workspace_id = $1 and mode = $2 and customer_ref = any($3)`

// Customers returns the stored rows of the given customers. Customers without a row are missing.
func Customers(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, refs []string) (map[string]*analytics.Customer, error) {
	return listCustomers(ctx, tx, "read customers for the analytics", selectCustomers, scope.Workspace, scope.Mode, refs)
}

// Firsts finds the first attributed conversions of customers among the counted conversions.
// Customers without one are missing. Activity is not set.
func Firsts(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, refs []string) (map[string]*analytics.Customer, error) {
	return listCustomers(ctx, tx, "read the first conversions of customers", selectFirsts, scope.Workspace, scope.Mode, refs)
}

// listCustomers returns the customers that a statement selects, by their references.
func listCustomers(ctx context.Context, db postgres.Queryer, what, sql string, args ...any) (map[string]*analytics.Customer, error) {
	found, err := postgres.List[analytics.Customer](ctx, db, sql, args...)
	customers := make(map[string]*analytics.Customer, len(found))
	for i := range found {
		customers[found[i].Ref] = &found[i]
	}
	return customers, err
}

// StoreCustomers stores customers with their values in the sums, and deletes those in deleted.
func StoreCustomers(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, stored []*analytics.Customer, deleted []string) error {
	batch := &pgx.Batch{}
	rows := make([]customerRow, len(stored))
	for i, c := range stored {
		rows[i] = customerRow{scope.Workspace, scope.Mode, *c}
	}
	storeCustomers.Queue(batch, rows...)
	if len(deleted) > 0 {
		batch.Queue(deleteCustomers, scope.Workspace, scope.Mode, deleted)
	}
	return postgres.Send(ctx, tx, batch)
}
