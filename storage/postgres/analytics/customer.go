package analytics

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

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

// Customers returns customers as they are part of the sums. Customers that are not part of the
// sums are missing.
func Customers(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, refs []string) (map[string]*analytics.Customer, error) {
	return listCustomers(ctx, tx, "read customers for the analytics", selectCustomers, scope.Workspace, scope.Mode, refs)
}

// Firsts returns customers with their first attributed conversions, as they follow from the
// counted conversions, and without their activity. Customers without attributed conversions are
// missing.
func Firsts(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, refs []string) (map[string]*analytics.Customer, error) {
	return listCustomers(ctx, tx, "read the first conversions of customers", selectFirsts, scope.Workspace, scope.Mode, refs)
}

// listCustomers returns the customers that a statement selects, by their references.
func listCustomers(ctx context.Context, db postgres.Queryer, what, sql string, args ...any) (map[string]*analytics.Customer, error) {
	found, err := postgres.List[analytics.Customer](ctx, db, what, sql, args...)
	customers := make(map[string]*analytics.Customer, len(found))
	for i := range found {
		customers[found[i].Ref] = &found[i]
	}
	return customers, err
}

// StoreCustomers stores customers as they are part of the sums, and deletes others.
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
	return postgres.Send(ctx, tx, "store customers of the analytics", batch)
}
