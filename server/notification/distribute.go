package notification

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

const (
	// distributeBatch is the maximum number of arrivals that are distributed in one
	// transaction. An arrival has the notifications that one earlier transaction has stored.
	distributeBatch = 200
	// distributeEnough is the number of notifications after which a transaction takes no
	// further arrivals. An announcement to many partners creates many notifications.
	distributeEnough = 1000
	// distributePause is the minimum time between two batches, so that the notifications
	// of a busy workspace share transactions.
	distributePause = 100 * time.Millisecond
	// distributePoll is the time after which the distributor searches for arrivals that a
	// crashed process or a failed attempt has left.
	distributePoll = time.Second
	// gatherMargin bounds the difference between the clocks of two processes.
	gatherMargin = 5 * time.Second
	// rememberFor is the time for which the distributor remembers that all recipients of a feed get digests. A
	// user who becomes a recipient in this time gets no mails about the notifications of this time.
	rememberFor = time.Minute
)

// Distributor distributes committed notifications. It gives them their sequence numbers
// for streams. It creates the mails about the notifications, or leaves the notifications to
// the digests of their recipients.
//
// Several processes can run a Distributor at the same time. Each arrival is distributed
// by one of them. If a process crashes while it distributes arrivals, another process
// distributes them.
type Distributor struct {
	db       *postgres.DB
	streamed func(feeds ...notification.FeedID)
	log      *slog.Logger
	now      func() time.Time
	wake     chan struct{}
	// gathering maps a part of a feed to the time until which all its recipients get its
	// notifications in digests, so that no mails are needed.
	gathering map[feedPart]time.Time
	// oldest is the time of the oldest notification that was found and not distributed
	// yet, in milliseconds since 1970, or 0.
	oldest atomic.Int64
}

// feedPart is the part of a feed with one mode and one category.
type feedPart struct {
	feed     notification.FeedID
	mode     affiliate.Mode
	category notification.Category
	// workspace is set if digests are made for each workspace (notification.DigestMail.Workspace).
	workspace affiliate.WorkspaceID
}

// NewDistributor returns a Distributor. Run starts it. It calls the function streamed, which must
// not block, with the feeds that have open streams and new notifications.
func NewDistributor(
	db *postgres.DB, streamed func(feeds ...notification.FeedID), log *slog.Logger, now func() time.Time,
) *Distributor {
	return &Distributor{
		db: db, streamed: streamed, log: log, now: now, wake: make(chan struct{}, 1), gathering: map[feedPart]time.Time{},
	}
}

