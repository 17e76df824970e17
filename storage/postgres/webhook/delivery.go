package webhook

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Deliveries are partitioned by week, by the day in their ids. Every statement names
// the days that it needs, so that Postgres skips the other weeks.

const deliveryColumns = `
	d.id, d.endpoint_id, d.event_id, d.event_type, d.epoch, d.status, d.due_at, d.attempt_count, d.http_status_code,
	d.error_message, d.created_at, d.completed_at`

type deliveryRow struct {
	ID             affiliate.DeliveryID     `db:"id"`
	EndpointID     affiliate.EndpointID     `db:"endpoint_id"`
	EventID        affiliate.EventID        `db:"event_id"`
	EventType      affiliate.EventName      `db:"event_type"`
	Epoch          int                      `db:"epoch"`
	Status         affiliate.DeliveryStatus `db:"status"`
	DueAt          *time.Time               `db:"due_at"`
	AttemptCount   int                      `db:"attempt_count"`
	HTTPStatusCode *int                     `db:"http_status_code"`
	ErrorMessage   *string                  `db:"error_message"`
	CreatedAt      time.Time                `db:"created_at"`
	CompletedAt    *time.Time               `db:"completed_at"`
}

// delivery returns the delivery as it is while the endpoint has this epoch. A waiting
// delivery of an earlier epoch is canceled, although the job that writes this may not
// have reached it.
func (r deliveryRow) delivery(epoch int) affiliate.Delivery {
	d := affiliate.Delivery{
		ID: r.ID, Endpoint: r.EndpointID, Event: r.EventID, Type: r.EventType, Status: r.Status,
		AttemptCount: r.AttemptCount, HTTPStatusCode: r.HTTPStatusCode, ErrorMessage: r.ErrorMessage,
		NextAttemptAt: postgres.UTC(r.DueAt), CreatedAt: r.CreatedAt.UTC(), CompletedAt: postgres.UTC(r.CompletedAt),
	}
	if r.Epoch < epoch {
		d.NextAttemptAt = nil
		if d.Status == affiliate.DeliveryPending || d.Status == affiliate.DeliveryFailed {
			d.Status = affiliate.DeliveryCanceled
		}
	}
	return d
}

// detailRow is a delivery with its attempts.
type detailRow struct {
	deliveryRow
	Attempts []affiliate.Attempt `db:"attempts"`
}

func (r detailRow) detail(epoch int) affiliate.Delivery {
	d := r.delivery(epoch)
	d.Attempts = r.Attempts
	for i := range d.Attempts {
		d.Attempts[i].StartedAt = d.Attempts[i].StartedAt.UTC()
	}
	return d
}

// firstDelivery returns the lowest id of a delivery whose event is of that millisecond
// or later.
func firstDelivery(at time.Time) (id affiliate.DeliveryID) {
	// The time, version and variant of a UUIDv7; its random bits are zero.
	binary.BigEndian.PutUint64(id.UUID[:8], uint64(max(0, at.UnixMilli()))<<16|0x7000) //nolint:gosec // not negative
	id.UUID[8] = 0x80
	return id
}

// listQuery is the common part of the statements of a list.
type listQuery struct {
	where string
	args  pgx.NamedArgs
}

