package notification

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// AssignSequence gives the notifications of streamed feeds their sequence numbers, in the
// given order. It returns the feeds whose notifications got numbers.
//
// The row of a feed stays locked until the commit. So a transaction that assigns numbers
// of the same feed waits, and a reader that sees a number also sees all lower numbers.
func AssignSequence(ctx context.Context, tx *postgres.Tx, arrived []notification.ArrivedNotification, now time.Time) ([]notification.FeedID, error) {
	const lock = `
		select feed_id from notification_feeds where feed_id = any($1) and streamed_until > $2 order by feed_id for update`
	const assign = `
		with item as (
			select feed_id, mode, category, day, id, row_number() over (partition by feed_id order by n) as number
			from unnest(@feeds::uuid[], @modes::text[], @categories::text[], @days::date[], @ids::uuid[])
				with ordinality as u (feed_id, mode, category, day, id, n)
		), stored as (
			insert into notification_positions (feed_id, seq, mode, category, day, notification_id, created_at)
			select i.feed_id, f.last_seq + i.number, i.mode, i.category, i.day, i.id, @now
			from item i join notification_feeds f on f.feed_id = i.feed_id
		), counted as (select feed_id, max(number) as n from item group by feed_id)
		update notification_feeds f
		set last_seq = f.last_seq + c.n, replay_after = greatest(f.replay_after, f.last_seq + c.n - @max_replay)
		from counted c where c.feed_id = f.feed_id`
	const trim = `
		delete from notification_positions p using notification_feeds f
		where f.feed_id = any($1) and p.feed_id = f.feed_id and p.seq <= f.replay_after`

	rows, err := tx.Query(ctx, lock, notification.FeedsOf(arrived), now)
	if err != nil {
		return nil, err
	}
	streamed, err := pgx.CollectRows(rows, pgx.RowTo[notification.FeedID])
	if err != nil || len(streamed) == 0 {
		return nil, err
	}
	isStreamed := map[notification.FeedID]bool{}
	for _, feed := range streamed {
		isStreamed[feed] = true
	}
	var items struct {
		feeds, ids        [][16]byte
		modes, categories []string
		days              []time.Time
	}
	for _, n := range arrived {
		if isStreamed[n.Feed] {
			items.feeds, items.ids = append(items.feeds, n.Feed.UUID), append(items.ids, n.ID.UUID)
			items.modes, items.categories = append(items.modes, string(n.Mode)), append(items.categories, string(n.Category()))
			items.days = append(items.days, dayOf(n.ID))
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(assign, pgx.NamedArgs{
		"feeds": items.feeds, "modes": items.modes, "categories": items.categories, "days": items.days, "ids": items.ids,
		"now": now, "max_replay": notification.MaxReplay,
	})
	batch.Queue(trim, streamed)
	return streamed, tx.SendBatch(ctx, batch).Close()
}

// FeedChanged increments the version of a feed, so that the counts of its open streams
// are computed again. It does nothing if the feed is not streamed.
func FeedChanged(ctx context.Context, tx *postgres.Tx, feed notification.FeedID) error {
	const update = `update notification_feeds set version = version + 1 where feed_id = $1`
	_, err := tx.Exec(ctx, update, feed)
	return err
}

// FeedStates returns the states of feeds. It returns none for a feed that was not
// streamed.
func FeedStates(ctx context.Context, db *postgres.DB, feeds []notification.FeedID) (map[notification.FeedID]notification.FeedState, error) {
	const query = `select feed_id, last_seq, replay_after, version from notification_feeds where feed_id = any($1)`
	rows, err := db.Query(ctx, query, feeds)
	if err != nil {
		return nil, err
	}
	states := map[notification.FeedID]notification.FeedState{}
	var feed notification.FeedID
	var state notification.FeedState
	_, err = pgx.ForEachRow(rows, []any{&feed, &state.LastSeq, &state.ReplayAfter, &state.Version}, func() error {
		states[feed] = state
		return nil
	})
	return states, err
}

type positionRow struct {
	Seq      int64
	Category notification.Category
	entryRow
}

func (r positionRow) position() notification.FeedPosition {
	return notification.FeedPosition{Seq: r.Seq, Mode: r.Mode, Category: r.Category, Entry: r.entry()}
}

// Positions returns the notifications of a feed whose sequence number is higher than
// after, in the order of their numbers, at most limit of them. complete is false if
// notifications with such a number cannot be replayed any more, so that some of them may
// be missing.
func Positions(ctx context.Context, db *postgres.DB, feed notification.FeedID, after int64, limit int) (positions []notification.FeedPosition, complete bool, err error) {
	const query = `
		select n.seq, n.category, ` + entryColumns + `
		from (
			select p.seq, n.*, null::timestamptz as read_at
			from notification_positions p
			join notifications n on n.feed_id = p.feed_id and n.mode = p.mode and n.category = p.category and n.day = p.day
				and n.id = p.notification_id
			where p.feed_id = @feed and p.seq > @after
			order by p.seq limit @limit
		) n ` + nameJoins + `
		order by n.seq`
	// This statement runs after the query, so it sees every deletion that the query saw.
	const check = `select exists (select from notification_feeds where feed_id = @feed and replay_after <= @after)`
	args := pgx.NamedArgs{"feed": feed, "after": after, "limit": limit, "user": affiliate.UserID{}}
	batch := &pgx.Batch{}
	batch.Queue(query, args).Query(func(rows pgx.Rows) error {
		positions, err = postgres.AllRows(rows, rows.Err(), positionRow.position)
		return err
	})
	batch.Queue(check, args).QueryRow(func(row pgx.Row) error { return row.Scan(&complete) })
	err = db.SendBatch(ctx, batch).Close()
	return positions, complete, err
}
