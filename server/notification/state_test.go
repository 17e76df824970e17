package notification_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
)

func TestRead_IsPerUserAndIdempotent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, other := f.notify("commission.created"), f.notify("commission.created")
	owner, manager := f.reader(f.asOwner()), f.reader(f.newReader(affiliate.RoleManager))
	owner.wantUnread("before", 2)
	readAt := f.Now()
	for range 2 {
		if got := owner.mustRead(id); !got.Read || !got.ReadAt.AsTime().Equal(readAt) || got.DismissedAt != nil || got.Id != id {
			t.Errorf("read returned %v, want the time %s of the first call", got, readAt)
		}
		f.clock.Advance(time.Minute)
	}
	owner.wantUnread("after reading one", 1)
	manager.wantUnread("another member", 2)
	for _, n := range owner.list(&affiliatev1.ListNotificationsRequest{}).Data {
		if n.Read != (n.Id == id) || n.Read && !n.ReadAt.AsTime().Equal(readAt) {
			t.Errorf("the feed contains %v, want only %s to be read at %s", n, id, readAt)
		}
	}
	owner.mustRead(other)
	owner.wantUnread("after reading both", 0)
}

func TestReadAll_MarksCategoryBeforeTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner, manager := f.reader(f.asOwner()), f.reader(f.newReader(affiliate.RoleManager))
	first, _ := f.notify("commission.created"), f.notify("conversion.created")
	f.clock.Advance(time.Hour)
	before := f.Now()
	f.notify("commission.created")
	f.notify("gdpr.export_ready")
	owner.mustRead(first)

	// The first commission is read already, and the second is not before the time.
	commissions := affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_COMMISSIONS
	if n := owner.readAll(&affiliatev1.SelectNotificationsRequest{Category: commissions, Before: timestamppb.New(before)}); n != 0 {
		t.Errorf("read-all of the commissions before the time changed %d notifications, want 0", n)
	}
	if n := owner.readAll(&affiliatev1.SelectNotificationsRequest{Before: timestamppb.New(before)}); n != 1 {
		t.Errorf("read-all before the time changed %d notifications, want 1", n)
	}
	owner.wantUnread("after read-all before the time", 2)
	if n := owner.readAll(&affiliatev1.SelectNotificationsRequest{Category: commissions}); n != 1 {
		t.Errorf("read-all of the commissions changed %d notifications, want 1", n)
	}
	readAt := f.Now()
	f.clock.Advance(time.Minute)
	for _, want := range []int64{1, 0} {
		if n := owner.readAll(everything); n != want {
			t.Errorf("read-all changed %d notifications, want %d", n, want)
		}
	}
	owner.wantUnread("after read-all", 0)
	manager.wantUnread("another member", 4)
	for _, n := range owner.list(&affiliatev1.ListNotificationsRequest{Category: commissions}).Data {
		if !n.Read || n.ReadAt.AsTime().After(readAt.Add(time.Minute)) {
			t.Errorf("the feed contains %v, want it to be read", n)
		}
	}
	f.notify("commission.created")
	owner.wantUnread("a notification after read-all", 1)
	// A time in the past does not make notifications unread again, and a time in the
	// future is the same as now.
	owner.readAll(&affiliatev1.SelectNotificationsRequest{Before: timestamppb.New(before)})
	owner.wantUnread("after read-all with an earlier time", 1)
	if n := owner.readAll(&affiliatev1.SelectNotificationsRequest{Before: timestamppb.New(f.Now().AddDate(1, 0, 0))}); n != 1 {
		t.Errorf("read-all with a time in the future changed %d notifications, want 1", n)
	}
	f.clock.Advance(time.Second)
	f.notify("commission.created")
	owner.wantUnread("a notification after read-all with a time in the future", 1)
}

func TestReadAll_CoversOnlyCategoriesOfTheCaller(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.notify("commission.created")
	f.notify("webhook.disabled")
	member := f.NewMember(f.Scope.Workspace, affiliate.RoleFinance)
	finance := f.reader(f.as(member, affiliate.RoleFinance))
	if n := finance.readAll(everything); n != 1 {
		t.Errorf("read-all changed %d notifications, want 1", n)
	}
	if n := finance.readAll(&affiliatev1.SelectNotificationsRequest{Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_WEBHOOK_HEALTH}); n != 0 {
		t.Errorf("read-all of a category of other roles changed %d notifications, want 0", n)
	}
	f.reader(f.as(member, affiliate.RoleAdmin)).wantUnread("the same user as an admin", 1)
}

