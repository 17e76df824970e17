package notification_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server/servertest"
)

func TestDigest_MailsGatheredNotificationsEveryHour(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	first := f.notify("commission.created")
	f.distribute()
	f.wantMails("the first notification", mailText("commission.created", f.Owner, first))

	f.clock.Advance(10 * time.Minute)
	second, third := f.notify("commission.created"), f.notify("commission.created")
	f.distribute()
	f.clock.Advance(49 * time.Minute)
	fourth := f.notify("commission.created") // not distributed when the hour is over
	f.sendDigests()
	f.wantMails("before the hour is over")

	f.clock.Advance(time.Minute)
	f.sendDigests()
	f.wantMails("when the hour is over", mailText(notification.MailTypeDigest, f.Owner, second, third, fourth))
	f.distribute()
	f.wantMails("an arrival that was mailed")

	fifth := f.notify("commission.created")
	f.distribute()
	f.clock.Advance(notification.GatherTime - time.Second)
	f.sendDigests()
	f.wantMails("before the second hour is over")
	f.clock.Advance(time.Second)
	f.sendDigests()
	f.wantMails("when the second hour is over", mailText("commission.created", f.Owner, fifth))

	f.endHour()
	f.wantMails("an hour without notifications")
	sixth := f.notify("commission.created")
	f.distribute()
	f.wantMails("the first notification after such an hour", mailText("commission.created", f.Owner, sixth))
}

// Categories and modes are gathered independently of each other.
func TestDigest_GathersEachCategoryAndMode(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeTest)
	live := affiliate.Scope{Workspace: f.Scope.Workspace, Mode: affiliate.ModeLive}
	notifyAll := func() [3]string {
		return [3]string{f.notify("commission.created"), f.notify("commission.created", in(live)), f.notify("payout.paid")}
	}
	first := notifyAll()
	f.distribute()
	f.wantMails("the first of each", mailText("commission.created", f.Owner, first[0]), mailText("commission.created", f.Owner, first[1]), mailText("payout.paid", f.Owner, first[2]))
	second, third := notifyAll(), notifyAll()
	f.distribute()
	f.wantMails("the next of each")
	f.endHour()
	f.wantMails("when the hour is over",
		mailText(notification.MailTypeDigest, f.Owner, second[0], third[0]),
		mailText(notification.MailTypeDigest, f.Owner, second[1], third[1]),
		mailText(notification.MailTypeDigest, f.Owner, second[2], third[2]))
}

func TestDigest_ShowsTwentyNotificationsAndCountsTheOthers(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	notifyMany := func(count int) (newest string) {
		ids := make([]string, count)
		for i := range ids {
			ids[i] = f.notify("commission.created")
		}
		return strings.Join(ids[max(0, count-notification.MaxMailedNotifications):], " ")
	}
	together := notifyMany(22)
	f.distribute()
	f.wantMails("22 notifications that arrive together", mailText(notification.MailTypeDigest, f.Owner, together)+" and 2 more")
	for _, tc := range []struct {
		count int
		more  string
	}{{20, ""}, {25, " and 5 more"}} {
		gathered := notifyMany(tc.count)
		f.distribute()
		f.endHour()
		f.wantMails(fmt.Sprintf("%d gathered notifications", tc.count), mailText(notification.MailTypeDigest, f.Owner, gathered)+tc.more)
	}
}

// A user who disables a category while its notifications are gathered gets no mail
// about them.
func TestDigest_ObeysChoicesOfTheMoment(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	partner := f.Join("Jane").Partner
	asPartner := servertest.AsPartner(t, partner, affiliate.ModeLive)
	gather := func() (merchant, other string) {
		f.notify("payout.paid")
		f.notifyPartner(partner, "payout.paid")
		f.distribute()
		f.newMails()
		merchant, other = f.notify("payout.paid"), f.notifyPartner(partner, "payout.paid")
		f.distribute()
		f.wantMails("gathered notifications")
		return merchant, other
	}
	gather()
	f.chooseMail(f.asOwner(), notification.CategoryPayouts, false)
	f.chooseMail(asPartner, notification.CategoryPayouts, false)
	f.endHour()
	f.wantMails("after the category was disabled")
	f.notify("payout.paid")
	f.notifyPartner(partner, "payout.paid")
	f.distribute()
	f.endHour()
	f.wantMails("new notifications while the category is off")

	f.chooseMail(f.asOwner(), notification.CategoryPayouts, true)
	f.chooseMail(asPartner, notification.CategoryPayouts, true)
	merchant, other := gather()
	f.endHour()
	f.wantMails("after the category was enabled again", mailText("payout.paid", f.Owner, merchant), mailText("payout.paid", partner, other))
}

func TestDigest_OmitsDismissedNotifications(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	owner := f.reader(inMode(f.asOwner(), affiliate.ModeLive))
	f.notify("payout.paid")
	f.distribute()
	f.newMails()
	dismissed, kept := f.notify("payout.paid"), f.notify("payout.paid")
	f.distribute()
	owner.mustDismiss(dismissed)
	f.endHour()
	f.wantMails("when the hour is over", mailText("payout.paid", f.Owner, kept))

	last := f.notify("payout.paid")
	f.distribute()
	owner.mustDismiss(last)
	f.endHour()
	f.wantMails("when all notifications were dismissed")
}

// Users who lose access while notifications are gathered get no mail about them.
func TestDigest_OmitsRemovedUsers(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	removed, moved := f.NewMember(f.Scope.Workspace, affiliate.RoleManager), f.NewMember(f.Scope.Workspace, affiliate.RoleManager)
	demoted, erased := f.NewMember(f.Scope.Workspace, affiliate.RoleManager), f.NewMember(f.Scope.Workspace, affiliate.RoleManager)
	partner := f.Join("Jane").Partner
	for range 2 {
		f.notify("participant.applied")
		f.notifyPartner(partner, "payout.paid")
		f.distribute()
	}
	if n := len(f.newMails()); n != 6 {
		t.Fatalf("%d mails about the first notifications, want one to each of 5 members and the partner", n)
	}
	f.Exec(`delete from members where user_id = $1`, removed)
	f.Exec(`update members set workspace_id = $2 where user_id = $1`, moved, f.NewWorkspace())
	f.Exec(`update members set role = 'finance' where user_id = $1`, demoted)
	f.Exec(`update users set erased_at = $2 where id = any($1)`, []affiliate.UserID{erased, partner}, f.Now())
	gathered := f.notify("participant.applied")
	f.notifyPartner(partner, "payout.paid")
	f.distribute()
	f.endHour()
	mails := f.newMails()
	if len(mails) != 1 || !strings.HasPrefix(mails[0], "digest to "+f.Owner.String()) || !strings.HasSuffix(mails[0], gathered) {
		t.Errorf("got the mails %q, want a digest to the owner only", mails)
	}
}

// Workers that run at the same time send each digest once.
func TestDigest_SeveralWorkersSendEachDigestOnce(t *testing.T) {
	t.Parallel()
	f := newMailFixture(t, affiliate.ModeLive)
	var want []string
	for range 20 {
		partner := f.Join("Jane").Partner
		f.notifyPartner(partner, "payout.paid")
		f.distribute()
		want = append(want, mailText("payout.paid", partner, f.notifyPartner(partner, "payout.paid")))
	}
	f.distribute()
	f.newMails()
	f.clock.Advance(notification.GatherTime)
	var workers sync.WaitGroup
	for range 4 {
		worker := f.newDigestWorker()
		workers.Go(func() {
			if err := worker.Work(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	f.wantMails("four workers", want...)
}
