package notification_test

import (
	"slices"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// A mail can wait while the mail server is away. It then contains only what its recipient
// still gets mails about.
func TestMailEntries_FollowTheRecipient(t *testing.T) {
	f := newFixture(t)
	manager, other := f.NewMember(f.Scope.Workspace, affiliate.RoleManager), f.NewMember(f.Scope.Workspace, affiliate.RoleManager)
	payout := f.notify(notification.Type(affiliate.EventPayoutPaid))
	about := func(user affiliate.UserID) notification.Notification {
		n := account.MemberNotification(f.Scope.Workspace, notification.NotifyPasswordChanged, user, f.Now(), nil)
		if err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error { return tx.Notify(t.Context(), n) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	own, foreign := about(manager), about(other)
	security := []notification.ID{own.ID, foreign.ID}
	want := func(when string, mode affiliate.Mode, category notification.Category, ids []notification.ID, want ...notification.ID) {
		t.Helper()
		entries, err := notifications.MailEntries(t.Context(), f.DB, manager, mode, category, ids)
		if err != nil {
			t.Fatal(err)
		}
		var got []notification.ID
		for _, e := range entries {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the mail about %s contains %v, want %v", when, category, got, want)
		}
	}
	payouts := []notification.ID{payout.ID}
	want("a manager", f.Scope.Mode, notification.CategoryPayouts, payouts, payout.ID)
	want("a manager", notification.NotificationsBothModes, notification.CategorySecurity, security, own.ID)
	f.Exec(`update members set role = 'owner' where user_id = $1`, manager)
	want("an owner", notification.NotificationsBothModes, notification.CategorySecurity, security, own.ID, foreign.ID)
	f.Exec(`insert into notification_preferences (user_id, category, email) values ($1, 'payouts', false)`, manager)
	want("mails are disabled", f.Scope.Mode, notification.CategoryPayouts, payouts)
	f.Exec(`update notification_preferences set email = true where user_id = $1`, manager)
	want("mails are enabled", f.Scope.Mode, notification.CategoryPayouts, payouts, payout.ID)
	f.Exec(`update members set role = 'viewer' where user_id = $1`, manager)
	want("a viewer", notification.NotificationsBothModes, notification.CategorySecurity, security)
	f.Exec(`delete from members where user_id = $1`, manager)
	want("a former member", f.Scope.Mode, notification.CategoryPayouts, payouts)
}
