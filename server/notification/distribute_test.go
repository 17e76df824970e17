package notification_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// Notifications that need a quick reaction are mailed at once, even while other
// notifications of their category are gathered.
func TestDistribute_NeverHoldsBackUrgentNotifications(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	partner := f.Join("Jane").Partner
	for _, tc := range []struct {
		kind     notification.Type
		partner  bool
		gathered notification.Type // another type of the category, or empty
	}{
		{"security.new_device", false, ""},
		{"account.member_left", false, ""},
		{"gdpr.export_ready", false, ""},
		{"payout.failed", false, "payout.paid"},
		{"webhook.disabled", false, "webhook.dead_lettered"},
		{"security.new_device", true, ""},
		{"gdpr.export_ready", true, ""},
		{"payout.failed", true, ""},
		{"payout.method_missing", true, ""},
	} {
		recipient, notify := f.Owner, func(kind notification.Type) string { return f.notify(kind, about(f.Owner)) }
		if tc.partner {
			recipient, notify = partner, func(kind notification.Type) string { return f.notifyPartner(partner, kind) }
		}
		var gathered string
		if tc.gathered != "" {
			notify(tc.gathered)
			f.distribute()
			f.newMails()
			gathered = notify(tc.gathered)
			f.distribute()
			f.wantMails("gathered: " + string(tc.gathered))
		}
		for range 2 {
			urgent := notify(tc.kind)
			f.distribute()
			f.wantMails(string(tc.kind), mailText(tc.kind, recipient, urgent))
		}
		f.endHour()
		if tc.gathered == "" {
			f.wantMails("an hour after " + string(tc.kind))
			continue
		}
		f.wantMails("an hour after "+string(tc.kind), mailText(tc.gathered, recipient, gathered))
	}
}

// If urgent and other notifications of a category arrive together, there is a mail for
// each of the two groups.
func TestDistribute_SeparatesUrgentNotifications(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	paid, failed, canceled := f.notify("payout.paid"), f.notify("payout.failed"), f.notify("payout.canceled")
	f.distribute()
	f.wantMails("the first notifications", mailText("payout.failed", f.Owner, failed), mailText(notification.MailTypeDigest, f.Owner, paid, canceled))
	f.endHour()
	f.wantMails("an hour later")
}

func TestDistribute_MailsOptionalCategoriesByChoice(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	manager := f.NewMember(f.Scope.Workspace, affiliate.RoleManager)
	for _, tc := range []struct {
		kind     notification.Type
		category notification.Category
	}{
		{"conversion.created", notification.CategoryConversions},
		{"product.announcement", notification.CategoryProductUpdates},
	} {
		f.notify(tc.kind)
		f.distribute()
		f.wantMails(string(tc.kind) + " by default")
		f.chooseMail(f.asOwner(), tc.category, true)
		chosen := f.notify(tc.kind)
		f.distribute()
		f.wantMails(string(tc.kind)+" after the choice of the owner", mailText(tc.kind, f.Owner, chosen))
		f.chooseMail(f.as(manager, affiliate.RoleManager), tc.category, true)
		f.clock.Advance(newRecipientDelay)
		another := f.notify(tc.kind)
		f.distribute()
		f.wantMails(string(tc.kind)+" after the choice of the manager", mailText(tc.kind, manager, another))
		f.chooseMail(f.asOwner(), tc.category, false)
		f.endHour()
		f.wantMails(string(tc.kind) + " when the owner has disabled it")
		f.chooseMail(f.as(manager, affiliate.RoleManager), tc.category, false)
	}
	partner := servertest.AsPartner(t, f.Join("Jane").Partner, affiliate.ModeLive)
	f.chooseMail(partner, notification.CategoryCommissions, false)
	f.chooseMail(f.asOwner(), notification.CategoryCommissions, false)
	f.chooseMail(f.as(manager, affiliate.RoleManager), notification.CategoryCommissions, false)
	f.notify("commission.created")
	f.distribute()
	f.wantMails("a category that all users have disabled")
}

