package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// selectLateness searches the index on due deliveries once for each active endpoint.
const selectLateness = `
	select count(*) as endpoints, count(*) filter (where d.due_at <= $2) as late, min(d.due_at) as oldest_due
	from webhook_endpoints e
	left join lateral (
		select d.due_at from webhook_deliveries d
		where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch = e.epoch and d.due_at <= $1
		order by d.due_at limit 1
	) d on true
	where e.active and e.deleted_at is null`

// Lateness returns which part of the endpoints has due deliveries. An endpoint is late if a
// delivery has been due since lateBefore.
func Lateness(ctx context.Context, db *postgres.DB, now, lateBefore time.Time) (webhook.Lateness, error) {
	rows, _ := db.SendingPool().Query(ctx, selectLateness, now, lateBefore)
	lateness, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[webhook.Lateness])
	if err != nil {
		return lateness, fmt.Errorf("read the lateness of webhooks: %w", err)
	}
	return lateness, nil
}
