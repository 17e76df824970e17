package conversion

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// WaitingConversions returns at most limit conversions that wait for the given click,
// ordered by id. The conversions include the hashes of the buyers' data, because the
// fraud rules compare these hashes.
func WaitingConversions(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, click affiliate.ClickID, limit int) ([]conversion.StoredConversion, error) {
	read := `
		select ` + conversionColumns + `
		from awaited_clicks a
		join conversions c on c.workspace_id = a.workspace_id and c.mode = a.mode and c.id = a.conversion_id
		where a.workspace_id = $1 and a.click_id = $2
		order by a.conversion_id
		limit $3`
	rows, _ := db.Query(ctx, read, workspace, click, limit)
	return pgx.CollectRows(rows, pgx.RowToStructByName[conversion.StoredConversion])
}

const deleteAwaitedClick = `delete from awaited_clicks where workspace_id = $1 and mode = $2 and conversion_id = $3 and click_id = $4`

// StopAwaiting makes a conversion stop waiting for its click. It changes nothing else.
func StopAwaiting(ctx context.Context, tx *postgres.Tx, c conversion.Conversion) error {
	_, err := tx.Exec(ctx, deleteAwaitedClick, c.Workspace, c.Mode, c.ID, c.Click)
	return err
}

// selectStoredAwaited returns those of the given awaited clicks that are stored. For
// each awaited click it searches one partition of clicks. The lateral join with a limit
// keeps the planner from joining whole partitions.
const selectStoredAwaited = `
	select a.workspace_id as workspace, a.click_id as click
	from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) as a (workspace_id, click_id, clicked_at)
	cross join lateral (
		select 1 from clicks c
		where c.workspace_id = a.workspace_id and c.id = a.click_id and c.clicked_at = a.clicked_at
		limit 1) as found`

// ArrivedClicks returns those awaited clicks of the whole deployment that are now
// stored. StoreClicks enqueues jobs for most of these clicks itself, but it cannot see
// a waiting conversion whose transaction has not committed yet. ArrivedClicks finds the
// clicks of such conversions. One call checks at most limit awaited clicks, which
// follow the click in cursor. next is the cursor for the next call. It is the zero
// value when no awaited clicks are left to check.
func ArrivedClicks(ctx context.Context, db *postgres.DB, cursor click.AwaitedClick, limit int) (arrived []click.AwaitedClick, next click.AwaitedClick, err error) {
	const page = `
		select distinct workspace_id as workspace, click_id as click
		from awaited_clicks
		where (workspace_id, click_id) > ($1, $2)
		order by workspace_id, click_id
		limit $3`
	rows, err := db.Query(ctx, page, cursor.Workspace, cursor.Click, limit)
	if err != nil {
		return nil, next, err
	}
	awaited, err := pgx.CollectRows(rows, pgx.RowToStructByName[click.AwaitedClick])
	if err != nil || len(awaited) == 0 {
		return nil, next, err
	}
	if len(awaited) == limit {
		next = awaited[limit-1]
	}
	workspaces, clicks, times := make([]uuid.UUID, len(awaited)), make([]uuid.UUID, len(awaited)), make([]time.Time, len(awaited))
	for i, a := range awaited {
		workspaces[i], clicks[i] = a.Workspace.UUID, a.Click.UUID
		times[i], _ = a.Click.Time()
	}
	rows, err = db.Query(ctx, selectStoredAwaited, workspaces, clicks, times)
	if err != nil {
		return nil, next, err
	}
	arrived, err = pgx.CollectRows(rows, pgx.RowToStructByName[click.AwaitedClick])
	return arrived, next, err
}

// DropExpiredAwaited deletes at most limit expired rows of awaited_clicks, of all
// workspaces, and returns the number of deleted rows.
func DropExpiredAwaited(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error) {
	const drop = `
		delete from awaited_clicks a
		using (
			select workspace_id, click_id, conversion_id from awaited_clicks
			where expires_at <= $1
			order by expires_at
			limit $2
			for update skip locked) as expired
		where a.workspace_id = expired.workspace_id and a.click_id = expired.click_id and a.conversion_id = expired.conversion_id`
	tag, err := db.Exec(ctx, drop, now, limit)
	return tag.RowsAffected(), err
}