// The rows are the column "Received by" of docs/notifications.md#categories-of-merchants.
func TestDistribute_MailsMembersByRole(t *testing.T) {
	t.Parallel()
	const (
		others = "commission.created conversion.created conversion.fraud_detected conversion.refunded participant.applied payout.paid product.announcement summary.weekly"
		money  = "commission.created conversion.refunded payout.paid"
	)
	for _, tc := range []struct {
		role affiliate.Role
		want string // the types of notifications about others
		own  string // the types of notifications about the member
	}{
		{affiliate.RoleOwner, others + " account.member_joined gdpr.export_ready security.api_key_created webhook.dead_lettered", "account.member_left security.password_changed"},
		{affiliate.RoleAdmin, others + " gdpr.export_ready webhook.dead_lettered", "account.member_left security.password_changed"},
		{affiliate.RoleManager, others + " gdpr.export_ready", "account.member_left security.password_changed"},
		{affiliate.RoleFinance, money, "security.password_changed"},
		{affiliate.RoleDeveloper, "webhook.dead_lettered", "security.password_changed"},
		{affiliate.RoleViewer, others, ""},
	} {
		t.Run(string(tc.role), func(t *testing.T) {
			t.Parallel()
			f := newMailFixture(t, affiliate.ModeLive)
			member := f.NewMember(f.Scope.Workspace, tc.role)
			for _, category := range []notification.Category{notification.CategoryConversions, notification.CategoryProductUpdates} {
				f.Insert("notification_preferences", pgtest.Row{"user_id": member, "category": category, "email": true})
			}
			mailed := func(user affiliate.UserID) string {
				types := f.Texts(`select type from mails where user_id = $1 order by type`, user)
				return strings.Join(types, " ")
			}
			for _, kind := range strings.Fields(others) {
				f.notify(notification.Type(kind))
			}
			f.notify("gdpr.export_ready")
			f.notify("webhook.dead_lettered")
			f.notify("security.api_key_created", about(f.Owner))
			f.notify("account.member_joined", about(f.Owner))
			f.distribute()
			want := strings.Fields(tc.want)
			slices.Sort(want)
			if got := mailed(member); got != strings.Join(want, " ") {
				t.Errorf("mails about others: got\n%s\nwant\n%s", got, strings.Join(want, " "))
			}
			f.newMails()
			f.notify("account.member_left", about(member))
			f.notify("security.password_changed", about(member))
			f.distribute()
			if got := mailed(member); got != tc.own {
				t.Errorf("mails about the member: got %q, want %q", got, tc.own)
			}
			if got := mailed(f.Owner); got != "account.member_left security.password_changed" {
				t.Errorf("mails to the owner about the member: got %q, want both", got)
			}
		})
	}
}

// The verification of an address sends a mail of its own.
func TestDistribute_MailsNothingAboutVerifications(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	partner := f.Join("Jane").Partner
	for _, kind := range []notification.Type{notification.NotifyVerifyEmail, notification.NotifyEmailVerified} {
		f.notify(kind, about(f.Owner))
		f.notifyPartner(partner, kind)
	}
	f.distribute()
	f.wantMails("verifications")
}

func TestDistribute_MailsPartnersOfSeveralWorkspaces(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	partner := f.Join("Jane").Partner
	other := f.NewShop(affiliate.ModeLive)
	f.NewParticipant(other.Scope, other.Program, partner)
	inTest := func(scope affiliate.Scope) affiliate.Scope {
		return affiliate.Scope{Workspace: scope.Workspace, Mode: affiliate.ModeTest}
	}
	notifyAll := func() (ids [4]string) {
		for i, scope := range []affiliate.Scope{f.Scope, other.Scope, inTest(f.Scope), inTest(other.Scope)} {
			ids[i] = f.notifyPartner(partner, "commission.created", in(scope))
		}
		return ids
	}
	// wantLogs checks which workspaces the mails of test mode belong to.
	wantLogs := func(when string) {
		t.Helper()
		want := []string{f.Scope.Workspace.String(), other.Scope.Workspace.String()}
		slices.Sort(want)
		if got := f.Texts(`select workspace_id::text from mails where logged and mode = 'test' order by 1`); !slices.Equal(got, want) {
			t.Errorf("%s: the mails of test mode are in the logs of %q, want %q", when, got, want)
		}
		f.WantCount(0, when+": mails of live mode with a workspace", `select count(*) from mails where mode = 'live' and (logged or workspace_id is not null)`)
	}
	first := notifyAll()
	f.distribute()
	wantLogs("the first notifications")
	f.wantMails("the first notifications", mailText(notification.MailTypeDigest, partner, first[0], first[1]),
		mailText("commission.created", partner, first[2]), mailText("commission.created", partner, first[3]))
	second, third := notifyAll(), notifyAll()
	f.distribute()
	f.wantMails("the next notifications")
	f.endHour()
	wantLogs("the gathered notifications")
	f.wantMails("the gathered notifications", mailText(notification.MailTypeDigest, partner, second[0], second[1], third[0], third[1]),
		mailText(notification.MailTypeDigest, partner, second[2], third[2]), mailText(notification.MailTypeDigest, partner, second[3], third[3]))
}

