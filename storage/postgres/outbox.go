package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

const insertEvents = `
	insert into events (workspace_id, id, mode, type, body, created_at)
	values %s`

var eventRows = rowsOf(insertEvents, 6)

// publish writes events in the transaction of their cause, and a job for each of
// their workspaces that takes them on. Their bodies are serialised here, once.
func (s *Store) publish(ctx context.Context, tx pgx.Tx, events ...affiliate.Event) error {
	if len(events) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	jobs, err := queueEvents(batch, events...)
	if err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return s.enqueue(ctx, tx, jobs...)
}

// queueEvents adds events to a batch, and returns the jobs that take them on, which
// the caller adds (enqueue).
func queueEvents(batch *pgx.Batch, events ...affiliate.Event) ([]affiliate.Job, error) {
	rows := make([][]any, len(events))
	var jobs []affiliate.Job
	ids := map[affiliate.WorkspaceID][]affiliate.EventID{}
	for i, event := range events {
		body, err := event.Body()
		if err != nil {
			return nil, fmt.Errorf("event %s: %w", event.Name, err)
		}
		rows[i] = []any{event.Scope.Workspace, event.ID, event.Scope.Mode, event.Name, body, event.At}
		ids[event.Scope.Workspace] = append(ids[event.Scope.Workspace], event.ID)
	}
	eventRows.queue(batch, rows...)
	for workspace, events := range ids {
		for block := range slices.Chunk(events, eventBlock) {
			jobs = append(jobs, affiliate.DispatchEvents{Workspace: workspace, Events: block})
		}
	}
	return jobs, nil
}

// eventBlock bounds the events that one job takes on.
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
