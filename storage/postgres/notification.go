package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// insertNotifications inserts notifications, and one row of notification_arrivals that lists
// them until they are distributed. The parameters are arrays with one element for each
// notification, except $1, the id of that row. Both rows use the same arrays.
const insertNotifications = `
	with stored as (
		insert into notifications (feed_id, mode, type, id, workspace_id, user_id, category, day,
			program_id, participant_id, resource_id, facts)
		select * from unnest($2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::uuid[], $7::uuid[], $8::text[], $9::date[],
			$10::uuid[], $11::uuid[], $12::uuid[], $13::json[])
	)
	insert into notification_arrivals (id, feed_ids, modes, types, ids, workspace_ids, user_ids)
	values ($1, $2, $3, $4, $5, $6, $7)`

// notificationColumns holds the parameters of insertNotifications.
type notificationColumns struct {
	feeds, ids                                           [][16]byte
	modes, types, categories                             []string
	days                                                 []time.Time
	workspaces, users, programs, participants, resources []pgtype.UUID
	facts                                                []json.RawMessage
}

// Notify stores notifications. After the commit, they are sent to the open notification streams
// of users, and mailed.
func (tx *Tx) Notify(ctx context.Context, notifications ...notification.Notification) error {
	batch := &pgx.Batch{}
	if err := queueNotifications(tx, batch, notifications...); err != nil {
		return err
	}
	return tx.SendBatch(ctx, batch).Close()
}

// queueNotifications adds the inserts of notifications to a batch of this transaction.
func queueNotifications(tx *Tx, batch *pgx.Batch, notifications ...notification.Notification) error {
	if len(notifications) == 0 {
		return nil
	}
	c, err := columnsOf(notifications)
	if err != nil {
		return err
	}
	first, _ := notifications[0].ID.Time()
	batch.Queue(insertNotifications, affiliate.NewID[notification.ArrivalID](first),
		c.feeds, c.modes, c.types, c.ids, c.workspaces, c.users, c.categories, c.days, c.programs, c.participants, c.resources, c.facts)
	Notified(tx)
	return nil
}

// Notified makes the callback of OnNotifications run after the commit.
func Notified(tx *Tx) {
	if !tx.notifies {
		tx.notifies = true
		tx.AfterCommit(func() { tx.db.onNotifications() })
	}
}

func columnsOf(notifications []notification.Notification) (notificationColumns, error) {
	count := len(notifications)
	c := notificationColumns{
		feeds: make([][16]byte, count), ids: make([][16]byte, count),
		modes: make([]string, count), types: make([]string, count), categories: make([]string, count),
		days: make([]time.Time, count), facts: make([]json.RawMessage, count),
		workspaces: make([]pgtype.UUID, count), users: make([]pgtype.UUID, count), programs: make([]pgtype.UUID, count),
		participants: make([]pgtype.UUID, count), resources: make([]pgtype.UUID, count),
	}
	for i, n := range notifications {
		idTime, _ := n.ID.Time()
		c.feeds[i], c.ids[i], c.days[i] = n.Feed.UUID, n.ID.UUID, idTime.Truncate(24*time.Hour)
		c.modes[i], c.types[i], c.categories[i] = string(n.StoredMode()), string(n.Type), string(n.Rule().Category)
		c.workspaces[i], c.users[i] = optionalID(n.Workspace), optionalID(n.User)
		c.programs[i], c.participants[i] = optionalID(n.Program), optionalID(n.Participant)
		if n.Resource != nil {
			c.resources[i] = pgtype.UUID{Bytes: *n.Resource, Valid: true}
		}
		if i > 0 && notifications[i-1].ID == n.ID { // notifications about one event have the same id and facts
			c.facts[i] = c.facts[i-1]
			continue
		}
		var err error
		if c.facts[i], err = json.Marshal(n.Facts); err != nil {
			return c, fmt.Errorf("encode the facts of a notification: %w", err)
		}
	}
	return c, nil
}

func optionalID[T any](id *affiliate.ID[T]) pgtype.UUID {
	if id == nil {
		return pgtype.UUID{}
	}
	return pgtype.UUID{Bytes: id.UUID, Valid: true}
}

// insertMails inserts mails with the status pending.
var insertMails = RowsOf[mailRow](`insert into mails ({columns}) values {rows}`)

type mailRow struct {
	notification.Mail
	Logged bool
	Status notification.MailStatus
}

// SendMail stores mails and the jobs that send them. The mails are sent after the
// commit.
func (tx *Tx) SendMail(ctx context.Context, mails ...notification.Mail) error {
	batch, jobs := &pgx.Batch{}, make([]affiliate.Job, len(mails))
	for i, m := range mails {
		insertMails.Queue(batch, mailRow{Mail: m, Logged: m.Logged(), Status: notification.MailPending})
		jobs[i] = notification.SendMail{Mail: m.ID}
	}
	if err := Send(ctx, tx, batch); err != nil {
		return err
	}
	return tx.Enqueue(ctx, jobs...)
}

// Suppressed reports whether mails to an address are not sent, for example after a bounce.
// address is the result of notification.MailDigest.
func Suppressed(ctx context.Context, db Queryer, address affiliate.Digests) (bool, error) {
	const query = `select exists (select from mail_suppressions where digest = any($1))`
	return Value[bool](ctx, db, query, address)
}

// LiftSuppression deletes the suppression of an address, because the address was verified
// again. address is the result of notification.MailDigest. LiftSuppression has no effect if
// the address is not suppressed.
func LiftSuppression(ctx context.Context, tx *Tx, address affiliate.Digests) error {
	return Exec(ctx, tx, `delete from mail_suppressions where digest = any($1)`, address)
}