// A type that a newer version has added is left to a process of that version.
func TestDistribute_LeavesUnknownTypes(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	feed := notification.WorkspaceFeed(f.Scope.Workspace)
	f.Insert("notification_feeds", pgtest.Row{
		"feed_id": feed, "last_seq": 0, "replay_after": 0, "version": 0, "streamed_until": f.Now().Add(24 * time.Hour),
	})
	notifyUnknown := func() {
		id := f.notify("moon.landed")
		f.Exec(`update notifications set category = 'payouts' where id = $1`, id)
	}
	notifyUnknown()
	first := f.notify("payout.paid")
	f.distribute()
	f.wantMails("an unknown type and a known type", mailText("payout.paid", f.Owner, first))
	notifyUnknown()
	second := f.notify("payout.paid")
	f.distribute()
	f.endHour()
	f.wantMails("an unknown type among gathered notifications", mailText("payout.paid", f.Owner, second))
	notifyUnknown()
	f.distribute()
	f.endHour()
	f.wantMails("only an unknown type")
	f.WantCount(3, "arrivals wait for the newer version", `select count(*) from notification_arrivals where types = '{moon.landed}'`)
}

// newRecipientDelay is longer than a Distributor remembers that all recipients of a
// category gather. It is also longer than a digest looks back for notifications that were
// committed late, so it contains none from before the user became a recipient.
const newRecipientDelay = 3 * time.Minute

// A user who becomes a recipient while the other recipients of a category gather gets the
// next notification at once.
func TestDistribute_MailsNewRecipients(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	f.notify("commission.created")
	f.distribute()
	f.newMails()
	viewer := f.NewMember(f.Scope.Workspace, affiliate.RoleViewer)
	f.clock.Advance(newRecipientDelay)
	gathered := f.notify("commission.created")
	f.distribute()
	f.wantMails("after the delay", mailText("commission.created", viewer, gathered))
	next := f.notify("commission.created")
	f.distribute()
	f.clock.Advance(notification.GatherTime - newRecipientDelay)
	f.sendDigests()
	f.wantMails("when the hour of the owner is over", mailText(notification.MailTypeDigest, f.Owner, gathered, next))
	f.clock.Advance(newRecipientDelay)
	f.sendDigests()
	f.wantMails("when the hour of the viewer is over", mailText("commission.created", viewer, next))
}

// The distributor must not remember that notifications are gathered for longer than they
// are. Here the only gathered notification is dismissed, so no hour follows the first.
func TestDistribute_MailsAtOnceAfterGatheringEnds(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	f.notify("commission.created")
	f.distribute()
	f.newMails()
	f.clock.Advance(notification.GatherTime - 30*time.Second)
	dismissed := f.notify("commission.created")
	f.distribute()
	f.reader(inMode(f.asOwner(), affiliate.ModeLive)).mustDismiss(dismissed)
	f.clock.Advance(30 * time.Second)
	f.sendDigests()
	f.wantMails("when the hour is over")
	next := f.notify("commission.created")
	f.distribute()
	f.wantMails("after the hour", mailText("commission.created", f.Owner, next))
}

