package webhook

import (
	"context"
	"encoding/json"
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
	if from := filter.Created.From; from != nil && from.After(since) {
		since = *from
	}
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
	if filter.Type != "" {
		q.where += ` and d.event_type = @type`
		q.args["type"] = filter.Type
	}
	if filter.Created.Before != nil {
		end := affiliate.FirstID[affiliate.DeliveryID](*filter.Created.Before)
		q.where += ` and d.id < @end and d.day <= @last_day`
		q.args["end"], q.args["last_day"] = end, dayOf(end)
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
	known, err := postgres.Value[bool](ctx, db, eventKnown, args)
	if err == nil && !known {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return err
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
	deliveries, err := postgres.List[webhook.Delivery](ctx, db, query.page(), postgres.PlanForArgs, query.args)
	if err != nil {
		return nil, 0, err
	}
	for i, d := range deliveries {
		deliveries[i] = d.InEpoch(e.Epoch)
	}
	if n := int64(len(deliveries)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return deliveries, page.Offset() + n, nil
	}
	total, err := postgres.Value[int64](ctx, db, query.count(), postgres.PlanForArgs, query.args)
	return deliveries, total, err
}

// whereDelivery selects a delivery. The condition on the day limits the search to the
// only partition that can contain the delivery.
const whereDelivery = `
	d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = @id and d.day = @day`

var selectDelivery = `
	select ` + deliveryColumns + `, d.attempts, (
			select convert_from(v.body, 'UTF8') from events v where v.workspace_id = d.workspace_id and v.id = d.event_id and v.day = d.day and v.mode = d.mode
		) as payload
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
		Body *string           `db:"payload"`
	}
	row, err := oneRow[detailRow](db.Query(ctx, selectDelivery, deliveryArgs(e.Scope, e.ID, id)))
	if err != nil {
		return webhook.Delivery{}, err
	}
	d := row.InEpoch(e.Epoch)
	d.Attempts, d.Payload = row.Made, row.Body
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
		return err
	}
	if d.DueAt != nil {
		tx.DeliveriesAdded(webhook.EndpointKey{Workspace: scope.Workspace, ID: endpoint})
	}
	return nil
}

// keptAttempts is the maximum number of attempts that are stored with a delivery. If a
// delivery already has this number, a new attempt replaces the oldest attempt.
const keptAttempts = 50

// applyOutcomes stores the outcomes of attempts. It updates a delivery only if its
// stored state is still the state from which the change was computed. The columns tier and
// extra are the fields ScheduledAttempts and RequestedAttempts of webhook.State.
const applyOutcomes = `
	update webhook_deliveries w set
		status = d.status, due_at = d.due_at, tier = d.tier, extra = d.extra, attempt_count = w.attempt_count + 1,
		http_status_code = d.http_status_code, error_message = d.error_message,
		attempts = case when w.attempt_count >= @kept then w.attempts - 0 else w.attempts end || d.attempt,
		completed_at = case when d.due_at is null or d.status not in ('pending', 'failed') then coalesce(d.completed_at, w.completed_at) end
	from unnest(
			@workspaces::uuid[], @endpoints::uuid[], @ids::uuid[], @days::date[],
			@attempts::int[], @statuses_before::text[], @tiers_before::int[], @extras_before::int[],
			@statuses::text[], @tiers::int[], @extras::int[], @due_at::timestamptz[], @completed_at::timestamptz[],
			@status_codes::int[], @error_codes::text[], @records::jsonb[])
		as d (workspace_id, endpoint_id, id, day, attempt_count, status_before, tier_before, extra_before,
			status, tier, extra, due_at, completed_at, http_status_code, error_message, attempt)
	where w.workspace_id = d.workspace_id and w.endpoint_id = d.endpoint_id and w.id = d.id and w.day = d.day
		and w.attempt_count = d.attempt_count and w.status = d.status_before and w.tier = d.tier_before and w.extra = d.extra_before
	returning w.id`

// ApplyOutcomes stores the changes of deliveries after their attempts. It skips a
// delivery if the stored state is no longer the state before the change. It returns the
// ids of the deliveries that it has updated.
func ApplyOutcomes(ctx context.Context, tx *postgres.Tx, changes []webhook.DeliveryChange) ([]affiliate.DeliveryID, error) {
	args, err := outcomeArgs(changes)
	if err != nil {
		return nil, err
	}
	return postgres.Values[affiliate.DeliveryID](ctx, tx, applyOutcomes, args)
}

// column returns the values of one column of rows, as an array for unnest.
func column[From, To any](rows []From, value func(From) To) []To {
	values := make([]To, len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return values
}

func outcomeArgs(changes []webhook.DeliveryChange) (pgx.NamedArgs, error) {
	type change = webhook.DeliveryChange
	records := make([]webhook.Attempt, len(changes))
	encoded := make([][]byte, len(changes))
	for i, c := range changes {
		var err error
		records[i] = c.Result.Record()
		if encoded[i], err = json.Marshal(records[i]); err != nil {
			return nil, err
		}
	}
	return pgx.NamedArgs{
		"workspaces":      column(changes, func(c change) affiliate.WorkspaceID { return c.Result.Key.Workspace }),
		"endpoints":       column(changes, func(c change) affiliate.EndpointID { return c.Result.Key.ID }),
		"ids":             column(changes, func(c change) affiliate.DeliveryID { return c.Result.Delivery.ID }),
		"days":            column(changes, func(c change) time.Time { return dayOf(c.Result.Delivery.ID) }),
		"attempts":        column(changes, func(c change) int { return c.Result.Delivery.Attempts }),
		"statuses_before": column(changes, func(c change) webhook.DeliveryStatus { return c.Before.Status }),
		"tiers_before":    column(changes, func(c change) int { return c.Before.ScheduledAttempts }),
		"extras_before":   column(changes, func(c change) int { return c.Before.RequestedAttempts }),
		"statuses":        column(changes, func(c change) webhook.DeliveryStatus { return c.After.Status }),
		"tiers":           column(changes, func(c change) int { return c.After.ScheduledAttempts }),
		"extras":          column(changes, func(c change) int { return c.After.RequestedAttempts }),
		"due_at":          column(changes, func(c change) *time.Time { return c.DueAt }),
		"completed_at":    column(changes, func(c change) *time.Time { return c.CompletedAt }),
		"status_codes":    column(records, func(a webhook.Attempt) *int { return a.HTTPStatusCode }),
		"error_codes":     column(records, func(a webhook.Attempt) *string { return a.ErrorMessage }),
		"records":         encoded,
		"kept":            keptAttempts,
	}, nil
}

var (
	lockDeliveryOfKey = `
		select ` + lockedColumns + `
		from webhook_deliveries d
		where d.workspace_id = $1 and d.endpoint_id = $2 and d.id = $3 and d.day = $4
		for no key update`
	lockEndpoints = `
		select ` + endpointColumns + `
		from unnest($1::uuid[], $2::uuid[]) as w (workspace_id, id)
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.id = w.id
		order by e.workspace_id, e.id
		for no key update of e`
)

// LockDeliveryOf locks a delivery of the given endpoint and returns it. The endpoint
// may belong to any workspace. Errors: WEBHOOK_NOT_FOUND.
func LockDeliveryOf(ctx context.Context, tx *postgres.Tx, key webhook.EndpointKey, id affiliate.DeliveryID) (webhook.LockedDelivery, error) {
	return oneRow[webhook.LockedDelivery](tx.Query(ctx, lockDeliveryOfKey, key.Workspace, key.ID, id, dayOf(id)))
}

// LockEndpoints locks endpoints of any workspaces and returns them. Deleted endpoints
// are included.
func LockEndpoints(ctx context.Context, tx *postgres.Tx, keys []webhook.EndpointKey) ([]webhook.Endpoint, error) {
	workspaces, ids := keyColumns(keys)
	return postgres.List[webhook.Endpoint](ctx, tx, lockEndpoints, workspaces, ids)
}

// UpdateEndpoints stores the changed fields of locked endpoints.
func UpdateEndpoints(ctx context.Context, tx *postgres.Tx, endpoints []webhook.Endpoint) error {
	batch := &pgx.Batch{}
	updateEndpoint.Queue(batch, endpoints...)
	return postgres.Send(ctx, tx, batch)
}
