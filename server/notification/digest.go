package notification

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
)

const (
	// digestInterval is how often due digests are sent.
	digestInterval = time.Minute
	// digestTimeout is the longest time that one run of the job takes. The next run
	// sends the remaining digests.
	digestTimeout = 4 * time.Minute
)

// DigestStore is the store of the DigestWorker.
type DigestStore interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx DigestTx) error) error
}

// DigestTx is a transaction of the DigestStore.
type DigestTx interface {
	// LockDueDigest locks and returns the digest that was due first.
	LockDueDigest(ctx context.Context, now time.Time) (notification.DigestKey, notification.Digest, bool, error)
	// Recipient returns a user as the recipient of mails about the feed that the user
	// reads.
	Recipient(ctx context.Context, user affiliate.UserID) (recipient notification.FeedRecipient, found bool, err error)
	// Gathered returns the notifications of a digest, the oldest first.
	Gathered(ctx context.Context, feed notification.FeedID, personal bool, key notification.DigestKey, d notification.Digest) ([]notification.ArrivedNotification, error)
	// UpdateDigest stores the next period of a digest. CloseDigest deletes a digest.
	UpdateDigest(ctx context.Context, key notification.DigestKey, d notification.Digest) error
	CloseDigest(ctx context.Context, key notification.DigestKey) error
	// SendMail stores mails and the jobs that send them.
	SendMail(ctx context.Context, mails ...notification.Mail) error
}

// DigestWorker sends the mails with gathered notifications.
type DigestWorker struct {
	river.WorkerDefaults[notification.SendDigests]
	store DigestStore
	log   *slog.Logger
	now   func() time.Time
}

// NewDigestWorker returns the worker.
func NewDigestWorker(store DigestStore, log *slog.Logger, now func() time.Time) *DigestWorker {
	return &DigestWorker{store: store, log: log, now: now}
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
	err = w.store.InTx(ctx, func(tx DigestTx) error {
		var key notification.DigestKey
		var digest notification.Digest
		if key, digest, found, err = tx.LockDueDigest(ctx, now); err != nil || !found {
			return err
		}
		mails, err := gatheredMails(ctx, tx, key, digest)
		if err != nil {
			return err
		}
		if len(mails) == 0 {
			return tx.CloseDigest(ctx, key)
		}
		mail := mails[0] // all notifications of a digest are in one mail
		if err := tx.SendMail(ctx, mail.Mail(now)); err != nil {
			return err
		}
		// Notifications that were not distributed yet are in this mail too.
		return tx.UpdateDigest(ctx, key, notification.NextDigest(mail.Notifications, now, now))
	})
	return found, err
}

// gatheredMails returns the mail of a digest. It returns none if nothing was gathered, or
// if the user does not want mails about the category any more.
func gatheredMails(
	ctx context.Context, tx DigestTx, key notification.DigestKey, digest notification.Digest,
) ([]notification.DigestMail, error) {
	recipient, found, err := tx.Recipient(ctx, key.User)
	if err != nil || !found {
		return nil, err
	}
	gathered, err := tx.Gathered(ctx, recipient.Feed, recipient.SeesOwnOnly(key.Category), key, digest)
	if err != nil {
		return nil, err
	}
	gathered = slices.DeleteFunc(gathered, func(n notification.ArrivedNotification) bool { return !n.Gathered() })
	return notification.PlanMails(gathered, []notification.FeedRecipient{recipient}), nil
}
