package notification

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// LockUser locks a user, so that concurrent transactions count and open the notification streams
// of the user one after another.
func LockUser(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	const lock = `select from users where id = $1 for no key update`
	return postgres.Exec(ctx, tx, lock, user)
}

// CloseStreamsOfTicket deletes the streams that a ticket has opened, and stores that the
// ticket was used.
func CloseStreamsOfTicket(ctx context.Context, tx *postgres.Tx, ticket []byte, now time.Time) error {
	const remove = `delete from notification_streams where user_id = (
		select s.user_id from notification_stream_tickets t join sessions s on s.id = t.session_id where t.digest = $1
	) and ticket = $1`
	const use = `update notification_stream_tickets set opened_at = coalesce(opened_at, $2) where digest = $1`
	batch := &pgx.Batch{}
	batch.Queue(remove, ticket)
	batch.Queue(use, ticket, now)
	return tx.SendBatch(ctx, batch).Close()
}

// CountStreams counts the open streams of a user that were seen since the given time.
func CountStreams(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, since time.Time) (int, error) {
	const query = `select count(*) from notification_streams where user_id = $1 and seen_at > $2`
	return postgres.Value[int](ctx, tx, query, user, since)
}

// streamedExtra is how much later than needed OpenStream sets streamed_until of a feed. Streams that are opened
// in this additional time need not update the row of the feed.
const streamedExtra = 15 * time.Minute

// OpenStream stores an open stream. From now on, the notifications of its feed get
// sequence numbers. It returns the state of the feed.
//
// Usually the feed is streamed already, and OpenStream only reads it. If it changed the
// feed each time, many clients that reconnect at the same moment would wait for each
// other.
func OpenStream(ctx context.Context, tx *postgres.Tx, stream notification.Stream, now time.Time) (state notification.FeedState, err error) {
	const insert = `insert into notification_streams (id, user_id, ticket, seen_at) values (@id, @user, @ticket, @now)`
	const read = `
		select last_seq, version,
			greatest(replay_after, (select max(p.seq) from notification_positions p where p.feed_id = @feed and p.created_at < @oldest))
		from notification_feeds where feed_id = @feed and streamed_until >= @needed`
	needed := now.Add(notification.ReplayLife + account.AccessTokenLife)
	args := pgx.NamedArgs{
		"id": stream.ID, "user": stream.Reader.User, "ticket": stream.Ticket, "now": now,
		"feed": stream.Reader.Feed, "needed": needed, "oldest": now.Add(-notification.ReplayLife),
	}
	batch := &pgx.Batch{}
	batch.Queue(insert, args)
	batch.Queue(read, args).QueryRow(func(row pgx.Row) error { return row.Scan(&state.LastSeq, &state.Version, &state.ReplayAfter) })
	if err := tx.SendBatch(ctx, batch).Close(); !errors.Is(err, pgx.ErrNoRows) {
		return state, err
	}
	if err := beginStreaming(ctx, tx, stream.Reader.Feed, needed.Add(streamedExtra), now); err != nil {
		return state, err
	}
	err = tx.QueryRow(ctx, read, args).Scan(&state.LastSeq, &state.Version, &state.ReplayAfter)
	return state, err
}

// beginStreaming makes the notifications of a feed get sequence numbers until a time.
//
// If the feed was not streamed for a while, there may be notifications without a number.
// The feed then skips a number, so that no client can continue from an earlier number. A
// feed that DeleteOldFeeds has deleted begins with a number that is higher than all its
// earlier numbers, because it begins with the time in milliseconds.
func beginStreaming(ctx context.Context, tx *postgres.Tx, feed notification.FeedID, until, now time.Time) error {
	const begin = `
		insert into notification_feeds as f (feed_id, last_seq, replay_after, version, streamed_until)
		values (@feed, @first, @first, 0, @until)
		on conflict (feed_id) do update
		set streamed_until = excluded.streamed_until,
			last_seq = f.last_seq + case when f.streamed_until > @now then 0 else 1 end,
			replay_after = case when f.streamed_until > @now then f.replay_after else f.last_seq + 1 end`
	args := pgx.NamedArgs{"feed": feed, "first": now.UnixMilli(), "until": until, "now": now}
	return postgres.Exec(ctx, tx, begin, args)
}

