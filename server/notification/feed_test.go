package notification_test

import (
	"maps"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestList_ReturnsPagesNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.reader(f.asOwner())
	owner.wantFeed("an empty feed")
	first := f.notify("conversion.created")
	second := f.notify("commission.created")
	f.clock.Advance(24 * time.Hour) // the next day, the same week
	third := f.notify("conversion.created")
	f.clock.Advance(14 * 24 * time.Hour)
	fourth := f.notify("payout.paid")
	owner.wantFeed("all", fourth, third, second, first)

	page := owner.list(&affiliatev1.ListNotificationsRequest{Page: ptr(int32(2)), PageSize: ptr(int32(3))})
	if len(page.Data) != 1 || page.Data[0].Id != first || page.Total != 4 || page.Page != 2 || page.Limit != 3 {
		t.Errorf("page 2 of 3 is %v, want the oldest notification", page)
	}
	page = owner.list(&affiliatev1.ListNotificationsRequest{Page: ptr(int32(9)), PageSize: ptr(int32(3))})
	if len(page.Data) != 0 || page.Total != 4 || page.Page != 9 {
		t.Errorf("a page after the last one is %v, want no rows and the total 4", page)
	}
	page = owner.list(&affiliatev1.ListNotificationsRequest{Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_CONVERSIONS})
	if len(page.Data) != 2 || page.Data[0].Id != third || page.Data[1].Id != first || page.Total != 2 {
		t.Errorf("the category conversions is %v, want the third and the first notification", page)
	}
	owner.mustRead(third)
	page = owner.list(&affiliatev1.ListNotificationsRequest{Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_CONVERSIONS, Unread: ptr(true)})
	if len(page.Data) != 1 || page.Data[0].Id != first || page.Total != 1 {
		t.Errorf("the unread conversions are %v, want the first notification", page)
	}
	if page = owner.list(&affiliatev1.ListNotificationsRequest{Unread: ptr(false)}); page.Total != 4 {
		t.Errorf("unread=false selects %d notifications, want 4", page.Total)
	}
}

func TestList_ReturnsTextsWithCurrentNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jane := f.Join("Jane")
	commission := f.NewCommission(jane)
	owner := f.reader(f.asOwner())
	f.Exec(`update programs set name = 'Garden' where id = $1`, f.Program)
	commissions := &affiliatev1.ListNotificationsRequest{Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_COMMISSIONS}
	got := owner.list(commissions)
	if len(got.Data) != 1 {
		t.Fatalf("%d notifications about commissions, want 1", len(got.Data))
	}
	servertest.WantFields(t, "the merchant's notification", got.Data[0], &affiliatev1.Notification{
		Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_COMMISSIONS, Type: "commission.created",
		Title: "New commission", Body: "Jane earned 2.00 EUR in Garden.", Severity: affiliatev1.NotificationSeverity_NOTIFICATION_SEVERITY_INFO,
		Resource:  &affiliatev1.NotificationResource{Type: "commission", Id: commission.ID.String(), ProgramId: ptr(f.Program.String())},
		ActionUrl: ptr("https://app.example/test/commissions/" + commission.ID.String()), Mode: affiliatev1.Mode_MODE_TEST, CreatedAt: server.Timestamp(f.Now()),
	})
	if want := map[string]string{"partner": "Jane", "amount": "2.00 EUR", "program": "Garden"}; !maps.Equal(got.Data[0].Facts, want) {
		t.Errorf("the facts are %v, want %v", got.Data[0].Facts, want)
	}
	partner := f.reader(servertest.AsPartner(t, jane.Partner, affiliate.ModeTest))
	if got := partner.list(&affiliatev1.ListNotificationsRequest{}); len(got.Data) != 1 || got.Data[0].Body != "You earned 2.00 EUR in Garden." {
		t.Errorf("the partner's feed is %v, want one notification about the commission", got)
	}
	f.Exec(`update participants set partner_name = 'erased-0123abcd', erased_at = now() where id = $1`, jane.ID)
	if got := owner.list(commissions); got.Data[0].Body != "A partner earned 2.00 EUR in Garden." {
		t.Errorf("after the erasure of the partner, the body is %q", got.Data[0].Body)
	}
}

