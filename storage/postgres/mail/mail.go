// Package mail has the SQL for stored mails, the notification log, suppressed addresses
// and the messages of the mail provider. postgres.Tx inserts mails, because many kinds of
// transactions do so.
//
// The package reads and stores rows. Its callers decide which values it stores. A function with
// a *postgres.Tx runs in the caller's transaction. Other functions run on their own.
package mail

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// selectMail selects a mail with the facts that decide about its delivery. The column
// recipient_removed is true if the recipient's account was erased, and for notifications of a
// workspace also if the user is no longer a member. A mail of live mode does not name its
// workspace, but a user belongs to at most one workspace. Mail is redirected only as long as
// the redirect is the verified address of a member. Notifications follow a change of the
// recipient's address. Security mail does not, because an attacker may have changed the
// address. The column unverified concerns the present address of the account, to which
// notifications are sent.
const selectMail = `
	select m.id, m.kind, m.type, m.category, m.workspace_id, m.mode, m.user_id, m.account_kind,
		m.recipient_name, coalesce((
			select u.email from users u
			where u.id = m.user_id and u.erased_at is null and m.kind = 'notifications' and m.category <> 'security'
		), m.recipient) as recipient, m.facts, m.secret, m.status, m.created_at,
		coalesce((
			select u.email from members t join users u on u.id = t.user_id
			where t.workspace_id = w.id and u.email = w.test_mail_redirect and u.email_verified_at is not null
		), '') as test_redirect,
		m.user_id is not null and (
			not exists (select from users u where u.id = m.user_id and u.erased_at is null)
			or m.kind = 'notifications' and m.account_kind = 'merchant'
				and not exists (select from members t where t.workspace_id = coalesce(m.workspace_id, t.workspace_id) and t.user_id = m.user_id)
		) as recipient_removed,
		exists (select from users u where u.id = m.user_id and u.email_verified_at is null) as unverified
	from mails m
	left join workspaces w on w.id = m.workspace_id
	where m.id = $1`

// Mail returns a mail. Errors: NOT_FOUND.
func Mail(ctx context.Context, db *postgres.DB, id notification.MailID) (notification.StoredMail, error) {
	return postgres.OneRow[notification.StoredMail](db.Query(ctx, selectMail, id))
}

// completeMail stores the final state of a pending mail. It deletes the token.
const completeMail = `
	update mails
	set recipient = @recipient, status = @status, reason = nullif(@reason, ''), redirected_to = nullif(@redirected_to, ''), secret = null,
		sender = @sender, subject = @subject, html = @html, text = @text, completed_at = @at
	where id = @id and status = 'pending'`

// CompleteMail stores the outcome of a mail and deletes its token. It has no effect if the
// mail is not pending.
func CompleteMail(ctx context.Context, tx *postgres.Tx, outcome notification.MailOutcome) error {
	args := pgx.NamedArgs{
		"id": outcome.Mail, "recipient": outcome.Recipient, "status": outcome.Status, "reason": outcome.Reason, "redirected_to": outcome.RedirectedTo,
		"sender": nil, "subject": nil, "html": nil, "text": nil, "at": outcome.At,
	}
	if c := outcome.Content; c != nil {
		args["sender"], args["subject"], args["html"], args["text"] = c.Sender, c.Subject, c.HTML, c.Text
	}
	return postgres.Exec(ctx, tx, completeMail, args)
}

const endLostMails = `
	update mails
	set status = 'suppressed', reason = 'undeliverable', secret = null, completed_at = now()
	where id = any (array(select id from mails where status = 'pending' and created_at < $1 order by created_at limit $2))
		and status = 'pending'`

// EndLostMails ends at most limit pending mails that were created before the given time.
// A mail is lost if a process crashed in the last attempt to send it. EndLostMails returns
// the number of changed rows.
func EndLostMails(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, endLostMails, before, limit)
}

const deleteOldMails = `
	delete from mails where id = any (array(select id from mails where created_at < $1 order by created_at limit $2))`

// DeleteOldMails deletes at most limit mails that were created before the given time. It
// returns the number of deleted rows.
func DeleteOldMails(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, deleteOldMails, before, limit)
}

// logColumns are the columns of an entry in a list. The index mails_log contains the
// columns that a filter needs.
const logColumns = `
	id, type, category, recipient, status, coalesce(redirected_to, '') as redirected_to, coalesce(reason, '') as reason,
	created_at, coalesce(sender, '') as sender, coalesce(subject, '') as subject`

