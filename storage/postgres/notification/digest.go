package notification

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// selectRecipients searches the recipients of each feed separately. If it joined the tables
// for all feeds at once, Postgres would read all users when it has no statistics.
const selectRecipients = `
	select f.feed_id, r.user_id, r.role, r.kind, r.name, r.email, p.category, p.email as by_email
	from unnest($1::uuid[]) as f (feed_id)
	cross join lateral (
		select m.user_id, m.role, u.kind, u.name, u.email
		from members m join users u on u.id = m.user_id
		where m.workspace_id = f.feed_id and u.erased_at is null
		union all
		select u.id, '', u.kind, u.name, u.email from users u
		where u.id = f.feed_id and u.kind = 'partner' and u.erased_at is null and not u.unclaimed
	) r
	left join notification_preferences p on p.user_id = r.user_id
	order by f.feed_id, r.user_id`

// Recipients returns the users who may get mails about the notifications of feeds: the
// members of the workspaces and the partners. It returns none for accounts that were
// erased, and for accounts to which nobody can log in yet.
func Recipients(ctx context.Context, tx *postgres.Tx, feeds []notification.FeedID) ([]notification.FeedRecipient, error) {
	batch := newBatch()
	var all []notification.FeedRecipient
	batch.Queue(selectRecipients, feeds).Query(func(rows pgx.Rows) error {
		var r notification.FeedRecipient
		var category *notification.Category
		var byEmail *bool
		_, err := pgx.ForEachRow(rows, []any{&r.Feed, &r.User, &r.Role, &r.Kind, &r.Name, &r.Address, &category, &byEmail}, func() error {
			if len(all) == 0 || all[len(all)-1].Feed != r.Feed || all[len(all)-1].User != r.User {
				all = append(all, r)
				all[len(all)-1].Choices = notification.CategoryChoices{}
			}
			if category != nil {
				all[len(all)-1].Choices[*category] = notification.CategoryChoice{Email: byEmail}
			}
			return nil
		})
		return err
	})
	err := tx.SendBatch(ctx, batch).Close()
	return all, err
}

// openDigest stores that notifications are gathered. If the row exists, the statement locks it
// without a change. A transaction that ends the gathering at the same time then either sees the
// notification or has deleted the row.
const openDigest = `
	insert into notification_digests as d (user_id, mode, category, workspace_id, window_start, mailed, due_at)
	values (@user, @mode, @category, @workspace, @window_start, @mailed, @due_at)
	on conflict (user_id, mode, category, workspace_id) do update set due_at = d.due_at
	returning xmax = 0 as opened, due_at`

// OpenDigest begins to gather the notifications that follow a mail. opened is false if
// notifications are gathered already. due is the time at which the gathered notifications
// are sent.
func OpenDigest(ctx context.Context, tx *postgres.Tx, d notification.Digest) (opened bool, due time.Time, err error) {
	err = tx.QueryRow(ctx, openDigest, digestArguments(d)).Scan(&opened, &due)
	return opened, due, err
}

func digestArguments(d notification.Digest) pgx.NamedArgs {
	return pgx.NamedArgs{
		"user": d.User, "mode": d.Mode, "category": d.Category, "workspace": d.Workspace,
		"window_start": d.WindowStart, "mailed": d.Mailed, "due_at": d.DueAt,
	}
}

const lockDueDigest = `
	select user_id, mode, category, workspace_id, window_start, mailed, due_at from notification_digests
	where due_at <= $1 order by due_at limit 1 for update skip locked`

// LockDueDigest locks the digest that was due first, and returns it. It skips digests
// that another transaction has locked.
func LockDueDigest(ctx context.Context, tx *postgres.Tx, now time.Time) (d notification.Digest, found bool, err error) {
	return postgres.Optional[notification.Digest](ctx, tx, lockDueDigest, now)
}

const updateDigest = `
	update notification_digests set window_start = @window_start, mailed = @mailed, due_at = @due_at
	where user_id = @user and mode = @mode and category = @category and workspace_id = @workspace`

// UpdateDigest stores the next period of a digest.
func UpdateDigest(ctx context.Context, tx *postgres.Tx, d notification.Digest) error {
	return postgres.Exec(ctx, tx, updateDigest, digestArguments(d))
}

const closeDigest = `
	delete from notification_digests
	where user_id = @user and mode = @mode and category = @category and workspace_id = @workspace`

// CloseDigest deletes a digest. The next notification is then mailed at once.
func CloseDigest(ctx context.Context, tx *postgres.Tx, key notification.DigestKey) error {
	return postgres.Exec(ctx, tx, closeDigest, digestArguments(notification.Digest{DigestKey: key}))
}

const selectFeed = `
	select coalesce(m.workspace_id, u.id) as feed_id from users u left join members m on m.user_id = u.id
	where u.id = $1 and u.erased_at is null and (u.kind = 'partner' or m.user_id is not null)`

