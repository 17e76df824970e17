package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// insertMails inserts mails with the status pending.
var insertMails = RowsOf[newMailRow](`insert into mails ({columns}) values {rows}`)

type newMailRow struct {
	ID               notification.MailID     `db:"id"`
	Kind             notification.MailKind   `db:"kind"`
	Type             string                  `db:"type"`
	Category         notification.Category   `db:"category"`
	WorkspaceID      *affiliate.WorkspaceID  `db:"workspace_id"`
	Logged           bool                    `db:"logged"`
	Mode             *affiliate.Mode         `db:"mode"`
	UserID           *affiliate.UserID       `db:"user_id"`
	AccountKind      affiliate.AccountKind   `db:"account_kind"`
	RecipientName    string                  `db:"recipient_name"`
	RecipientAddress string                  `db:"recipient"`
	Facts            notification.MailFacts  `db:"facts"`
	Secret           []byte                  `db:"secret"`
	Status           notification.MailStatus `db:"status"`
	CreatedAt        time.Time               `db:"created_at"`
}

// SendMail stores mails and the jobs that send them. The mails are sent after the
// commit.
func (tx *Tx) SendMail(ctx context.Context, mails ...notification.Mail) error {
	if len(mails) == 0 {
		return nil
	}
	rows, jobs := make([]newMailRow, len(mails)), make([]affiliate.Job, len(mails))
	for i, m := range mails {
		rows[i] = newMailRow{
			ID: m.ID, Kind: m.Kind, Type: m.Type, Category: m.Category, WorkspaceID: m.Workspace, Logged: m.Logged(), Mode: m.Mode,
			UserID: m.Recipient.User, AccountKind: m.Recipient.Account, RecipientName: m.Recipient.Name, RecipientAddress: m.Recipient.Address,
			Facts: m.Facts, Secret: m.Secret, Status: notification.MailPending, CreatedAt: m.CreatedAt,
		}
		jobs[i] = notification.SendMail{Mail: m.ID}
	}
	batch := &pgx.Batch{}
	insertMails.Queue(batch, rows...)
	if err := tx.Tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("store mails: %w", err)
	}
	return tx.Enqueue(ctx, jobs...)
}

// Suppressed reports whether mails to an address are held back. address is the result of
// notification.MailDigest.
func Suppressed(ctx context.Context, db Queryer, address affiliate.Digests) (bool, error) {
	rows, _ := db.Query(ctx, `select exists (select from mail_suppressions where digest = any($1))`, address)
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
}

// LiftSuppression deletes the suppression of an address, because the address was verified
// again. address is the result of notification.MailDigest. LiftSuppression has no effect if
// the address is not suppressed.
func LiftSuppression(ctx context.Context, tx *Tx, address affiliate.Digests) error {
	_, err := tx.Exec(ctx, `delete from mail_suppressions where digest = any($1)`, address)
	return err
}