// CloseStream deletes a stream.
func CloseStream(ctx context.Context, db *postgres.DB, id notification.StreamID) error {
	const remove = `delete from notification_streams where id = $1`
	return postgres.Exec(ctx, db, remove, id)
}

// SeeStreams stores that streams are open.
func SeeStreams(ctx context.Context, db *postgres.DB, ids []notification.StreamID, now time.Time) error {
	const update = `update notification_streams set seen_at = $2 where id = any($1)`
	return postgres.Exec(ctx, db, update, ids, now)
}

// CheckStreams checks whether streams may stay open. A stream is current if it is still stored: it was not
// closed, and not reopened with its ticket. It is permitted if its session is active and its user, if not a
// partner, still has the role with which the stream was opened.
func CheckStreams(ctx context.Context, db *postgres.DB, streams []notification.Stream, now time.Time) (map[notification.StreamID]notification.StreamCheck, error) {
	const query = `
		select o.id,
			exists (select from notification_streams n where n.id = o.id) as is_current,
			exists (
				select from sessions s join users u on u.id = s.user_id left join members m on m.user_id = u.id
				where s.id = o.session_id and s.revoked_at is null and s.expires_at > @now and u.erased_at is null
					and (u.kind = 'partner' or m.workspace_id = o.feed_id and m.role = o.role)
			) as is_permitted
		from unnest(@ids::uuid[], @sessions::uuid[], @feeds::uuid[], @roles::text[]) as o (id, session_id, feed_id, role)`
	ids, sessions := make([]notification.StreamID, len(streams)), make([]affiliate.SessionID, len(streams))
	feeds, roles := make([]notification.FeedID, len(streams)), make([]string, len(streams))
	for i, stream := range streams {
		ids[i], sessions[i], feeds[i], roles[i] = stream.ID, stream.Session, stream.Reader.Feed, string(stream.Reader.Role)
	}
	rows, err := db.Query(ctx, query, pgx.NamedArgs{"ids": ids, "sessions": sessions, "feeds": feeds, "roles": roles, "now": now})
	if err != nil {
		return nil, err
	}
	checks := map[notification.StreamID]notification.StreamCheck{}
	var id notification.StreamID
	var check notification.StreamCheck
	_, err = pgx.ForEachRow(rows, []any{&id, &check.Current, &check.Permitted}, func() error {
		checks[id] = check
		return nil
	})
	return checks, err
}

// InsertTicket stores a ticket.
func InsertTicket(ctx context.Context, db *postgres.DB, t notification.StreamTicket) error {
	const insert = `
		insert into notification_stream_tickets (digest, session_id, kind, mode, created_at, expires_at) values ($1, $2, $3, $4, $5, $6)`
	return postgres.Exec(ctx, db, insert, t.Digest, t.Session, t.Kind, t.Mode, t.CreatedAt, t.ExpiresAt)
}

// StreamTicket returns the ticket with a digest. found is false if no ticket has it.
func StreamTicket(ctx context.Context, db *postgres.DB, digest []byte) (ticket notification.StreamTicket, found bool, err error) {
	const query = `
		select digest, session_id, kind, mode, created_at, opened_at, expires_at
		from notification_stream_tickets where digest = $1`
	return postgres.Optional[notification.StreamTicket](ctx, db, query, digest)
}

// TakeTicket deletes the ticket with a digest and returns it. found is false if no ticket has it.
func TakeTicket(ctx context.Context, db *postgres.DB, digest []byte) (ticket notification.StreamTicket, found bool, err error) {
	const query = `
		delete from notification_stream_tickets where digest = $1
		returning digest, session_id, kind, mode, created_at, opened_at, expires_at`
	return postgres.Optional[notification.StreamTicket](ctx, db, query, digest)
}
