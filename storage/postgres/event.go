package postgres

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
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

// MarkDispatched ends the events' stay in the outbox and stamps the clicks whose
// conversions they tell of, in one transaction. An event whose click may still come
// stays: they are returned.
func (s *Store) MarkDispatched(
	ctx context.Context, workspace affiliate.WorkspaceID, ids []affiliate.EventID, clicks []affiliate.ConvertedClick, now time.Time,
) (early []affiliate.EventID, err error) {
	const update = `
		update events set dispatched_at = $3
		where workspace_id = $1 and id = any($2) and dispatched_at is null`
	if len(clicks) == 0 {
		_, err := s.pool.Exec(ctx, update, workspace, ids, now)
		return nil, err
	}
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		missing, err := markConverted(ctx, tx, workspace, clicks)
		if err != nil {
			return err
		}
		early = nil
		for _, c := range clicks {
			if c.MayCome && missing[c.Click] {
				early = append(early, c.Event)
			}
		}
		done := slices.DeleteFunc(slices.Clone(ids), func(id affiliate.EventID) bool { return slices.Contains(early, id) })
		_, err = tx.Exec(ctx, update, workspace, done, now)
		return err
	})
	return early, err
}

// The clicks of a job are found by their keys. The times inside their ids name their
// partitions, and the statements are planned for these times (= any): Postgres opens
// no other partition. In those it probes the key, unless they are so small that
// reading them costs less.
const (
	// lockConverted is one probe of one partition per click, whatever the
	// statistics say, and locks in the order of the ids that it is given.
	lockConverted = `
		select k.id, c.converted_at
		from unnest($2::uuid[], $3::timestamptz[]) as k (id, clicked_at)
		cross join lateral (
			select c.converted_at from clicks c
			where c.workspace_id = $1 and c.id = k.id and c.clicked_at = k.clicked_at and c.clicked_at = any($3)
			limit 1
			for no key update) as c`
	stampConverted = `
		update clicks c set converted_at = k.at
		from unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[]) as k (id, clicked_at, at)
		where c.workspace_id = $1 and c.id = k.id and c.clicked_at = k.clicked_at and c.clicked_at = any($3)`
)

// markConverted stamps each click with the first of its conversions, those of
// earlier jobs among them, and returns the clicks that are not stored.
func markConverted(ctx context.Context, tx pgx.Tx, workspace affiliate.WorkspaceID, clicks []affiliate.ConvertedClick) (map[affiliate.ClickID]bool, error) {
	first := make(map[affiliate.ClickID]time.Time, len(clicks))
	for _, c := range clicks {
		if _, ours := c.Click.Time(); !ours {
			continue // only a UUIDv7 is ever stored: this one will not come
		}
		if at, seen := first[c.Click]; !seen || c.At.Before(at) {
			first[c.Click] = c.At
		}
	}
	missing := make(map[affiliate.ClickID]bool, len(first))
	for id := range first {
		missing[id] = true
	}
	ids := slices.SortedFunc(maps.Keys(first), func(a, b affiliate.ClickID) int { return bytes.Compare(a.UUID[:], b.UUID[:]) })
	type lockedClick struct {
		ID          affiliate.ClickID
		ConvertedAt *time.Time
	}
	rows, _ := tx.Query(ctx, lockConverted, planned, workspace, ids, clickTimes(ids))
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByName[lockedClick])
	if err != nil {
		return nil, fmt.Errorf("clicks: %w", err)
	}
	ids = ids[:0]
	var at []time.Time
	for _, c := range stored {
		delete(missing, c.ID)
		if c.ConvertedAt == nil || first[c.ID].Before(*c.ConvertedAt) {
			ids, at = append(ids, c.ID), append(at, first[c.ID])
		}
	}
	if len(ids) == 0 {
		return missing, nil
	}
	if _, err := tx.Exec(ctx, stampConverted, planned, workspace, ids, clickTimes(ids), at); err != nil {
		return nil, fmt.Errorf("stamp clicks: %w", err)
	}
	return missing, nil
}

// clickTimes are the times inside ids, which say in which partitions they are.
func clickTimes(ids []affiliate.ClickID) []time.Time {
	times := make([]time.Time, len(ids))
	for i, id := range ids {
		times[i], _ = id.Time()
	}
	return times
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
