package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/spans"
)

// publishEvents inserts events, and a delivery for each endpoint that subscribes to them.
// It does not lock the endpoints, so it does not wait for a transaction that disables an
// endpoint. The epoch of an endpoint is a number that increases when the endpoint is
// disabled. A delivery that is created while its endpoint is being disabled has the old
// epoch and is never sent.
var publishEvents = RowsOf[newEventRow](`
	with written as (
		insert into events ({columns})
		values {rows}
		returning workspace_id, id, day, mode, type, created_at
	)
	insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, due_at, created_at)
	select w.workspace_id, e.id, delivery_id(w.id, e.id), w.day, w.mode, w.id, w.type, e.epoch, w.created_at, w.created_at
	from written w
	join webhook_endpoints e on e.workspace_id = w.workspace_id and e.mode = w.mode and e.deleted_at is null
	where e.active and e.subscriptions && array[w.type, split_part(w.type, '.', 1) || '.*', '*']
	returning workspace_id, endpoint_id as id`)

type newEventRow struct {
	WorkspaceID affiliate.WorkspaceID `db:"workspace_id"`
	ID          affiliate.EventID     `db:"id"`
	Day         time.Time             `db:"day"` // the partition key
	Mode        affiliate.Mode        `db:"mode"`
	Type        affiliate.EventName   `db:"type"`
	SubjectID   fmt.Stringer          `db:"subject_id"`
	Body        []byte                `db:"body"`
	CreatedAt   time.Time             `db:"created_at"`
	Trace       []byte                `db:"trace_reference"`
}

// eventBlock is the maximum number of events in one round trip.
const eventBlock = 500

// Publish stores events, their notifications, and a delivery for each endpoint that subscribes to them. It
// serialises the body of each event. The webhook sender later sends this body unchanged,
// unless RedactEvents has changed it. If an event has no Trace, it gets the span of ctx.
func (tx *Tx) Publish(ctx context.Context, events ...affiliate.Event) error {
	if span := spans.Reference(ctx); span != nil {
		events = slices.Clone(events)
		for i := range events {
			if events[i].Trace == nil {
				events[i].Trace = span
			}
		}
	}
	for from := 0; from < len(events); from += eventBlock {
		batch := &pgx.Batch{}
		if err := QueueEvents(tx, batch, events[from:min(from+eventBlock, len(events))]...); err != nil {
			return err
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
	}
	return nil
}

// subjectOf returns the participant or the conversion whose data the body of an event
// contains. It returns nil if the body contains no such data.
func subjectOf(event affiliate.Event) fmt.Stringer {
	if sale := event.Sale(); sale != nil {
		return sale
	}
	if participant := event.Subject(); participant != nil {
		return participant
	}
	return nil
}

// QueueEvents adds the inserts of events, their deliveries and their notifications to a
// batch of this transaction.
func QueueEvents(tx *Tx, batch *pgx.Batch, events ...affiliate.Event) error {
	rows := make([]newEventRow, len(events))
	var notifications []notification.Notification
	for i, event := range events {
		body, err := event.Body()
		if err != nil {
			return fmt.Errorf("event %s: %w", event.Name, err)
		}
		idTime, _ := event.ID.Time()
		rows[i] = newEventRow{
			WorkspaceID: event.Scope.Workspace, ID: event.ID, Day: idTime.Truncate(24 * time.Hour), Mode: event.Scope.Mode,
			Type: event.Name, SubjectID: subjectOf(event), Body: body, CreatedAt: event.At, Trace: event.Trace,
		}
		notifications = append(notifications, notification.NotificationsOf(event)...)
	}
	for _, queued := range publishEvents.Queue(batch, rows...) {
		queued.Query(func(rows pgx.Rows) error {
			endpoints, err := pgx.CollectRows(rows, pgx.RowToStructByName[webhook.EndpointKey])
			tx.DeliveriesAdded(endpoints...)
			return err
		})
	}
	tx.AfterCommit(func() {
		for _, event := range events {
			tx.db.onEvent(event.Name, event.Scope.Mode)
		}
	})
	return queueNotifications(tx, batch, notifications...)
}
