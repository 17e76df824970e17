package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// partnerEvent returns an event for which the workspace and a partner get a notification.
func (f *fixture) partnerEvent(partner affiliate.UserID) affiliate.Event {
	payout := payout.Change{
		Before: payout.Payout{Status: payout.Processing},
		After: payout.Payout{
			ID: affiliate.NewID[affiliate.PayoutID](f.Now()), Scope: f.Scope,
			Payee: payout.Payee{Partner: partner, Program: f.Program, Currency: "EUR"}, AmountCents: 100, Status: payout.Paid,
		},
		Transition: payout.Transition{Move: payout.MoveMarkPaid, At: f.Now()},
	}
	event, ok := payout.Event(nil)
	if !ok || event.Name != affiliate.EventPayoutPaid {
		f.Fatalf("the event is %+v, want payout.paid", event)
	}
	return event
}

// Notifications and their arrival commit and roll back with their cause. The callback
// runs once after each commit with notifications.
func TestNotifications_CommitWithTheirCause(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")
	callbacks := 0
	rows := func() int {
		return f.Count(`select (select count(*) from notifications) + (select coalesce(sum(cardinality(ids)), 0) from notification_arrivals)`)
	}
	f.DB.OnNotifications(func() {
		if callbacks++; rows() == 0 {
			t.Error("the callback does not see the notifications")
		}
	})
	first, second := f.partnerEvent(partner), f.partnerEvent(partner)
	failure := errors.New("the change fails")
	if err := postgres.Publish(t.Context(), f.DB, func() error { return failure }, first); !errors.Is(err, failure) {
		t.Fatalf("Publish returned %v, want %v", err, failure)
	}
	if n := rows(); n != 0 || callbacks != 0 {
		t.Errorf("after a rollback, there are %d rows and the callback ran %d times, want none", n, callbacks)
	}
	if err := postgres.Publish(t.Context(), f.DB, succeed, affiliate.NewEvent(f.Scope, affiliate.EventLinkCreated, f.Now(), nil, nil)); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 0 || callbacks != 0 {
		t.Errorf("after an event without notifications, there are %d rows and the callback ran %d times, want none", n, callbacks)
	}
	if err := postgres.Publish(t.Context(), f.DB, succeed, first, second); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 8 || callbacks != 1 {
		t.Errorf("after a commit, there are %d rows and the callback ran %d times, want 8 and 1", n, callbacks)
	}
	want := []string{"false payouts", "true payouts"}
	got := f.Texts(`
		select (n.feed_id = $1)::text || ' ' || n.category from notifications n, notification_arrivals a
		where n.feed_id = any(a.feed_ids) and n.id = any(a.ids) and n.id = $2 and n.mode = $3 and n.day = '2026-03-10' order by 1`,
		f.Scope.Workspace, first.ID, f.Scope.Mode)
	if !slices.Equal(got, want) {
		t.Errorf("the notifications about the first event are %q, want %q", got, want)
	}
}

func TestNotify_StoresNotificationsWithoutEvent(t *testing.T) {
	f := newFixture(t)
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(f.Scope.Workspace), notification.NotifyPasswordChanged, &f.Scope.Mode, f.Now())
	n.Workspace, n.User = &f.Scope.Workspace, &f.Owner
	if err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		if err := tx.Notify(t.Context()); err != nil { // none
			return err
		}
		return tx.Notify(t.Context(), n)
	}); err != nil {
		t.Fatal(err)
	}
	f.WantCount(1, "notifications of both modes about the user", `
		select count(*) from notifications where feed_id = $1 and user_id = $2 and mode = 'both' and category = 'security' and dismissed_at is null`,
		f.Scope.Workspace, f.Owner)
	f.WantCount(1, "arrivals", `select count(*) from notification_arrivals where user_ids = array[$1::uuid] and modes = array['both']`, f.Owner)
}

// notifyAt stores a notification for the workspace with the given time.
func (f *fixture) notifyAt(at time.Time) {
	f.Helper()
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(f.Scope.Workspace), notification.NotifyMemberLeft, nil, at)
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return tx.Notify(f.Context(), n) }); err != nil {
		f.Fatal(err)
	}
}

// EnsureWeekPartitions must move the notifications of a week from the default partition
// to the new partition. DropOldWeeks must keep the notifications of 180 days.
func TestWeekPartitions_OfNotifications(t *testing.T) {
	f := newFixture(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	oldest := today.AddDate(0, 0, -180)
	monday := oldest.AddDate(0, 0, -(int(oldest.Weekday())+6)%7)
	day := func(at time.Time) string { return at.Format(time.DateOnly) }
	days := []time.Time{monday.AddDate(0, 0, -8), monday.AddDate(0, 0, -1), monday, oldest, today}
	for _, at := range days {
		f.notifyAt(at)
	}
	if n, err := postgres.StrayWeekRows(t.Context(), f.DB); err != nil || n != len(days) {
		t.Errorf("%d rows are in the default partitions, %v, want %d", n, err, len(days))
	}
	if _, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, monday.AddDate(0, 0, -7), monday); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"notifications_default " + day(days[0]), "notifications_" + monday.AddDate(0, 0, -7).Format("20060102") + " " + day(days[1]),
		"notifications_" + monday.Format("20060102") + " " + day(monday), "notifications_" + monday.Format("20060102") + " " + day(oldest),
		"notifications_default " + day(today),
	}
	if got := f.rowPartitions("notifications"); !slices.Equal(got, want) {
		t.Errorf("the rows are in the partitions %q, want %q", got, want)
	}
	if _, err := postgres.DropOldWeeks(t.Context(), f.DB, 10); err != nil {
		t.Fatal(err)
	}
	if got := f.rowPartitions("notifications"); !slices.Equal(got, want[2:]) {
		t.Errorf("after DropOldWeeks, the rows are in the partitions %q, want %q", got, want[2:])
	}
}
