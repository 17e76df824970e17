package conversion

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// parkedBatch is the maximum number of parked refunds that one transaction applies. The
// periodic job applies the rest.
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

// selectParkedFor returns the ids of the given conversions that have parked refunds. It
// searches the index once per conversion.
const selectParkedFor = `
	select t.id
	from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as t (workspace_id, mode, external_transaction_id, id)
	cross join lateral (
		select from refunds r
		where r.workspace_id = t.workspace_id and r.mode = t.mode and r.external_transaction_id = t.external_transaction_id
			and r.conversion_id is null
		limit 1) as r`

// queueParked queues the statement that locks the parked refunds of a sale and returns
// them, oldest first.
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
	page, err := postgres.List[parkedRow](ctx, db, "read parked refunds", pageParked, after.Workspace, after.Mode, after.ExternalTransactionID, limit)
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

// DropExpiredRefunds deletes at most limit expired parked refunds, of all workspaces, and
// returns the number of deleted refunds.
func DropExpiredRefunds(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, dropExpiredRefunds, now, limit)
	return tag.RowsAffected(), err
}
