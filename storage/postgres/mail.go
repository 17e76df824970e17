package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

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

// Suppressed reports whether mails to an address are held back. address is the result of
// notification.MailDigest.
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
