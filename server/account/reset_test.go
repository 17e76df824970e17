package account_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const newPassword = "a different horse battery"

func (f *fixture) forgotPartner(email string) {
	f.Helper()
	if _, err := f.ForgotPartnerPassword(f.Context(), &affiliatev1.ForgotPasswordRequest{Email: email}); err != nil {
		f.Fatal(err)
	}
}

// resetToken requests the reset of a partner's password and returns the token of the mail.
func (f *fixture) resetToken(email string) string {
	f.Helper()
	f.takeMails()
	f.forgotPartner(strings.ToUpper(email))
	f.runRequests()
	return f.takeMail(notification.MailPasswordReset, email).token
}

func (f *fixture) resetPartner(token, password string) error {
	_, err := f.ResetPartnerPassword(f.Context(), &affiliatev1.ResetPasswordRequest{Token: token, Password: password})
	return err
}

func TestResetPassword_EndsSessionsAndTokens(t *testing.T) {
	f := newFixture(t)
	session, err := f.RegisterPartner(t.Context(), &affiliatev1.RegisterPartnerRequest{Email: "ada@blog.example", Password: password, Name: "Ada Lindqvist"})
	if err != nil {
		t.Fatal(err)
	}
	verification := f.takeMail(notification.MailVerification, "ada@blog.example").token
	change := f.requestChange(session, "eve@blog.example")
	other, token := f.resetToken("ada@blog.example"), f.resetToken("ada@blog.example")
	// This request was not processed when the password is reset.
	if err := f.changePartner(session, "eva@blog.example", password); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		_, err := f.loginPartner("ada@blog.example", "a wrong password")
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	}
	if err := f.resetPartner(token, newPassword); err != nil {
		t.Fatal(err)
	}

	f.WantCount(0, "sessions", `select count(*) from sessions where revoked_at is null`)
	_, err = f.refresh(session.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	pgtest.RequireRefusal(t, f.resetPartner(token, newPassword), affiliate.ReasonResetToken)
	pgtest.RequireRefusal(t, f.resetPartner(other, newPassword), affiliate.ReasonResetToken)
	pgtest.RequireRefusal(t, f.verify(verification), affiliate.ReasonVerificationToken)
	pgtest.RequireRefusal(t, f.verify(change), affiliate.ReasonVerificationToken)
	f.runRequests()
	if mails := f.takeMails(); len(mails) != 0 {
		t.Errorf("a change that was requested before the reset sends %v, want nothing", mails)
	}
	// The failed logins before the reset do not delay a login with the new password.
	if session, err = f.loginPartner("ada@blog.example", newPassword); err != nil || !session.User.EmailVerified {
		t.Errorf("a login with the new password returned %v, %v, want a verified address", session, err)
	}
	_, err = f.loginPartner("ada@blog.example", password)
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	f.WantCount(1, "audit records", `select count(*) from account_audit_log where action = 'account.reset_password'`)
}

func TestResetPassword_RefusedPasswordKeepsToken(t *testing.T) {
	f := newFixture(t)
	f.partner("lindqvist.ada@blog.example")
	token := f.resetToken("lindqvist.ada@blog.example")
	if found := f.Check(&affiliatev1.ResetPasswordRequest{Token: token, Password: "password1234"}); len(found) != 1 || found[0].Field != "password" {
		t.Errorf("a common password has the violations %v, want one", found)
	}
	for _, guess := range []string{"Ada Lindqvist", "adalindqvist99", "lindqvist.ada@blog.example", "LindqvistAda1"} {
		pgtest.RequireRefusal(t, f.resetPartner(token, guess), affiliate.ReasonValidation, "password")
	}
	if err := f.resetPartner(token, newPassword); err != nil {
		t.Errorf("after refused passwords: %v, want success", err)
	}
}

func TestResetPassword_RejectsToken(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct {
		name, email string
		reset       func(token string) error
	}{
		{"unknown", "a@blog.example", func(token string) error { return f.resetPartner(token+"x", newPassword) }},
		{"of the other kind", "b@blog.example", func(token string) error {
			_, err := f.ResetMerchantPassword(t.Context(), &affiliatev1.ResetPasswordRequest{Token: token, Password: newPassword})
			return err
		}},
		{"after the address has changed", "c@blog.example", func(token string) error {
			f.Exec(`update users set email = 'd@blog.example' where email = 'c@blog.example'`)
			return f.resetPartner(token, newPassword)
		}},
		{"of an erased account", "e@blog.example", func(token string) error {
			f.Exec(`update users set erased_at = now() where email = 'e@blog.example'`)
			return f.resetPartner(token, newPassword)
		}},
		{"expired", "f@blog.example", func(token string) error {
			f.clock.Advance(time.Hour)
			return f.resetPartner(token, newPassword)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.partner(tc.email)
			pgtest.RequireRefusal(t, tc.reset(f.resetToken(tc.email)), affiliate.ReasonResetToken)
		})
	}
}

func TestForgotPassword_SendsNothingToUnknownAddress(t *testing.T) {
	f := newFixture(t)
	f.partner("ada@blog.example")
	removed := f.NewMerchant("removed")
	for _, email := range []string{"eve@blog.example", f.Texts(`select email from users where id = $1`, removed)[0], "ada@blog.example"} {
		if _, err := f.ForgotMerchantPassword(t.Context(), &affiliatev1.ForgotPasswordRequest{Email: email}); err != nil {
			t.Fatal(err)
		}
	}
	f.forgotPartner("eve@blog.example")
	f.runRequests()
	if mails := f.takeMails(); len(mails) != 0 {
		t.Errorf("got the mails %v, want none", mails)
	}
}

// The tokens with which merchants let partners claim their accounts do not use up the limit.
func TestForgotPassword_CountsNoTokensOfNewAccounts(t *testing.T) {
	f := newFixture(t)
	f.partner("ada@blog.example")
	f.takeMails()
	for i := range 3 {
		f.Exec(`
			insert into email_tokens (digest, user_id, purpose, address, created_at, expires_at)
			select sha256($2::text::bytea), id, 'reset', email, $1, $1::timestamptz + interval '7 days' from users where email = 'ada@blog.example'`, f.Now(), strconv.Itoa(i))
	}
	f.resetToken("ada@blog.example")
}

func TestForgotPassword_SendsThreeMailsInAnHour(t *testing.T) {
	f := newFixture(t)
	f.partner("ada@blog.example")
	f.merchant("ada@blog.example")
	f.takeMails()
	for range 5 {
		f.forgotPartner("ada@blog.example")
		if _, err := f.ForgotMerchantPassword(t.Context(), &affiliatev1.ForgotPasswordRequest{Email: "ada@blog.example"}); err != nil {
			t.Fatal(err)
		}
	}
	f.runRequests() // in parallel
	if mails := f.takeMails(); len(mails) != 3 {
		t.Errorf("%d mails, want 3 for both accounts of the address", len(mails))
	}
	f.clock.Advance(time.Hour - time.Millisecond)
	f.forgotPartner("ada@blog.example")
	f.runRequests()
	if mails := f.takeMails(); len(mails) != 0 {
		t.Errorf("%d mails before an hour has passed, want none", len(mails))
	}
	f.clock.Advance(time.Millisecond)
	f.resetToken("ada@blog.example")
}