// A workspace sees the names of its members, but not the current name of a person who
// has left it.
func TestList_HidesNamesOfFormerMembers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	member := f.NewMember(f.Scope.Workspace, affiliate.RoleAdmin, pgtest.Row{"name": "Finn"})
	f.notify("account.email_verified", about(member))
	owner := f.reader(f.asOwner())
	for _, want := range []string{"The e-mail address of Finn is verified.", "The e-mail address of a user is verified."} {
		if got := owner.list(&affiliatev1.ListNotificationsRequest{}).Data[0].Body; got != want {
			t.Errorf("body %q, want %q", got, want)
		}
		f.Exec(`delete from members where user_id = $1`, member)
	}
}

func TestFeed_ContainsCategoriesOfRole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, kind := range []notification.Type{
		"participant.applied", "conversion.created", "commission.created", "conversion.fraud_detected", "conversion.refunded", "payout.paid",
		"webhook.disabled", "gdpr.export_ready", "summary.weekly",
	} {
		f.notify(kind)
	}
	f.notify("security.password_changed", about(f.Owner))
	f.notify("account.email_verified", about(f.Owner))
	const money = "commission.created"
	for role, want := range map[affiliate.Role]string{
		affiliate.RoleOwner:     "account.email_verified commission.created conversion.created conversion.fraud_detected conversion.refunded gdpr.export_ready participant.applied payout.paid security.password_changed summary.weekly webhook.disabled",
		affiliate.RoleAdmin:     "commission.created conversion.created conversion.fraud_detected conversion.refunded gdpr.export_ready participant.applied payout.paid summary.weekly webhook.disabled",
		affiliate.RoleManager:   "commission.created conversion.created conversion.fraud_detected conversion.refunded gdpr.export_ready participant.applied payout.paid summary.weekly",
		affiliate.RoleFinance:   money + " conversion.refunded payout.paid",
		affiliate.RoleDeveloper: "webhook.disabled",
		affiliate.RoleViewer:    "commission.created conversion.created conversion.fraud_detected conversion.refunded participant.applied payout.paid summary.weekly",
	} {
		ctx := f.asOwner()
		if role != affiliate.RoleOwner {
			ctx = f.newReader(role)
		}
		if got := f.reader(ctx).typesOf(); got != want {
			t.Errorf("a member with the role %s sees %s, want %s", role, got, want)
		}
	}
}

func TestFeed_ShowsPersonalNotificationsToUserAndOwners(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	finn := f.NewMember(f.Scope.Workspace, affiliate.RoleFinance)
	id := f.notify("security.password_changed", about(finn))
	f.reader(f.asOwner()).wantFeed("the owner", id)
	f.reader(f.newReader(affiliate.RoleOwner)).wantFeed("another owner", id)
	f.reader(f.as(finn, affiliate.RoleFinance)).wantFeed("the user", id)
	for _, role := range []affiliate.Role{affiliate.RoleAdmin, affiliate.RoleFinance, affiliate.RoleViewer} {
		other := f.reader(f.newReader(role))
		other.wantFeed("another " + string(role))
		other.wantUnread("another "+string(role), 0)
		for name, call := range map[string]func(string) (*affiliatev1.Notification, error){"read": other.read, "dismiss": other.dismiss} {
			_, err := call(id)
			if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
				t.Errorf("%s by another %s: error %v, want NOT_FOUND", name, role, err)
			}
		}
		if n := other.readAll(everything); n != 0 {
			t.Errorf("read-all by another %s changed %d notifications, want 0", role, n)
		}
	}
}

func TestFeed_ContainsNotificationsOfMode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	live := func(n *notification.Notification) { n.Mode = ptr(affiliate.ModeLive) }
	inTest := f.notify("commission.created")
	inLive := f.notify("commission.created", live)
	both := f.notify("gdpr.export_ready")
	summary := f.notify("summary.weekly", func(n *notification.Notification) { n.Facts["summary"] = "3 conversions" })
	testMode, liveMode := f.reader(f.asOwner()), f.reader(inMode(f.asOwner(), affiliate.ModeLive))
	testMode.wantFeed("test mode", summary, both, inTest)
	liveMode.wantFeed("live mode", summary, both, inLive)
	liveMode.wantUnread("live mode", 3)
	for _, n := range testMode.list(&affiliatev1.ListNotificationsRequest{}).Data {
		want := affiliatev1.Mode_MODE_UNSPECIFIED
		if n.Id == inTest {
			want = affiliatev1.Mode_MODE_TEST
		}
		if n.Mode != want {
			t.Errorf("%s has the mode %s, want %s", n.Type, n.Mode, want)
		}
	}
	if _, err := liveMode.read(inTest); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
		t.Errorf("reading a notification of the other mode returned %v, want NOT_FOUND", err)
	}
	liveMode.mustRead(both)
	testMode.wantUnread("test mode, after a notification of both modes was read in live mode", 2)
}

