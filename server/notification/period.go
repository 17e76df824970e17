package notification

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

const (
	// periodInterval is the time between two runs of the job. It is 15 minutes, because
	// time zones differ from UTC by multiples of 15 minutes.
	periodInterval = 15 * time.Minute
	// periodBatch is the number of workspaces or partners that one query reads.
	periodBatch = 500
	// periodTimeout is the longest time that one run of the job takes. The next run
	// continues, because it skips the feeds that have their notification already.
	periodTimeout = 5 * time.Minute
)

// periodWorker creates the notifications that are repeated every week or month: the
// summaries, and the reminders of a missing payout method.
//
// Each feed gets at most one notification of a type for each period, even if several
// workers run at the same time or a worker crashes.
type periodWorker struct {
	db  *postgres.DB
	now func() time.Time
}

// NewPeriodWorker returns the worker that creates the notifications that are repeated every
// week or month.
func NewPeriodWorker(db *postgres.DB, now func() time.Time) *server.Worker[notification.NotifyPeriodically] {
	w := periodWorker{db: db, now: now}
	return &server.Worker[notification.NotifyPeriodically]{Run: w.run, Limit: periodTimeout}
}

// PeriodJob returns the periodic job of the worker.
func PeriodJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(periodInterval), notification.NotifyPeriodically{}, true)
}

// run creates all notifications that are due. If it fails for one feed, it continues with
// the others.
func (w periodWorker) run(ctx context.Context, _ *river.Job[notification.NotifyPeriodically]) error {
	var errs []error
	now := w.currentTime()
	if monday, found := notification.SummaryWeek(now); found {
		errs = append(errs, w.summarizeWeeks(ctx, monday))
		if _, due := notification.WeekBefore(monday, time.UTC, now); due {
			errs = append(errs, w.remindOfMethods(ctx, monday))
		}
	}
	if month, due := notification.MonthBefore(now); due {
		errs = append(errs, w.summarizeMonths(ctx, month))
	}
	return errors.Join(errs...)
}

func (w periodWorker) currentTime() time.Time { return w.now().UTC().Truncate(time.Millisecond) } // the precision of the API

// summarizeWeeks creates the summaries of the workspaces in whose time zone the given Monday has begun.
func (w periodWorker) summarizeWeeks(ctx context.Context, monday time.Time) error {
	var errs []error
	var after affiliate.WorkspaceID
	for {
		workspaces, err := notifications.WorkspacesWithoutSummary(ctx, w.db, monday, after, periodBatch)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, workspace := range workspaces {
			if err := w.summarizeWeek(ctx, workspace, monday); err != nil {
				errs = append(errs, fmt.Errorf("weekly summary of workspace %s: %w", workspace.ID, err))
			}
		}
		if len(workspaces) < periodBatch {
			return errors.Join(errs...)
		}
		after = workspaces[len(workspaces)-1].ID
	}
}

func (w periodWorker) summarizeWeek(ctx context.Context, workspace notification.WorkspaceZone, monday time.Time) error {
	zone, err := time.LoadLocation(workspace.Timezone)
	if err != nil {
		return err
	}
	now := w.currentTime()
	week, due := notification.WeekBefore(monday, zone, now)
	if !due {
		return nil
	}
	summary, err := w.weekOf(ctx, workspace.ID, week)
	if err != nil {
		return err
	}
	feed := notification.WorkspaceFeed(workspace.ID)
	var planned *notification.Notification
	if text := summary.Text(week); text != "" {
		n := notification.SummaryNotification(affiliate.Merchant, feed, text, now)
		planned = &n
	}
	return w.notify(ctx, feed, notification.NotificationsBothModes, notification.NotifyWeeklySummary, monday, planned)
}

func (w periodWorker) weekOf(ctx context.Context, workspace affiliate.WorkspaceID, week affiliate.Period) (summary notification.WorkspaceSummary, err error) {
	if summary.Conversions, summary.Applications, err = notifications.WeekCounts(ctx, w.db, workspace, week); err != nil {
		return summary, err
	}
	scope := affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}
	stats, err := commissions.Stats(ctx, w.db, scope, commission.Filter{Created: week})
	if err != nil {
		return summary, err
	}
	summary.Commissions, summary.Earned = stats.Count, map[string]int64{}
	for currency, sum := range stats.ByCurrency {
		summary.Earned[currency] = sum.AmountCents
	}
	return summary, nil
}

// remindOfMethods reminds the partners to whom money is owed and who have no payout method.
func (w periodWorker) remindOfMethods(ctx context.Context, monday time.Time) error {
	return w.eachPartner(ctx, affiliate.ModeLive, notification.NotifyPayoutMethodMissing, monday, func(partner affiliate.UserID) (*notification.Notification, error) {
		owed, err := notifications.OwedWithoutMethod(ctx, w.db, partner)
		if err != nil || len(owed) == 0 {
			return nil, err
		}
		n := notification.MissingMethodNotification(partner, affiliate.ModeLive, owed, w.currentTime())
		return &n, nil
	})
}

func (w periodWorker) summarizeMonths(ctx context.Context, month affiliate.Period) error {
	return w.eachPartner(ctx, notification.NotificationsBothModes, notification.NotifyMonthlySummary, *month.Before, func(partner affiliate.UserID) (*notification.Notification, error) {
		summary, err := notifications.PartnerMonth(ctx, w.db, partner, month)
		if err != nil {
			return nil, err
		}
		text := summary.Text(month)
		if text == "" {
			return nil, nil
		}
		n := notification.SummaryNotification(affiliate.Partner, notification.PartnerFeed(partner), text, w.currentTime())
		return &n, nil
	})
}

// eachPartner creates the notifications of a type for all partners. The function create
// returns the notification of a partner, or nil if the partner needs none.
func (w periodWorker) eachPartner(
	ctx context.Context, mode affiliate.Mode, kind notification.Type, period time.Time,
	create func(partner affiliate.UserID) (*notification.Notification, error),
) error {
	var errs []error
	var after affiliate.UserID
	for {
		partners, err := notifications.PartnersWithout(ctx, w.db, mode, kind, period, after, periodBatch)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, partner := range partners {
			planned, err := create(partner)
			if err == nil {
				err = w.notify(ctx, notification.PartnerFeed(partner), mode, kind, period, planned)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s of partner %s: %w", kind, partner, err))
			}
		}
		if len(partners) < periodBatch {
			return errors.Join(errs...)
		}
		after = partners[len(partners)-1]
	}
}

// notify stores the notification of a feed for a period. If notification is nil, it only
// stores that there is none for the period.
func (w periodWorker) notify(
	ctx context.Context, feed notification.FeedID, mode affiliate.Mode, kind notification.Type, period time.Time, notification *notification.Notification,
) error {
	return w.db.InTx(ctx, func(tx *postgres.Tx) error {
		claimed, err := notifications.ClaimPeriod(ctx, tx, feed, mode, kind, period)
		if err != nil || !claimed || notification == nil {
			return err
		}
		return tx.Notify(ctx, *notification)
	})
}
