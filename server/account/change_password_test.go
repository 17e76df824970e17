package account_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

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

func TestUpdateMerchantAccount_ChangesNamedFields(t *testing.T) {
	f := newFixture(t)
	session := f.merchant("mara@shop.example")
	if session.User.Locale != "en" {
		t.Errorf("a new account has the locale %q, want en", session.User.Locale)
	}
	update := func(req *affiliatev1.UpdateMerchantAccountRequest, paths ...string) *affiliatev1.User {
		t.Helper()
		req.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
		user, err := f.UpdateMerchantAccount(f.as(session), req)
		if err != nil || len(f.Check(req)) > 0 {
			t.Fatalf("UpdateMerchantAccount: %v; violations %v", err, f.Check(req))
		}
		return user
	}
	if user := update(&affiliatev1.UpdateMerchantAccountRequest{Locale: "de"}, "locale"); user.Name != "Mara" || user.Locale != "de" || user.Role != affiliatev1.Role_ROLE_OWNER {
		t.Errorf("after a change of the locale: %v", user)
	}
	update(&affiliatev1.UpdateMerchantAccountRequest{Name: "Mara Mustermann", Locale: "de"}, "name", "locale")
	update(&affiliatev1.UpdateMerchantAccountRequest{Name: "Mara Mustermann"}, "name")
	session, err := f.refresh(session.RefreshToken)
	if err != nil || session.User.Name != "Mara Mustermann" || session.User.Locale != "de" {
		t.Errorf("the session has the user %v, %v", session, err)
	}
	got := f.Texts(`select after::text from audit_log where action = 'account.update' order by 1`)
	if want := []string{`{"changed": ["locale"]}`, `{"changed": ["name"]}`}; !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
	for field, req := range map[string]*affiliatev1.UpdateMerchantAccountRequest{
		"name":   {UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}},
		"locale": {UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"locale"}}},
	} {
		if found := f.Check(req); len(found) != 1 || found[0].Field != field {
			t.Errorf("an empty %s has the violations %v, want one", field, found)
		}
	}
}