// newListQuery selects an endpoint's deliveries of events since an instant. A status is
// compared as it is stored: a delivery that was canceled a moment ago is still found
// under its former status, and shown as canceled.
func newListQuery(scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter affiliate.DeliveryFilter) listQuery {
	first := firstDelivery(since)
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

// count does not name the mode, in which the endpoint was found. The primary key alone
// can therefore count; a status or an event reads the table.
func (q listQuery) count() string {
	return postgres.CountUpTo(affiliate.MaxTotal, `from webhook_deliveries d where `+q.where)
}

// eventKnown reports whether there is an event, or a delivery of it to the endpoint.
const eventKnown = `
	select exists (
		select from events where workspace_id = @workspace and mode = @mode and id = @event and day = @event_day
	) or exists (
		select from webhook_deliveries
		where workspace_id = @workspace and mode = @mode and endpoint_id = @endpoint and id = delivery_id(@event, @endpoint) and day = @event_day
	)`

// checkEvent refuses an event that the mode does not have: NOT_FOUND.
func (s *Store) checkEvent(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, event *affiliate.EventID) error {
	if event == nil {
		return nil
	}
	args := endpointArgs(scope, endpoint)
	args["event"], args["event_day"] = *event, dayOf(*event)
	var known bool
	if err := s.db.Pool().QueryRow(ctx, eventKnown, args).Scan(&known); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	if !known {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}

// Deliveries reads one page of an endpoint's deliveries of events since an instant,
// newest first, and counts all pages up to affiliate.MaxTotal deliveries. Errors:
// WEBHOOK_NOT_FOUND; NOT_FOUND for the filter's event.
func (s *Store) Deliveries(
	ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time,
	filter affiliate.DeliveryFilter, page affiliate.Page,
) ([]affiliate.Delivery, int64, error) {
	of, err := s.Endpoint(ctx, scope, endpoint)
	if err != nil {
		return nil, 0, err
	}
	if err := s.checkEvent(ctx, scope, endpoint, filter.Event); err != nil {
		return nil, 0, err
	}
	query := newListQuery(scope, endpoint, since, filter)
	query.args["limit"], query.args["offset"] = page.Size, page.Offset()
	rows, err := s.db.Pool().Query(ctx, query.page(), planned, query.args)
	deliveries, err := postgres.AllRows(rows, err, func(r deliveryRow) affiliate.Delivery { return r.delivery(of.Epoch) })
	if err != nil {
		return nil, 0, fmt.Errorf("deliveries: %w", err)
	}
	if n := int64(len(deliveries)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		return deliveries, page.Offset() + n, nil // the list ends on this page
	}
	var total int64
	if err := s.db.Pool().QueryRow(ctx, query.count(), planned, query.args).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count deliveries: %w", err)
	}
	return deliveries, total, nil
}

// whereDelivery selects one delivery from the one partition that can contain it.
const whereDelivery = `
	d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = @id and d.day = @day`

const selectDelivery = `
	select ` + deliveryColumns + `, d.attempts
	from webhook_deliveries d
	where` + whereDelivery

func deliveryArgs(scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) pgx.NamedArgs {
	args := endpointArgs(scope, endpoint)
	args["id"], args["day"] = id, dayOf(id)
	return args
}

// Delivery reads a delivery of an endpoint, with its attempts. Errors:
// WEBHOOK_NOT_FOUND.
func (s *Store) Delivery(ctx context.Context, of affiliate.Endpoint, id affiliate.DeliveryID) (affiliate.Delivery, error) {
	return readDelivery(ctx, s.db.Pool(), of, id)
}

// Delivery reads a delivery of an endpoint as the transaction has left it. Errors:
// WEBHOOK_NOT_FOUND.
func (tx *Tx) Delivery(ctx context.Context, of affiliate.Endpoint, id affiliate.DeliveryID) (affiliate.Delivery, error) {
	return readDelivery(ctx, tx, of, id)
}

func readDelivery(ctx context.Context, db postgres.Queryer, of affiliate.Endpoint, id affiliate.DeliveryID) (affiliate.Delivery, error) {
	row, err := oneRow[detailRow](db.Query(ctx, selectDelivery, deliveryArgs(of.Scope, of.ID, id)))
	if err != nil {
		return affiliate.Delivery{}, err
	}
	return row.detail(of.Epoch), nil
}

const lockDelivery = `
	select d.id, d.event_type, d.status, d.tier, d.extra, d.epoch, d.attempt_count, d.due_at, d.completed_at
	from webhook_deliveries d
	where` + whereDelivery + `
	for no key update`

type lockedRow struct {
	ID           affiliate.DeliveryID     `db:"id"`
	EventType    affiliate.EventName      `db:"event_type"`
	Status       affiliate.DeliveryStatus `db:"status"`
	Tier         int                      `db:"tier"`
	Extra        int                      `db:"extra"`
	Epoch        int                      `db:"epoch"`
	AttemptCount int                      `db:"attempt_count"`
	DueAt        *time.Time               `db:"due_at"`
	CompletedAt  *time.Time               `db:"completed_at"`
}

func (r lockedRow) locked() webhook.LockedDelivery {
	return webhook.LockedDelivery{
		ID: r.ID, Type: r.EventType, State: webhook.State{Status: r.Status, Tier: r.Tier, Extra: r.Extra},
		Epoch: r.Epoch, Attempts: r.AttemptCount, DueAt: postgres.UTC(r.DueAt), CompletedAt: postgres.UTC(r.CompletedAt),
	}
}

// LockDelivery locks a delivery of an endpoint. Errors: WEBHOOK_NOT_FOUND.
func (tx *Tx) LockDelivery(
	ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID,
) (webhook.LockedDelivery, error) {
	row, err := oneRow[lockedRow](tx.Query(ctx, lockDelivery, deliveryArgs(scope, endpoint, id)))
	return row.locked(), err
}

const updateDelivery = `
	update webhook_deliveries d
	set status = @status, tier = @tier, extra = @extra, epoch = @epoch, due_at = @due_at, completed_at = @completed_at
	where` + whereDelivery

// UpdateDelivery writes the state of a locked delivery. If it is due, the sender is
// woken after the commit.
func (tx *Tx) UpdateDelivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, d webhook.LockedDelivery) error {
	args := deliveryArgs(scope, endpoint, d.ID)
	args["status"], args["tier"], args["extra"] = d.State.Status, d.State.Tier, d.State.Extra
	args["epoch"], args["due_at"], args["completed_at"] = d.Epoch, d.DueAt, d.CompletedAt
	if _, err := tx.Exec(ctx, updateDelivery, args); err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	if d.DueAt != nil {
		tx.DeliveriesAdded(affiliate.EndpointKey{Workspace: scope.Workspace, ID: endpoint})
	}
	return nil
}
