package notification

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

const (
	// digestInterval is how often due digests are sent.
	digestInterval = time.Minute
	// digestTimeout is the longest time that one run of the job takes. The next run
	// sends the remaining digests.
	digestTimeout = 4 * time.Minute
)

// DigestWorker sends the mails with gathered notifications.
type DigestWorker struct {
	river.WorkerDefaults[notification.SendDigests]
	db  *postgres.DB
	log *slog.Logger
	now func() time.Time
}

// NewDigestWorker returns the worker.
func NewDigestWorker(db *postgres.DB, log *slog.Logger, now func() time.Time) *DigestWorker {
	return &DigestWorker{db: db, log: log, now: now}
}

// DigestJob returns the periodic job that sends due digests.
func DigestJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(digestInterval), notification.SendDigests{}, true)
}

// Timeout returns the time after which River cancels a run.
func (w *DigestWorker) Timeout(*river.Job[notification.SendDigests]) time.Duration {
	return digestTimeout
}

// Work sends all due digests. Each digest has its own transaction.
func (w *DigestWorker) Work(ctx context.Context, _ *river.Job[notification.SendDigests]) error {
	for {
		sent, err := w.sendNext(ctx)
		if err != nil || !sent {
			return err
		}
	}
}

// sendNext sends the digest that was due first. found is false if none is due.
func (w *DigestWorker) sendNext(ctx context.Context) (found bool, err error) {
	now := w.now().UTC().Truncate(time.Millisecond)
	err = w.db.InTx(ctx, func(tx *postgres.Tx) error {
		var key notification.DigestKey
		var digest notification.Digest
		if key, digest, found, err = notifications.LockDueDigest(ctx, tx, now); err != nil || !found {
			return err
		}
		mails, err := gatheredMails(ctx, tx, key, digest)
		if err != nil {
			return err
		}
		if len(mails) == 0 {
			return notifications.CloseDigest(ctx, tx, key)
		}
		mail := mails[0] // all notifications of a digest are in one mail
		if err := tx.SendMail(ctx, mail.Mail(now)); err != nil {
			return err
		}
		// Notifications that were not distributed yet are in this mail too.
		return notifications.UpdateDigest(ctx, tx, key, notification.NextDigest(mail.Notifications, now, now))
	})
	return found, err
}

// gatheredMails returns the mail of a digest. It returns none if nothing was gathered, or
// if the user does not want mails about the category any more.
func gatheredMails(
	ctx context.Context, tx *postgres.Tx, key notification.DigestKey, digest notification.Digest,
) ([]notification.DigestMail, error) {
	recipient, found, err := notifications.Recipient(ctx, tx, key.User)
	if err != nil || !found {
		return nil, err
	}
	gathered, err := notifications.Gathered(ctx, tx, recipient.Feed, recipient.SeesOwnOnly(key.Category), key, digest)
	if err != nil {
		return nil, err
	}
	gathered = slices.DeleteFunc(gathered, func(n notification.ArrivedNotification) bool { return !n.Gathered() })
	return notification.PlanMails(gathered, []notification.FeedRecipient{recipient}), nil
}