// Wake makes the distributor search for arrivals soon. It does not block.
func (d *Distributor) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run distributes notifications until ctx ends.
func (d *Distributor) Run(ctx context.Context) {
	for ctx.Err() == nil {
		more, err := d.distribute(ctx)
		if err != nil && ctx.Err() == nil {
			d.log.ErrorContext(ctx, "notifications were not distributed", "error", err)
		}
		pause := time.NewTimer(distributePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		if more && err == nil {
			continue
		}
		poll := time.NewTimer(distributePoll)
		select {
		case <-d.wake:
		case <-poll.C:
		case <-ctx.Done():
		}
		poll.Stop()
	}
}

// Undistributed returns the age of the oldest notification that was found and not
// distributed yet, or 0. Several goroutines may call it.
func (d *Distributor) Undistributed() time.Duration {
	oldest := d.oldest.Load()
	if oldest == 0 {
		return 0
	}
	return max(0, d.now().Sub(time.UnixMilli(oldest)))
}

// distribute distributes one batch of arrivals. more reports whether there may be
// further arrivals.
func (d *Distributor) distribute(ctx context.Context) (more bool, err error) {
	now := d.now().UTC().Truncate(time.Millisecond)
	var gathered map[feedPart]time.Time
	var streamed []notification.FeedID
	err = d.db.InTx(ctx, func(tx *postgres.Tx) error {
		gathered, streamed = nil, nil // of an earlier attempt
		var arrived []notification.ArrivedNotification
		if arrived, more, err = notifications.TakeArrivals(ctx, tx, distributeBatch, distributeEnough); err != nil || len(arrived) == 0 {
			return err
		}
		if first, ok := arrived[0].ID.Time(); ok {
			d.oldest.Store(first.UnixMilli())
		}
		if streamed, err = notifications.AssignSequence(ctx, tx, arrived, now); err != nil {
			return err
		}
		gathered, err = d.createMails(ctx, tx, d.ungathered(arrived, now), now)
		return err
	})
	if err != nil {
		return false, err
	}
	if !more {
		d.oldest.Store(0)
	}
	d.streamed(streamed...)
	d.remember(gathered, now)
	return more, nil
}

// ungathered returns the notifications for which mails may be needed now. It omits those that
// all recipients are known to get in digests.
func (d *Distributor) ungathered(arrived []notification.ArrivedNotification, now time.Time) []notification.ArrivedNotification {
	var rest []notification.ArrivedNotification
	for _, n := range arrived {
		if until, known := d.gathering[partOf(n)]; !known || !now.Before(until) || !n.Gathered() {
			rest = append(rest, n)
		}
	}
	return rest
}

func partOf(n notification.ArrivedNotification) feedPart {
	part := feedPart{feed: n.Feed, mode: n.Mode, category: n.Category()}
	if w := n.LogWorkspace(); w != nil {
		part.workspace = *w
	}
	return part
}

// createMails creates the mails about notifications that must be sent now. It returns
// the parts of feeds whose notifications are gathered from now on.
func (d *Distributor) createMails(
	ctx context.Context, tx *postgres.Tx, arrived []notification.ArrivedNotification, now time.Time,
) (gathered map[feedPart]time.Time, err error) {
	if len(arrived) == 0 {
		return nil, nil
	}
	recipients, err := notifications.Recipients(ctx, tx, notification.FeedsOf(arrived))
	if err != nil {
		return nil, err
	}
	// If there is a backlog, arrivals that are distributed later can be older than the mails of
	// this batch. The digest must include them.
	undistributed, err := notifications.OldestArrival(ctx, tx, now)
	if err != nil {
		return nil, err
	}
	var mails []notification.Mail
	gathered = map[feedPart]time.Time{}
	for _, mail := range notification.PlanMails(arrived, recipients) {
		if mail.Gathered {
			opened, due, err := notifications.OpenDigest(ctx, tx, mail.NextDigest(undistributed, now))
			if err != nil {
				return nil, err
			}
			part := feedPart{feed: mail.Recipient.Feed, mode: mail.Mode, category: mail.Category, workspace: mail.DigestKey().Workspace}
			if until := due.Add(-gatherMargin); gathered[part].IsZero() || until.Before(gathered[part]) {
				gathered[part] = until
			}
			if !opened {
				continue
			}
		}
		mails = append(mails, mail.Mail(now))
	}
	return gathered, tx.SendMail(ctx, mails...)
}

func (d *Distributor) remember(gathered map[feedPart]time.Time, now time.Time) {
	for part, until := range d.gathering {
		if !now.Before(until) {
			delete(d.gathering, part)
		}
	}
	latest := now.Add(rememberFor)
	for part, until := range gathered {
		if latest.Before(until) {
			until = latest
		}
		d.gathering[part] = until
	}
}

const (
	// digestInterval is how often due digests are sent.
	digestInterval = time.Minute
	// digestTimeout is the longest time that one run of the job takes. The next run
	// sends the remaining digests.
	digestTimeout = 4 * time.Minute
)

type digestWorker struct {
	db  *postgres.DB
	now func() time.Time
}

// NewDigestWorker returns the worker that sends the mails with gathered notifications.
func NewDigestWorker(db *postgres.DB, now func() time.Time) *server.Worker[notification.SendDigests] {
	w := digestWorker{db: db, now: now}
	return &server.Worker[notification.SendDigests]{Run: w.run, Limit: digestTimeout}
}

// DigestJob returns the periodic job that sends due digests.
func DigestJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(digestInterval), notification.SendDigests{}, true)
}

// run sends all due digests. Each digest has its own transaction.
func (w digestWorker) run(ctx context.Context, _ *river.Job[notification.SendDigests]) error {
	for {
		sent, err := w.sendNext(ctx)
		if err != nil || !sent {
			return err
		}
	}
}

// sendNext sends the digest that was due first. found is false if no digest is due.
func (w digestWorker) sendNext(ctx context.Context) (found bool, err error) {
	now := w.now().UTC().Truncate(time.Millisecond)
	err = w.db.InTx(ctx, func(tx *postgres.Tx) error {
		var digest notification.Digest
		if digest, found, err = notifications.LockDueDigest(ctx, tx, now); err != nil || !found {
			return err
		}
		mails, err := gatheredMails(ctx, tx, digest)
		if err != nil {
			return err
		}
		if len(mails) == 0 {
			return notifications.CloseDigest(ctx, tx, digest.DigestKey)
		}
		mail := mails[0] // all notifications of a digest are in one mail
		if err := tx.SendMail(ctx, mail.Mail(now)); err != nil {
			return err
		}
		// Notifications that were not distributed yet are in this mail too.
		next := mail.NextDigest(now, now)
		next.DigestKey = digest.DigestKey
		return notifications.UpdateDigest(ctx, tx, next)
	})
	return found, err
}

// gatheredMails returns the mail of a digest. It returns no mail if nothing was gathered,
// or if the user does not want mails about the category any more.
func gatheredMails(ctx context.Context, tx *postgres.Tx, digest notification.Digest) ([]notification.DigestMail, error) {
	recipient, found, err := notifications.Recipient(ctx, tx, digest.User)
	if err != nil || !found {
		return nil, err
	}
	gathered, err := notifications.Gathered(ctx, tx, recipient.Feed, recipient.SeesOwnOnly(digest.Category), digest)
	if err != nil {
		return nil, err
	}
	gathered = slices.DeleteFunc(gathered, func(n notification.ArrivedNotification) bool { return !n.Gathered() })
	return notification.PlanMails(gathered, []notification.FeedRecipient{recipient}), nil
}
