package account_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

var keyB = []byte("the next hash key")

// rotate continues with other hash keys, as after a restart of the core.
func (f *fixture) rotate(keys ...[]byte) {
	f.hashKeys = keys
	f.Service = f.newService(f.DB)
}

func (f *fixture) tryLogin(password string) error {
	_, err := f.LoginPartner(f.Context(), &affiliatev1.LoginRequest{Email: "pat@example.com", Password: password})
	return err
}

// failLogins makes ten attempts with a wrong password, after which the next one has to wait.
func (f *fixture) failLogins() {
	f.Helper()
	for range 10 {
		pgtest.RequireRefusal(f.TB, f.tryLogin("a wrong password"), affiliate.ReasonInvalidCredentials)
	}
}

func TestLogin_StaysLimitedAfterRotationOfTheHashKey(t *testing.T) {
	f := newFixture(t)
	keyA := hashKeys.First()
	f.partner("pat@example.com")
	f.failLogins()

	f.rotate(keyB, keyA)
	pgtest.RequireRefusal(t, f.tryLogin(password), affiliate.ReasonRateLimitExceeded)
	f.clock.Advance(time.Second)
	pgtest.RequireRefusal(t, f.tryLogin("a wrong password"), affiliate.ReasonInvalidCredentials)
	f.WantCount(1, "failures under the key B", `select count(*) from login_failures where subject = $1`,
		account.LoginSubject(affiliate.HashKeys{keyB}, affiliate.Partner, "pat@example.com").First())
	pgtest.RequireRefusal(t, f.tryLogin(password), affiliate.ReasonRateLimitExceeded)
	f.clock.Advance(2 * time.Second)
	if err := f.tryLogin(password); err != nil {
		t.Fatal(err)
	}
	f.WantCount(0, "failures after a login", `select count(*) from login_failures`)

	f.failLogins()
	f.rotate(keyA)
	if err := f.tryLogin(password); err != nil {
		t.Errorf("without the key B, the failures still count: %v", err)
	}
}

func TestLogin_KnowsDevicesOfEarlierHashKeys(t *testing.T) {
	f := newFixture(t)
	keyA := hashKeys.First()
	const home, known, unknown = "203.0.113.9", "both account.verify_email true", "both security.new_device true 203.0.113.0/24"
	login := func() {
		t.Helper()
		f.clock.Advance(time.Minute)
		client := f.inServer(t, f.DB)
		if _, err := client.LoginPartner(callFrom(t, home, "Browser/1"), &affiliatev1.LoginRequest{Email: "pat@example.com", Password: password}); err != nil {
			t.Fatal(err)
		}
	}
	partner, err := f.inServer(t, f.DB).RegisterPartner(callFrom(t, home, "Browser/1"), &affiliatev1.RegisterPartnerRequest{
		Email: "pat@example.com", Password: password, Name: "Pat",
	})
	if err != nil {
		t.Fatal(err)
	}
	feed := partner.User.Id
	f.rotate(keyB, keyA)
	login()
	f.wantNotifications("a device of the key A", feed, known)
	f.rotate(keyB)
	login()
	f.wantNotifications("the device under the key B", feed, known)
	f.rotate([]byte("a third key"))
	login()
	f.wantNotifications("a device of removed keys", feed, known, unknown)
}

func TestResend_KnowsSuppressionsOfEarlierHashKeys(t *testing.T) {
	f := newFixture(t)
	keyA := hashKeys.First()
	partner := f.partner("pat@example.com")
	f.Exec(`update users set email_verified_at = created_at`)
	resend := func() bool {
		t.Helper()
		got, err := f.ResendPartnerVerification(f.as(partner), &affiliatev1.ResendVerificationRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Sent
	}
	f.Insert("mail_suppressions", pgtest.Row{"digest": notification.MailDigest(hashKeys, "pat@example.com").First(), "reason": "bounced", "created_at": f.Now()})
	f.rotate(keyB)
	if resend() {
		t.Error("a suppression of a removed key was found")
	}
	f.rotate(keyB, keyA)
	if !resend() {
		t.Fatal("the suppression of the key A was not found")
	}
	if err := f.verify(f.takeMail(notification.MailVerification, "pat@example.com").token); err != nil {
		t.Fatal(err)
	}
	f.WantCount(0, "suppressed addresses", `select count(*) from mail_suppressions`)
}
