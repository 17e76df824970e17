package buyer

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	deleteCustomers = `
		delete from customers u
		using buyer_erasure_customers l
		where l.workspace_id = $1 and l.operation_id = $2
			and u.workspace_id = $1 and u.mode in ('test', 'live') and u.ref = l.ref
			and (u.created_at <= $3 or (u.bound_at is null or u.bound_at <= $3) and not exists (
				select from conversions c where c.workspace_id = $1 and c.mode = u.mode and c.customer_ref = u.ref
			))`
	deletePayments = `
		delete from customer_payments p
		using buyer_erasure_customers l
		where l.workspace_id = $1 and l.operation_id = $2
			and p.workspace_id = $1 and p.mode in ('test', 'live') and p.ref = l.ref
			and (p.first_at <= $3 or not exists (
				select from conversions c where c.workspace_id = $1 and c.mode = p.mode and c.customer_ref = p.ref
			))`
)

// DeleteCustomers deletes the customers in the list of an erasure, with their bindings and the numbers of their
// payments. A customer that was created after e.Until() stays if it has a binding from after this time, or a
// conversion that is not erased. Numbers of payments that began after e.Until() stay if a conversion is not erased.
func DeleteCustomers(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) error {
	for _, statement := range []string{deletePayments, deleteCustomers} {
		if _, err := tx.Exec(ctx, statement, e.Workspace, e.ID, e.Until()); err != nil {
			return err
		}
	}
	return nil
}

// deleteResponses reads the stored responses of one range of idempotency keys. It deletes the
// responses about conversions in the list of an erasure, and returns the last key of the range.
// A response names its conversion.
const deleteResponses = `
	with part as (
		select k.mode, k.method, k.key, k.response
		from idempotency_keys k
		where k.workspace_id = @workspace and (k.mode, k.method, k.key) > (@mode, @method, @key)
		order by k.mode, k.method, k.key
		limit @most
	), named as (
		select p.mode, p.method, p.key,
			substring(encode(p.response, 'escape') from '[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}') as id
		from part p
		where p.response is not null
	), deleted as (
		delete from idempotency_keys k
		using named n
		join buyer_erasure_sales s on s.workspace_id = @workspace and s.operation_id = @operation and s.mode = n.mode and s.conversion_id = n.id::uuid
		where k.workspace_id = @workspace and k.mode = n.mode and k.method = n.method and k.key = n.key
	)
	select p.mode, p.method, p.key from part p order by p.mode desc, p.method desc, p.key desc limit 1`

// DeleteResponses reads at most limit stored responses after the given key, and deletes the
// responses about conversions in the list of an erasure. It returns the last key that it has
// read; nil if it has read none.
func DeleteResponses(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, after privacy.StoredResponseKey, limit int) (*privacy.StoredResponseKey, error) {
	last, err := postgres.List[privacy.StoredResponseKey](ctx, tx, deleteResponses, pgx.NamedArgs{
		"workspace": e.Workspace, "operation": e.ID, "mode": after.Mode, "method": after.Method, "key": after.Key, "most": limit,
	})
	if err != nil {
		return nil, err
	}
	if len(last) == 0 {
		return nil, nil
	}
	return &last[0], nil
}

// waitingEvents reads events that still have their content, in the order of the index
// processor_events_with_body.
const waitingEvents = `
	select e.connection_id, e.id, e.mode, e.body, e.status, e.received_at
	from processor_events e
	where e.workspace_id = $1 and e.mode in ('test', 'live') and (e.connection_id, e.id) > ($2, $3) and e.body is not null and e.received_at <= $5
	order by e.connection_id, e.id
	limit $4`

// WaitingEvents returns at most limit events of payment processors of a workspace that come
// after the given key and arrived no later than e.Until().
func WaitingEvents(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, after privacy.WaitingEventKey, limit int) ([]privacy.WaitingEvent, error) {
	return postgres.List[privacy.WaitingEvent](ctx, tx, waitingEvents, e.Workspace, after.Connection, after.ID, limit, e.Until())
}

// ErasedAliases returns the given texts that are aliases of conversions in the list of an
// erasure.
func ErasedAliases(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, mode affiliate.Mode, texts []string) ([]string, error) {
	const read = `
		select a.id
		from conversion_aliases a
		join buyer_erasure_sales s on s.workspace_id = $1 and s.operation_id = $2 and s.mode = $3 and s.conversion_id = a.conversion_id
		where a.workspace_id = $1 and a.mode = $3 and a.id = any($4)`
	return postgres.Values[string](ctx, tx, read, e.Workspace, e.ID, mode, texts)
}

// Customers returns the given references that are in the list of an erasure.
func Customers(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, refs []string) ([]string, error) {
	const read = `
		select u.ref from buyer_erasure_customers u
		where u.workspace_id = $1 and u.operation_id = $2 and u.ref = any($3)`
	return postgres.Values[string](ctx, tx, read, e.Workspace, e.ID, refs)
}

// EmptyEvent deletes the content of an event and its charge. The event is not applied any more.
// emptied is false if an attempt to apply the event is running, or if an attempt has applied it.
func EmptyEvent(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, event privacy.WaitingEvent, reason processor.Ignored, at time.Time,
) (emptied bool, err error) {
	const update = `
		update processor_events set body = null, charge_id = null, attempt_until = null, status = 'ignored', reason = $5, processed_at = $6
		where workspace_id = $1 and mode = $2 and connection_id = $3 and id = $4 and body is not null
			and (attempt_until is null or attempt_until <= $6)`
	tag, err := tx.Exec(ctx, update, workspace, event.Mode, event.ConnectionID, event.ID, reason, at)
	return tag.RowsAffected() == 1, err
}
