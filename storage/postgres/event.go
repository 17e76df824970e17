package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Undispatched reads those of the events that have not been taken on yet.
func (s *Store) Undispatched(ctx context.Context, workspace affiliate.WorkspaceID, ids []affiliate.EventID) ([]affiliate.StoredEvent, error) {
	const query = `
		select id, mode, type as name, created_at as at, body
		from events
		where workspace_id = $1 and id = any($2) and dispatched_at is null
		order by created_at, id`
	rows, err := s.pool.Query(ctx, query, workspace, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.StoredEvent])
}

// MarkDispatched ends the events' stay in the outbox.
func (s *Store) MarkDispatched(ctx context.Context, workspace affiliate.WorkspaceID, ids []affiliate.EventID, now time.Time) error {
	const update = `
		update events set dispatched_at = $3
		where workspace_id = $1 and id = any($2) and dispatched_at is null`
	_, err := s.pool.Exec(ctx, update, workspace, ids, now)
	return err
}

// MarkConverted stamps a click with its first conversion. The time inside the
// id picks the partition.
func (s *Store) MarkConverted(ctx context.Context, workspace affiliate.WorkspaceID, click affiliate.ClickID, at time.Time) error {
	const update = `
		update clicks set converted_at = $4
		where workspace_id = $1 and id = $2 and clicked_at = $3 and (converted_at is null or converted_at > $4)`
	clickedAt, ok := click.Time()
	if !ok {
		return nil // not one of ours: only a UUIDv7 is stored
	}
	_, err := s.pool.Exec(ctx, update, workspace, click, clickedAt, at)
	return err
}
