package account_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const factorEmail = "ada@blog.example"

// code returns the code that an authenticator app with a secret shows at a time.
func (f *fixture) code(secret string, at time.Time) string {
	f.Helper()
	code, err := totp.GenerateCode(secret, at)
	if err != nil {
		f.Fatal(err)
	}
	return code
}

// withFactor registers a partner with a second factor. The code of the current time step is
// used.
func (f *fixture) withFactor() (session *affiliatev1.SessionResponse, secret string, recovery []string) {
	f.Helper()
	session = f.partner(factorEmail)
	secret, recovery = f.enableFactor(session)
	return session, secret, recovery
}

// enableFactor enables a second factor for the partner of a session.
func (f *fixture) enableFactor(session *affiliatev1.SessionResponse) (secret string, recovery []string) {
	f.Helper()
	secret, err := f.enroll(session, password)
	if err != nil {
		f.Fatal(err)
	}
	confirmed, err := f.ConfirmPartnerTotp(f.as(session), &affiliatev1.ConfirmTotpRequest{Code: f.code(secret, f.Now())})
	if err != nil {
		f.Fatal(err)
	}
	return secret, confirmed.RecoveryCodes
}

func (f *fixture) enroll(session *affiliatev1.SessionResponse, password string) (secret string, err error) {
	enrolled, err := f.EnrollPartnerTotp(f.as(session), &affiliatev1.EnrollTotpRequest{Password: password})
	return enrolled.GetSecret(), err
}

// challenge logs in with the password and returns the challenge.
func (f *fixture) challenge(password string) string {
	f.Helper()
	_, err := f.loginPartner(factorEmail, password)
	pgtest.RequireRefusal(f, err, affiliate.ReasonSecondFactorRequired)
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) || refusal.Metadata["challenge"] == "" {
		f.Fatalf("the error is %v, want a challenge", err)
	}
	return refusal.Metadata["challenge"]
}

func (f *fixture) secondFactor(challenge, code string) error {
	_, err := f.LoginPartnerSecondFactor(f.Context(), &affiliatev1.LoginSecondFactorRequest{Challenge: challenge, Code: code})
	return err
}

func (f *fixture) removeFactor(session *affiliatev1.SessionResponse, code string) error {
	_, err := f.RemovePartnerTotp(f.as(session), &affiliatev1.RemoveTotpRequest{Code: code})
	return err
}

