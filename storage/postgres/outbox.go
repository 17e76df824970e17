package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

// publishEvents writes events and, for each endpoint that follows them, a delivery.
// Whoever turns an endpoint off at the same time is not waited for: what is made for
// an endpoint that is off is of an epoch that has ended, and is not sent.
const publishEvents = `
	with written as (
		insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
		values %s
		returning workspace_id, id, day, mode, type, created_at
	)
	insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, due_at, created_at)
	select w.workspace_id, e.id, delivery_id(w.id, e.id), w.day, w.mode, w.id, w.type, e.epoch, w.created_at, w.created_at
	from written w
	join webhook_endpoints e on e.workspace_id = w.workspace_id and e.mode = w.mode and e.deleted_at is null
	where e.active and e.subscriptions && array[w.type, split_part(w.type, '.', 1) || '.*', '*']
	returning workspace_id as workspace, endpoint_id as id`

var eventRows = rowsOf(publishEvents, 8)

// publish writes events in the transaction of their cause, with their deliveries.
// Their bodies are serialised here, once.
func (s *Store) publish(ctx context.Context, tx pgx.Tx, events ...affiliate.Event) error {
	if len(events) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	if err := queueEvents(ctx, batch, events...); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return nil
}

// queueEvents adds events, with their deliveries, to a batch of the transaction
// whose context it is given.
func queueEvents(ctx context.Context, batch *pgx.Batch, events ...affiliate.Event) error {
	rows := make([][]any, len(events))
	for i, event := range events {
		body, err := event.Body()
		if err != nil {
			return fmt.Errorf("event %s: %w", event.Name, err)
		}
		day, _ := event.ID.Time()
		rows[i] = []any{
			event.Scope.Workspace, event.ID, day.Truncate(24 * time.Hour), event.Scope.Mode, event.Name, event.Subject(), body, event.At,
		}
	}
	told := toldIn(ctx)
	for _, queued := range eventRows.queue(batch, rows...) {
		queued.Query(func(rows pgx.Rows) error {
			endpoints, err := pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.EndpointKey])
			told.add(endpoints...)
			return err
		})
	}
	return nil
}

// eventBlock bounds the events of one batch.
const eventBlock = 500

// publishInBlocks publishes events of any number.
func (s *Store) publishInBlocks(ctx context.Context, tx pgx.Tx, events []affiliate.Event) error {
	for from := 0; from < len(events); from += eventBlock {
		if err := s.publish(ctx, tx, events[from:min(from+eventBlock, len(events))]...); err != nil {
			return err
		}
	}
	return nil
}

// enqueue adds jobs in the transaction of their cause, in one round trip. None of
// them is unique: a conflict would fail them all.
func (s *Store) enqueue(ctx context.Context, tx pgx.Tx, jobs ...affiliate.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	inserted := make([]river.InsertManyParams, len(jobs))
	for i, job := range jobs {
		queue := river.QueueDefault
		if job.Kind() == (affiliate.SyncDirectory{}).Kind() {
			queue = affiliate.DirectoryQueue
		}
		inserted[i] = river.InsertManyParams{Args: job, InsertOpts: &river.InsertOpts{Queue: queue}}
	}
	if _, err := s.jobs.InsertManyTx(ctx, tx, inserted); err != nil {
		return fmt.Errorf("%d jobs of kind %s: %w", len(jobs), jobs[0].Kind(), err)
	}
	return nil
}

// audit is one line of the audit log. Before and After are the changed parts of
// the resource, JSON-encoded; nil where there is none.
type audit struct {
	Workspace    affiliate.WorkspaceID
	Mode         *affiliate.Mode // nil: of the workspace as a whole
	Actor        affiliate.Actor
	At           time.Time
	Action       string // noun.verb
	ResourceType string
	ResourceID   fmt.Stringer
	Before       any
	After        any
}

// record appends to the audit log in the transaction of the change.
func record(ctx context.Context, tx pgx.Tx, line audit) error {
	before, err := optionalJSON(line.Before)
	if err != nil {
		return err
	}
	after, err := optionalJSON(line.After)
	if err != nil {
		return err
	}
	const insert = `
		insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id, before, after, ip_prefix, request_id)
		values ($1, $2, $3, $4, $5, $6, $7, $8::uuid, $9, $10, nullif($11, ''), nullif($12, ''))`
	id := affiliate.NewID[affiliate.AuditEntry](line.At)
	_, err = tx.Exec(ctx, insert, line.Workspace, id, line.Mode, line.At, line.Actor.String(), line.Action,
		line.ResourceType, line.ResourceID.String(), before, after, line.Actor.AddressPrefix, line.Actor.RequestID)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

func optionalJSON(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}
