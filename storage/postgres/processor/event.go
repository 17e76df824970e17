// Package processor has the SQL for connections to payment processors, and for the events, charges and disputes
// that the processors report.
//
// The package reads, locks and stores rows. Its callers decide which values it stores. A function
// with a *postgres.Tx runs in the caller's transaction. The other functions do not.
package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// eventRow is an event with its body.
type eventRow struct {
	processor.StoredProcessorEvent
	Body []byte
}

var (
	eventColumns = postgres.Columns[processor.StoredProcessorEvent]("e")
	insertEvent  = postgres.RowsOf[eventRow](`
		insert into processor_events as e ({columns}) values {rows}
		on conflict (workspace_id, connection_id, id) do update set
			account_id = excluded.account_id, charge_id = null, body = excluded.body, resync = excluded.resync, since = excluded.since,
			status = 'received', reason = null,
			received_at = excluded.received_at, processed_at = null
		where e.status in ('failed', 'ignored')`)
	beginAttempt = `
		update processor_events e set attempt_until = $5
		where e.workspace_id = $1 and e.mode = $2 and e.connection_id = $3 and e.id = $4 and e.body is not null
		returning ` + eventColumns + `, e.body`
	// abandonedEvents reads the index of all events without an outcome, which are few.
	abandonedEvents = `
		select ` + eventColumns + `
		from processor_events e
		where e.status = 'received' and e.received_at < $1
		limit $2`
	listEvents = `
		select ` + eventColumns + whereEvents + `
		order by e.received_at desc, e.id desc
		limit $3 offset $4`
)

const whereEvents = `
	from processor_events e
	where e.workspace_id = $1 and e.mode = $2`

// InsertEvent stores an event. If the same event has failed or was ignored, InsertEvent replaces it, and the work
// begins again, because the object, the connection or its settings may have changed. stored is false if the event
// is already stored and has not failed or been ignored.
func InsertEvent(ctx context.Context, tx *postgres.Tx, e processor.StoredProcessorEvent) (stored bool, err error) {
	inserted, err := insertEvent.Exec(ctx, tx, eventRow{e, e.Body})
	if err != nil {
		return false, err
	}
	return inserted == 1, nil
}

// BeginAttempt stores that an attempt to apply an event is running until the given time, and
// returns the event. The erasure of a buyer does not empty the event before that time. Errors:
// NOT_FOUND if the event does not exist or needs no more work.
func BeginAttempt(ctx context.Context, db *postgres.DB, key processor.EventKey, until time.Time) (processor.StoredProcessorEvent, error) {
	row, err := postgres.OneRow[eventRow](db.Query(ctx, beginAttempt, key.Workspace, key.Mode, key.Connection, key.Event, until))
	row.StoredProcessorEvent.Body = row.Body
	return row.StoredProcessorEvent, err
}

// SetEventOutcome stores the status, the reason, the conversion and the charge of an event after an attempt. It
// deletes the body when no more work follows; a failed event keeps its body. It stores that the attempt until
// e.AttemptUntil has ended. An event does not change if it was already applied, or if the erasure of a buyer has
// emptied it.
func SetEventOutcome(ctx context.Context, tx *postgres.Tx, e processor.StoredProcessorEvent, at time.Time) error {
	const update = `
		update processor_events
		set status = $5, reason = nullif($6, ''), conversion_id = coalesce($7, conversion_id), charge_id = nullif($9, ''),
			processed_at = case when $5 in ('applied', 'ignored', 'failed') then $8::timestamptz end,
			body = case when $5 in ('applied', 'ignored') then null else body end,
			attempt_until = case when attempt_until = $11 then null else attempt_until end
		where workspace_id = $1 and mode = $2 and connection_id = $3 and id = $4 and status <> 'applied' and reason is distinct from $10`
	return postgres.Exec(ctx, tx, update,
		e.Workspace, e.Mode, e.Connection, e.Event, e.Status, e.Reason, e.Conversion, at, e.Charge, processor.IgnoredErased, e.AttemptUntil)
}

// AbandonedEvents returns at most limit events without an outcome that arrived before the
// given time. The events have no body.
func AbandonedEvents(ctx context.Context, db *postgres.DB, before time.Time, limit int) ([]processor.StoredProcessorEvent, error) {
	return postgres.List[processor.StoredProcessorEvent](ctx, db, abandonedEvents, before, limit)
}

// Events returns one page of the events of a scope, the latest first, and the number of
// events on all pages, up to affiliate.MaxTotal. The events have no body.
func Events(ctx context.Context, db *postgres.DB, scope affiliate.Scope, page affiliate.Page) ([]processor.StoredProcessorEvent, int64, error) {
	list, err := postgres.List[processor.StoredProcessorEvent](ctx, db, listEvents, scope.Workspace, scope.Mode, page.Size, page.Offset())
	if err != nil {
		return nil, 0, err
	}
	total, err := postgres.Value[int64](ctx, db, postgres.CountUpTo(affiliate.MaxTotal, whereEvents), scope.Workspace, scope.Mode)
	return list, total, err
}

