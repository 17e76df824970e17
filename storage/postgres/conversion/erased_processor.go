package conversion

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The statements below replace ids of a payment processor in one table each. The arguments are
// the workspace, the mode, the ids, and the texts that replace them. A row with the replacement
// may already exist, if the processor has reported the sale again during the erasure. Then the
// newer state stays.
const (
	eraseAliases = `
		with moved as (
			delete from conversion_aliases a
			using unnest($3::text[], $4::text[]) as t (id, erased)
			where a.workspace_id = $1 and a.mode = $2 and a.id = t.id
			returning t.erased, a.conversion_id
		)
		insert into conversion_aliases (workspace_id, mode, id, conversion_id)
		select $1, $2, m.erased, m.conversion_id from moved m
		order by m.erased collate "C"
		on conflict (workspace_id, mode, id) do nothing`
	eraseCharges = `
		with moved as (
			delete from processor_charges g
			using unnest($3::text[], $4::text[]) as t (id, erased)
			where g.workspace_id = $1 and g.mode = $2 and g.id = t.id
			returning t.erased, g.currency, g.amount_cents, g.refunded_cents, g.conversion_id, g.read_number, g.applied_number, g.happened_at, g.updated_at
		)
		insert into processor_charges as g (
			workspace_id, mode, id, currency, amount_cents, refunded_cents, conversion_id, read_number, applied_number, happened_at, updated_at)
		select $1, $2, m.* from moved m
		order by m.erased collate "C"
		on conflict (workspace_id, mode, id) do update set
			currency = excluded.currency, amount_cents = excluded.amount_cents, refunded_cents = excluded.refunded_cents,
			conversion_id = coalesce(g.conversion_id, excluded.conversion_id),
			read_number = excluded.read_number, applied_number = excluded.applied_number,
			happened_at = greatest(g.happened_at, excluded.happened_at), updated_at = excluded.updated_at
		where g.read_number < excluded.read_number`
	eraseChargeAliases = `
		with moved as (
			delete from processor_charge_aliases h
			where h.workspace_id = $1 and h.mode = $2 and (h.id = any($3) or h.charge_id = any($3))
			returning h.id, h.charge_id
		)
		insert into processor_charge_aliases (workspace_id, mode, id, charge_id)
		select $1, $2, coalesce(i.erased, m.id), coalesce(c.erased, m.charge_id)
		from moved m
		left join unnest($3::text[], $4::text[]) as i (id, erased) on i.id = m.id
		left join unnest($3::text[], $4::text[]) as c (id, erased) on c.id = m.charge_id
		on conflict (workspace_id, mode, id, charge_id) do nothing`
	eraseDisputes = `
		with moved as (
			delete from processor_disputes d
			where d.workspace_id = $1 and d.mode = $2 and d.charge_id = any($3)
			returning d.id, d.charge_id, d.status, d.amount_cents, d.updated_at
		)
		insert into processor_disputes as d (workspace_id, mode, id, charge_id, status, amount_cents, updated_at)
		select $1, $2, coalesce(i.erased, m.id), c.erased, m.status, m.amount_cents, m.updated_at
		from moved m
		left join unnest($3::text[], $4::text[]) as i (id, erased) on i.id = m.id
		join unnest($3::text[], $4::text[]) as c (id, erased) on c.id = m.charge_id
		on conflict (workspace_id, mode, id) do update set
			status = excluded.status, amount_cents = excluded.amount_cents, updated_at = excluded.updated_at
		where d.updated_at < excluded.updated_at`
)

// QueueErasedProcessorIDs queues the statements that replace ids of a payment processor in all
// tables. The keys of the map are the ids, and its values are the texts that replace the ids.
func QueueErasedProcessorIDs(batch *pgx.Batch, scope affiliate.Scope, ids map[string]string) {
	if len(ids) == 0 {
		return
	}
	before := slices.Sorted(maps.Keys(ids))
	after := make([]string, len(before))
	for i, id := range before {
		after[i] = ids[id]
	}
	for _, statement := range []string{eraseAliases, eraseCharges, eraseChargeAliases, eraseDisputes} {
		batch.Queue(statement, scope.Workspace, scope.Mode, before, after)
	}
}