func TestDismiss_IsForAllMembersAndIdempotent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, kept := f.notify("commission.created"), f.notify("commission.created")
	owner, viewer := f.reader(f.asOwner()), f.reader(f.newReader(affiliate.RoleViewer))
	dismissedAt := f.Now()
	for range 2 {
		if got := viewer.mustDismiss(id); !got.DismissedAt.AsTime().Equal(dismissedAt) || got.Read {
			t.Errorf("dismiss returned %v, want the time %s of the first call and not read", got, dismissedAt)
		}
		f.clock.Advance(time.Minute)
	}
	for name, r := range map[string]*reader{"the viewer": viewer, "the owner": owner} {
		r.wantFeed(name, kept)
		r.wantUnread(name, 1)
	}
	// A dismissed notification can still be read, for example from a mail.
	if got := owner.mustRead(id); !got.Read || !got.DismissedAt.AsTime().Equal(dismissedAt) {
		t.Errorf("reading a dismissed notification returned %v", got)
	}
	owner.wantUnread("after reading a dismissed notification", 1)
}

func TestDismissRead_RemovesReadNotificationsFromFeed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner, manager := f.reader(f.asOwner()), f.reader(f.newReader(affiliate.RoleManager))
	var ids []string
	for range 3 {
		ids = append(ids, f.notify("commission.created"))
	}
	conversion := f.notify("conversion.created")
	f.clock.Advance(time.Hour)
	if n := owner.dismissRead(everything); n != 0 {
		t.Errorf("dismiss-read without read notifications changed %d, want 0", n)
	}
	owner.mustRead(ids[1])
	if n := owner.dismissRead(everything); n != 1 {
		t.Errorf("dismiss-read changed %d notifications, want only the notification that was read", n)
	}
	manager.wantFeed("another member", conversion, ids[2], ids[0])

	// The manager has read everything by a watermark, but dismisses only commissions.
	manager.readAll(everything)
	later := f.notify("commission.created")
	commissions := affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_COMMISSIONS
	if n := manager.dismissRead(&affiliatev1.SelectNotificationsRequest{Category: commissions}); n != 2 {
		t.Errorf("dismiss-read of the commissions changed %d notifications, want 2", n)
	}
	for name, r := range map[string]*reader{"the owner": owner, "the manager": manager} {
		r.wantFeed(name, later, conversion)
	}
	got, err := owner.read(ids[0])
	if err != nil || got.DismissedAt == nil {
		t.Errorf("reading a notification below the watermark returned %v, %v, want the time of its dismissal", got, err)
	}
	owner.wantUnread("the owner", 2)
}

func TestDismissRead_KeepsNotificationsAfterTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.reader(f.asOwner())
	f.notify("commission.created")
	single := f.notify("conversion.created")
	f.clock.Advance(time.Hour)
	before := f.Now()
	after, afterSingle := f.notify("commission.created"), f.notify("conversion.created")
	owner.readAll(&affiliatev1.SelectNotificationsRequest{Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_COMMISSIONS})
	owner.mustRead(single)
	owner.mustRead(afterSingle)
	if n := owner.dismissRead(&affiliatev1.SelectNotificationsRequest{Before: timestamppb.New(before)}); n != 2 {
		t.Errorf("dismiss-read changed %d notifications, want 2", n)
	}
	owner.wantFeed("after dismiss-read", afterSingle, after)
	if n := owner.dismissRead(everything); n != 2 {
		t.Errorf("the second dismiss-read changed %d notifications, want 2", n)
	}
	owner.wantFeed("after the second dismiss-read")
}