const deleteEvents = `
	delete from processor_events e
	using (select workspace_id, connection_id, id from processor_events where received_at < $1 order by received_at limit $2) as old
	where e.workspace_id = old.workspace_id and e.connection_id = old.connection_id and e.id = old.id`

// DeleteProcessorEvents deletes at most limit events that arrived before the given time. It
// returns the number of deleted rows.
func DeleteProcessorEvents(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, deleteEvents, before, limit)
}

// NextRead returns the number of a read of a charge. The numbers increase. A read with a
// larger number began later, so it sees the same or a newer state.
func NextRead(ctx context.Context, db *postgres.DB) (int64, error) {
	return postgres.Value[int64](ctx, db, `select nextval('processor_reads')`)
}

// putCharge stores the state of a charge, unless a later read has already stored a newer
// one. An unknown amount does not replace a known one.
const putCharge = `
	insert into processor_charges as g (workspace_id, mode, id, currency, amount_cents, refunded_cents, read_number, happened_at, updated_at)
	values (@workspace, @mode, @charge, @currency, @amount, coalesce(@refunded::bigint, 0), @read_number, @happened_at, @at)
	on conflict (workspace_id, mode, id) do update set
		currency = case when @currency = '' then g.currency else excluded.currency end,
		amount_cents = case when @amount = 0 then g.amount_cents else excluded.amount_cents end,
		refunded_cents = case when @refunded::bigint is null then g.refunded_cents else excluded.refunded_cents end,
		read_number = excluded.read_number, happened_at = greatest(g.happened_at, excluded.happened_at), updated_at = excluded.updated_at
	where g.read_number < excluded.read_number`

const addChargeAliases = `
	insert into processor_charge_aliases (workspace_id, mode, id, charge_id)
	select $1, $2, t.id, $3 from unnest($4::text[]) as t (id) order by t.id collate "C"
	on conflict do nothing`

// readChargeSale returns the conversion to which a charge is assigned, and the aliases of the
// charge. $3 has the id of the charge and the texts that can replace it after an erasure. The row
// with the id itself comes first: it was stored later.
const readChargeSale = `
	select g.id, g.conversion_id, array(
		select h.id from processor_charge_aliases h
		where h.workspace_id = g.workspace_id and h.mode = g.mode and h.charge_id = g.id
	)
	from processor_charges g
	where g.workspace_id = $1 and g.mode = $2 and g.id = any($3)
	order by array_position($3, g.id)
	limit 1`

// FindChargeSale returns the conversion to which a stored charge is assigned. If the charge is
// not assigned, it returns the conversion that has one of the charge's aliases. If no conversion has one of them, or
// if the charge was deleted, it returns nil. If the buyer of the conversion was erased while the charge was stored,
// FindChargeSale also erases the ids of the charge.
func FindChargeSale(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, charge string) (conversion *affiliate.ConversionID, err error) {
	var id string
	var aliases []string
	forms := conversions.ChargeForms(tx, scope, charge)
	err = tx.QueryRow(ctx, readChargeSale, scope.Workspace, scope.Mode, forms).Scan(&id, &conversion, &aliases)
	if errors.Is(err, pgx.ErrNoRows) { // deleted by the erasure of a buyer
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the conversion of a charge: %w", err)
	}
	if conversion != nil {
		return conversion, nil
	}
	sale, err := conversions.FindSale(ctx, tx, scope, aliases)
	if err == nil && sale.Erased && !privacy.IsErasedProcessorID(id) {
		err = conversions.EraseCharge(ctx, tx, scope, id)
	}
	return sale.Conversion, err
}

// putDispute stores the state of a dispute. A stale state does not reopen a closed dispute.
const putDispute = `
	insert into processor_disputes as d (workspace_id, mode, id, charge_id, status, amount_cents, updated_at)
	values ($1, $2, $3, $4, $5, $6, $7)
	on conflict (workspace_id, mode, id) do update set
		status = excluded.status, amount_cents = excluded.amount_cents, updated_at = excluded.updated_at
	where not ($8 and excluded.status = 'open' and d.status <> 'open')`

// PutCharge stores the state of a charge at a processor. If the result of a later read is already stored, it stores
// only the aliases of the charge. readNumber is the result of NextRead before the charge was read.
func PutCharge(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, charge processor.Charge, readNumber int64, at time.Time) error {
	charge, err := conversions.ErasedCharge(ctx, tx, scope, charge)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, putCharge, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "charge": charge.ID, "currency": charge.Currency,
		"amount": charge.AmountCents, "refunded": charge.RefundedCents, "read_number": readNumber,
		"happened_at": charge.HappenedAt, "at": at,
	})
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(addChargeAliases, scope.Workspace, scope.Mode, charge.ID, charge.Aliases)
	if isNewest := tag.RowsAffected() == 1; isNewest {
		for _, d := range charge.Disputes {
			batch.Queue(putDispute, scope.Workspace, scope.Mode, d.ID, charge.ID, d.Status, d.AmountCents, at, d.Stale)
		}
	}
	return postgres.Send(ctx, tx, batch)
}
