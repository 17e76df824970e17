package account_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) changePassword(session *affiliatev1.SessionResponse, current, next, code string) error {
	f.Helper()
	req := &affiliatev1.ChangePasswordRequest{CurrentPassword: current, NewPassword: next}
	if code != "" {
		req.Code = &code
	}
	_, err := f.ChangePartnerPassword(f.as(session), req)
	return err
}

func TestChangePassword_EndsOtherSessionsAndTokens(t *testing.T) {
	f := newFixture(t)
	other := f.partner("ada@blog.example")
	reset := f.resetToken("ada@blog.example")
	session, err := f.loginPartner("ada@blog.example", password)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.changePassword(session, password, newPassword, ""); err != nil {
		t.Fatal(err)
	}
	if session, err = f.refresh(session.RefreshToken); err != nil {
		t.Errorf("the session of the call: %v, want success", err)
	}
	_, err = f.refresh(other.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	pgtest.RequireRefusal(t, f.resetPartner(reset, "a third password"), affiliate.ReasonResetToken)
	_, err = f.loginPartner("ada@blog.example", password)
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	if _, err := f.loginPartner("ada@blog.example", newPassword); err != nil {
		t.Errorf("a login with the new password: %v", err)
	}
	f.wantNotifications("after the change", session.User.Id, "both account.verify_email true", "both security.password_changed true")
	f.WantCount(1, "audit records", `select count(*) from account_audit_log where action = 'account.change_password'`)
}

func TestChangePassword_ChecksOwner(t *testing.T) {
	f := newFixture(t)
	session := f.partner("lindqvist.ada@blog.example")
	for _, guess := range []string{"Ada Lindqvist", "lindqvist.ada1", "lindqvist.ada@blog.example"} {
		pgtest.RequireRefusal(t, f.changePassword(session, password, guess, ""), affiliate.ReasonValidation, "new_password")
	}
	for _, bad := range []string{"password1234", password} {
		if found := f.Check(&affiliatev1.ChangePasswordRequest{CurrentPassword: password, NewPassword: bad}); len(found) != 1 || found[0].Field != "new_password" {
			t.Errorf("the new password %q has the violations %v, want one", bad, found)
		}
	}
	for range 10 {
		pgtest.RequireRefusal(t, f.changePassword(session, "a wrong password", newPassword, ""), affiliate.ReasonInvalidCredentials)
	}
	pgtest.RequireRefusal(t, f.changePassword(session, password, newPassword, ""), affiliate.ReasonRateLimitExceeded)
	f.clock.Advance(time.Second)
	if err := f.changePassword(session, password, newPassword, ""); err != nil {
		t.Errorf("after the wait: %v, want success", err)
	}
}

func TestChangePassword_RequiresCodeOfSecondFactor(t *testing.T) {
	f := newFixture(t)
	session, _, recovery := f.withFactor()
	for _, code := range []string{"", "000000"} {
		pgtest.RequireRefusal(t, f.changePassword(session, password, newPassword, code), affiliate.ReasonInvalidCredentials)
	}
	if err := f.changePassword(session, password, newPassword, recovery[0]); err != nil {
		t.Errorf("with a recovery code: %v, want success", err)
	}
	pgtest.RequireRefusal(t, f.changePassword(session, newPassword, password, recovery[0]), affiliate.ReasonInvalidCredentials)
}
