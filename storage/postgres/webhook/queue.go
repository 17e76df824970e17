package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Recovery and cancellation change the deliveries of an endpoint in blocks, one block in
// each transaction. A processed delivery no longer matches the condition of the
// statement, so a job that runs twice does not process the delivery twice. The endpoint
// is not locked. The endpoint has an epoch, a number that increases each time the
// endpoint is disabled. If this happens while a block is being processed, the block's
// deliveries still have the earlier epoch and are never sent.

// recoverable is the condition for the deliveries of a recovery. It selects a delivery if
// the delivery had one of the requested statuses when the recovery was requested. These
// statuses are the statuses that the API shows (see webhook.Delivery.InEpoch). The last part
// of the condition checks that the delivery already had this status at that time: a
// pending delivery was already due, a failed delivery had already started its last
// attempt, and any other delivery was already completed. A delivery that the job has
// restarted no longer matches this condition, so it is not selected again. Because of the
// list of stored statuses, Postgres can use the index by status.
const recoverable = `
	d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint
	and d.id >= @first and d.id < @until and d.day >= @first_day and d.day <= @until_day
	and d.status = any(@stored)
	and case when d.epoch < @epoch and d.status in ('pending', 'failed') then 'canceled' else d.status end = any(@shown)
	and case d.status
		when 'pending' then d.due_at
		when 'failed' then (d.attempts -> -1 ->> 'startedAt')::timestamptz
		else d.completed_at
	end <= @asked`

// blockPlan makes Postgres update the rows of a block by their keys. Without these
// settings, Postgres would choose a join that reads all deliveries of the endpoint,
// because its estimate of the block's size is wrong.
const blockPlan = `set local enable_hashjoin = off; set local enable_mergejoin = off`

const (
	countRecoverable = `select count(*) from webhook_deliveries d where ` + recoverable
	// recoverBlock restarts the retry schedule of the deliveries.
	recoverBlock = `
		with block as (
			select d.id, d.day
			from webhook_deliveries d
			where ` + recoverable + `
			limit @limit
			for no key update of d skip locked
		)
		update webhook_deliveries d
		set status = 'pending', tier = 0, extra = 0, due_at = @at, completed_at = null, epoch = @epoch
		from block
		where d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = block.id and d.day = block.day
			and d.day >= @first_day and d.day <= @until_day`
)

func recoverableArgs(job webhook.RecoverDeliveries, epoch int) pgx.NamedArgs {
	first, until := affiliate.FirstID[affiliate.DeliveryID](job.Since), affiliate.FirstID[affiliate.DeliveryID](job.Until)
	stored := job.Statuses
	if slices.Contains(stored, webhook.DeliveryCanceled) {
		stored = slices.Concat(stored, []webhook.DeliveryStatus{webhook.DeliveryPending, webhook.DeliveryFailed})
	}
	text := func(s webhook.DeliveryStatus) string { return string(s) }
	args := endpointArgs(affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, job.Endpoint)
	args["first"], args["first_day"], args["until"], args["until_day"] = first, dayOf(first), until, dayOf(until)
	args["stored"], args["shown"], args["asked"], args["epoch"] = column(stored, text), column(job.Statuses, text), job.RequestedAt, epoch
	return args
}

// CountRecoverable counts the deliveries that a recovery selects. epoch is the current
// epoch of the endpoint.
func CountRecoverable(ctx context.Context, tx *postgres.Tx, job webhook.RecoverDeliveries, epoch int) (int64, error) {
	return postgres.Value[int64](ctx, tx, countRecoverable, postgres.PlanForArgs, recoverableArgs(job, epoch))
}

// RecoverBlock restarts at most limit deliveries of a recovery and makes them due at
// dueAt. It returns the number of restarted deliveries. If the number is less than limit,
// no deliveries of the recovery are left except those that other transactions have
// locked. The sender is notified after the commit.
func RecoverBlock(ctx context.Context, tx *postgres.Tx, job webhook.RecoverDeliveries, epoch int, dueAt time.Time, limit int) (int, error) {
	if _, err := tx.Exec(ctx, blockPlan); err != nil {
		return 0, err
	}
	args := recoverableArgs(job, epoch)
	args["at"], args["limit"] = dueAt, limit
	tag, err := tx.Exec(ctx, recoverBlock, postgres.PlanForArgs, args)
	if err != nil {
		return 0, err
	}
	if tag.RowsAffected() > 0 {
		tx.DeliveriesAdded(webhook.EndpointKey{Workspace: job.Workspace, ID: job.Endpoint})
	}
	return int(tag.RowsAffected()), nil
}