// If a distributor fails, the arrivals remain, and a distributor mails them later. The
// distributor that has failed must not remember that their recipients gather.
func TestDistribute_FailureLeavesArrivals(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	var broken atomic.Bool
	fragile := f.newDistributor(f.OpenHooked(func(sql string, _ []any) error {
		if sql == "commit" && broken.Load() {
			return errors.New("the process has crashed")
		}
		return nil
	}))
	fail := func() {
		t.Helper()
		broken.Store(true)
		if _, err := fragile.Distribute(t.Context()); err == nil {
			t.Fatal("Distribute returns no error although its commit failed")
		}
		broken.Store(false)
		f.wantMails("a distributor that fails")
	}
	first := f.notify("commission.created")
	fail()
	f.distribute()
	f.wantMails("another distributor", mailText("commission.created", f.Owner, first))
	f.endHour()

	second := f.notify("commission.created")
	fail()
	f.distributeWith(fragile)
	f.wantMails("the same distributor", mailText("commission.created", f.Owner, second))
}

// Several distributors run while several transactions at a time create notifications.
// Each notification is in exactly one mail to each recipient.
func TestRun_SeveralDistributorsMailEachNotificationOnce(t *testing.T) {
	t.Parallel()
	const writers, rounds = 4, 25
	f := newMailFixture(t, affiliate.ModeLive)
	f.NewMember(f.Scope.Workspace, affiliate.RoleAdmin)
	ctx, stop := context.WithCancel(t.Context())
	var distributors, writing sync.WaitGroup
	all := make([]*notificationservice.Distributor, 3)
	for i := range all {
		d := f.newDistributor(f.DB)
		all[i] = d
		distributors.Go(func() { d.Run(ctx) })
	}
	f.DB.OnNotifications(func() {
		for _, d := range all {
			d.Wake()
		}
	})
	defer distributors.Wait()
	defer stop()
	kinds := []notification.Type{"commission.created", "payout.paid", "payout.failed", "participant.applied", "conversion.refunded"}
	for writer := range writers {
		writing.Go(func() {
			for round := range rounds {
				var created []notification.Notification
				for i := range kinds { // in another order in each writer
					n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(f.Scope.Workspace), kinds[(i+writer+round)%len(kinds)], &f.Scope.Mode, f.Now())
					n.Workspace = &f.Scope.Workspace
					created = append(created, n)
				}
				if err := f.DB.InTx(ctx, func(tx *postgres.Tx) error { return tx.Notify(ctx, created...) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	pgtest.Eventually(t, "all arrivals are distributed", func() bool {
		return f.Count(`select count(*) from notification_arrivals`) == 0
	})
	stop()
	distributors.Wait()
	f.endHour()
	f.wantMailedOnce(2)
}

// wantMailedOnce checks that all stored notifications are in mails to each of the given
// number of recipients, and that no mail repeats one.
func (f *mailFixture) wantMailedOnce(recipients int) {
	f.Helper()
	wrong := f.Texts(`
		with stored as (select category, count(*) as n from notifications group by category),
		mailed as (
			select user_id, category, sum(jsonb_array_length(facts -> 'notifications') + coalesce((facts ->> 'more')::int, 0)) as n
			from mails group by user_id, category
		)
		select category || ': ' || coalesce(m.user_id || ' got mails about ' || m.n, 'no mails') || ', want ' || s.n
		from stored s left join mailed m using (category) where m.n is distinct from s.n
		union all
		select category || ': mails to ' || count(user_id) || ' users' from mailed group by category having count(user_id) <> $1
		union all
		select e.id || ' is in ' || count(*) || ' mails to ' || user_id
		from mails, jsonb_array_elements_text(facts -> 'notifications') as e (id) group by e.id, user_id having count(*) > 1`, recipients)
	if len(wrong) > 0 {
		f.Errorf("not all notifications are in one mail to each recipient:\n%s", strings.Join(wrong, "\n"))
	}
}

// Notifications are created, distributed and mailed in a random order. Some commit up to
// two minutes after their time. The owner gets each notification in one mail, and at most
// one mail an hour with gathered notifications of a category.
func TestDistribute_MailsEachNotificationOnceInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the test must be repeatable
			f := newMailFixture(t, affiliate.ModeLive)
			distributors := []*notificationservice.Distributor{f.distributor, f.newDistributor(f.DB)}
			kinds := []notification.Type{"commission.created", "commission.created", "payout.paid", "payout.failed"}
			for range 60 {
				for range random.IntN(4) {
					f.notify(kinds[random.IntN(len(kinds))], func(n *notification.Notification) {
						if random.IntN(3) == 0 {
							n.ID = affiliate.NewID[notification.ID](f.Now().Add(-time.Duration(random.Int64N(int64(2 * time.Minute)))))
						}
					})
				}
				if random.IntN(3) > 0 {
					f.distributeWith(distributors[random.IntN(len(distributors))])
				}
				if random.IntN(2) == 0 {
					f.clock.Advance(time.Duration(random.Int64N(int64(10 * time.Minute))))
				} else {
					f.clock.Advance(time.Duration(random.Int64N(int64(30 * time.Second))))
				}
				if random.IntN(4) > 0 {
					f.sendDigests()
				}
			}
			f.distribute()
			f.endHour()
			f.endHour()
			f.wantMailedOnce(1)
			early := f.Texts(`
				select since::text from (
					select created_at - lag(created_at) over (order by created_at) as since from mails where category = 'commissions'
				) m where since < interval '1 hour'`)
			if len(early) > 0 {
				t.Errorf("there is less than an hour between two mails:\n%s", strings.Join(early, "\n"))
			}
			f.WantCount(0, "mails in which a newer notification is before an older one", `
				select count(*) from mails where facts -> 'notifications' <>
					(select jsonb_agg(e.id order by e.id) from jsonb_array_elements(facts -> 'notifications') as e (id))`)
		})
	}
}

// If the distributors have not run for some minutes, several batches of arrivals wait. The
// first batch begins to gather the notifications of a category. The notifications of the
// other batches are older than this mail, and must be in the next one.
func TestDistribute_MailsBacklogOfSeveralBatches(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	for range 450 {
		f.notify("commission.created")
	}
	f.clock.Advance(10 * time.Minute)
	f.distribute()
	f.WantCount(1, "mails before the hour is over", `select count(*) from mails`)
	f.endHour()
	f.WantCount(2, "mails when the hour is over", `select count(*) from mails`)
	f.wantMailedOnce(1)
}

// Two distributors that distribute notifications of the same categories lock the digests
// in the same order, so there is no deadlock. Another transaction locks the digests until
// both distributors wait.
func TestDistribute_LocksDigestsInOneOrder(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	f.notify("commission.created")
	f.notify("payout.paid")
	f.distribute()
	lock, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(t.Context()) }()
	if _, err := lock.Exec(t.Context(), `select from notification_digests for update`); err != nil {
		t.Fatal(err)
	}
	var transactions atomic.Int32
	db := f.OpenHooked(func(sql string, _ []any) error {
		if sql == "begin" {
			transactions.Add(1)
		}
		return nil
	})
	var running sync.WaitGroup
	for i, kinds := range [][]notification.Type{{"commission.created", "payout.paid"}, {"payout.paid", "commission.created"}} {
		var both []notification.Notification
		for _, kind := range kinds {
			n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(f.Scope.Workspace), kind, &f.Scope.Mode, f.Now())
			n.Workspace = &f.Scope.Workspace
			both = append(both, n)
		}
		if err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error { return tx.Notify(t.Context(), both...) }); err != nil {
			t.Fatal(err)
		}
		d := f.newDistributor(db)
		running.Go(func() {
			if _, err := d.Distribute(t.Context()); err != nil {
				t.Error(err)
			}
		})
		pgtest.Eventually(t, "the distributor waits for a digest", func() bool {
			return f.CountLockWaits() == i+1
		})
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	running.Wait()
	if n := transactions.Load(); n != 2 {
		t.Errorf("the two distributors needed %d transactions, want 2 without a deadlock", n)
	}
}
