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

// The table of deliveries has one partition per week. The day in a delivery's id
// determines the partition. Statements that know the ids of deliveries, or the lowest id,
// have a condition on the day, so that Postgres skips the other partitions. Statements
// that search for due or waiting deliveries use the index of these deliveries in each
// partition.

var (
	deliveryColumns = postgres.Columns[webhook.Delivery]("d")
	lockedColumns   = postgres.Columns[webhook.LockedDelivery]("d")
)

// listQuery has the conditions and arguments of the two statements for a list of
// deliveries: page and count.
type listQuery struct {
	where string
	args  pgx.NamedArgs
}

// newListQuery returns the query for those deliveries of an endpoint whose events were
// created at the given time or later. The filter compares the stored status. If a
// delivery is shown as canceled but the cancellation job has not processed it yet, the
// filter therefore finds the delivery only by its former status.
func newListQuery(scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter webhook.DeliveryFilter) listQuery {
	first := affiliate.FirstID[affiliate.DeliveryID](since)
	q := listQuery{
		where: `d.workspace_id = @workspace and d.endpoint_id = @endpoint and d.id >= @first and d.day >= @first_day`,
		args:  endpointArgs(scope, endpoint),
	}
	q.args["first"], q.args["first_day"] = first, dayOf(first)
	if filter.Status != nil {
		q.where += ` and d.status = @status`
		q.args["status"] = *filter.Status
	}
	if filter.Event != nil {
		q.where += ` and d.id = delivery_id(@event, @endpoint) and d.day = @event_day`
		q.args["event"], q.args["event_day"] = *filter.Event, dayOf(*filter.Event)
	}
	return q
}

func (q listQuery) page() string {
	return `
		select ` + deliveryColumns + `
		from webhook_deliveries d
		where d.mode = @mode and ` + q.where + `
		order by d.id desc
		limit @limit offset @offset`
}

// count returns the statement that counts the deliveries. It has no condition on the
// mode, because the endpoint was already found in its mode. Postgres can therefore
// count in the primary key alone, unless the filter has a status or an event.
func (q listQuery) count() string {
	return postgres.CountUpTo(affiliate.MaxTotal, `from webhook_deliveries d where `+q.where)
}

// eventKnown reports whether an event, or its delivery to the endpoint, is stored.
const eventKnown = `
	select exists (
		select from events where workspace_id = @workspace and mode = @mode and id = @event and day = @event_day
	) or exists (
		select from webhook_deliveries
		where workspace_id = @workspace and mode = @mode and endpoint_id = @endpoint and id = delivery_id(@event, @endpoint) and day = @event_day
	)`

// checkEvent returns NOT_FOUND if the scope does not contain the event. If event is
// nil, there is nothing to check.
func checkEvent(ctx context.Context, db *postgres.DB, scope affiliate.Scope, endpoint affiliate.EndpointID, event *affiliate.EventID) error {
	if event == nil {
		return nil
	}
	args := endpointArgs(scope, endpoint)
	args["event"], args["event_day"] = *event, dayOf(*event)
	var known bool
	if err := db.QueryRow(ctx, eventKnown, args).Scan(&known); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	if !known {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}

// Deliveries returns one page of those deliveries of an endpoint whose events were
// created at the given time or later, newest first, and the number of these deliveries,
// up to affiliate.MaxTotal. Errors: WEBHOOK_NOT_FOUND if the endpoint does not exist;
// NOT_FOUND if the filter's event does not exist.
func Deliveries(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time,
	filter webhook.DeliveryFilter, page affiliate.Page,
) ([]webhook.Delivery, int64, error) {
	e, err := Endpoint(ctx, db, scope, endpoint)
	if err != nil {
		return nil, 0, err
	}
	if err := checkEvent(ctx, db, scope, endpoint, filter.Event); err != nil {
		return nil, 0, err
	}
	query := newListQuery(scope, endpoint, since, filter)
	query.args["limit"], query.args["offset"] = page.Size, page.Offset()
	rows, _ := db.Query(ctx, query.page(), postgres.PlanForArgs, query.args)
	deliveries, err := pgx.CollectRows(rows, pgx.RowToStructByName[webhook.Delivery])
	if err != nil {
		return nil, 0, fmt.Errorf("deliveries: %w", err)
	}
	for i, d := range deliveries {
		deliveries[i] = d.InEpoch(e.Epoch)
	}
	if n := int64(len(deliveries)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return deliveries, page.Offset() + n, nil
	}
	var total int64
	if err := db.QueryRow(ctx, query.count(), postgres.PlanForArgs, query.args).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count deliveries: %w", err)
	}
	return deliveries, total, nil
}

// whereDelivery selects a delivery. The condition on the day limits the search to the
// only partition that can contain the delivery.
const whereDelivery = `
	d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = @id and d.day = @day`

var selectDelivery = `
	select ` + deliveryColumns + `, d.attempts
	from webhook_deliveries d
	where` + whereDelivery

func deliveryArgs(scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) pgx.NamedArgs {
	args := endpointArgs(scope, endpoint)
	args["id"], args["day"] = id, dayOf(id)
	return args
}

// Delivery returns a delivery of an endpoint with its attempts, including the changes
// that the transaction has made. Errors: WEBHOOK_NOT_FOUND.
func Delivery(ctx context.Context, db postgres.Queryer, e webhook.Endpoint, id affiliate.DeliveryID) (webhook.Delivery, error) {
	type detailRow struct {
		webhook.Delivery
		Made []webhook.Attempt `db:"attempts"`
	}
	row, err := oneRow[detailRow](db.Query(ctx, selectDelivery, deliveryArgs(e.Scope, e.ID, id)))
	if err != nil {
		return webhook.Delivery{}, err
	}
	d := row.InEpoch(e.Epoch)
	d.Attempts = row.Made
	for i := range d.Attempts {
		d.Attempts[i].StartedAt = d.Attempts[i].StartedAt.UTC()
	}
	return d, nil
}

var lockDelivery = `
	select ` + lockedColumns + `
	from webhook_deliveries d
	where` + whereDelivery + `
	for no key update`

// LockDelivery locks a delivery of an endpoint and returns it. Errors:
// WEBHOOK_NOT_FOUND.
func LockDelivery(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID,
) (webhook.LockedDelivery, error) {
	return oneRow[webhook.LockedDelivery](tx.Query(ctx, lockDelivery, deliveryArgs(scope, endpoint, id)))
}

const updateDelivery = `
	update webhook_deliveries d
	set status = @status, tier = @tier, extra = @extra, epoch = @epoch, due_at = @due_at, completed_at = @completed_at
	where` + whereDelivery

// UpdateDelivery stores the state of a locked delivery. If the delivery has a due time,
// the sender is notified after the commit.
func UpdateDelivery(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, endpoint affiliate.EndpointID, d webhook.LockedDelivery) error {
	args := deliveryArgs(scope, endpoint, d.ID)
	args["status"], args["tier"], args["extra"] = d.Status, d.ScheduledAttempts, d.RequestedAttempts
	args["epoch"], args["due_at"], args["completed_at"] = d.Epoch, d.DueAt, d.CompletedAt
	if _, err := tx.Exec(ctx, updateDelivery, args); err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	if d.DueAt != nil {
		tx.DeliveriesAdded(webhook.EndpointKey{Workspace: scope.Workspace, ID: endpoint})
	}
	return nil
}
