package conversion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// An alias is an id by which a payment processor knows the sale of a conversion. Sales of
// processors have several aliases. A conversion that a merchant reports has one alias if
// its external id has the form of a processor's id. The primary key makes sure that a sale
// is recorded once, even if it is reported under two of its ids at the same time.

// insertAliases inserts the aliases that no conversion has, and returns the conversions of the
// inserted aliases.
var insertAliases = postgres.RowsOf[aliasRow](`
	insert into conversion_aliases ({columns})
	values {rows}
	on conflict (workspace_id, mode, id) do nothing
	returning conversion_id`)

type aliasRow struct {
	WorkspaceID  affiliate.WorkspaceID  `db:"workspace_id" sql:"uuid"`
	Mode         affiliate.Mode         `db:"mode" sql:"text"`
	ID           string                 `db:"id" sql:"text"`
	ConversionID affiliate.ConversionID `db:"conversion_id" sql:"uuid"`
}

// claimAliases inserts the aliases of reports. A report fails with CONVERSION_DUPLICATE if
// another conversion has one of its aliases. Most reports have no alias.
func claimAliases(ctx context.Context, tx *postgres.Tx, batch []*Report) error {
	var rows []aliasRow
	for _, r := range batch {
		c := r.Conversion
		for _, alias := range r.Aliases {
			rows = append(rows, aliasRow{c.Workspace, c.Mode, alias, c.ID})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	// All transactions insert aliases in the same order, so they do not deadlock.
	slices.SortFunc(rows, func(a, b aliasRow) int {
		return cmp.Or(cmp.Compare(a.WorkspaceID.String(), b.WorkspaceID.String()), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.ID, b.ID))
	})
	inserted := map[affiliate.ConversionID]int{}
	statements := &pgx.Batch{}
	for _, q := range insertAliases.Queue(statements, rows...) {
		q.Query(func(rows pgx.Rows) error {
			ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ConversionID])
			for _, id := range ids {
				inserted[id]++
			}
			return err
		})
	}
	erased := map[affiliate.ConversionID]bool{}
	queueErasedAliases(tx, statements, rows, func(id affiliate.ConversionID) { erased[id] = true })
	if err := tx.SendBatch(ctx, statements).Close(); err != nil {
		return err
	}
	for _, r := range batch {
		if r.aliased = inserted[r.Conversion.ID]; r.aliased < len(r.Aliases) || erased[r.Conversion.ID] {
			r.Err = affiliate.Refuse(affiliate.ReasonConversionDuplicate)
		}
	}
	return nil
}

// releaseAliases deletes the aliases of a report that is dropped from its batch.
const releaseAliases = `delete from conversion_aliases where workspace_id = $1 and mode = $2 and conversion_id = $3`

// findByAlias returns the conversion that has one of the given ids as an alias or as its external
// id, whether a merchant has reported it, and whether its buyer was erased. If several conversions
// match, because a merchant has reported one sale under two ids, it returns the oldest.
const findByAlias = `
	select c.id, v.source = 'api', v.buyer_erased_at is not null
	from unnest($3::text[]) as t (id)
	cross join lateral (
		select a.conversion_id as id from conversion_aliases a
		where a.workspace_id = $1 and a.mode = $2 and a.id = t.id
		union all
		select c.id from conversions c
		where c.workspace_id = $1 and c.mode = $2 and c.external_transaction_id = t.id
	) as c
	join conversions v on v.workspace_id = $1 and v.id = c.id
	order by c.id
	limit 1`

// FindSale returns the conversion that has one of the given ids as an alias or as its
// external id. If there is none, the result has no conversion.
func FindSale(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, aliases []string) (processor.RecordedSale, error) {
	var sale processor.RecordedSale
	forms := processorIDForms(tx, scope, aliases)
	err := tx.QueryRow(ctx, findByAlias, scope.Workspace, scope.Mode, forms).Scan(&sale.Conversion, &sale.Reported, &sale.Erased)
	if errors.Is(err, pgx.ErrNoRows) {
		return processor.RecordedSale{}, nil
	}
	return sale, err
}

// AddAliases adds ids of a processor to a conversion. If the buyer was erased, it adds the
// texts that replace the aliases. An alias that another conversion has is not changed.
func AddAliases(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, conversion affiliate.ConversionID, ids conversion.ProcessorIDs, aliases []string) error {
	const insert = `
		insert into conversion_aliases (workspace_id, mode, id, conversion_id)
		select $1, $2, t.id, $3
		from (
			select case when c.buyer_erased_at is null then n.id else n.erased end as id
			from unnest($4::text[], $5::text[]) as n (id, erased)
			join conversions c on c.workspace_id = $1 and c.mode = $2 and c.id = $3
		) as t
		order by t.id collate "C"
		on conflict (workspace_id, mode, id) do nothing`
	const lock = `
		select from conversions
		where workspace_id = $1 and mode = $2 and id = $3
		for key share`
	const update = `
		update conversions set processor = coalesce(processor, '{}') || $4
		where workspace_id = $1 and mode = $2 and id = $3 and buyer_erased_at is null
			and coalesce(processor, '{}') || $4 is distinct from processor`
	encoded, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode the processor's ids: %w", err)
	}
	key, err := erasureKeyOf(ctx, tx, scope, aliases, "")
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	// An erasure changes the external id, which is a key, so it waits for the lock.
	batch.Queue(lock, scope.Workspace, scope.Mode, conversion)
	batch.Queue(insert, scope.Workspace, scope.Mode, conversion, aliases, key.ProcessorIDs(scope, aliases))
	batch.Queue(update, scope.Workspace, scope.Mode, conversion, encoded)
	return postgres.Send(ctx, tx, batch)
}
