package export

import (
	"context"
	"fmt"

	"github.com/tributary-hq/tributary/affiliate"
)

// The locks of this file, and postgres.Tx.ShareParticipant, keep an erasure of the subject from beginning until the transaction
// ends. An erasure that is running ends first.

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

// LockSubjectWorkspace locks a workspace. It returns false if the workspace does not exist or
// was erased.
func (tx *Tx) LockSubjectWorkspace(ctx context.Context, id affiliate.WorkspaceID) (exists bool, err error) {
	const lock = `select from workspaces w where w.id = $1 and w.erased_at is null for share`
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
