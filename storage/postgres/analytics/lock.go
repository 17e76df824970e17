// Package analytics has the SQL for the sums of the analytics: the log of clicks and
// conversions that are not yet part of the sums, the conversions as they are part of the sums,
// the values that are counted separately, and the sums themselves.
//
// Package postgres writes the log, in the transactions that store clicks and change
// conversions. The packages affiliate/analytics and server/analytics decide what is added to
// the sums. A transaction that changes sums of a workspace and mode must hold their lock
// (TryLock). Every statement finds its rows with an index, except those that read the log of
// all workspaces.
package analytics

import (
	"context"
	"fmt"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	// insertLock inserts nothing if the row exists. Without the condition, it would wait for the
	// transaction that has the lock. It waits only for a transaction that inserts the row, which
	// happens once for each workspace and mode.
	insertLock = `
		insert into analytics_locks (workspace_id, mode, version)
		select $1, $2, 0 where not exists (select from analytics_locks where workspace_id = $1 and mode = $2)
		on conflict (workspace_id, mode) do nothing`
	skipLocked = `
		update analytics_locks set version = version + 1
		where workspace_id = $1 and mode = $2 and (workspace_id, mode) in (
			select workspace_id, mode from analytics_locks where workspace_id = $1 and mode = $2 for update skip locked)`
)

// TryLock gets the lock of the sums of a workspace and mode. It returns false if another
// transaction has the lock.
func TryLock(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope) (bool, error) {
	for range 2 {
		tag, err := tx.Exec(ctx, skipLocked, scope.Workspace, scope.Mode)
		if err != nil {
			return false, fmt.Errorf("lock analytics: %w", err)
		}
		if tag.RowsAffected() == 1 {
			return true, nil
		}
		// The workspace has no lock yet, or another transaction has it.
		if _, err := tx.Exec(ctx, insertLock, scope.Workspace, scope.Mode); err != nil {
			return false, fmt.Errorf("lock analytics: %w", err)
		}
	}
	return false, nil
}