const (
	// setCanceled cancels pending and failed deliveries. A delivery that was already
	// completed keeps its status; only the additional attempts that were requested for
	// it are canceled.
	setCanceled = `
		set due_at = null, extra = 0,
			status = case when d.status in ('pending', 'failed') then 'canceled' else d.status end,
			completed_at = case when d.status in ('pending', 'failed') then block.ended else d.completed_at end
		from block`
	cancelBlock = `
		with block as (
			select d.id, d.day, @ended::timestamptz as ended
			from webhook_deliveries d
			where d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint
				and d.epoch < @epoch and d.due_at is not null
			limit @limit
			for no key update of d skip locked
		)
		update webhook_deliveries d` + setCanceled + `
		where d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = block.id and d.day = block.day`
	// cancelRemaining cancels deliveries that the cancellation job has missed, because
	// they were inserted or attempted while the endpoint was being disabled.
	cancelRemaining = `
		with block as (
			select d.workspace_id, d.endpoint_id, d.id, d.day, least(e.updated_at, $2) as ended
			from webhook_endpoints e
			cross join lateral (
				select d.workspace_id, d.endpoint_id, d.id, d.day from webhook_deliveries d
				where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch < e.epoch and d.due_at is not null
				limit $1
				for no key update skip locked
			) as d
			limit $1
		)
		update webhook_deliveries d` + setCanceled + `
		where d.workspace_id = block.workspace_id and d.endpoint_id = block.endpoint_id and d.id = block.id and d.day = block.day`
)

// CancelBlock cancels at most limit waiting deliveries of an endpoint that belong to an
// earlier epoch than the given epoch. endedAt becomes the completion time of the pending and
// failed deliveries. It returns the number of canceled deliveries. If the number is less than
// limit, no such deliveries are left except those that other transactions have locked.
// CancelRemaining cancels these later.
func CancelBlock(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, endpoint affiliate.EndpointID, epoch int, endedAt time.Time, limit int,
) (int, error) {
	if _, err := tx.Exec(ctx, blockPlan); err != nil {
		return 0, err
	}
	args := endpointArgs(scope, endpoint)
	args["epoch"], args["limit"], args["ended"] = epoch, limit, endedAt
	tag, err := tx.Exec(ctx, cancelBlock, postgres.PlanForArgs, args)
	if err != nil {
		return 0, err
	}
	return int(tag.RowsAffected()), nil
}

// CancelRemaining cancels at most limit waiting deliveries of earlier epochs, of all
// endpoints. For each endpoint without such deliveries it reads one index entry.
func CancelRemaining(ctx context.Context, tx *postgres.Tx, now time.Time, limit int) (int64, error) {
	if _, err := tx.Exec(ctx, blockPlan); err != nil {
		return 0, err
	}
	return postgres.ExecCount(ctx, tx, cancelRemaining, limit, now)
}

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
	return postgres.List[webhook.EndpointKey](ctx, db.SendingPool(), claim, args)
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
	return postgres.Exec(ctx, db.SendingPool(), release, workspaces, ids, sender)
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
	return postgres.List[webhook.EndpointKey](ctx, db.SendingPool(), unclaimed, now, limit)
}

// targets selects endpoints, and for each endpoint the due time of the next delivery that is
// not due yet. dueDeliveries selects the due deliveries of these endpoints. Both
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

// Due returns the endpoints of the given queries and their due deliveries, within the limits of the queries, in no
// particular order. It leaves out endpoints that are not active or not leased to the sender.
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

// Lateness returns the number of active endpoints, the number of late endpoints, and the earliest time since which a
// delivery is due. An endpoint is late if one of its deliveries is due since the time lateBefore or an earlier time.
func Lateness(ctx context.Context, db *postgres.DB, now, lateBefore time.Time) (webhook.Lateness, error) {
	return postgres.OneRow[webhook.Lateness](db.SendingPool().Query(ctx, selectLateness, now, lateBefore))
}