func logConditions(workspace affiliate.WorkspaceID, filter notification.MailLogFilter) postgres.Conditions {
	var where postgres.Conditions
	where.Add("workspace_id = ? and logged and status <> 'pending'", workspace)
	if filter.Status != "" {
		where.Add("status = ?", filter.Status)
	}
	if filter.Type != "" {
		where.Add("type = ?", filter.Type)
	}
	if filter.Recipient != "" {
		where.Add("starts_with(recipient, ?)", filter.Recipient)
	}
	where.Within("created_at", filter.CreatedAt)
	return where
}

func logSQL(where postgres.Conditions) (page, count string) {
	from := ` from mails where ` + where.SQL()
	page = `select ` + logColumns + `, '' as html, '' as text` + from + `
		order by created_at desc, id desc limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2)
	return page, postgres.CountUpTo(affiliate.MaxTotal, from)
}

// Log returns one page of the notification log of a workspace, newest first, and the
// number of all matching entries, up to affiliate.MaxTotal. The entries have no HTML and
// no text.
func Log(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, filter notification.MailLogFilter, page affiliate.Page) ([]notification.MailLogEntry, int64, error) {
	where := logConditions(workspace, filter)
	pageSQL, countSQL := logSQL(where)
	return postgres.Page[notification.MailLogEntry](ctx, db, where, page, pageSQL, countSQL)
}

const selectLogEntry = `
	select ` + logColumns + `, coalesce(html, '') as html, coalesce(text, '') as text
	from mails
	where workspace_id = $1 and id = $2 and logged and status <> 'pending'`

// LogEntry returns an entry of the notification log. Errors: NOTIFICATION_LOG_NOT_FOUND.
func LogEntry(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, id notification.MailID) (notification.MailLogEntry, error) {
	entry, err := postgres.OneRow[notification.MailLogEntry](db.Query(ctx, selectLogEntry, workspace, id))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonNotificationLogNotFound)
	}
	return entry, err
}

// moveSuppression stores the suppression of an address under its first digest, and reports
// whether the address is suppressed.
const moveSuppression = `
	with found as (
		select from mail_suppressions where digest = any($1)
	), removed as (
		delete from mail_suppressions where digest = any($1) and digest <> $2
		returning reason, created_at
	), added as (
		insert into mail_suppressions (digest, reason, created_at)
		select $2, r.reason, r.created_at from removed r order by r.created_at limit 1
		on conflict (digest) do nothing
	)
	select exists (select from found)`

// Suppressed reports whether an address is suppressed. address is the result of
// notification.MailDigest. If there are several hash keys, the suppression is stored under the
// first of them, so that it stays when the other keys are removed.
func Suppressed(ctx context.Context, db *postgres.DB, address affiliate.Digests) (bool, error) {
	if len(address) == 1 {
		return postgres.Suppressed(ctx, db, address)
	}
	return postgres.Value[bool](ctx, db, moveSuppression, address, address.First())
}

// Suppress suppresses addresses. An address that is already suppressed keeps its earlier
// reason. Each digest is the first digest in a result of notification.MailDigest.
func Suppress(ctx context.Context, tx *postgres.Tx, reason notification.SuppressionReason, at time.Time, digests ...[]byte) error {
	// The order prevents deadlocks between two transactions with the same addresses.
	const insert = `
		insert into mail_suppressions (digest, reason, created_at)
		select distinct d, $2, $3::timestamptz from unnest($1::bytea[]) d order by d
		on conflict (digest) do nothing`
	return postgres.Exec(ctx, tx, insert, digests, reason, at)
}

// RecordProviderMessage stores the id of a message of the mail provider. isNew is false if
// the id is already stored. If another transaction is storing the same id,
// RecordProviderMessage waits for the end of that transaction.
func RecordProviderMessage(ctx context.Context, tx *postgres.Tx, id string, at time.Time) (isNew bool, err error) {
	const insert = `insert into mail_provider_messages (id, received_at) values ($1, $2) on conflict (id) do nothing`
	tag, err := tx.Exec(ctx, insert, id, at)
	return tag.RowsAffected() == 1, err
}

// DeleteProviderMessages deletes at most limit ids of messages that arrived before the
// given time. It returns the number of deleted rows.
func DeleteProviderMessages(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const drop = `
		delete from mail_provider_messages
		where id = any (array(select id from mail_provider_messages where received_at < $1 order by received_at limit $2))`
	return postgres.ExecCount(ctx, db, drop, before, limit)
}
