// Package analytics has the SQL for the sums of the analytics: the log of clicks and
// conversions that are not yet added to the sums, the conversions with the values that were
// added, the values that are counted separately, and the sums themselves.
//
// Package postgres writes the log, in the transactions that store clicks and change
// conversions. The packages affiliate/analytics and server/analytics decide what is added to
// the sums. A transaction that changes sums of a workspace and mode must hold their lock
// (TryLock). Every statement finds its rows with an index, unless it reads the log of all
// workspaces.
package analytics

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	// insertLock inserts nothing if the row exists. The condition keeps it from waiting for a
	// transaction that has locked the row.
	insertLock = `
		insert into analytics_locks (workspace_id, mode, version)
		select $1, $2, 0 where not exists (select from analytics_locks where workspace_id = $1 and mode = $2)
		on conflict (workspace_id, mode) do nothing`
	skipLocked = `
		update analytics_locks set version = version + 1
		where workspace_id = $1 and mode = $2 and (workspace_id, mode) in (
			select workspace_id, mode from analytics_locks where workspace_id = $1 and mode = $2 for update skip locked)`
)

// TryLock gets the lock of the sums, or returns false if another transaction has it.
func TryLock(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope) (bool, error) {
	for range 2 {
		tag, err := tx.Exec(ctx, skipLocked, scope.Workspace, scope.Mode)
		if err != nil {
			return false, err
		}
		if tag.RowsAffected() == 1 {
			return true, nil
		}
		// The workspace has no lock yet, or another transaction has it.
		if _, err := tx.Exec(ctx, insertLock, scope.Workspace, scope.Mode); err != nil {
			return false, err
		}
	}
	return false, nil
}

// selectWaiting has no condition on the workspace, because it finds the workspaces with
// entries in the log. The log is empty except for the entries of the last seconds.
const selectWaiting = `select workspace_id, mode from analytics_log group by workspace_id, mode order by min(id) limit $1`

// Waiting returns at most limit scopes that have entries in the log, the oldest first.
func Waiting(ctx context.Context, db *postgres.DB, limit int) ([]affiliate.Scope, error) {
	return postgres.List[affiliate.Scope](ctx, db, selectWaiting, limit)
}

const hasWaiting = `select exists (select from analytics_log where workspace_id = $1 and mode = $2)`

// IsWaiting reports whether a workspace and mode have entries in the log.
func IsWaiting(ctx context.Context, db *postgres.DB, scope affiliate.Scope) (bool, error) {
	return postgres.Value[bool](ctx, db, hasWaiting, scope.Workspace, scope.Mode)
}

// selectOldest reads the whole log, which is short unless the job does not run.
const selectOldest = `select min(created_at) from analytics_log`

// Oldest returns the time of the oldest entry of all workspaces; nil if the log is empty.
func Oldest(ctx context.Context, db *postgres.DB) (*time.Time, error) {
	return postgres.Value[*time.Time](ctx, db, selectOldest)
}

const (
	// maxEntries, maxClickBytes and maxConversions limit the entries that a transaction takes
	// from the log. Clicks with different values change many sums. Entries have at most 5,000
	// clicks or 2,000 conversions.
	maxEntries     = 500
	maxClickBytes  = 1 << 20
	maxConversions = 2000

	// selectNext selects the oldest entries of a workspace and mode within the limits, at least
	// one, and the number of the entries that it has seen.
	selectNext = `
		select coalesce(array_agg(id) filter (where n = 1 or bytes <= $4 and conversions <= $5), '{}'), count(*)
		from (
			select id, row_number() over w as n, sum(coalesce(octet_length(clicks), 0)) over w as bytes, sum(coalesce(cardinality(conversions), 0)) over w as conversions
			from (select id, clicks, conversions from analytics_log where workspace_id = $1 and mode = $2 order by id limit $3) as oldest
			window w as (order by id)
		) as oldest`
	takeEntries = `
		delete from analytics_log where workspace_id = $1 and mode = $2 and id = any($3)
		returning clicks, oldest_click, conversions, erased`
)

// TakeEntries deletes the oldest entries of the log, as many as one transaction should add to
// the sums, and returns them. Entries that another transaction has inserted and not committed
// stay for the next call. The result more is true if entries may be left.
func TakeEntries(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope) (entries []analytics.LogEntry, more bool, err error) {
	var ids []int64
	var seen int
	if err := tx.QueryRow(ctx, selectNext, scope.Workspace, scope.Mode, maxEntries, maxClickBytes, maxConversions).Scan(&ids, &seen); err != nil {
		return nil, false, err
	}
	if len(ids) == 0 {
		return nil, false, nil
	}
	entries, err = postgres.List[analytics.LogEntry](ctx, tx, takeEntries, scope.Workspace, scope.Mode, ids)
	return entries, seen == maxEntries || len(ids) < seen, err
}

const insertEntry = `insert into analytics_log (workspace_id, mode, conversions, erased) values ($1, $2, $3, $4)`

// AddEntry inserts an entry without clicks into the log.
func AddEntry(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, entry analytics.LogEntry) error {
	return postgres.Exec(ctx, tx, insertEntry, scope.Workspace, scope.Mode, entry.Conversions, entry.Erased)
}

// erasedOwners finds the erased participants among $3: all if the workspace was erased.
const erasedOwners = `
	select t.id, w.erased_at is not null as workspace_erased
	from participants t
	join workspaces w on w.id = t.workspace_id
	where t.workspace_id = $1 and t.mode = $2 and t.id = any($3) and (t.erased_at is not null or w.erased_at is not null)`

// Erased finds erased participants. The result workspace is true if the whole workspace was erased.
func Erased(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ParticipantID,
) (erased map[affiliate.ParticipantID]bool, workspace bool, err error) {
	type owner struct {
		ID              affiliate.ParticipantID
		WorkspaceErased bool
	}
	owners, err := postgres.List[owner](ctx, tx, erasedOwners, scope.Workspace, scope.Mode, ids)
	erased = make(map[affiliate.ParticipantID]bool, len(owners))
	for _, o := range owners {
		erased[o.ID], workspace = true, o.WorkspaceErased
	}
	return erased, workspace, err
}