// A member who does not see the personal notifications of others must not dismiss them
// by dismiss-read.
func TestDismissRead_KeepsPersonalNotificationsOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	finn := f.NewMember(f.Scope.Workspace, affiliate.RoleAdmin)
	ofFinn, ofOwner := f.notify("security.password_changed", about(finn)), f.notify("security.password_changed", about(f.Owner))
	single := f.notify("security.new_device", about(finn))
	admin, owner := f.reader(f.as(finn, affiliate.RoleAdmin)), f.reader(f.asOwner())
	admin.mustRead(single)
	if n := admin.dismissRead(everything); n != 1 {
		t.Errorf("dismiss-read of a single notification changed %d, want 1", n)
	}
	admin.readAll(everything)
	if n := admin.dismissRead(everything); n != 1 {
		t.Errorf("dismiss-read changed %d notifications, want 1", n)
	}
	owner.wantFeed("the owner", ofOwner)
	owner.readAll(everything)
	third := f.notify("security.new_device", about(finn))
	if n := owner.dismissRead(everything); n != 1 {
		t.Errorf("dismiss-read by the owner changed %d notifications, want 1", n)
	}
	owner.wantFeed("the owner after dismiss-read", third)
	if got := owner.mustRead(ofFinn); got.DismissedAt == nil {
		t.Error("the notification that the user has dismissed is not dismissed for the owner")
	}
}

func TestState_OfPartner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jane := f.NewPartner("Jane")
	first, second := f.notifyPartner(jane, "commission.created"), f.notifyPartner(jane, "payout.paid")
	third := f.notifyPartner(jane, "security.password_changed", about(jane))
	partner := f.reader(servertest.AsPartner(t, jane, affiliate.ModeTest))
	partner.wantFeed("the partner", third, second, first)
	partner.wantUnread("before", 3)
	partner.mustRead(first)
	partner.wantUnread("after reading one", 2)
	partner.mustDismiss(second)
	partner.wantFeed("after dismissing one", third, first)
	if n := partner.readAll(everything); n != 1 {
		t.Errorf("read-all changed %d notifications, want 1", n)
	}
	if n := partner.dismissRead(everything); n != 2 {
		t.Errorf("dismiss-read changed %d notifications, want 2", n)
	}
	partner.wantFeed("after dismiss-read")
}

// Calls that run at the same time must not all report the same notifications.
func TestReadAllAndDismissRead_CountEachNotificationOnceInConcurrentCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const notifications, calls = 20, 8
	for range notifications {
		f.notify("commission.created")
	}
	owner, manager := f.asOwner(), f.newReader(affiliate.RoleManager)
	f.reader(manager).readAll(everything)
	for _, c := range []struct {
		name string
		call func(context.Context, *affiliatev1.SelectNotificationsRequest) (*affiliatev1.UpdatedNotifications, error)
	}{
		{"read-all", f.service.ReadAllNotifications},
		{"dismiss-read", f.service.DismissReadNotifications},
	} {
		var wait sync.WaitGroup
		var updated atomic.Int64
		for i := range calls {
			caller := owner
			if c.name == "dismiss-read" && i%2 == 0 {
				caller = manager
			}
			wait.Go(func() {
				got, err := c.call(f.reader(caller).callContext(), everything)
				if err != nil {
					t.Errorf("%s returned %v", c.name, err)
				}
				updated.Add(got.GetUpdated())
			})
		}
		wait.Wait()
		if updated.Load() != notifications {
			t.Errorf("%d concurrent calls of %s have changed %d notifications, want %d in all of them", calls, c.name, updated.Load(), notifications)
		}
	}
}

// The time in the response of each call is the stored time.
func TestReadAndDismiss_ReturnStoredTimeInConcurrentCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.notify("commission.created")
	for _, call := range []func(*reader) (*affiliatev1.Notification, error){
		func(r *reader) (*affiliatev1.Notification, error) { return r.read(id) },
		func(r *reader) (*affiliatev1.Notification, error) { return r.dismiss(id) },
	} {
		var wait sync.WaitGroup
		got := make([]*affiliatev1.Notification, 8)
		for i := range got {
			wait.Go(func() {
				f.clock.Advance(time.Second)
				var err error
				if got[i], err = call(f.reader(f.asOwner())); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		stored, err := call(f.reader(f.asOwner()))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range got {
			if !proto.Equal(n, stored) {
				t.Errorf("a concurrent call returned %v, but %v is stored", n, stored)
			}
		}
	}
}
