// Package upkeep contains the hourly job that maintains the tables of the database:
//
//   - It creates the partitions of clicks, events and notifications in advance.
//   - It deletes ended sessions, expired e-mail tokens, idempotency keys with their
//     responses, origins and devices of users (the networks and browsers of their
//     sessions) and dead letters of clicks. It deletes requests for mails that no job has
//     processed.
//   - It cancels deliveries to disabled webhook endpoints, if the job that should have
//     canceled these deliveries has missed them.
//   - It drops events and deliveries after a month, and notifications after 180 days.
//   - It deletes dismissed notifications after 30 days, and the read state of dropped
//     notifications.
//   - It deletes mails after a month, and the ids of the mail provider's messages after a
//     week. It ends mails that stay pending because a process crashed.
//   - It deletes events of payment processors after 90 days.
//   - It deletes erasures of buyers and their Idempotency-Keys after 30 days.
//   - It deletes the accounts of payouts, and the former addresses of users, after 30 days.
//   - It deletes bundles of exported personal data when their links have expired.
//   - It applies the retention of clicks. After 90 days it removes the data that
//     identifies a visitor. After 13 months it replaces the clicks of a day by sums.
//
// Each run also does the work that earlier runs have not done, so a missed run causes no
// harm. The job does not delete data that a merchant can still read or that a calculation
// still needs. The time of a run is limited. If there is a lot of work, for example in
// the first run on a large table, the work is distributed over several runs.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/server"
)

const (
	// interval is how often the job runs. It also runs when the process starts.
	interval = time.Hour
	// daysAhead is how many days in advance partitions are created.
	daysAhead = 7
	// daysBack is the number of past days for which partitions are created. After an
	// outage, a collector can deliver clicks that are several days old.
	daysBack = 7
	// deleteBatch is the maximum number of rows in one deletion.
	deleteBatch = 1000
	// sessionRetention is how long an ended session is kept for the investigation of
	// incidents.
	sessionRetention = 24 * time.Hour
	// lostStreamRetention is how long a stream is kept that is not seen any more. It stops
	// counting after a minute, and an interruption of the database may take longer.
	lostStreamRetention = time.Hour
	// requestRetention is how long a request for a mail is kept. All attempts of its job
	// end earlier, or the mail is no longer useful.
	requestRetention = 24 * time.Hour
	// visitorRetention is how long clicks and dead letters of clicks contain data that
	// identifies a visitor.
	visitorRetention = 90 * 24 * time.Hour
	// maxPurgeTime is the time after which a run starts no further batch of PurgeClicks.
	// maxRollTime is the time after which a run starts no further call of RollClicks, or
	// no further deletion of notifications. One batch or call takes at most two minutes.
	maxPurgeTime = 2 * time.Minute
	maxRollTime  = time.Minute
	// timeout is the longest time that a run may take. It is long enough for maxPurgeTime
	// and twice maxRollTime, although the last batch and the last call can end after these
	// times.
	timeout = 6*time.Minute + 30*time.Second
)

