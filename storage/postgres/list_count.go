package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// What list_counts counts, per programme.
const (
	countOfLinks        = "links" // that are not deleted, default ones too
	countOfPromoCodes   = "promo_codes"
	countOfParticipants = "participants." // and the status
)

// countSlots is among how many rows a count is spread, so that transactions that
// change it seldom wait for each other.
const countSlots = 16

// anySlot is for what has no id that could choose.
func anySlot() int16 { return rand.N(int16(countSlots)) } //nolint:gosec // it spreads, it hides nothing

// countChange says how a list's length changes. The slot is chosen by the id of
// the thing, so that one thing always meets its own row.
type countChange struct {
	What string
	ID   uuid.UUID
	N    int64
}

// changeCounts keeps list_counts in the transaction that changes a list. Several
// changes of one transaction go into one call, which takes the rows in one order.
func changeCounts(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, program affiliate.ProgramID, changes ...countChange) error {
	const change = `
		insert into list_counts as c (workspace_id, program_id, what, slot, n)
		select $1, $2, what, slot, sum(n) from unnest($3::text[], $4::smallint[], $5::bigint[]) as t (what, slot, n)
		group by what, slot
		order by what, slot
		on conflict (workspace_id, program_id, what, slot) do update set n = c.n + excluded.n`
	what, slots, n := make([]string, len(changes)), make([]int16, len(changes)), make([]int64, len(changes))
	for i, change := range changes {
		what[i], slots[i], n[i] = change.What, int16(change.ID[15]%countSlots), change.N
	}
	if _, err := tx.Exec(ctx, change, workspace, program, what, slots, n); err != nil {
		return fmt.Errorf("list counts: %w", err)
	}
	return nil
}

// listCount is the exact length of lists, summed.
func listCount(ctx context.Context, db Queryer, workspace affiliate.WorkspaceID, program affiliate.ProgramID, what ...string) (int64, error) {
	const count = `
		select coalesce(sum(n), 0)::bigint from list_counts where workspace_id = $1 and program_id = $2 and what = any($3)`
	rows, err := db.Query(ctx, count, workspace, program, what)
	if err != nil {
		return 0, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
}
