package export

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// OwnsProgram reports whether a programme belongs to a workspace, in any mode.
func (tx *Tx) OwnsProgram(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID) (owned bool, err error) {
	const read = `select exists (select from programs p where p.workspace_id = $1 and p.mode in ('test', 'live') and p.id = $2)`
	err = tx.QueryRow(ctx, read, workspace, program).Scan(&owned)
	return owned, err
}

// The locks of this file keep an erasure of the subject from beginning until the transaction
// ends. An erasure that is running ends first.

// LockParticipant locks a participant and returns the partner. found is false if the programme
// has no such participant in the mode of the scope.
func (tx *Tx) LockParticipant(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (partner affiliate.UserID, erased, found bool, err error) {
	const lock = `
		select t.partner_id, t.erased_at is not null
		from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4
		for share`
	err = tx.QueryRow(ctx, lock, scope.Workspace, scope.Mode, program, id).Scan(&partner, &erased)
	if errors.Is(err, pgx.ErrNoRows) {
		return partner, false, false, nil
	}
	return partner, erased, err == nil, err
}

// LockUser locks the account of a partner. It returns false if the account does not exist or
// was erased.
func (tx *Tx) LockUser(ctx context.Context, user affiliate.UserID) (exists bool, err error) {
	const lock = `select from users u where u.id = $1 and u.erased_at is null for share`
	tag, err := tx.Exec(ctx, lock, user)
	if err != nil {
		return false, fmt.Errorf("lock the account of an export: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// LockSubjectWorkspace locks a workspace. It returns false if the workspace does not exist.
func (tx *Tx) LockSubjectWorkspace(ctx context.Context, id affiliate.WorkspaceID) (exists bool, err error) {
	const lock = `select from workspaces w where w.id = $1 for share`
	tag, err := tx.Exec(ctx, lock, id)
	if err != nil {
		return false, fmt.Errorf("lock the workspace of an export: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// WorkspaceName returns the name of a workspace.
func (tx *Tx) WorkspaceName(ctx context.Context, id affiliate.WorkspaceID) (name string, err error) {
	err = tx.QueryRow(ctx, `select w.name from workspaces w where w.id = $1`, id).Scan(&name)
	return name, err
}
