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

// MarkConverted stamps a click with its first conversion and reports whether the
// click is stored. The time inside the id picks the partition.
func (s *Store) MarkConverted(ctx context.Context, workspace affiliate.WorkspaceID, click affiliate.ClickID, at time.Time) (bool, error) {
	const update = `
		update clicks set converted_at = least(converted_at, $4)
		where workspace_id = $1 and id = $2 and clicked_at = $3`
	clickedAt, ok := click.Time()
	if !ok {
		return true, nil // not one of ours: only a UUIDv7 is ever stored
	}
	tag, err := s.pool.Exec(ctx, update, workspace, click, clickedAt, at)
	return tag.RowsAffected() > 0, err
}

// RequeueEvents gives events that were left behind since before an instant a
// job again, up to limit at a time: theirs was given up. It reports how many.
func (s *Store) RequeueEvents(ctx context.Context, before time.Time, limit int) (int, error) {
	const query = `
		select workspace_id, array_agg(id order by created_at) from (
			select workspace_id, id, created_at from events
			where dispatched_at is null and created_at < $1
			order by created_at limit $2
		) as stale group by workspace_id`
	requeued := 0
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		requeued = 0
		rows, err := tx.Query(ctx, query, before, limit)
		if err != nil {
			return err
		}
		type left struct {
			WorkspaceID affiliate.WorkspaceID
			ArrayAgg    []affiliate.EventID
		}
		stale, err := pgx.CollectRows(rows, pgx.RowToStructByName[left])
		if err != nil {
			return err
		}
		for _, of := range stale {
			if err := s.enqueue(ctx, tx, affiliate.DispatchEvents{Workspace: of.WorkspaceID, Events: of.ArrayAgg}); err != nil {
				return err
			}
			requeued += len(of.ArrayAgg)
		}
		return nil
	})
	return requeued, err
}