// Recipient returns a user as the recipient of mails about the feed that the user reads:
// the feed of the workspace of a member, or the feed of a partner. found is false for an
// account without a feed.
func Recipient(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) (recipient notification.FeedRecipient, found bool, err error) {
	feeds, err := postgres.Values[notification.FeedID](ctx, tx, selectFeed, user)
	if err != nil || len(feeds) == 0 {
		return recipient, false, err
	}
	all, err := Recipients(ctx, tx, feeds)
	i := slices.IndexFunc(all, func(r notification.FeedRecipient) bool { return r.User == user })
	if err != nil || i < 0 {
		return recipient, false, err
	}
	return all[i], true, nil
}

const selectGathered = `
	select id, feed_id, mode, type, workspace_id, user_id from notifications
	where feed_id = @feed and mode = @mode and category = @category and day >= @day and id >= @first
		and dismissed_at is null and id <> all(@mailed) and (not @personal or user_id = @user)
		and (@all_workspaces or workspace_id = @workspace)
		and id >= coalesce((select dismissed_before from notification_dismissals
			where feed_id = @feed and mode = @mode and category = @category), '00000000-0000-0000-0000-000000000000')
	order by day, id limit @limit`

// Gathered returns the notifications of a digest that were not mailed yet, and not dismissed,
// the oldest first. There are at most notification.MaxNotificationCount of them.
func Gathered(
	ctx context.Context, tx *postgres.Tx, feed notification.FeedID, personal bool, d notification.Digest,
) (gathered []notification.ArrivedNotification, err error) {
	args := digestArguments(d)
	args["feed"], args["personal"], args["all_workspaces"] = feed, personal, d.Workspace == affiliate.WorkspaceID{}
	args["first"], args["day"] = affiliate.FirstID[notification.ID](d.WindowStart), d.WindowStart.UTC().Truncate(24*time.Hour)
	args["limit"] = notification.MaxNotificationCount
	if d.Mailed == nil {
		args["mailed"] = []notification.ID{}
	}
	batch := newBatch()
	postgres.QueueList(batch, &gathered, selectGathered, args)
	err = tx.SendBatch(ctx, batch).Close()
	return gathered, err
}

// MailEntries returns the given notifications of a user's feed, in the given order. It leaves
// out notifications about which the user no longer gets mails. A mail can wait for a day. In
// this time, notifications can be deleted, and the user can get another role or disable mails.
func MailEntries(
	ctx context.Context, db *postgres.DB, user affiliate.UserID, mode affiliate.Mode, category notification.Category, ids []notification.ID,
) (entries []notification.Entry, err error) {
	const query = `
		with n as (
			select n.*, null::timestamptz as read_at from notifications n
			where n.feed_id = @feed and n.mode = @mode and n.category = @category and n.day = any(@days) and n.id = any(@ids)
		)
		select ` + entryColumns + ` from n ` + nameJoins + ` order by array_position(@ids, n.id)`
	days := make([]time.Time, len(ids))
	for i, id := range ids {
		days[i] = dayOf(id)
	}
	err = db.InTx(ctx, func(tx *postgres.Tx) error {
		recipient, found, err := Recipient(ctx, tx, user)
		if err != nil || !found {
			return err
		}
		entries, err = postgres.List[notification.Entry](ctx, tx, query, pgx.NamedArgs{
			"feed": recipient.Feed, "user": user, "mode": mode, "category": category, "days": days, "ids": ids,
		})
		entries = slices.DeleteFunc(entries, func(e notification.Entry) bool { return !recipient.Wants(e.Arrived()) })
		return err
	})
	return entries, err
}

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
// compare them inside coalesce, because Postgres then assumes that half of the rows match. For
// <@ alone, it assumes that nearly no row matches, and would sort the whole table.
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
// notifications in the order of the arrivals. It takes no further arrival when it has at least
// the number of notifications in the parameter enough. The result more reports whether one of
// the two limits was reached. It skips arrivals that another transaction is taking. It does not
// take arrivals with types that only a newer version knows; a process of that version takes
// them. If the transaction rolls back, the arrivals are still there.
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

// OldestArrival returns the time of the oldest arrival of known types that was not distributed
// yet. It includes the arrivals that another transaction is taking. If all were distributed, it
// returns the given time.
func OldestArrival(ctx context.Context, tx *postgres.Tx, now time.Time) (time.Time, error) {
	ids, err := postgres.Values[notification.ArrivalID](ctx, tx, oldestArrival, knownTypes)
	if err != nil || len(ids) == 0 {
		return now, err
	}
	if at, ok := ids[0].Time(); ok && at.Before(now) {
		return at, nil
	}
	return now, nil
}

// Arrivals reads the oldest arrivals, at most limit of them, and returns the ids of those that
// contain notifications of a feed.
func Arrivals(ctx context.Context, db *postgres.DB, feed notification.FeedID, limit int) ([]notification.ArrivalID, error) {
	const query = `
		select id from (select id, feed_ids from notification_arrivals where coalesce(types <@ $3, false) order by id limit $2) oldest
		where $1::uuid = any(feed_ids)`
	return postgres.Values[notification.ArrivalID](ctx, db, query, feed, limit, knownTypes)
}

// Waiting reports whether one of the given arrivals was not distributed yet.
func Waiting(ctx context.Context, db *postgres.DB, arrivals []notification.ArrivalID) (bool, error) {
	const query = `select exists (select from notification_arrivals where id = any($1))`
	return postgres.Value[bool](ctx, db, query, arrivals)
}