func TestSecondFactor_ConfirmEnablesItAndEndsOtherSessions(t *testing.T) {
	f := newFixture(t)
	other := f.partner(factorEmail)
	session, err := f.loginPartner(factorEmail, password)
	if err != nil {
		t.Fatal(err)
	}
	confirm := func(code string) (*affiliatev1.ConfirmTotpResponse, error) {
		return f.ConfirmPartnerTotp(f.as(session), &affiliatev1.ConfirmTotpRequest{Code: code})
	}
	_, err = confirm("123456")
	pgtest.RequireRefusal(t, err, affiliate.ReasonSecondFactorState)
	enroll := func() string {
		secret, err := f.enroll(session, password)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	replaced, secret := enroll(), enroll()
	_, err = confirm(f.code(replaced, f.Now()))
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	if session, err = f.loginPartner(factorEmail, password); err != nil {
		t.Fatalf("a login before the confirmation: %v", err)
	}
	confirmed, err := confirm(f.code(secret, f.Now()))
	if err != nil || len(confirmed.RecoveryCodes) != 10 {
		t.Fatalf("the confirmation returned %v, %v, want ten codes", confirmed, err)
	}
	if _, err := f.refresh(other.RefreshToken); err == nil {
		t.Error("another session works after the confirmation")
	}
	session, err = f.refresh(session.RefreshToken)
	if err != nil || !session.User.SecondFactor {
		t.Errorf("the refresh of the session returned %v, %v, want a user with a second factor", session, err)
	}
	_, err = confirm(f.code(secret, f.Now()))
	pgtest.RequireRefusal(t, err, affiliate.ReasonSecondFactorState)
	_, err = f.enroll(session, password)
	pgtest.RequireRefusal(t, err, affiliate.ReasonSecondFactorState)
	f.WantCount(0, "secrets in clear text", `select count(*) from second_factors where position($1::bytea in secret) > 0`, []byte(secret))
	f.WantCount(1, "notifications", `select count(*) from notifications where type = 'security.second_factor_enabled'`)
	f.WantCount(1, "audit records", `select count(*) from account_audit_log where action = 'account.enable_second_factor'`)
}

func TestConfirm_EndsEarlierChangesOfAddress(t *testing.T) {
	f := newFixture(t)
	session, err := f.RegisterPartner(t.Context(), &affiliatev1.RegisterPartnerRequest{Email: factorEmail, Password: password, Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	verification := f.takeMail(notification.MailVerification, factorEmail).token
	reset := f.resetToken(factorEmail)
	sent := f.requestChange(session, "ada@new.example")
	if err := f.changePartner(session, "ada@other.example", password); err != nil {
		t.Fatal(err)
	}
	f.enableFactor(session)
	f.runRequests()
	if mails := f.takeMails(); len(mails) != 0 {
		t.Errorf("a request from before the confirmation was answered with %v", mails)
	}
	pgtest.RequireRefusal(t, f.verify(sent), affiliate.ReasonVerificationToken)
	f.WantCount(1, "accounts with the old address", `select count(*) from users where email = $1`, factorEmail)
	// Other tokens prove only that the user reads the mail of the account.
	if err := f.verify(verification); err != nil {
		t.Errorf("the verification of the address: %v", err)
	}
	if err := f.resetPartner(reset, newPassword); err != nil {
		t.Errorf("the reset of the password: %v", err)
	}
}

func TestEnroll_WrongPasswordChangesNothingAndCounts(t *testing.T) {
	f := newFixture(t)
	session := f.partner(factorEmail)
	secret, err := f.enroll(session, password)
	if err != nil {
		t.Fatal(err)
	}
	stored := f.Texts(`select encode(secret, 'hex') from second_factors`)
	for range 10 {
		_, err := f.enroll(session, "a wrong password")
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	}
	_, err = f.enroll(session, password)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)
	if got := f.Texts(`select encode(secret, 'hex') from second_factors`); !slices.Equal(got, stored) {
		t.Error("a call with a wrong password has replaced the secret")
	}
	if _, err := f.ConfirmPartnerTotp(f.as(session), &affiliatev1.ConfirmTotpRequest{Code: f.code(secret, f.Now())}); err != nil {
		t.Errorf("the confirmation of the first secret: %v", err)
	}
}

// A session that was stolen later cannot add a factor, also if it was refreshed.
func TestEnroll_NeedsNoPasswordAfterALogin(t *testing.T) {
	f := newFixture(t)
	session := f.partner(factorEmail)
	f.clock.Advance(15 * time.Minute)
	if _, err := f.refresh(session.RefreshToken); err != nil {
		t.Fatal(err)
	}
	if _, err := f.enroll(session, ""); err != nil {
		t.Errorf("15 minutes after the login, the enrolment without a password fails: %v", err)
	}
	f.clock.Advance(time.Millisecond)
	stored := f.Texts(`select encode(secret, 'hex') from second_factors`)
	_, err := f.enroll(session, "")
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "password")
	if got := f.Texts(`select encode(secret, 'hex') from second_factors`); !slices.Equal(got, stored) {
		t.Error("the refused call has replaced the secret")
	}
	f.WantCount(0, "failed logins", `select count(*) from login_failures`)
}

func TestEnroll_RightPasswordEndsCountOfFailedLogins(t *testing.T) {
	f := newFixture(t)
	session := f.merchant("mara@shop.example")
	for _, wrong := range []string{"x", "a wrong password"} {
		_, err := f.EnrollMerchantTotp(f.as(session), &affiliatev1.EnrollTotpRequest{Password: wrong})
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	}
	f.WantCount(2, "failed logins", `select count(*) from login_failures`)
	if _, err := f.EnrollMerchantTotp(f.as(session), &affiliatev1.EnrollTotpRequest{Password: password}); err != nil {
		t.Fatal(err)
	}
	f.WantCount(0, "failed logins", `select count(*) from login_failures`)
}

func TestLoginSecondFactor_AcceptsEachCodeOnceWithDriftOfOneStep(t *testing.T) {
	f := newFixture(t)
	_, secret, _ := f.withFactor()
	pgtest.RequireRefusal(t, f.secondFactor(f.challenge(password), f.code(secret, f.Now())), affiliate.ReasonInvalidCredentials)
	f.clock.Advance(10 * time.Minute)
	for _, drift := range []time.Duration{-60 * time.Second, 60 * time.Second} {
		pgtest.RequireRefusal(t, f.secondFactor(f.challenge(password), f.code(secret, f.Now().Add(drift))), affiliate.ReasonInvalidCredentials)
	}
	for _, drift := range []time.Duration{-30 * time.Second, 0, 30 * time.Second} {
		challenge, code := f.challenge(password), f.code(secret, f.Now().Add(drift))
		if err := f.secondFactor(challenge, code); err != nil {
			t.Errorf("a code with the drift %v: %v", drift, err)
		}
		pgtest.RequireRefusal(t, f.secondFactor(challenge, code), affiliate.ReasonChallengeInvalid)
		pgtest.RequireRefusal(t, f.secondFactor(f.challenge(password), code), affiliate.ReasonInvalidCredentials)
	}
	// A later code makes the earlier ones unusable.
	pgtest.RequireRefusal(t, f.secondFactor(f.challenge(password), f.code(secret, f.Now())), affiliate.ReasonInvalidCredentials)
}

// Nine parallel calls are the most that the throttle of an address lets through.
func TestLoginSecondFactor_ParallelCallsUseACodeOnce(t *testing.T) {
	f := newFixture(t)
	_, secret, recovery := f.withFactor()
	f.clock.Advance(time.Minute)
	for _, code := range []string{f.code(secret, f.Now()), recovery[0]} {
		var accepted atomic.Int64
		var calls sync.WaitGroup
		for range 9 {
			challenge := f.challenge(password)
			calls.Go(func() {
				if f.secondFactor(challenge, code) == nil {
					accepted.Add(1)
				}
			})
		}
		calls.Wait()
		if accepted.Load() != 1 {
			t.Errorf("%d of 9 parallel calls succeeded with one code, want 1", accepted.Load())
		}
		f.clock.Advance(account.LoginFailureWindow)
	}
}

func TestLoginSecondFactor_EndsChallenge(t *testing.T) {
	f := newFixture(t)
	_, secret, _ := f.withFactor()
	f.clock.Advance(time.Minute)
	challenge := f.challenge(password)
	for range 5 {
		pgtest.RequireRefusal(t, f.secondFactor(challenge, "000 000"), affiliate.ReasonInvalidCredentials)
	}
	pgtest.RequireRefusal(t, f.secondFactor(challenge, f.code(secret, f.Now())), affiliate.ReasonChallengeInvalid)
	late := f.challenge(password)
	f.clock.Advance(account.ChallengeLife)
	pgtest.RequireRefusal(t, f.secondFactor(late, f.code(secret, f.Now())), affiliate.ReasonChallengeInvalid)
	pgtest.RequireRefusal(t, f.secondFactor("chl_unknown", f.code(secret, f.Now())), affiliate.ReasonChallengeInvalid)
	_, err := f.LoginMerchantSecondFactor(f.Context(), &affiliatev1.LoginSecondFactorRequest{
		Challenge: f.challenge(password), Code: f.code(secret, f.Now()),
	})
	pgtest.RequireRefusal(t, err, affiliate.ReasonChallengeInvalid)
	if err := f.secondFactor(f.challenge(password), f.code(secret, f.Now())); err != nil {
		t.Errorf("a refused call has used the code: %v", err)
	}
}

func TestLoginSecondFactor_WrongCodesCountAsFailedLogins(t *testing.T) {
	f := newFixture(t)
	_, secret, _ := f.withFactor()
	for range 2 {
		challenge := f.challenge(password)
		for range 5 {
			pgtest.RequireRefusal(t, f.secondFactor(challenge, "000000"), affiliate.ReasonInvalidCredentials)
		}
	}
	_, err := f.LoginPartner(f.Context(), &affiliatev1.LoginRequest{Email: factorEmail, Password: password})
	pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)
	f.clock.Advance(account.LoginFailureWindow)
	if err := f.secondFactor(f.challenge(password), f.code(secret, f.Now())); err != nil {
		t.Fatal(err)
	}
}

