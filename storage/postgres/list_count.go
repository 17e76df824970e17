package postgres

import (
	"context"
	"math/rand/v2"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// The lists whose lengths are stored in list_counts, for each programme.
const (
	LinkCount        = "links" // links that are not deleted, including default links
	PromoCodeCount   = "promo_codes"
	ParticipantCount = "participants." // followed by the status
)

// countSlots is the number of rows over which a counter or balance is distributed. The
// counter or balance is the sum of these rows. Transactions that change it at the same
// time rarely wait for each other, because most of them update different rows. A slot
// is the number of one of these rows.
const countSlots = 16

// RandomSlot returns a random slot. It is used for changes whose slot is not determined
// by an id.
func RandomSlot() int16 { return rand.N(int16(countSlots)) } //nolint:gosec // not security relevant

// CountChange is a change of a list's length by N. ID determines the slot. It is the id of the
// added or removed element, so that all changes for one element update the same row, or the id
// of the owner of several elements.
type CountChange struct {
	What string
	ID   uuid.UUID
	N    int64
}

// ChangeCounts updates list_counts in the transaction that changes lists of a
// programme. A transaction makes all its changes in one call, which locks the rows in a
// fixed order.
func ChangeCounts(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, program affiliate.ProgramID, changes ...CountChange) error {
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
	return Exec(ctx, tx, change, workspace, program, what, slots, n)
}

// ListCount returns the total length of the given lists of a programme. The number is
// exact.
func ListCount(ctx context.Context, db Queryer, workspace affiliate.WorkspaceID, program affiliate.ProgramID, what ...string) (int64, error) {
	return ListCounts(ctx, db, workspace, []affiliate.ProgramID{program}, what...)
}

// ListCounts does the same as ListCount for several programmes.
func ListCounts(ctx context.Context, db Queryer, workspace affiliate.WorkspaceID, programs []affiliate.ProgramID, what ...string) (int64, error) {
	const count = `
		select coalesce(sum(n), 0)::bigint from list_counts where workspace_id = $1 and program_id = any($2) and what = any($3)`
	return Value[int64](ctx, db, count, workspace, programs, what)
}

// ChangeLinkCount adds n to the number of links of a programme. id selects the slot.
func ChangeLinkCount(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, program affiliate.ProgramID, id uuid.UUID, n int64) error {
	return ChangeCounts(ctx, tx, workspace, program, CountChange{What: LinkCount, ID: id, N: n})
}
