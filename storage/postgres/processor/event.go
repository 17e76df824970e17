// Package processor has the SQL for connections to payment processors, their events, and
// what they say about charges and disputes.
//
// The package reads, locks and stores rows. Its callers decide which values it stores. A function
// with a *postgres.Tx runs in the caller's transaction. Others run on their own.
package processor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// InsertEvent stores an event. stored is false if the event is already stored, unless it has
// failed or was ignored: the work then begins again, because the object, the connection or
// its settings may have changed.
func InsertEvent(ctx context.Context, tx *postgres.Tx, e processor.StoredProcessorEvent) (stored bool, err error) {
	const insert = `
		insert into processor_events as e (workspace_id, connection_id, id, mode, type, account_id, body, resync, since, status, happened_at, received_at)
		values (@workspace, @connection, @event, @mode, @type, @account, @body, @resync, @since, 'received', @happened_at, @received_at)
		on conflict (workspace_id, connection_id, id) do update set
			account_id = excluded.account_id, charge_id = null, body = excluded.body, resync = excluded.resync, since = excluded.since, status = 'received', reason = null,
			received_at = excluded.received_at, processed_at = null
		where e.status in ('failed', 'ignored')`
	tag, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": e.Workspace, "connection": e.Connection, "event": e.Event, "mode": e.Mode, "type": e.Type,
		"account": e.Account, "body": e.Body,
		"resync": e.Resync, "since": e.Since, "happened_at": e.HappenedAt, "received_at": e.ReceivedAt,
	})
	if err != nil {
		return false, fmt.Errorf("store an event of a processor: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

const eventColumns = `
	e.workspace_id, e.connection_id, e.id, e.mode, e.type, e.account_id, coalesce(e.charge_id, '') as charge_id, e.resync, e.since, e.status, coalesce(e.reason, '') as reason,
	e.conversion_id, e.happened_at, e.received_at, e.processed_at, e.attempt_until`

type eventRow struct {
	WorkspaceID  affiliate.WorkspaceID
	ConnectionID processor.ConnectionID
	ID           string
	Mode         affiliate.Mode
	Type         string
	AccountID    string
	ChargeID     string
	Body         []byte
	Resync       bool
	Since        *time.Time
	Status       processor.EventStatus
	Reason       processor.Ignored
	ConversionID *affiliate.ConversionID
	HappenedAt   time.Time
	ReceivedAt   time.Time
	ProcessedAt  *time.Time
	AttemptUntil *time.Time
}

func (r eventRow) event() processor.StoredProcessorEvent {
	return processor.StoredProcessorEvent{
		EventKey: processor.EventKey{Workspace: r.WorkspaceID, Mode: r.Mode, Connection: r.ConnectionID, Event: r.ID},
		Type:     r.Type, Account: r.AccountID, Charge: r.ChargeID, Body: r.Body, Resync: r.Resync, Since: r.Since, Status: r.Status, Reason: r.Reason,
		Conversion: r.ConversionID, HappenedAt: r.HappenedAt, ReceivedAt: r.ReceivedAt, ProcessedAt: r.ProcessedAt,
		AttemptUntil: r.AttemptUntil,
	}
}

// BeginAttempt stores that an attempt to apply an event is running until the given time, and
// returns the event. The erasure of a buyer does not empty the event before that time. Errors:
// NOT_FOUND if the event does not exist or needs no more work.
func BeginAttempt(ctx context.Context, db *postgres.DB, key processor.EventKey, until time.Time) (processor.StoredProcessorEvent, error) {
	const begin = `
		update processor_events e set attempt_until = $5
		where e.workspace_id = $1 and e.mode = $2 and e.connection_id = $3 and e.id = $4 and e.body is not null
		returning ` + eventColumns + `, e.body`
	row, err := postgres.OneRow[eventRow](db.Query(ctx, begin, key.Workspace, key.Mode, key.Connection, key.Event, until))
	return row.event(), err
}

// SetEventOutcome stores the status, the reason, the conversion and the charge of an event
// after an attempt. The body is deleted when no more work follows. A failed event keeps it. An
// event that the erasure of a buyer has emptied does not change. The attempt that
// e.AttemptUntil names has ended.
func SetEventOutcome(ctx context.Context, tx *postgres.Tx, e processor.StoredProcessorEvent, at time.Time) error {
	const update = `
		update processor_events
		set status = $5, reason = nullif($6, ''), conversion_id = coalesce($7, conversion_id), charge_id = nullif($9, ''),
			processed_at = case when $5 in ('applied', 'ignored', 'failed') then $8::timestamptz end,
			body = case when $5 in ('applied', 'ignored') then null else body end,
			attempt_until = case when attempt_until = $11 then null else attempt_until end
		where workspace_id = $1 and mode = $2 and connection_id = $3 and id = $4 and status <> 'applied' and reason is distinct from $10`
	_, err := tx.Exec(ctx, update, e.Workspace, e.Mode, e.Connection, e.Event, e.Status, e.Reason, e.Conversion, at, e.Charge,
		processor.IgnoredErased, e.AttemptUntil)
	if err != nil {
		return fmt.Errorf("store the outcome of an event of a processor: %w", err)
	}
	return nil
}

// abandonedEvents returns events without an outcome that arrived before a time. It reads the
// index of all events without an outcome, which are few.
const abandonedEvents = `
	select ` + eventColumns + `, null::bytea as body
	from processor_events e
	where e.status = 'received' and e.received_at < $1
	limit $2`

// AbandonedEvents returns at most limit events without an outcome that arrived before the
// given time. The events have no body.
func AbandonedEvents(ctx context.Context, db *postgres.DB, before time.Time, limit int) ([]processor.StoredProcessorEvent, error) {
	rows, err := db.Query(ctx, abandonedEvents, before, limit)
	return postgres.AllRows(rows, err, eventRow.event)
}

const (
	whereEvents = `
		from processor_events e
		where e.workspace_id = $1 and e.mode = $2`
	listEvents = `
		select ` + eventColumns + `, null::bytea as body` + whereEvents + `
		order by e.received_at desc, e.id desc
		limit $3 offset $4`
)

// Events returns one page of the events of a scope, the latest first, and the number of
// events on all pages, up to affiliate.MaxTotal. The events have no body.
func Events(ctx context.Context, db *postgres.DB, scope affiliate.Scope, page affiliate.Page) ([]processor.StoredProcessorEvent, int64, error) {
	rows, err := db.Query(ctx, listEvents, scope.Workspace, scope.Mode, page.Size, page.Offset())
	events, err := postgres.AllRows(rows, err, eventRow.event)
	if err != nil {
		return nil, 0, fmt.Errorf("read events of a processor: %w", err)
	}
	var total int64
	if err := db.QueryRow(ctx, postgres.CountUpTo(affiliate.MaxTotal, whereEvents), scope.Workspace, scope.Mode).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count events of a processor: %w", err)
	}
	return events, total, nil
}

const deleteEvents = `
	delete from processor_events e
	using (select workspace_id, connection_id, id from processor_events where received_at < $1 order by received_at limit $2) as old
	where e.workspace_id = old.workspace_id and e.connection_id = old.connection_id and e.id = old.id`

// DeleteProcessorEvents deletes at most limit events that arrived before the given time. It
// returns the number of deleted rows.
func DeleteProcessorEvents(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deleteEvents, before, limit)
	return tag.RowsAffected(), err
}
