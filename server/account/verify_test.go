package account_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// A verified address that mails are held back from can be verified again.
func TestResend_EndsASuppression(t *testing.T) {
	f := newFixture(t)
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
	if resend() {
		t.Error("a verification was sent to a verified address that receives mail")
	}
	f.Insert("mail_suppressions", pgtest.Row{"digest": notification.MailDigest(hashKeys, "pat@example.com").First(), "reason": "bounced", "created_at": f.Now()})
	if !resend() {
		t.Fatal("no verification was sent to a suppressed address")
	}
	if err := f.verify(f.takeMail(notification.MailVerification, "pat@example.com").token); err != nil {
		t.Fatal(err)
	}
	f.WantCount(0, "suppressed addresses", `select count(*) from mail_suppressions`)
	if resend() {
		t.Error("a verification was sent after the suppression has ended")
	}
}

func TestVerifyEmail_VerifiesOnce(t *testing.T) {
	f := newFixture(t)
	session := f.merchant("Mara@shop.example")
	if session.User.EmailVerified {
		t.Error("the address is verified after the registration")
	}
	f.Insert("mail_suppressions", pgtest.Row{
		"digest": notification.MailDigest(hashKeys, "mara@shop.example").First(), "reason": "bounced", "created_at": f.Now(),
	})
	mail := f.takeMail(notification.MailVerification, "mara@shop.example")
	if mail.Facts.ExpiresAt == nil || !mail.Facts.ExpiresAt.Equal(f.Now().Add(24*time.Hour)) {
		t.Errorf("the link expires at %v, want a day after the registration", mail.Facts.ExpiresAt)
	}
	f.clock.Advance(24*time.Hour - time.Millisecond)
	response, err := f.VerifyEmail(t.Context(), &affiliatev1.VerifyEmailRequest{Token: mail.token})
	if err != nil || !response.Verified || response.Kind != affiliatev1.AccountKind_ACCOUNT_KIND_MERCHANT {
		t.Fatalf("VerifyEmail returned %v, %v, want a verified merchant", response, err)
	}
	pgtest.RequireRefusal(t, f.verify(mail.token), affiliate.ReasonVerificationToken)
	if session, err = f.refresh(session.RefreshToken); err != nil || !session.User.EmailVerified {
		t.Errorf("a refresh after the verification returned %v, %v, want a verified address", session, err)
	}
	f.WantCount(0, "suppressed addresses", `select count(*) from mail_suppressions`)
	f.WantCount(1, "audit records", `select count(*) from audit_log where action = 'account.verify_email' and actor = $1`, session.User.Id)
}

func TestVerifyEmail_RejectsToken(t *testing.T) {
	f := newFixture(t)
	verification := func(email string) string {
		f.merchant(email)
		return f.takeMail(notification.MailVerification, email).token
	}
	for _, tc := range []struct {
		name  string
		token func() string
	}{
		{"unknown", func() string { return "ver_" + verification("a@shop.example")[5:] }},
		{"of a reset", func() string {
			f.partner("b@blog.example")
			return f.resetToken("b@blog.example")
		}},
		{"after the address has changed", func() string {
			token := verification("c@shop.example")
			f.Exec(`update users set email = 'd@shop.example' where email = 'c@shop.example'`)
			return token
		}},
		{"of an erased account", func() string {
			token := verification("e@shop.example")
			f.Exec(`update users set erased_at = now() where email = 'e@shop.example'`)
			return token
		}},
		{"expired", func() string {
			token := verification("f@shop.example")
			f.clock.Advance(24 * time.Hour)
			return token
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pgtest.RequireRefusal(t, f.verify(tc.token()), affiliate.ReasonVerificationToken)
		})
	}
}

func TestVerifyEmail_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	f.merchant("mara@shop.example")
	token := f.takeMail(notification.MailVerification, "mara@shop.example").token
	errs := make([]error, 8)
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() { errs[i] = f.verify(token) })
	}
	calls.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonVerificationToken)
	}
	if succeeded != 1 {
		t.Errorf("%d of 8 parallel calls succeeded, want 1", succeeded)
	}
}

func TestResendVerification_SendsUntilVerified(t *testing.T) {
	f := newFixture(t)
	session := f.partner("ada@blog.example")
	resend := func() bool {
		t.Helper()
		response, err := f.ResendPartnerVerification(f.as(session), &affiliatev1.ResendVerificationRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return response.Sent
	}
	if !resend() {
		t.Fatal("no mail is sent although the address is not verified")
	}
	first := f.takeMail(notification.MailVerification, "ada@blog.example").token
	if !resend() {
		t.Fatal("no second mail is sent")
	}
	f.takeMails()
	if err := f.verify(first); err != nil {
		t.Errorf("the token of the earlier mail: %v, want success", err)
	}
	if resend() || len(f.takeMails()) != 0 {
		t.Error("a mail is sent although the address is verified")
	}
	f.WantCount(1, "audit records", `select count(*) from account_audit_log where action = 'account.verify_email'`)
}

func TestAcceptInvite_SendsVerificationAndRevokesTokens(t *testing.T) {
	f := newFixture(t)
	shop := f.team(f.merchant("owner@shop.example"))
	join := func() (session *affiliatev1.SessionResponse, token string) {
		t.Helper()
		invite := shop.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER)
		f.takeMails()
		session, err := f.accept(invite.Token, "Ada", password)
		if err != nil || session.User.EmailVerified {
			t.Fatalf("AcceptInvite returned %v, %v, want an address that is not verified", session, err)
		}
		return session, f.takeMail(notification.MailVerification, "ada@example.com").token
	}
	session, earlier := join()
	shop.remove(session.User.Id)
	_, token := join()
	pgtest.RequireRefusal(t, f.verify(earlier), affiliate.ReasonVerificationToken)
	if err := f.verify(token); err != nil {
		t.Errorf("the token of the new member: %v, want success", err)
	}
}

func TestLogin_RejectsPasswordThatIsResetMeanwhile(t *testing.T) {
	f := newFixture(t)
	f.partner("ada@blog.example")
	token := f.resetToken("ada@blog.example")
	// The password is reset after the login has read the account.
	var reset atomic.Bool
	late := f.newService(f.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "insert into login_failures") && reset.CompareAndSwap(false, true) {
			if err := f.resetPartner(token, newPassword); err != nil {
				t.Error(err)
			}
		}
		return nil
	}))
	_, err := late.LoginPartner(t.Context(), &affiliatev1.LoginRequest{Email: "ada@blog.example", Password: password})
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	f.WantCount(0, "sessions", `select count(*) from sessions where revoked_at is null`)
	if !reset.Load() {
		t.Error("the password was not reset during the login")
	}
}