func TestSecondFactor_ResetOfPasswordKeepsIt(t *testing.T) {
	f := newFixture(t)
	_, secret, recovery := f.withFactor()
	f.clock.Advance(time.Minute)
	old := f.challenge(password)
	if err := f.resetPartner(f.resetToken(factorEmail), newPassword); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, f.secondFactor(old, f.code(secret, f.Now())), affiliate.ReasonChallengeInvalid)
	if err := f.secondFactor(f.challenge(newPassword), recovery[3]); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, f.secondFactor(f.challenge(newPassword), recovery[3]), affiliate.ReasonInvalidCredentials)
	f.WantCount(1, "notifications with 9 codes left", `select count(*) from notifications where type = 'security.recovery_code_used' and facts ->> 'left' = '9'`)
}

func TestSecondFactor_ResetOfPasswordEndsAnEnrolment(t *testing.T) {
	f := newFixture(t)
	secret, err := f.enroll(f.partner(factorEmail), password)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.resetPartner(f.resetToken(factorEmail), newPassword); err != nil {
		t.Fatal(err)
	}
	session, err := f.loginPartner(factorEmail, newPassword)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.ConfirmPartnerTotp(f.as(session), &affiliatev1.ConfirmTotpRequest{Code: f.code(secret, f.Now())})
	pgtest.RequireRefusal(t, err, affiliate.ReasonSecondFactorState)
}

