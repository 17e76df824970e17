package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// A payout holds the commissions whose payout_id names it. A commission has neither
// a new version nor a line of history when a payout takes it in or releases it:
// payout_commissions records that. Commissions are locked in the order of their
// ids before the column changes, so a decision about them stands until the
// transaction ends. How a payout follows changes of its commissions is in
// payout_follow.go.

const heldColumns = `
	c.id, c.participant_id as participant, c.currency, c.payout_id as payout, c.amount_cents,
	coalesce(c.approved_at, c.created_at) as approved_at, c.status = 'approved' and ` + payable + ` as payable`

const (
	// lockFree locks what participants could be paid now.
	lockFree = `
		select ` + heldColumns + `
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = any(@participants)
			and c.status = 'approved' and c.payout_id is null and ` + payable + `
		order by c.id
		for update of c`
	// lockHeld locks what payouts hold, whatever has become of it.
	lockHeld = `
		select ` + heldColumns + `
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		where c.workspace_id = @workspace and c.mode = @mode and c.payout_id = any(@payouts)
		order by c.id
		for update of c`
	// lockLost locks what a payout held once and may hold again.
	lockLost = `
		select ` + heldColumns + `
		from payout_commissions l
		join commissions c on c.workspace_id = l.workspace_id and c.id = l.commission_id
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		where l.workspace_id = @workspace and c.mode = @mode and l.payout_id = any(@payouts)
			and c.status = 'approved' and c.payout_id is null and ` + payable + `
		order by c.id
		for update of c`
)

func lockForPayout(ctx context.Context, tx *Tx, lock string, args pgx.NamedArgs) ([]affiliate.HeldCommission, error) {
	rows, _ := tx.Query(ctx, lock, planned, args)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.HeldCommission])
	if err != nil {
		return nil, fmt.Errorf("lock commissions of payouts: %w", err)
	}
	return found, nil
}

// holdBlock bounds the rows of one statement, so that none takes as long as a
// statement may.
const holdBlock = 10_000

// inBlocks runs do over parts of n things.
func inBlocks(n int, do func(from, to int) error) error {
	for from := 0; from < n; from += holdBlock {
		if err := do(from, min(from+holdBlock, n)); err != nil {
			return err
		}
	}
	return nil
}

