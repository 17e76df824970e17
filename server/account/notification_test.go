package account_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// notifications returns the notifications of a feed as text, oldest first.
func (f *fixture) notifications(feed string) []string {
	f.Helper()
	return f.Texts(`
		select concat_ws(' ', mode, type, (user_id = resource_id)::text, facts->>'network', facts->>'role')
		from notifications where feed_id = $1 order by id`, feed)
}

func (f *fixture) wantNotifications(name, feed string, want ...string) {
	f.Helper()
	if got := f.notifications(feed); !slices.Equal(got, want) {
		f.Errorf("%s: the notifications are %q, want %q", name, got, want)
	}
}

func TestLogin_NotifiesAboutNewDevices(t *testing.T) {
	f := newFixture(t)
	client := f.inServer(t, f.DB)
	const home, office = "203.0.113.9", "198.51.100.7"
	partner, err := client.RegisterPartner(callFrom(t, home, "Browser/1"), &affiliatev1.RegisterPartnerRequest{Email: "pat@example.com", Password: password, Name: "Pat"})
	if err != nil {
		t.Fatal(err)
	}
	feed := partner.User.Id
	const created = "both account.verify_email true"
	login := func(address, agent, password string) error {
		f.clock.Advance(time.Minute)
		_, err := client.LoginPartner(callFrom(t, address, agent), &affiliatev1.LoginRequest{Email: "pat@example.com", Password: password})
		return err
	}
	mustLogin := func(address, agent string) {
		t.Helper()
		if err := login(address, agent, password); err != nil {
			t.Fatal(err)
		}
	}
	mustLogin(home, "Browser/1")
	mustLogin("203.0.113.10", "Browser/2.3")
	f.wantNotifications("the device of the registration", feed, created)
	if err := login(office, "Browser/1", "a wrong password"); err == nil {
		t.Fatal("a login with a wrong password succeeded")
	}
	f.wantNotifications("a failed login", feed, created)

	mustLogin(office, "Browser/1")
	mustLogin(office, "Browser/2")
	const atOffice, other, unknown = "both security.new_device true 198.51.100.0/24", "both security.new_device true 203.0.113.0/24", "both security.new_device true 203.0.113.0/24"
	f.wantNotifications("a new network", feed, created, atOffice)
	mustLogin(home, "Other/1")
	mustLogin(home, "")
	f.wantNotifications("new browsers", feed, created, atOffice, other, unknown)

	f.clock.Advance(account.DeviceMemory - 10*time.Minute)
	mustLogin(home, "Browser/3")
	f.wantNotifications("within 90 days", feed, created, atOffice, other, unknown)
	f.clock.Advance(account.DeviceMemory)
	mustLogin(home, "Browser/3")
	f.wantNotifications("after 90 days", feed, created, atOffice, other, unknown, other)
}

func TestLogin_NotifiesTheWorkspaceOfAMember(t *testing.T) {
	f := newFixture(t)
	client := f.inServer(t, f.DB)
	owner := f.merchant("mara@example.com")
	f.clock.Advance(time.Minute)
	if _, err := client.LoginMerchant(callFrom(t, "2001:db8:1:2::3", "Browser/1"), &affiliatev1.LoginRequest{Email: "mara@example.com", Password: password}); err != nil {
		t.Fatal(err)
	}
	f.wantNotifications("a new device", owner.Workspace.Id, "both account.verify_email true", "both security.new_device true 2001:db8:1::/48")
}

// A refresh makes a device known, because the session was opened with the password.
func TestRefresh_RemembersTheDevice(t *testing.T) {
	f := newFixture(t)
	client := f.inServer(t, f.DB)
	partner := f.partner("pat@example.com")
	train := callFrom(t, "198.51.100.7", "Browser/1")
	if _, err := client.RefreshPartnerSession(train, &affiliatev1.RefreshSessionRequest{RefreshToken: partner.RefreshToken}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.LoginPartner(train, &affiliatev1.LoginRequest{Email: "pat@example.com", Password: password}); err != nil {
		t.Fatal(err)
	}
	f.wantNotifications("a device that was refreshed", partner.User.Id, "both account.verify_email true")
}

func TestChanges_NotifyTheUser(t *testing.T) {
	f := newFixture(t)
	partner := f.partner("pat@example.com")
	feed := partner.User.Id
	f.clock.Advance(time.Minute)
	if _, err := f.ResendPartnerVerification(f.as(partner), &affiliatev1.ResendVerificationRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := f.verify(f.takeMail(notification.MailVerification, "pat@example.com").token); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Minute)
	if err := f.verify(f.requestChange(partner, "pia@example.com")); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Minute)
	if err := f.resetPartner(f.resetToken("pia@example.com"), "another long password"); err != nil {
		t.Fatal(err)
	}
	f.wantNotifications("changes", feed,
		"both account.verify_email true", "both account.email_verified true", "both security.email_changed true", "both security.password_changed true")
}

func TestAcceptInvite_NotifiesTheWorkspace(t *testing.T) {
	f := newFixture(t)
	owner := f.merchant("mara@example.com")
	f.clock.Advance(time.Minute)
	invite := f.team(owner).invite("finn@example.com", affiliatev1.Role_ROLE_FINANCE)
	if _, err := f.accept(invite.Token, "Finn", password); err != nil {
		t.Fatal(err)
	}
	got := f.notifications(owner.Workspace.Id)
	slices.Sort(got)
	if want := []string{"both account.member_joined true finance", "both account.verify_email true", "both account.verify_email true"}; !slices.Equal(got, want) {
		t.Errorf("the notifications are %q, want %q", got, want)
	}
}
