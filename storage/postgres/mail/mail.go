// Package mail has the SQL for stored mails, the notification log, suppressed addresses
// and the messages of the mail provider. postgres.Tx inserts mails, because many kinds of
// transactions do so.
//
// The package reads and stores rows. Its callers decide which values it stores. A function
// with a *postgres.Tx runs in the caller's transaction. Others run on their own.
package mail

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// selectMail selects a mail with the facts that decide about its delivery. A recipient
// with an account is removed if the account was erased. The recipient of notifications of
// a workspace is also removed if the user is no longer a member. A mail of live mode does
// not name its workspace. A user belongs to at most one workspace. Mail is redirected only
// as long as the redirect is the verified address of a member. Notifications follow a
// change of the recipient's address. Security mail does not, because an attacker may have
// changed the address. The column unverified concerns the present address of the account,
// to which notifications are sent.
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
		) as removed,
		exists (select from users u where u.id = m.user_id and u.email_verified_at is null) as unverified
	from mails m
	left join workspaces w on w.id = m.workspace_id
	where m.id = $1`

type mailRow struct {
	ID            notification.MailID
	Kind          notification.MailKind
	Type          string
	Category      notification.Category
	WorkspaceID   *affiliate.WorkspaceID
	Mode          *affiliate.Mode
	UserID        *affiliate.UserID
	AccountKind   affiliate.AccountKind
	RecipientName string
	Recipient     string
	Facts         notification.MailFacts
	Secret        []byte
	Status        notification.MailStatus
	CreatedAt     time.Time
	TestRedirect  string
	Removed       bool
	Unverified    bool
}

func (r mailRow) mail() notification.StoredMail {
	return notification.StoredMail{
		Mail: notification.Mail{
			ID: r.ID, Kind: r.Kind, Type: r.Type, Category: r.Category, Workspace: r.WorkspaceID, Mode: r.Mode,
			Recipient: notification.MailRecipient{User: r.UserID, Account: r.AccountKind, Name: r.RecipientName, Address: r.Recipient},
			Facts:     r.Facts, Secret: r.Secret, CreatedAt: r.CreatedAt,
		},
		Status: r.Status, MailConditions: notification.MailConditions{RecipientRemoved: r.Removed, Unverified: r.Unverified, TestRedirect: r.TestRedirect},
	}
}

// Mail returns a mail. Errors: NOT_FOUND.
func Mail(ctx context.Context, db *postgres.DB, id notification.MailID) (notification.StoredMail, error) {
	row, err := postgres.OneRow[mailRow](db.Query(ctx, selectMail, id))
	return row.mail(), err
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
	_, err := tx.Exec(ctx, completeMail, args)
	return err
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
	tag, err := db.Exec(ctx, endLostMails, before, limit)
	return tag.RowsAffected(), err
}

const deleteOldMails = `
	delete from mails where id = any (array(select id from mails where created_at < $1 order by created_at limit $2))`

// DeleteOldMails deletes at most limit mails that were created before the given time. It
// returns the number of deleted rows.
func DeleteOldMails(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deleteOldMails, before, limit)
	return tag.RowsAffected(), err
}