// hold puts locked commissions that are free into their payouts, and notes what
// each brings.
func hold(ctx context.Context, tx *Tx, scope affiliate.Scope, commissions []affiliate.HeldCommission, at time.Time) error {
	const claim = `
		update commissions c set payout_id = t.payout_id, updated_at = $3
		from unnest($4::uuid[], $5::uuid[]) as t (id, payout_id)
		where c.workspace_id = $1 and c.mode = $2 and c.id = t.id and c.status = 'approved' and c.payout_id is null`
	ids := make([]affiliate.CommissionID, len(commissions))
	payouts := make([]affiliate.PayoutID, len(commissions))
	for i, c := range commissions {
		ids[i], payouts[i] = c.ID, *c.Payout
	}
	err := inBlocks(len(commissions), func(from, to int) error {
		tag, err := tx.Exec(ctx, claim, scope.Workspace, scope.Mode, at, ids[from:to], payouts[from:to])
		if err == nil && tag.RowsAffected() != int64(to-from) {
			err = fmt.Errorf("%d of %d are free under their lock", tag.RowsAffected(), to-from)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("hold commissions: %w", err)
	}
	return noteHeld(ctx, tx, scope, commissions)
}

// noteHeld notes what commissions bring into their payouts.
func noteHeld(ctx context.Context, tx *Tx, scope affiliate.Scope, commissions []affiliate.HeldCommission) error {
	const note = `
		insert into payout_commissions as h (workspace_id, payout_id, commission_id, amount_cents)
		select $1, payout_id, commission_id, amount_cents
		from unnest($2::uuid[], $3::uuid[], $4::bigint[]) as t (payout_id, commission_id, amount_cents)
		on conflict (workspace_id, payout_id, commission_id) do update set amount_cents = excluded.amount_cents
			where h.amount_cents <> excluded.amount_cents`
	payouts := make([]affiliate.PayoutID, len(commissions))
	ids := make([]affiliate.CommissionID, len(commissions))
	amounts := make([]int64, len(commissions))
	for i, c := range commissions {
		payouts[i], ids[i], amounts[i] = *c.Payout, c.ID, c.AmountCents
	}
	return inBlocks(len(commissions), func(from, to int) error {
		if _, err := tx.Exec(ctx, note, scope.Workspace, payouts[from:to], ids[from:to], amounts[from:to]); err != nil {
			return fmt.Errorf("commissions of payouts: %w", err)
		}
		return nil
	})
}

// release makes locked commissions free again. One that has ended stays where it
// was: no payout will ask for it.
func release(ctx context.Context, tx *Tx, scope affiliate.Scope, commissions []affiliate.HeldCommission, at time.Time) error {
	const free = `
		update commissions c set payout_id = null, updated_at = $3
		where c.workspace_id = $1 and c.mode = $2 and c.id = any($4) and c.status = 'approved'`
	ids := make([]affiliate.CommissionID, len(commissions))
	for i, c := range commissions {
		ids[i] = c.ID
	}
	return inBlocks(len(ids), func(from, to int) error {
		if _, err := tx.Exec(ctx, free, scope.Workspace, scope.Mode, at, ids[from:to]); err != nil {
			return fmt.Errorf("release commissions: %w", err)
		}
		return nil
	})
}

// releaseAll makes free what payouts hold.
func releaseAll(ctx context.Context, tx *Tx, scope affiliate.Scope, payouts []affiliate.PayoutID, at time.Time) error {
	held, err := lockForPayout(ctx, tx, lockHeld, heldArgs(scope, payouts, at))
	if err != nil {
		return err
	}
	return release(ctx, tx, scope, held, at)
}

func heldArgs(scope affiliate.Scope, payouts []affiliate.PayoutID, cutoff time.Time) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "payouts": payouts, "cutoff": cutoff}
}

// dropHeld forgets what payouts consisted of but for the commissions that they
// hold now.
func dropHeld(ctx context.Context, tx *Tx, scope affiliate.Scope, payouts []affiliate.PayoutID, kept []affiliate.HeldCommission) error {
	const drop = `
		delete from payout_commissions h
		where h.workspace_id = $1 and h.payout_id = any($2) and h.commission_id <> all($3)`
	ids := make([]affiliate.CommissionID, len(kept))
	for i, c := range kept {
		ids[i] = c.ID
	}
	if _, err := tx.Exec(ctx, drop, scope.Workspace, payouts, ids); err != nil {
		return fmt.Errorf("commissions of payouts: %w", err)
	}
	return nil
}

// namedCommissions are, by payout, the first of the commissions that were put
// into it, as its events name them.
func namedCommissions(ctx context.Context, tx *Tx, scope affiliate.Scope, payouts []affiliate.PayoutID) (map[affiliate.PayoutID][]affiliate.CommissionID, error) {
	const read = `
		select t.id as payout, h.commission_id as commission
		from unnest($2::uuid[]) as t (id)
		cross join lateral (
			select h.commission_id from payout_commissions h
			where h.workspace_id = $1 and h.payout_id = t.id
			order by h.commission_id
			limit $3
		) h
		order by t.id, h.commission_id`
	named := map[affiliate.PayoutID][]affiliate.CommissionID{}
	rows, _ := tx.Query(ctx, read, scope.Workspace, payouts, affiliate.MaxEventCommissions)
	var payout affiliate.PayoutID
	var commission affiliate.CommissionID
	_, err := pgx.ForEachRow(rows, []any{&payout, &commission}, func() error {
		named[payout] = append(named[payout], commission)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("commissions of payouts: %w", err)
	}
	return named, nil
}