// Store maintains the tables in the database. A method with the parameter limit processes
// at most this number of rows and returns the number of processed rows.
type Store interface {
	// EnsureClickPartitions creates the missing partitions of clicks. A partition
	// contains the clicks of one day. first is a time on the first of these days, and
	// last is a time on the last of these days. EnsureClickPartitions returns the number
	// of created partitions.
	EnsureClickPartitions(ctx context.Context, first, last time.Time) (created int, err error)
	// StrayClicks counts the clicks in the default partition, which contains the clicks
	// of days without a partition. It stops counting at a maximum.
	StrayClicks(ctx context.Context) (int, error)
	// EnsureWeekPartitions creates the missing partitions of events, deliveries and
	// notifications in the same way. A partition contains the rows of one week.
	EnsureWeekPartitions(ctx context.Context, first, last time.Time) (created int, err error)
	// StrayWeekRows counts the events, deliveries and notifications in the default
	// partitions.
	StrayWeekRows(ctx context.Context) (int, error)
	// DropOldWeeks deletes events, deliveries and notifications that are so old that the
	// API does not return them. It drops their partitions. Old rows in the default
	// partitions are deleted in batches; rows is the size of a batch.
	DropOldWeeks(ctx context.Context, rows int) (int64, error)
	// DeleteDismissed deletes notifications that were dismissed before the given time.
	DeleteDismissed(ctx context.Context, before time.Time, limit int) (int64, error)
	// PurgeDismissed deletes notifications that were dismissed together with others and
	// whose retention has ended.
	PurgeDismissed(ctx context.Context, now time.Time, limit int) (int64, error)
	// DeleteOldReads deletes the read state of notifications that were created before the
	// day of the given time. DeleteOldAnnouncements deletes such announcements.
	DeleteOldReads(ctx context.Context, before time.Time, limit int) (int64, error)
	DeleteOldAnnouncements(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteExpiredTickets deletes tickets for streams that expired before the given time.
	DeleteExpiredTickets(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteLostStreams deletes streams that were last seen before the given time.
	DeleteLostStreams(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteOldPositions deletes the sequence numbers of notifications that got them
	// before the given time.
	DeleteOldPositions(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteOldFeeds deletes what is stored about feeds that are not streamed since the
	// given time.
	DeleteOldFeeds(ctx context.Context, before time.Time, limit int) (int64, error)
	// CancelRemaining cancels deliveries to disabled endpoints. Normally, a job cancels
	// these deliveries when the endpoint is disabled. CancelRemaining cancels deliveries
	// that the job has missed.
	CancelRemaining(ctx context.Context, now time.Time, limit int) (int64, error)
	// DeleteEndedSessions deletes sessions that ended before the given time.
	DeleteEndedSessions(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteExpiredEmailTokens deletes e-mail tokens that expired before the given time.
	DeleteExpiredEmailTokens(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteExpiredChallenges deletes challenges of logins that expired before the given time.
	DeleteExpiredChallenges(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteOldEmailRequests deletes requests for mails that were stored before the given
	// time and that no job has processed.
	DeleteOldEmailRequests(ctx context.Context, before time.Time, limit int) (int64, error)
	// DropExpiredIdempotencyKeys deletes idempotency keys with their responses after
	// their expiry.
	DropExpiredIdempotencyKeys(ctx context.Context, now time.Time, limit int) (int64, error)
	// DeleteOldOrigins deletes origins of users that were last seen before the given
	// time.
	DeleteOldOrigins(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteOldDevices deletes devices of users that were last used before the given time.
	DeleteOldDevices(ctx context.Context, before time.Time, limit int) (int64, error)
	// DropDeadLetters deletes dead letters of clicks that were stored before the given
	// time.
	DropDeadLetters(ctx context.Context, before time.Time, limit int) (int64, error)
	// EndLostMails ends pending mails that were created before the given time.
	EndLostMails(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteOldMails deletes mails that were created before the given time.
	DeleteOldMails(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteProviderMessages deletes the ids of messages of the mail provider that arrived
	// before the given time.
	DeleteProviderMessages(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteProcessorEvents deletes events of payment processors that arrived before the
	// given time. DeleteSignatureFailures deletes counts of invalid signatures.
	DeleteProcessorEvents(ctx context.Context, before time.Time, limit int) (int64, error)
	DeleteSignatureFailures(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteErasureKeys deletes Idempotency-Keys of erasures of buyers after their expiry.
	// DeleteErasures deletes erasures of buyers that ended before the given time.
	DeleteErasureKeys(ctx context.Context, now time.Time, limit int) (int64, error)
	DeleteErasures(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeleteExpiredExports deletes exports of personal data that expired before the given
	// time. DeleteAbandonedExports deletes exports that began before it and are not complete.
	DeleteExpiredExports(ctx context.Context, now time.Time, limit int) (int64, error)
	DeleteAbandonedExports(ctx context.Context, before time.Time, limit int) (int64, error)
	// DeletePayoutAccounts deletes the accounts of payouts that were paid before the given
	// time. DeletePayeeNames deletes the names of erased partners from payouts whose
	// retention has ended. DeletePreviousEmails deletes former addresses of users whose
	// address was changed before the given time.
	DeletePayoutAccounts(ctx context.Context, paidBefore time.Time, limit int) (int64, error)
	DeletePayeeNames(ctx context.Context, now time.Time, limit int) (int64, error)
	DeletePreviousEmails(ctx context.Context, changedBefore time.Time, limit int) (int64, error)
	// PurgeClicks removes the data that identifies visitors from clicks that arrived
	// before the given time. It works in batches. Before each batch it calls the function
	// more, and it stops if the function returns false. It returns the number of changed
	// clicks.
	PurgeClicks(ctx context.Context, before time.Time, more func() bool) (int64, error)
	// RollClicks selects one day that ended at least 13 months ago and replaces the
	// clicks of this day by their sums. If the day has many clicks, it processes a part
	// of the day. It returns the number of deleted clicks. found is false if the clicks
	// of all such days are already replaced.
	RollClicks(ctx context.Context) (clicks int64, found bool, err error)
}

// Worker runs the job affiliate.Upkeep.
type Worker struct {
	river.WorkerDefaults[affiliate.Upkeep]
	store Store
	log   *slog.Logger
	now   func() time.Time
}

// NewWorker returns a Worker; now is its clock.
func NewWorker(store Store, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{store: store, log: log, now: now}
}

// PeriodicJob returns the job that a River client inserts every hour and when it starts.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(interval), affiliate.Upkeep{}, true)
}

// Timeout returns the time limit of one run.
func (w *Worker) Timeout(*river.Job[affiliate.Upkeep]) time.Duration { return timeout }

// Work calls Run and then applies the retention of clicks, events and notifications in
// four steps. If Run fails, Work returns its error and runs no step. If a step fails, the
// other steps still run. The removal of visitors' data is the first step. The later steps
// can fail if a transaction uses a partition that must be dropped.
func (w *Worker) Work(ctx context.Context, _ *river.Job[affiliate.Upkeep]) error {
	if err := w.Run(ctx); err != nil {
		return err
	}
	return errors.Join(w.purge(ctx), w.roll(ctx), w.dropWeeks(ctx), w.deleteNotifications(ctx))
}

func (w *Worker) purge(ctx context.Context) error {
	now := w.now()
	until := now.Add(maxPurgeTime)
	if _, err := w.store.PurgeClicks(ctx, now.Add(-visitorRetention), func() bool { return w.now().Before(until) }); err != nil {
		return fmt.Errorf("remove the data of visitors from old clicks: %w", err)
	}
	return nil
}

func (w *Worker) roll(ctx context.Context) error {
	for until := w.now().Add(maxRollTime); w.now().Before(until); {
		clicks, found, err := w.store.RollClicks(ctx)
		if err != nil {
			return fmt.Errorf("replace clicks of 13 months ago by sums: %w", err)
		}
		if !found {
			return nil
		}
		w.log.LogAttrs(ctx, slog.LevelInfo, "clicks of 13 months ago were replaced by their sums", slog.Int64("clicks", clicks))
	}
	return nil
}

func (w *Worker) dropWeeks(ctx context.Context) error {
	dropped, err := w.store.DropOldWeeks(ctx, deleteBatch)
	if err != nil {
		return fmt.Errorf("drop old weeks: %w", err)
	}
	if dropped > 0 {
		w.log.LogAttrs(ctx, slog.LevelInfo, "old events, deliveries and notifications were dropped", slog.Int64("partitions_and_rows", dropped))
	}
	return nil
}

// deleteNotifications deletes dismissed notifications, and rows about notifications that
// the API does not return any more.
func (w *Worker) deleteNotifications(ctx context.Context) error {
	now := w.now().UTC()
	until := now.Add(maxRollTime)
	oldest := now.Add(-notification.Life)
	for _, task := range []task{
		{"dismissed notifications", now.Add(-notification.DismissedNotificationLife), w.store.DeleteDismissed},
		{"notifications that were dismissed together", now, w.store.PurgeDismissed},
		{"the read state of notifications", oldest, w.store.DeleteOldReads},
		{"announcements", oldest, w.store.DeleteOldAnnouncements},
		{"tickets of streams", now, w.store.DeleteExpiredTickets},
		{"lost streams", now.Add(-lostStreamRetention), w.store.DeleteLostStreams},
		{"positions of notifications in feeds", now.Add(-notification.ReplayLife), w.store.DeleteOldPositions},
		// The last positions of a feed were created before streamed_until.
		{"feeds that are not streamed", now.Add(-notification.ReplayLife - interval), w.store.DeleteOldFeeds},
	} {
		if err := task.run(ctx, func() bool { return w.now().Before(until) }); err != nil {
			return err
		}
	}
	return nil
}

// task deletes or changes rows in batches of deleteBatch.
type task struct {
	name string
	at   time.Time
	fn   func(ctx context.Context, at time.Time, limit int) (int64, error)
}

// run runs the task. After each full batch it calls the function more, and it stops if
// the function returns false.
func (t task) run(ctx context.Context, more func() bool) error {
	for {
		n, err := t.fn(ctx, t.at, deleteBatch)
		if err != nil {
			return fmt.Errorf("clean up %s: %w", t.name, err)
		}
		if n < deleteBatch || !more() {
			return nil
		}
	}
}

// Run does the part of the job that takes little time: it creates partitions and deletes
// old rows. A process also calls Run when it starts, because it needs the partition of
// the current day.
func (w *Worker) Run(ctx context.Context) error {
	now := w.now().UTC()
	// If no partitions can be created, Run continues. Rows without a partition are stored
	// in the default partition and moved to a new partition later.
	first, last := now.AddDate(0, 0, -daysBack), now.AddDate(0, 0, daysAhead)
	if _, err := w.store.EnsureClickPartitions(ctx, first, last); err != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "daily partitions could not be created", slog.Any("error", err))
	}
	if _, err := w.store.EnsureWeekPartitions(ctx, first, last); err != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "weekly partitions could not be created", slog.Any("error", err))
	}
	stray, err := w.store.StrayClicks(ctx)
	if err != nil {
		return fmt.Errorf("count clicks in the default partition: %w", err)
	}
	if stray > 0 {
		w.log.LogAttrs(ctx, slog.LevelWarn, "clicks are in the default partition", slog.Int("rows_at_least", stray))
	}
	if stray, err = w.store.StrayWeekRows(ctx); err != nil {
		return fmt.Errorf("count rows in the default partitions of weeks: %w", err)
	}
	if stray > 0 {
		w.log.LogAttrs(ctx, slog.LevelWarn, "events, deliveries or notifications are in a default partition", slog.Int("rows_at_least", stray))
	}
	for _, task := range []task{
		{"ended sessions", now.Add(-sessionRetention), w.store.DeleteEndedSessions},
		{"e-mail tokens", now, w.store.DeleteExpiredEmailTokens},
		{"challenges of logins", now, w.store.DeleteExpiredChallenges},
		{"requests for mails", now.Add(-requestRetention), w.store.DeleteOldEmailRequests},
		{"idempotency keys", now, w.store.DropExpiredIdempotencyKeys},
		{"origins of users", now.Add(-fraud.OriginRetention), w.store.DeleteOldOrigins},
		{"devices of users", now.Add(-account.DeviceMemory), w.store.DeleteOldDevices},
		{"dead letters of clicks", now.Add(-visitorRetention), w.store.DropDeadLetters},
		{"deliveries of disabled endpoints", now, w.store.CancelRemaining},
		{"mails that stay pending", now.Add(-notification.MailPendingLimit), w.store.EndLostMails},
		{"mails", now.Add(-notification.MailLogRetention), w.store.DeleteOldMails},
		{"events of payment processors", now.Add(-processor.EventRetention), w.store.DeleteProcessorEvents},
		{"counts of invalid signatures", now.Add(-processor.SignatureFailureRetention), w.store.DeleteSignatureFailures},
		{"expired exports", now, w.store.DeleteExpiredExports},
		{"exports that were not completed", now.Add(-privacy.AbandonedExportLife), w.store.DeleteAbandonedExports},
		{"messages of the mail provider", now.Add(-notification.ProviderMessageRetention), w.store.DeleteProviderMessages},
		{"accounts of paid payouts", now.Add(-payout.AccountKept), w.store.DeletePayoutAccounts},
		{"names of erased partners", now, w.store.DeletePayeeNames},
		{"former addresses of users", now.Add(-payout.PreviousEmailKept), w.store.DeletePreviousEmails},
		{"keys of erasures of buyers", now, w.store.DeleteErasureKeys},
		{"erasures of buyers", now.Add(-privacy.BuyerErasureKeyLifetime), w.store.DeleteErasures},
	} {
		if err := task.run(ctx, func() bool { return true }); err != nil {
			return err
		}
	}
	return nil
}
