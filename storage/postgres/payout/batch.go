package payout

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Payouts change only while their batch is locked. A transaction locks the batch, its
// payouts, their participants and their commissions, in this order.

var (
	batchColumns = postgres.Columns[payout.Batch]("b")
	insertBatch  = postgres.RowsOf[payout.Batch](`insert into payout_batches ({columns}) values {rows}`)
	updateBatch  = postgres.RowsOf[payout.Batch](`
		update payout_batches b set {changes}
		from (values {typed rows}) as t ({columns})
		where b.workspace_id = t.workspace_id and b.mode = t.mode and b.id = t.id`)
	selectBatch = `
		select ` + batchColumns + `
		from payout_batches b
		where b.workspace_id = $1 and b.mode = $2 and b.id = $3`
)

// LockBatch locks a batch, so that no other transaction changes its payouts. Errors:
// NOT_FOUND.
func LockBatch(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id payout.BatchID) (payout.Batch, error) {
	return postgres.OneRow[payout.Batch](tx.Query(ctx, selectBatch+` for no key update`, scope.Workspace, scope.Mode, id))
}

// GetBatch returns one batch without its counts, totals and names. Errors: NOT_FOUND.
func GetBatch(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, id payout.BatchID) (payout.Batch, error) {
	return postgres.OneRow[payout.Batch](db.Query(ctx, selectBatch, scope.Workspace, scope.Mode, id))
}

// selectPayoutStatuses returns the statuses that a batch's payouts have. It searches the
// index once per status and counts nothing, so its cost does not depend on the number of
// payouts. The lateral join with a limit keeps the planner from joining all payouts.
const selectPayoutStatuses = `
	select s.status
	from unnest($4::text[]) as s (status)
	cross join lateral (
		select from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = s.status
		limit 1
	) p`

var payoutStatuses = []payout.Status{
	payout.Draft, payout.Pending, payout.Processing, payout.Paid, payout.Failed, payout.Canceled,
}

// UpdateBatch stores the confirmations of a locked batch and sets its status according to
// its payouts. The returned batch has no counts, totals and names.
func UpdateBatch(ctx context.Context, tx *postgres.Tx, batch payout.Batch, at time.Time) (payout.Batch, error) {
	found, err := postgres.Values[payout.Status](
		ctx, tx, selectPayoutStatuses, batch.Workspace, batch.Mode, batch.ID, payoutStatuses)
	if err != nil {
		return batch, err
	}
	present := payout.Counts{}
	for _, status := range found {
		present[status] = 1 // at least one
	}
	batch = batch.Follow(present, at)
	batch.Counts, batch.Totals = nil, nil
	batch.Version++
	_, err = updateBatch.Exec(ctx, tx, batch)
	return batch, err
}

// SetTotals sets the counts, totals and names of batches of one scope.
func SetTotals(ctx context.Context, db postgres.Queryer, batches ...*payout.Batch) error {
	if len(batches) == 0 {
		return nil
	}
	if err := setPayoutCounts(ctx, db, batches); err != nil {
		return err
	}
	return setBatchNames(ctx, db, batches)
}

// setBatchNames sets the names of the users and service tokens that created and confirmed the batches.
func setBatchNames(ctx context.Context, db postgres.Queryer, batches []*payout.Batch) error {
	const read = `
		select t.id, coalesce(u.name, 'service:' || s.name) as name
		from unnest($2::uuid[]) as t (id)
		left join users u on u.id = t.id
		left join service_tokens s on s.workspace_id = $1 and s.id = t.id
		where u.id is not null or s.id is not null`
	names := map[affiliate.ActorID]string{}
	var ids []affiliate.ActorID
	for _, b := range batches {
		b.Names = names
		ids = append(ids, b.CreatedBy)
		for _, id := range []*affiliate.ActorID{b.FirstConfirmedBy, b.ConfirmedBy} {
			if id != nil {
				ids = append(ids, *id)
			}
		}
	}
	type actor struct {
		ID   affiliate.ActorID
		Name string
	}
	actors, err := postgres.List[actor](ctx, db, read, batches[0].Workspace, ids)
	for _, a := range actors {
		names[a.ID] = a.Name
	}
	return err
}

// sumBatches counts the payouts of batches and sums their amounts, by status and currency.
const sumBatches = `
	select p.batch_id as batch, p.status, p.currency, count(*) as n, sum(p.amount_cents)::bigint as amount_cents
	from payouts p
	where p.workspace_id = $1 and p.mode = $2 and p.batch_id = any($3)
	group by p.batch_id, p.status, p.currency
	order by p.batch_id, p.currency`

