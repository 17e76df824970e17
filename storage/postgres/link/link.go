// Package link has the SQL of links and of referral codes, which are the codes of default links.
package link

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	insertLink = postgres.RowsOf[link.Link](`
		insert into links ({columns}) values {rows}
		on conflict (short_key) do nothing`)
	updateLink = postgres.RowsOf[link.Link](`
		update links l set {changes}
		from (values {typed rows}) as t ({columns})
		where l.workspace_id = t.workspace_id and l.mode = t.mode and l.id = t.id`)
)

// Insert stores a new link with a random short key and a row for its totals, and
// increments the number of links. The link's code must already be reserved, in this or an
// earlier transaction.
func Insert(ctx context.Context, tx *postgres.Tx, l link.Link) (link.Link, error) {
	const totals = `insert into link_totals (workspace_id, link_id) values ($1, $2)`
	for inserted := int64(0); inserted == 0; {
		var err error
		l.ShortKey = link.NewShortKey()
		if inserted, err = insertLink.Exec(ctx, tx, l); err != nil {
			return l, err
		}
	}
	if _, err := tx.Exec(ctx, totals, l.Workspace, l.ID); err != nil {
		return l, err
	}
	return l, postgres.ChangeCounts(ctx, tx, l.Workspace, l.Program, postgres.CountChange{What: postgres.LinkCount, ID: l.ID.UUID, N: 1})
}

// Update stores the changes of a link whose participant is locked.
func Update(ctx context.Context, tx *postgres.Tx, l link.Link) error {
	_, err := updateLink.Exec(ctx, tx, l)
	return err
}

// Delete marks a link as deleted whose participant is locked. Its code stays reserved.
func Delete(ctx context.Context, tx *postgres.Tx, l link.Link, at time.Time) error {
	l.DeletedAt, l.UpdatedAt, l.Version = &at, at, l.Version+1
	if err := Update(ctx, tx, l); err != nil {
		return err
	}
	return postgres.ChangeCounts(ctx, tx, l.Workspace, l.Program, postgres.CountChange{What: postgres.LinkCount, ID: l.ID.UUID, N: -1})
}

// Owner returns the participant of a link, which never changes. Errors: NOT_FOUND.
func Owner(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID,
) (affiliate.ParticipantID, error) {
	const query = `
		select participant_id from links
		where workspace_id = $1 and mode = $2 and program_id = $3 and id = $4 and deleted_at is null`
	type row struct{ ParticipantID affiliate.ParticipantID }
	found, err := postgres.OneRow[row](tx.Query(ctx, query, scope.Workspace, scope.Mode, program, id))
	return found.ParticipantID, err
}

// CountOfParticipant returns the number of links that a participant has besides its default
// link.
func CountOfParticipant(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participant affiliate.ParticipantID) (int, error) {
	const count = `
		select count(*) from links
		where workspace_id = $1 and mode = $2 and participant_id = $3 and deleted_at is null and not is_default`
	return postgres.Value[int](ctx, tx, count, scope.Workspace, scope.Mode, participant)
}