func TestSecondFactor_Removal(t *testing.T) {
	f := newFixture(t)
	session, secret, recovery := f.withFactor()
	pgtest.RequireRefusal(t, f.removeFactor(session, "000000"), affiliate.ReasonInvalidCredentials)
	pgtest.RequireRefusal(t, f.removeFactor(session, f.code(secret, f.Now())), affiliate.ReasonInvalidCredentials)
	if err := f.removeFactor(session, recovery[0]); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, f.removeFactor(session, recovery[1]), affiliate.ReasonSecondFactorState)
	if _, err := f.loginPartner(factorEmail, password); err != nil {
		t.Errorf("a login after the removal: %v", err)
	}
	f.WantCount(0, "rows", `select (select count(*) from second_factors) + (select count(*) from recovery_codes) + (select count(*) from login_challenges)`)
	f.WantCount(1, "notifications", `select count(*) from notifications where type = 'security.second_factor_disabled'`)
}

func TestResetSecondFactor_RemovesItForTheOperator(t *testing.T) {
	f := newFixture(t)
	session, _, _ := f.withFactor()
	pgtest.RequireRefusal(t, f.ResetSecondFactor(f.Context(), affiliate.Merchant, factorEmail), affiliate.ReasonNotFound)
	if err := f.ResetSecondFactor(f.Context(), affiliate.Partner, factorEmail); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, f.ResetSecondFactor(f.Context(), affiliate.Partner, factorEmail), affiliate.ReasonSecondFactorState)
	_, err := f.refresh(session.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	if _, err := f.loginPartner(factorEmail, password); err != nil {
		t.Error(err)
	}
	f.WantCount(1, "audit records", `select count(*) from account_audit_log where action = 'account.reset_second_factor'`)
}

func (f *fixture) reauthenticate(session *affiliatev1.SessionResponse, password, code string) error {
	f.Helper()
	_, err := f.Reauthenticate(f.as(session), password, code)
	return err
}

func TestReauthenticate(t *testing.T) {
	f := newFixture(t)
	session := f.partner("pat@blog.example")
	for _, wrong := range []string{"", "a wrong password"} {
		pgtest.RequireRefusal(t, f.reauthenticate(session, wrong, "123456"), affiliate.ReasonInvalidCredentials)
	}
	if since, err := f.Reauthenticate(f.as(session), password, ""); err != nil || since != nil {
		t.Errorf("Reauthenticate with the password returned %v, %v, want no second factor", since, err)
	}
	session, secret, _ := f.withFactor()
	enabled := f.Now().Truncate(time.Millisecond)
	f.clock.Advance(time.Minute)
	pgtest.RequireRefusal(t, f.reauthenticate(session, password, ""), affiliate.ReasonInvalidCredentials)
	code := f.code(secret, f.Now())
	if since, err := f.Reauthenticate(f.as(session), "", code); err != nil || since == nil || !since.Equal(enabled) {
		t.Errorf("Reauthenticate with a code returned %v, %v, want a second factor since %v", since, err, enabled)
	}
	pgtest.RequireRefusal(t, f.reauthenticate(session, "", code), affiliate.ReasonInvalidCredentials)
	pgtest.RequireRefusal(t, f.changePartner(session, "new@blog.example", password), affiliate.ReasonInvalidCredentials)
	for range 8 {
		pgtest.RequireRefusal(t, f.reauthenticate(session, password, ""), affiliate.ReasonInvalidCredentials)
	}
	pgtest.RequireRefusal(t, f.reauthenticate(session, "", f.code(secret, f.Now().Add(30*time.Second))), affiliate.ReasonRateLimitExceeded)
}
