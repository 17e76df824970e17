package conversion

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The erasure of a buyer replaces the external ids of the buyer's sales. This file finds an
// erased sale by an id that is reported again:
//
//   - Table erased_values maps the digest of an external transaction id to the conversion,
//     and contains the digests of the ids of refunds.
//   - An id of a payment processor is replaced by privacy.ErasureKey.ProcessorID in all
//     tables. A look-up by such an id searches all forms of the id.
//
// A digest is made with the first of the erasure keys, and searched under all of them.

// processorIDForms returns ids of a processor, and the texts that may replace them.
func processorIDForms(tx *postgres.Tx, scope affiliate.Scope, ids []string) []string {
	forms := make([]string, 0, 2*len(ids))
	return append(append(forms, ids...), tx.ErasureKeys().ProcessorIDs(scope, ids...)...)
}

// selectErasedSales returns the ids of the given reports whose external id belongs to an
// erased sale. It searches the primary key once per report.
const selectErasedSales = `
	select t.id
	from unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[]) as t (workspace_id, mode, digest, id)
	cross join lateral (
		select from erased_values v
		where v.workspace_id = t.workspace_id and v.mode = t.mode and v.kind = 'external_transaction_id' and v.digest = t.digest
		limit 1) as v`

// queueErasedSales queues a statement that fails with CONVERSION_DUPLICATE if one of the
// reports has the external id of an erased sale. It must be queued after the insert of the
// conversions. The insert waits for an erasure that is changing a conversion with the same
// external id, and the statement then sees the digest of the erasure. A duplicate is rare, so
// the whole batch fails, and its reports are repeated one by one.
func queueErasedSales(tx *postgres.Tx, batch *pgx.Batch, all []*Report) {
	var workspaces []affiliate.WorkspaceID
	var modes []affiliate.Mode
	var digests [][]byte
	var ids []affiliate.ConversionID
	for _, r := range all {
		c := r.Conversion
		for _, digest := range tx.ErasureKeys().Digests(c.Scope, privacy.ErasedTransactionID, c.ExternalTransactionID) {
			workspaces, modes = append(workspaces, c.Workspace), append(modes, c.Mode)
			digests, ids = append(digests, digest), append(ids, c.ID)
		}
	}
	batch.Queue(selectErasedSales, workspaces, modes, digests, ids).Query(func(rows pgx.Rows) error {
		erased, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ConversionID])
		if err == nil && len(erased) > 0 {
			return affiliate.Refuse(affiliate.ReasonConversionDuplicate)
		}
		return err
	})
}

// selectErasedAliases returns the ids of the reports that have an alias of an erased sale.
const selectErasedAliases = `
	select t.conversion_id
	from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as t (workspace_id, mode, id, conversion_id)
	cross join lateral (
		select from conversion_aliases a
		where a.workspace_id = t.workspace_id and a.mode = t.mode and a.id = t.id
		limit 1) as a`

// queueErasedAliases queues a statement that calls onFound for the conversions with an alias of
// an erased sale. It must be queued after the insert of the aliases, as in queueErasedSales.
func queueErasedAliases(tx *postgres.Tx, batch *pgx.Batch, rows []aliasRow, onFound func(affiliate.ConversionID)) {
	var workspaces []affiliate.WorkspaceID
	var modes []affiliate.Mode
	var ids []string
	var conversions []affiliate.ConversionID
	for _, row := range rows {
		for _, form := range tx.ErasureKeys().ProcessorIDs(affiliate.Scope{Workspace: row.WorkspaceID, Mode: row.Mode}, row.ID) {
			workspaces, modes = append(workspaces, row.WorkspaceID), append(modes, row.Mode)
			ids, conversions = append(ids, form), append(conversions, row.ConversionID)
		}
	}
	batch.Queue(selectErasedAliases, workspaces, modes, ids, conversions).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ConversionID])
		for _, id := range found {
			onFound(id)
		}
		return err
	})
}

// findErasedSale finds an erased sale by the external id that it had before the erasure, and
// returns its current external id. It returns an empty text if no erased sale had the id.
func findErasedSale(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, external string) (pseudonym string, err error) {
	const find = `
		select c.external_transaction_id
		from erased_values v
		join conversions c on c.workspace_id = v.workspace_id and c.mode = v.mode and c.id = v.subject_id
		where v.workspace_id = $1 and v.mode = $2 and v.kind = $3 and v.digest = any($4)`
	digests := tx.ErasureKeys().Digests(scope, privacy.ErasedTransactionID, external)
	found, err := postgres.Values[string](ctx, tx, find, scope.Workspace, scope.Mode, privacy.ErasedTransactionID, digests)
	if len(found) > 0 {
		pseudonym = found[0]
	}
	return pseudonym, err
}

// queueErasedRefund queues a statement that fails with REFUND_DUPLICATE if a refund of an erased sale had the id.
func queueErasedRefund(tx *postgres.Tx, batch *pgx.Batch, scope affiliate.Scope, external string) {
	const find = `
		select from erased_values
		where workspace_id = $1 and mode = $2 and kind = $3 and digest = any($4)`
	batch.Queue(find, scope.Workspace, scope.Mode, privacy.ErasedRefundID, tx.ErasureKeys().Digests(scope, privacy.ErasedRefundID, external)).
		Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() > 0 {
				return affiliate.Refuse(affiliate.ReasonRefundDuplicate)
			}
			return nil
		})
}

const insertErasedValue = `
	insert into erased_values (workspace_id, mode, kind, digest, subject_id)
	values ($1, $2, $3, $4, $5)
	on conflict do nothing`

// QueueErasedValue queues the insert of the digest of an erased value of a conversion.
func QueueErasedValue(batch *pgx.Batch, scope affiliate.Scope, value privacy.ErasedValue, subject affiliate.ConversionID) {
	batch.Queue(insertErasedValue, scope.Workspace, scope.Mode, value.Kind, value.Digest, subject)
}

// eraseNewRefund replaces the external id of a refund that was reported for an erased sale.
// The digest of the id stays, so a repeated report is a duplicate.
func eraseNewRefund(ctx context.Context, tx *postgres.Tx, refund conversion.Refund, conversion affiliate.ConversionID, pseudonym string) error {
	const update = `
		update refunds set external_refund_id = $4, external_transaction_id = $5, reason = null
		where workspace_id = $1 and mode = $2 and id = $3`
	scope := refund.Scope
	batch := &pgx.Batch{}
	digest := tx.ErasureKeys().First().Digest(scope, privacy.ErasedRefundID, refund.ExternalRefundID)
	QueueErasedValue(batch, scope, privacy.ErasedValue{Kind: privacy.ErasedRefundID, Digest: digest}, conversion)
	batch.Queue(update, scope.Workspace, scope.Mode, refund.ID, privacy.ErasedRefundPseudonym(pseudonym, refund.ID), pseudonym)
	return postgres.Send(ctx, tx, batch)
}
