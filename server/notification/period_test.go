package notification_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// notifyPeriodically runs the job at the given time.
func (f *fixture) notifyPeriodically(now time.Time) {
	f.Helper()
	worker := notificationservice.NewPeriodWorker(f.DB, func() time.Time { return now })
	if err := worker.Work(f.Context(), nil); err != nil {
		f.Fatal(err)
	}
}

// periodic returns the notifications of the job in a feed as text, oldest first.
func (f *fixture) periodic(feed notification.FeedID) []string {
	f.Helper()
	return f.Texts(`
		select concat_ws(' ', mode, type, facts->>'summary', facts->>'amount') from notifications
		where feed_id = $1 and type in ('summary.weekly', 'summary.monthly', 'payout.method_missing') order by id`, feed)
}

func (f *fixture) wantPeriodic(name string, feed notification.FeedID, want ...string) {
	f.Helper()
	if got := f.periodic(feed); !slices.Equal(got, want) {
		f.Errorf("%s: the notifications are %q, want %q", name, got, want)
	}
}

func setTimezone(f *fixture, zone string) {
	f.Exec(`update workspaces set timezone = $2 where id = $1`, f.Scope.Workspace, zone)
}

// The clock of the fixture shows Wednesday, the 6th of May 2026.
func TestPeriodWorker_SummarizesWeeks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	setTimezone(f, "America/New_York")
	live := f.InOtherMode()
	pat := live.Join("Pat")
	f.NewConversion(live.Scope)
	for range 2 {
		f.NewCommission(pat)
	}
	f.NewConversion(f.Scope) // in test mode, so it does not count
	feed := notification.WorkspaceFeed(f.Scope.Workspace)
	quiet := f.NewWorkspace()

	f.notifyPeriodically(time.Date(2026, 5, 11, 11, 59, 0, 0, time.UTC)) // 07:59 in New York
	f.wantPeriodic("before 08:00", feed)
	var group sync.WaitGroup
	for range 3 { // several processes at the same time
		group.Go(func() { f.notifyPeriodically(time.Date(2026, 5, 11, 12, 0, 0, 0, time.UTC)) })
	}
	group.Wait()
	f.notifyPeriodically(time.Date(2026, 5, 11, 12, 15, 0, 0, time.UTC))
	const want = "both summary.weekly 4 May to 10 May 2026: 3 conversions, 2 new commissions of 4.00 EUR, 1 new partner."
	f.wantPeriodic("after 08:00", feed, want)
	f.wantPeriodic("without activity", notification.WorkspaceFeed(quiet))
	f.notifyPeriodically(time.Date(2026, 5, 18, 12, 0, 0, 0, time.UTC))
	f.wantPeriodic("after a week without activity", feed, want)

	// A workspace whose time zone moves does not get the summary of a week twice.
	setTimezone(f, "Pacific/Pago_Pago")
	f.notifyPeriodically(time.Date(2026, 5, 11, 20, 0, 0, 0, time.UTC))
	f.wantPeriodic("in another time zone", feed, want)
}

func TestPeriodWorker_NotifiesPartners(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	live := f.InOtherMode()
	pat, rich, done := live.Join("Pat"), live.Join("Rich"), live.Join("Done")
	tester := f.Join("Tester")
	f.NewCommission(pat)
	f.NewCommission(tester)
	for _, p := range []pgtest.Participant{rich, done, tester} {
		f.NewLedgerEntry(p, 1234)
	}
	f.NewLedgerEntry(pat, -500)
	f.Exec(`insert into payout_methods (user_id, method, updated_at) values ($1, 'manual', $2)`, done.Partner, f.Now())

	f.notifyPeriodically(time.Date(2026, 5, 11, 8, 0, 0, 0, time.UTC))
	f.notifyPeriodically(time.Date(2026, 5, 11, 9, 0, 0, 0, time.UTC))
	const owed = "live payout.method_missing 12.34 EUR"
	f.wantPeriodic("owed and without a method", notification.PartnerFeed(rich.Partner), owed)
	f.wantPeriodic("in debt", notification.PartnerFeed(pat.Partner))
	f.wantPeriodic("with a method", notification.PartnerFeed(done.Partner))
	f.wantPeriodic("owed in test mode", notification.PartnerFeed(tester.Partner))
	f.notifyPeriodically(time.Date(2026, 5, 18, 8, 0, 0, 0, time.UTC))
	f.wantPeriodic("a week later", notification.PartnerFeed(rich.Partner), owed, owed)

	f.notifyPeriodically(time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)) // also a Monday
	f.notifyPeriodically(time.Date(2026, 6, 1, 8, 15, 0, 0, time.UTC))
	f.wantPeriodic("the first of the month", notification.PartnerFeed(pat.Partner), "both summary.monthly May 2026: 1 commission of 2.00 EUR.")
	f.wantPeriodic("a month without commissions", notification.PartnerFeed(rich.Partner), owed, owed, owed)
	f.wantPeriodic("commissions of test mode", notification.PartnerFeed(tester.Partner))
}