// ChargeIDs returns the ids of charges, of their disputes, and of their sales. It finds the
// charges by their own ids and by the ids of their sales.
func ChargeIDs(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []string) ([]string, error) {
	const read = `
		with charges as (
			select g.id from processor_charges g
			where g.workspace_id = $1 and g.mode = $2 and g.id = any($3)
			union
			select h.charge_id from processor_charge_aliases h
			where h.workspace_id = $1 and h.mode = $2 and h.id = any($3)
		)
		select c.id from charges c
		union
		select h.id from charges c
		join processor_charge_aliases h on h.workspace_id = $1 and h.mode = $2 and h.charge_id = c.id
		union
		select d.id from charges c
		join processor_disputes d on d.workspace_id = $1 and d.mode = $2 and d.charge_id = c.id`
	return postgres.Values[string](ctx, tx, read, scope.Workspace, scope.Mode, ids)
}

// ErasedCharge returns the charge with its stored ids. After an erasure, these are the replacements of the ids.
func ErasedCharge(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, charge processor.Charge) (processor.Charge, error) {
	key, erased, err := erasedUnder(ctx, tx, scope, charge.Aliases, charge.ID)
	if err != nil || !erased {
		return charge, err
	}
	charge.ID, charge.Aliases, charge.Disputes = key.ProcessorID(scope, charge.ID), key.ProcessorIDs(scope, charge.Aliases), slices.Clone(charge.Disputes)
	for i, dispute := range charge.Disputes {
		charge.Disputes[i].ID = key.ProcessorID(scope, dispute.ID)
	}
	return charge, nil
}

// erasedUnder returns the key with which the aliases of a sale or the id of its charge were
// replaced. found is false if none of these ids was replaced.
func erasedUnder(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, aliases []string, charge string) (key privacy.ErasureKey, found bool, err error) {
	const isErased = `
		select exists (
			select from conversion_aliases a
			where a.workspace_id = $1 and a.mode = $2 and a.id = any($3)
		) or exists (
			select from processor_charges g
			where g.workspace_id = $1 and g.mode = $2 and g.id = $4
		)`
	for _, key := range tx.ErasureKeys() {
		forms, id := key.ProcessorIDs(scope, aliases), key.ProcessorID(scope, charge)
		if err := tx.QueryRow(ctx, isErased, scope.Workspace, scope.Mode, forms, id).Scan(&found); err != nil {
			return nil, false, err
		}
		if found {
			return key, true, nil
		}
	}
	return nil, false, nil
}

// erasureKeyOf returns the key with which ids of an erased sale are replaced: the key of its earlier
// replacements, or the first key if there are none. It reads nothing if there is only one key.
func erasureKeyOf(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, aliases []string, charge string) (privacy.ErasureKey, error) {
	keys := tx.ErasureKeys()
	if len(keys) < 2 {
		return keys.First(), nil
	}
	key, found, err := erasedUnder(ctx, tx, scope, aliases, charge)
	if !found {
		key = keys.First()
	}
	return key, err
}

// ChargeForms returns the id of a charge and the texts that can replace it after an erasure.
func ChargeForms(tx *postgres.Tx, scope affiliate.Scope, charge string) []string {
	return processorIDForms(tx, scope, []string{charge})
}

// EraseCharge replaces the ids of a charge that was stored during an erasure.
func EraseCharge(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, charge string) error {
	ids, err := ChargeIDs(ctx, tx, scope, []string{charge})
	if err != nil {
		return err
	}
	key, err := erasureKeyOf(ctx, tx, scope, ids, charge)
	if err != nil {
		return err
	}
	erased := map[string]string{}
	for _, id := range ids {
		if !privacy.IsErasedProcessorID(id) {
			erased[id] = key.ProcessorID(scope, id)
		}
	}
	batch := &pgx.Batch{}
	QueueErasedProcessorIDs(batch, scope, erased)
	return postgres.Send(ctx, tx, batch)
}