// setPayoutCounts sets the counts of batches, and their totals without canceled payouts.
func setPayoutCounts(ctx context.Context, db postgres.Queryer, batches []*payout.Batch) error {
	type sum struct {
		Batch       payout.BatchID
		Status      payout.Status
		Currency    string
		N           int64
		AmountCents int64
	}
	scope, byID := batches[0].Scope, map[payout.BatchID]*payout.Batch{}
	for _, b := range batches {
		byID[b.ID], b.Counts, b.Totals = b, payout.Counts{}, nil
	}
	sums, err := postgres.List[sum](ctx, db, sumBatches, scope.Workspace, scope.Mode, slices.Collect(maps.Keys(byID)))
	for _, sum := range sums {
		b := byID[sum.Batch]
		b.Counts[sum.Status] += sum.N
		if sum.Status == payout.Canceled {
			continue
		}
		if n := len(b.Totals); n == 0 || b.Totals[n-1].Currency != sum.Currency {
			b.Totals = append(b.Totals, payout.Total{Currency: sum.Currency})
		}
		total := &b.Totals[len(b.Totals)-1]
		total.Count += sum.N
		total.AmountCents += sum.AmountCents
	}
	return err
}

// sumConfirmed sums the payouts, except canceled ones, of batches confirmed after a time.
const sumConfirmed = `
	select p.currency, count(*) as count, sum(p.amount_cents)::bigint as amount_cents
	from payout_batches b
	join payouts p on p.workspace_id = b.workspace_id and p.batch_id = b.id
	where b.workspace_id = $1 and b.mode = $2 and b.confirmed_at > $3 and p.mode = $2 and p.status <> 'canceled'
	group by p.currency`

// ConfirmationLimit returns the limit of a workspace for confirmations by one member, or nil if the workspace
// has no limit. If it has a limit, the confirmations of the scope run one after another, so that each confirmation
// sees the earlier ones. The caller must not have locked rows before, so that transactions do not deadlock.
func ConfirmationLimit(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, at time.Time) (*payout.ConfirmationLimit, error) {
	const (
		above = `select w.second_person_above_cents from workspaces w where w.id = $1`
		lock  = `select pg_advisory_xact_lock(hashtextextended('payout_confirmations:' || $1::uuid || ':' || $2::text, 0))`
	)
	cents, err := postgres.Value[*int64](ctx, tx, above, scope.Workspace)
	if err != nil || cents == nil {
		return nil, err
	}
	if err := postgres.Exec(ctx, tx, lock, scope.Workspace, scope.Mode); err != nil {
		return nil, err
	}
	confirmed, err := postgres.List[payout.Total](
		ctx, tx, sumConfirmed, scope.Workspace, scope.Mode, at.Add(-payout.ConfirmationWindow))
	if err != nil {
		return nil, err
	}
	return &payout.ConfirmationLimit{Cents: *cents, Confirmed: confirmed}, nil
}

const whereBatches = `
	from payout_batches b
	where b.workspace_id = $1 and b.mode = $2 and ($3::text = '' or b.status = $3)`

var (
	selectBatches = `
		select ` + batchColumns + whereBatches + `
		order by b.created_at desc, b.id desc
		limit $4 offset $5`
	countBatches = postgres.CountUpTo(affiliate.MaxTotal, whereBatches)
)

// ListBatches returns one page of batches, newest first, and the number of batches on
// all pages, up to affiliate.MaxTotal. An empty status means any status.
func ListBatches(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, status payout.BatchStatus, page affiliate.Page,
) ([]payout.Batch, int64, error) {
	where := postgres.Conditions{Args: []any{scope.Workspace, scope.Mode, status}}
	batches, total, err := postgres.Page[payout.Batch](ctx, db, where, page, selectBatches, countBatches)
	if err != nil {
		return nil, 0, err
	}
	all := make([]*payout.Batch, len(batches))
	for i := range batches {
		all[i] = &batches[i]
	}
	return batches, total, SetTotals(ctx, db, all...)
}

// SearchBatches returns the batch whose id is the text.
func SearchBatches(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
	const search = `
		select b.id, b.id::text as title, b.status as subtitle, null::uuid as program_id
		from payout_batches b
		where b.workspace_id = @workspace and b.mode = @mode and b.id = @id
		limit @limit`
	return postgres.Hits(ctx, db, scope, text, search)
}
