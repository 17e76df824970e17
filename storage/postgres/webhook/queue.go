package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// claim acquires or renews leases. It skips endpoints that another transaction has
// locked. The sender requests their leases again later.
const claim = `
	with wanted as (
		select e.workspace_id, e.id
		from unnest(@workspaces::uuid[], @endpoints::uuid[]) as w (workspace_id, id)
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.id = w.id
		where e.active and e.deleted_at is null and (e.sender is null or e.sender = @sender or e.sender_until <= @now)
		for no key update of e skip locked
	)
	update webhook_endpoints e set sender = @sender, sender_until = @until
	from wanted w
	where e.workspace_id = w.workspace_id and e.id = w.id
	returning e.workspace_id, e.id`

// Claim acquires or renews a sender's leases of endpoints. Only the sender that holds the
// lease of an endpoint may send the endpoint's deliveries. The new leases end at
// leaseEnd. Claim returns the keys of the endpoints whose lease was granted. Each of the
// other endpoints is leased to another sender, not active, deleted, or locked by another
// transaction.
func Claim(
	ctx context.Context, db *postgres.DB, sender affiliate.SenderID, endpoints []webhook.EndpointKey, now, leaseEnd time.Time,
) ([]webhook.EndpointKey, error) {
	args := senderArgs(sender, endpoints, now)
	args["until"] = leaseEnd
	return postgres.List[webhook.EndpointKey](ctx, db.SendingPool(), "claim endpoints", claim, args)
}

func senderArgs(sender affiliate.SenderID, endpoints []webhook.EndpointKey, now time.Time) pgx.NamedArgs {
	workspaces, ids := keyColumns(endpoints)
	return pgx.NamedArgs{"workspaces": workspaces, "endpoints": ids, "sender": sender, "now": now}
}

// Release ends a sender's leases of endpoints. It does not change leases of other
// senders.
func Release(ctx context.Context, db *postgres.DB, sender affiliate.SenderID, endpoints []webhook.EndpointKey) error {
	const release = `
		update webhook_endpoints e set sender = null, sender_until = null
		from unnest($1::uuid[], $2::uuid[]) as w (workspace_id, id)
		where e.workspace_id = w.workspace_id and e.id = w.id and e.sender = $3`
	workspaces, ids := keyColumns(endpoints)
	return postgres.Exec(ctx, db.SendingPool(), "release endpoints", release, workspaces, ids, sender)
}

// unclaimed selects endpoints that have due deliveries but no lease. For each endpoint
// without a lease, it reads one index entry of the deliveries.
const unclaimed = `
	select e.workspace_id, e.id
	from webhook_endpoints e
	where e.active and e.deleted_at is null and (e.sender is null or e.sender_until <= $1)
		and exists (
			select from webhook_deliveries d
			where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch = e.epoch and d.due_at <= $1)
	limit $2`

// Unclaimed returns at most limit endpoints that have due deliveries but no lease.
func Unclaimed(ctx context.Context, db *postgres.DB, now time.Time, limit int) ([]webhook.EndpointKey, error) {
	return postgres.List[webhook.EndpointKey](ctx, db.SendingPool(), "search endpoints", unclaimed, now, limit)
}

// targets selects endpoints and the due time of the next delivery of each endpoint that
// is not due yet. dueDeliveries selects the due deliveries of these endpoints. Both
// statements read only those entries of the index webhook_deliveries_due whose data they
// return. Their cost therefore does not depend on the number of waiting deliveries. They
// skip deliveries of earlier epochs, which are canceled.
const (
	targets = `
		select e.workspace_id, e.id, e.url, e.secret, e.previous_secret, e.previous_until, e.consecutive_failures, e.last_delivery_at,
			(select d.due_at from webhook_deliveries d
			 where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch = e.epoch and d.due_at > @now
			 order by d.due_at limit 1) as next_due
		from unnest(@workspaces::uuid[], @endpoints::uuid[]) as w (workspace_id, id)
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.id = w.id
		where e.active and e.deleted_at is null and e.sender = @sender and e.sender_until > @now`
	dueDeliveries = `
		select d.endpoint_id, d.id, d.event_id, v.body, v.trace_reference, d.status, d.tier, d.extra, d.attempt_count, d.due_at
		from unnest(@workspaces::uuid[], @endpoints::uuid[], @due_from::timestamptz[], @limits::int[]) as w (workspace_id, id, due_from, most)
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.id = w.id
		cross join lateral (
			select * from webhook_deliveries d
			where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch = e.epoch
				and d.due_at >= w.due_from and d.due_at <= @now
			order by d.due_at
			limit w.most
		) as d
		join events v on v.workspace_id = d.workspace_id and v.id = d.event_id and v.day = d.day
		where e.active and e.deleted_at is null and e.sender = @sender and e.sender_until > @now`
)

// Due returns the endpoints in queries and their due deliveries. The delivery of an endpoint
// that has been due for the longest time is first. Due leaves out endpoints that are not
// active or not leased to the sender.
func Due(
	ctx context.Context, db *postgres.DB, sender affiliate.SenderID, queries []webhook.DueQuery, now time.Time,
) (found []webhook.Target, due []webhook.DueDelivery, err error) {
	batch := &pgx.Batch{}
	args := dueArgs(sender, queries, now)
	postgres.QueueList(batch, &found, targets, args)
	batch.Queue(dueDeliveries, args).Query(func(rows pgx.Rows) error {
		due, err = pgx.CollectRows(rows, scanDue)
		return err
	})
	if err := db.SendingPool().SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, fmt.Errorf("due deliveries: %w", err)
	}
	return found, due, nil
}

func dueArgs(sender affiliate.SenderID, queries []webhook.DueQuery, now time.Time) pgx.NamedArgs {
	keys := make([]webhook.EndpointKey, len(queries))
	from, limits := make([]time.Time, len(queries)), make([]int, len(queries))
	for i, r := range queries {
		keys[i], from[i], limits[i] = r.Key, r.From, r.Limit
	}
	args := senderArgs(sender, keys, now)
	args["due_from"], args["limits"] = from, limits
	return args
}

// scanDue reads the columns of a due delivery by position. Reading them by name would
// take longer than all other work for the delivery.
func scanDue(row pgx.CollectableRow) (d webhook.DueDelivery, err error) {
	err = row.Scan(&d.Endpoint, &d.ID, &d.Event, &d.Body, &d.Trace, &d.State.Status, &d.State.ScheduledAttempts, &d.State.RequestedAttempts, &d.Attempts, &d.DueAt)
	return d, err
}

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
	lateness, err := postgres.OneRow[webhook.Lateness](db.SendingPool().Query(ctx, selectLateness, now, lateBefore))
	if err != nil {
		return lateness, fmt.Errorf("read the lateness of webhooks: %w", err)
	}
	return lateness, nil
}
