package export

import (
	"context"
	"fmt"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The locks of this file, and participants.Share, keep an erasure of the subject from
// beginning until the transaction ends. An erasure that is running ends first.

// LockUser locks the account of a partner. It returns false if the account does not exist or
// was erased.
func LockUser(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) (exists bool, err error) {
	const lock = `select from users u where u.id = $1 and u.erased_at is null for share`
	tag, err := tx.Exec(ctx, lock, user)
	if err != nil {
		return false, fmt.Errorf("lock the account of an export: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// LockSubjectWorkspace locks a workspace. It returns false if the workspace does not exist or
// was erased.
func LockSubjectWorkspace(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (exists bool, err error) {
	const lock = `select from workspaces w where w.id = $1 and w.erased_at is null for share`
	tag, err := tx.Exec(ctx, lock, id)
	if err != nil {
		return false, fmt.Errorf("lock the workspace of an export: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// WorkspaceName returns the name of a workspace.
func WorkspaceName(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (name string, err error) {
	err = tx.QueryRow(ctx, `select w.name from workspaces w where w.id = $1`, id).Scan(&name)
	return name, err
}
