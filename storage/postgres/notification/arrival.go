package notification

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

type arrivalRow struct {
	FeedIDs      []affiliate.FeedID           `db:"feed_ids"`
	Modes        []affiliate.Mode             `db:"modes"`
	Types        []affiliate.NotificationType `db:"types"`
	IDs          []affiliate.NotificationID   `db:"ids"`
	WorkspaceIDs []uuid.NullUUID              `db:"workspace_ids"`
	UserIDs      []uuid.NullUUID              `db:"user_ids"`
}

func (r arrivalRow) notifications() []affiliate.ArrivedNotification {
	arrived := make([]affiliate.ArrivedNotification, len(r.IDs))
	for i := range r.IDs {
		arrived[i] = affiliate.ArrivedNotification{
			ID: r.IDs[i], Feed: r.FeedIDs[i], Mode: r.Modes[i], Type: r.Types[i],
			Workspace: optionalID[affiliate.Workspace](r.WorkspaceIDs[i]), User: optionalID[affiliate.User](r.UserIDs[i]),
		}
	}
	return arrived
}

func optionalID[T any](id uuid.NullUUID) *affiliate.ID[T] {
	if !id.Valid {
		return nil
	}
	return &affiliate.ID[T]{UUID: id.UUID}
}

// knownTypes are the types of the arrivals that this version distributes. The statements
// compare with them inside coalesce, for which Postgres assumes that half of the rows
// match. For <@ alone it assumes nearly none, and would sort the whole table.
var knownTypes = affiliate.NotificationTypes()

const takeArrivals = `
	with taken as (
		delete from notification_arrivals
		where id = any (array(
			select id from (
				select id, sum(cardinality(ids)) over (order by id) - cardinality(ids) as earlier
				from (select id, ids from notification_arrivals where coalesce(types <@ $3, false) order by id limit $1 for update skip locked) oldest
			) counted
			where earlier < $2
		))
		returning id, feed_ids, modes, types, ids, workspace_ids, user_ids
	)
	select feed_ids, modes, types, ids, workspace_ids, user_ids from taken order by id`

// TakeArrivals deletes the oldest arrivals, at most limit of them, and returns their
// notifications in the order of the arrivals. It takes no further arrival when it has
// enough notifications. more reports whether one of the two limits was reached. It skips
// arrivals that another transaction is taking. It leaves arrivals with types that this
// version does not know to a process of the newer version. If the transaction rolls back,
// the arrivals are still there.
func (tx *Tx) TakeArrivals(ctx context.Context, limit, enough int) (arrived []affiliate.ArrivedNotification, more bool, err error) {
	rows, err := tx.Query(ctx, takeArrivals, limit, enough, knownTypes)
	if err != nil {
		return nil, false, err
	}
	taken, err := pgx.CollectRows(rows, pgx.RowToStructByName[arrivalRow])
	for _, row := range taken {
		arrived = append(arrived, row.notifications()...)
	}
	return arrived, len(taken) == limit || len(arrived) >= enough, err
}

const oldestArrival = `select id from notification_arrivals where coalesce(types <@ $1, false) order by id limit 1`

// OldestArrival returns the time of the oldest arrival of known types that was not
// distributed yet. It includes the arrivals that another transaction is taking. If there
// is none, it returns now.
func (tx *Tx) OldestArrival(ctx context.Context, now time.Time) (time.Time, error) {
	rows, err := tx.Query(ctx, oldestArrival, knownTypes)
	if err != nil {
		return now, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ArrivalID])
	if err != nil || len(ids) == 0 {
		return now, err
	}
	if at, ok := ids[0].Time(); ok && at.Before(now) {
		return at, nil
	}
	return now, nil
}

// Arrivals returns those of the oldest arrivals that contain notifications of a feed. It
// reads at most limit arrivals.
func (s *Store) Arrivals(ctx context.Context, feed affiliate.FeedID, limit int) ([]affiliate.ArrivalID, error) {
	const query = `
		select id from (select id, feed_ids from notification_arrivals where coalesce(types <@ $3, false) order by id limit $2) oldest
		where $1::uuid = any(feed_ids)`
	rows, err := s.db.Pool().Query(ctx, query, feed, limit, knownTypes)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[affiliate.ArrivalID])
}

// Waiting reports whether one of the arrivals was not distributed yet.
func (s *Store) Waiting(ctx context.Context, arrivals []affiliate.ArrivalID) (waiting bool, err error) {
	const query = `select exists (select from notification_arrivals where id = any($1))`
	err = s.db.Pool().QueryRow(ctx, query, arrivals).Scan(&waiting)
	return waiting, err
}
