package notification

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// arrivalRow holds the arrays of an arrival. Ids are read as bytes: pgx would read an
// affiliate.ID from text, which takes several times as long, and every conversion has an
// arrival.
type arrivalRow struct {
	feeds, ids        [][16]byte
	modes, types      []string
	workspaces, users []pgtype.UUID
}

func (r *arrivalRow) appendTo(arrived []notification.ArrivedNotification) []notification.ArrivedNotification {
	for i := range r.ids {
		arrived = append(arrived, notification.ArrivedNotification{
			ID: notification.ID{UUID: r.ids[i]}, Feed: notification.FeedID{UUID: r.feeds[i]},
			Mode: affiliate.Mode(r.modes[i]), Type: notification.Type(r.types[i]),
			Workspace: optionalID[affiliate.WorkspaceID](r.workspaces[i]), User: optionalID[affiliate.UserID](r.users[i]),
		})
	}
	return arrived
}

func optionalID[I affiliate.AnyID](id pgtype.UUID) *I {
	if !id.Valid {
		return nil
	}
	return &I{id.Bytes}
}

// knownTypes are the types of the arrivals that this version distributes. The statements
// compare with them inside coalesce, for which Postgres assumes that half of the rows
// match. For <@ alone it assumes nearly none, and would sort the whole table.
var knownTypes = notification.Types()

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
func TakeArrivals(ctx context.Context, tx *postgres.Tx, limit, enough int) (arrived []notification.ArrivedNotification, more bool, err error) {
	rows, err := tx.Query(ctx, takeArrivals, limit, enough, knownTypes)
	if err != nil {
		return nil, false, err
	}
	taken, row := 0, &arrivalRow{}
	_, err = pgx.ForEachRow(rows, []any{&row.feeds, &row.modes, &row.types, &row.ids, &row.workspaces, &row.users}, func() error {
		taken++
		arrived = row.appendTo(arrived)
		return nil
	})
	return arrived, taken == limit || len(arrived) >= enough, err
}

const oldestArrival = `select id from notification_arrivals where coalesce(types <@ $1, false) order by id limit 1`

// OldestArrival returns the time of the oldest arrival of known types that was not
// distributed yet. It includes the arrivals that another transaction is taking. If all
// were distributed, it returns now.
func OldestArrival(ctx context.Context, tx *postgres.Tx, now time.Time) (time.Time, error) {
	rows, err := tx.Query(ctx, oldestArrival, knownTypes)
	if err != nil {
		return now, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[notification.ArrivalID])
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
func Arrivals(ctx context.Context, db *postgres.DB, feed notification.FeedID, limit int) ([]notification.ArrivalID, error) {
	const query = `
		select id from (select id, feed_ids from notification_arrivals where coalesce(types <@ $3, false) order by id limit $2) oldest
		where $1::uuid = any(feed_ids)`
	rows, err := db.Query(ctx, query, feed, limit, knownTypes)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[notification.ArrivalID])
}

// Waiting reports whether one of the arrivals was not distributed yet.
func Waiting(ctx context.Context, db *postgres.DB, arrivals []notification.ArrivalID) (waiting bool, err error) {
	const query = `select exists (select from notification_arrivals where id = any($1))`
	err = db.QueryRow(ctx, query, arrivals).Scan(&waiting)
	return waiting, err
}