func TestFeed_IsSeparateForWorkspacesAndPartners(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jane, john := f.NewPartner("Jane"), f.NewPartner("John")
	ofShop, ofJane := f.notify("commission.created"), f.notifyPartner(jane, "commission.created")
	other := f.NewShop(affiliate.ModeTest)
	readers := map[string]*reader{
		"another workspace": f.reader(servertest.AsMember(t, other.Scope, other.Owner, affiliate.RoleOwner)),
		"another partner":   f.reader(servertest.AsPartner(t, john, affiliate.ModeTest)),
	}
	f.reader(f.asOwner()).wantFeed("the workspace", ofShop)
	f.reader(servertest.AsPartner(t, jane, affiliate.ModeTest)).wantFeed("the partner", ofJane)
	for name, r := range readers {
		r.wantFeed(name)
		r.wantUnread(name, 0)
		if n, m := r.readAll(everything), r.dismissRead(everything); n != 0 || m != 0 {
			t.Errorf("%s marked %d notifications as read and dismissed %d, want 0", name, n, m)
		}
		for _, id := range []string{ofShop, ofJane, affiliate.NewID[notification.ID](f.Now()).String(), "x", "", "00000000-0000-0000-0000-000000000000"} {
			if _, err := r.read(id); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
				t.Errorf("%s reads %q: error %v, want NOT_FOUND", name, id, err)
			}
			if _, err := r.dismiss(id); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
				t.Errorf("%s dismisses %q: error %v, want NOT_FOUND", name, id, err)
			}
		}
	}
	f.reader(f.asOwner()).wantUnread("the workspace", 1)
	f.reader(servertest.AsPartner(t, jane, affiliate.ModeTest)).wantUnread("the partner", 1)
}

func TestFeed_OmitsNotificationsOlderThan180Days(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.notify("commission.created")
	f.clock.Advance(180 * 24 * time.Hour)
	owner := f.reader(f.asOwner())
	owner.wantFeed("after 180 days", old)
	f.clock.Advance(24 * time.Hour)
	owner.wantFeed("after 181 days")
	owner.wantUnread("after 181 days", 0)
	if _, err := owner.read(old); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
		t.Errorf("reading a notification after 181 days returned %v, want NOT_FOUND", err)
	}
}

func TestTotals_StopAtTenThousand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fill(10000)
	owner := f.reader(f.asOwner())
	check := func(name string, got, want int64, capped bool) {
		t.Helper()
		if len(owner.headers.Get("total-capped")) > 0 != capped || got != want {
			t.Errorf("%s: the number is %d, with the headers %v; want %d, capped: %t", name, got, owner.headers, want, capped)
		}
	}
	check("10,000 notifications", owner.list(&affiliatev1.ListNotificationsRequest{}).Total, 10000, false)
	check("10,000 unread", owner.count(), 10000, false)
	f.clock.Advance(time.Hour)
	f.notify("commission.created")
	check("10,001 notifications", owner.list(&affiliatev1.ListNotificationsRequest{}).Total, 10000, true)
	check("10,001 unread", owner.count(), 10000, true)
	last := owner.list(&affiliatev1.ListNotificationsRequest{Page: ptr(int32(101)), PageSize: ptr(int32(100))})
	if len(last.Data) != 1 {
		t.Errorf("page 101 has %d rows, want 1", len(last.Data))
	}
	check("read-all", owner.readAll(everything), 10000, true)
	check("unread after read-all", owner.count(), 0, false)
	check("dismiss-read", owner.dismissRead(everything), 10000, true)
	owner.wantFeed("after dismiss-read")
}
