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

// NextRead returns the number of a read of a charge. The numbers increase. A read with a
// larger number began later, so it sees the same or a newer state.
func NextRead(ctx context.Context, db *postgres.DB) (number int64, err error) {
	err = db.QueryRow(ctx, `select nextval('processor_reads')`).Scan(&number)
	return number, err
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
	where g.read_number < excluded.read_number
	returning true`

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
// not assigned, it returns the conversion that has one of the charge's aliases. If no
// conversion has one, or if the charge was deleted, it returns nil. If the buyer of the
// conversion was erased while the charge was stored, it also erases the ids of the charge.
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

// PutCharge stores what a processor says about a charge, unless the result of a later read is
// already stored. readNumber is the result of NextRead before the charge was read.
func PutCharge(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, charge processor.Charge, readNumber int64, at time.Time) error {
	charge, err := conversions.ErasedCharge(ctx, tx, scope, charge)
	if err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, putCharge, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "charge": charge.ID, "currency": charge.Currency,
		"amount": charge.AmountCents, "refunded": charge.RefundedCents, "read_number": readNumber,
		"happened_at": charge.HappenedAt, "at": at,
	})
	_, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	isNewest := !errors.Is(err, pgx.ErrNoRows)
	if err != nil && isNewest {
		return fmt.Errorf("store a charge: %w", err)
	}
	batch := &pgx.Batch{}
	batch.Queue(addChargeAliases, scope.Workspace, scope.Mode, charge.ID, charge.Aliases)
	if isNewest {
		for _, d := range charge.Disputes {
			batch.Queue(putDispute, scope.Workspace, scope.Mode, d.ID, charge.ID, d.Status, d.AmountCents, at, d.Stale)
		}
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("store the ids and disputes of a charge: %w", err)
	}
	return nil
}
