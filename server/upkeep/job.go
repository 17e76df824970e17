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
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	buyers "github.com/tributary-hq/tributary/storage/postgres/buyer"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
	mails "github.com/tributary-hq/tributary/storage/postgres/mail"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
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
	// lostStreamRetention is how long the row of a notification stream is kept after the stream was last seen. After
	// a minute, the stream no longer counts as open. An interruption of the database may take longer than that.
	lostStreamRetention = time.Hour
	// requestRetention is how long a request for a mail is kept. All attempts of its job
	// end earlier, or the mail is no longer useful.
	requestRetention = 24 * time.Hour
	// visitorRetention is how long clicks and dead letters of clicks contain data that
	// identifies a visitor.
	visitorRetention = 90 * 24 * time.Hour
	// maxPurgeTime is the time after which a run starts no further batch of clicks.Purge.
	// maxRollTime is the time after which a run starts no further call of clicks.Roll, or
	// no further deletion of notifications. One batch or call takes at most two minutes.
	maxPurgeTime = 2 * time.Minute
	maxRollTime  = time.Minute
	// timeout is the longest time that a run may take. It is long enough for maxPurgeTime
	// and twice maxRollTime, although the last batch and the last call can end after these
	// times.
	timeout = 6*time.Minute + 30*time.Second
)

// Worker runs the job affiliate.Upkeep.
type Worker struct {
	river.WorkerDefaults[affiliate.Upkeep]
	db  *postgres.DB
	log *slog.Logger
	now func() time.Time
}

// NewWorker returns a Worker; now is its clock.
func NewWorker(db *postgres.DB, log *slog.Logger, now func() time.Time) *Worker {
	return &Worker{db: db, log: log, now: now}
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
	if _, err := clicks.Purge(ctx, w.db, now.Add(-visitorRetention), func() bool { return w.now().Before(until) }); err != nil {
		return fmt.Errorf("remove the data of visitors from old clicks: %w", err)
	}
	return nil
}

func (w *Worker) roll(ctx context.Context) error {
	for until := w.now().Add(maxRollTime); w.now().Before(until); {
		var replaced int64
		var found bool
		err := w.db.InTx(ctx, func(tx *postgres.Tx) (err error) {
			replaced, found, err = clicks.Roll(ctx, tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("replace clicks of 13 months ago by sums: %w", err)
		}
		if !found {
			return nil
		}
		w.log.LogAttrs(ctx, slog.LevelInfo, "clicks of 13 months ago were replaced by their sums", slog.Int64("clicks", replaced))
	}
	return nil
}

func cancelRemainingDeliveries(ctx context.Context, db *postgres.DB, now time.Time, limit int) (canceled int64, err error) {
	err = db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		canceled, err = webhooks.CancelRemaining(ctx, tx, now, limit)
		return err
	})
	return canceled, err
}

func (w *Worker) dropWeeks(ctx context.Context) error {
	dropped, err := postgres.DropOldWeeks(ctx, w.db, deleteBatch)
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
		{"dismissed notifications", now.Add(-notification.DismissedNotificationLife), notifications.DeleteDismissed},
		{"notifications that were dismissed together", now, notifications.PurgeDismissed},
		{"the read state of notifications", oldest, notifications.DeleteOldReads},
		{"announcements", oldest, notifications.DeleteOldAnnouncements},
		{"tickets of streams", now, notifications.DeleteExpiredTickets},
		{"lost streams", now.Add(-lostStreamRetention), notifications.DeleteLostStreams},
		{"positions of notifications in feeds", now.Add(-notification.ReplayLife), notifications.DeleteOldPositions},
		// The last positions of a feed were created before streamed_until.
		{"feeds that are not streamed", now.Add(-notification.ReplayLife - interval), notifications.DeleteOldFeeds},
	} {
		if err := task.run(ctx, w.db, func() bool { return w.now().Before(until) }); err != nil {
			return err
		}
	}
	return nil
}

// task deletes or changes rows in batches of deleteBatch.
type task struct {
	name string
	at   time.Time
	fn   func(ctx context.Context, db *postgres.DB, at time.Time, limit int) (int64, error)
}

// run runs the task. After each full batch it calls the function more, and it stops if
// the function returns false.
func (t task) run(ctx context.Context, db *postgres.DB, more func() bool) error {
	for {
		n, err := t.fn(ctx, db, t.at, deleteBatch)
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
	if _, err := postgres.EnsureClickPartitions(ctx, w.db, first, last); err != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "daily partitions could not be created", slog.Any("error", err))
	}
	if _, err := postgres.EnsureWeekPartitions(ctx, w.db, first, last); err != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "weekly partitions could not be created", slog.Any("error", err))
	}
	stray, err := postgres.StrayClicks(ctx, w.db)
	if err != nil {
		return fmt.Errorf("count clicks in the default partition: %w", err)
	}
	if stray > 0 {
		w.log.LogAttrs(ctx, slog.LevelWarn, "clicks are in the default partition", slog.Int("rows_at_least", stray))
	}
	if stray, err = postgres.StrayWeekRows(ctx, w.db); err != nil {
		return fmt.Errorf("count rows in the default partitions of weeks: %w", err)
	}
	if stray > 0 {
		w.log.LogAttrs(ctx, slog.LevelWarn, "events, deliveries or notifications are in a default partition", slog.Int("rows_at_least", stray))
	}
	for _, task := range []task{
		{"ended sessions", now.Add(-sessionRetention), accounts.DeleteEndedSessions},
		{"e-mail tokens", now, accounts.DeleteExpiredEmailTokens},
		{"challenges of logins", now, accounts.DeleteExpiredChallenges},
		{"requests for mails", now.Add(-requestRetention), accounts.DeleteOldEmailRequests},
		{"idempotency keys", now, postgres.DropExpiredIdempotencyKeys},
		{"origins of users", now.Add(-fraud.OriginRetention), accounts.DeleteOldOrigins},
		{"devices of users", now.Add(-account.DeviceMemory), accounts.DeleteOldDevices},
		{"dead letters of clicks", now.Add(-visitorRetention), clicks.DropDeadLetters},
		{"deliveries of disabled endpoints", now, cancelRemainingDeliveries},
		{"mails that stay pending", now.Add(-notification.MailPendingLimit), mails.EndLostMails},
		{"mails", now.Add(-notification.MailLogRetention), mails.DeleteOldMails},
		{"events of payment processors", now.Add(-processor.EventRetention), processors.DeleteProcessorEvents},
		{"counts of invalid signatures", now.Add(-processor.SignatureFailureRetention), processors.DeleteSignatureFailures},
		{"expired exports", now, exports.DeleteExpiredExports},
		{"exports that were not completed", now.Add(-privacy.AbandonedExportLife), exports.DeleteAbandonedExports},
		{"messages of the mail provider", now.Add(-notification.ProviderMessageRetention), mails.DeleteProviderMessages},
		{"accounts of paid payouts", now.Add(-payout.AccountKept), payouts.DeleteAccounts},
		{"names of erased partners", now, payouts.DeletePayeeNames},
		{"former addresses of users", now.Add(-payout.PreviousEmailKept), accounts.DeletePreviousEmails},
		{"keys of erasures of buyers", now, buyers.DeleteErasureKeys},
		{"erasures of buyers", now.Add(-privacy.BuyerErasureKeyLifetime), buyers.DeleteErasures},
	} {
		if err := task.run(ctx, w.db, func() bool { return true }); err != nil {
			return err
		}
	}
	return nil
}
