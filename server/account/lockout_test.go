package account_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

// A stranger who fails on purpose waits, but the owner of the account does not.
func TestLogin_StrangersDoNotDelayTheOwner(t *testing.T) {
	const home, office, stranger = "203.0.113.9", "198.51.100.7", "192.0.2.1"
	f := newFixture(t)
	client := f.inServer(t, f.DB)
	if _, err := client.RegisterPartner(callFrom(t, home, "Browser/1"), &affiliatev1.RegisterPartnerRequest{Email: "pat@example.com", Password: password, Name: "Pat"}); err != nil {
		t.Fatal(err)
	}
	login := func(address, agent, password string) error {
		_, err := client.LoginPartner(callFrom(t, address, agent), &affiliatev1.LoginRequest{Email: "pat@example.com", Password: password})
		return err
	}
	fail := func(address, agent string) {
		t.Helper()
		for range 10 {
			wantCode(t, login(address, agent, "a wrong password"), codes.Unauthenticated)
		}
		wantCode(t, login(address, agent, password), codes.ResourceExhausted)
	}
	mustLogin := func(name, address, agent string) {
		t.Helper()
		if err := login(address, agent, password); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	fail(stranger, "Browser/1")
	wantCode(t, login("192.0.2.200", "Other/1", password), codes.ResourceExhausted)
	mustLogin("a known device", home, "Browser/1")
	mustLogin("an unknown device in another network", office, "Browser/1")
	wantCode(t, login(stranger, "Browser/1", password), codes.ResourceExhausted)

	fail(home, "Other/1")
	mustLogin("a known device in the network of a stranger", home, "Browser/2")
	wantCode(t, login(home, "Other/1", password), codes.ResourceExhausted)

	// Known devices are limited too.
	fail(home, "Browser/1")
	mustLogin("a known device in another network", office, "Browser/1")
	f.clock.Advance(account.LoginFailureWindow)
	mustLogin("a known device after its wait", home, "Browser/1")
	f.clock.Advance(account.DeviceMemory)
	fail(stranger, "Browser/1")
	mustLogin("a device that is not known any more", home, "Browser/1")
}

func TestReauthenticate_CountsPerSession(t *testing.T) {
	f := newFixture(t)
	f.partner("pat@blog.example")
	f.clock.Advance(time.Second)
	session, err := f.loginPartner("pat@blog.example", password)
	if err != nil {
		t.Fatal(err)
	}
	first := f.as(session)
	for range 10 {
		_, err := f.Reauthenticate(first, "a wrong password", "")
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	}
	_, err = f.Reauthenticate(first, password, "")
	pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)
	f.clock.Advance(time.Millisecond)
	if session, err = f.LoginPartner(f.Context(), &affiliatev1.LoginRequest{Email: "pat@blog.example", Password: password}); err != nil {
		t.Fatalf("a login after failures of a session: %v", err)
	}
	if err := f.reauthenticate(session, password, ""); err != nil {
		t.Errorf("another session: %v", err)
	}
	_, err = f.Reauthenticate(first, password, "")
	pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)

	for range 10 {
		_, err := f.loginPartner("pat@blog.example", "a wrong password")
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	}
	if err := f.reauthenticate(session, password, ""); err != nil {
		t.Errorf("a session after failed logins: %v", err)
	}
	if err := f.resetPartner(f.resetToken("pat@blog.example"), newPassword); err != nil {
		t.Fatal(err)
	}
	if _, err := f.loginPartner("pat@blog.example", newPassword); err != nil {
		t.Errorf("a login after a reset of the password: %v", err)
	}
}

// A session counts only for its own account. Otherwise everybody could log in to accounts of
// others without a wait by using many sessions.
func TestLogin_IgnoresSessionsOfOtherAccounts(t *testing.T) {
	f := newFixture(t)
	f.partner("pat@blog.example")
	other := f.as(f.partner("eve@blog.example"))
	f.clock.Advance(account.DeviceMemory + time.Second)
	for range 10 {
		_, err := f.loginPartner("pat@blog.example", "a wrong password")
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	}
	_, err := f.LoginPartner(other, &affiliatev1.LoginRequest{Email: "pat@blog.example", Password: password})
	pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)
}

const wrongCodes = `select count(*) from notifications where type = 'security.wrong_codes'`

func TestSecondFactor_ThreeWrongCodesInARowNotifyOnce(t *testing.T) {
	f := newFixture(t)
	session, secret, recovery := f.withFactor()
	wrong := func(count int) {
		t.Helper()
		for range count {
			f.clock.Advance(time.Minute)
			pgtest.RequireRefusal(t, f.reauthenticate(session, "", "000000"), affiliate.ReasonInvalidCredentials)
		}
	}
	right := func(code string) {
		t.Helper()
		if err := f.reauthenticate(session, "", code); err != nil {
			t.Fatal(err)
		}
	}
	wrong(2)
	right(f.code(secret, f.Now()))
	wrong(2)
	right(recovery[0])
	wrong(2)
	pgtest.RequireRefusal(t, f.reauthenticate(session, "", ""), affiliate.ReasonInvalidCredentials)
	f.WantCount(0, "notifications after two wrong codes in a row", wrongCodes)
	// Every call with a code counts.
	pgtest.RequireRefusal(t, f.secondFactor(f.challenge(password), "000000"), affiliate.ReasonInvalidCredentials)
	f.WantCount(1, "notifications after three", wrongCodes)
	pgtest.RequireRefusal(t, f.removeFactor(session, "000000"), affiliate.ReasonInvalidCredentials)
	_, err := f.ChangePartnerEmail(f.as(session), &affiliatev1.ChangeEmailRequest{NewEmail: "new@blog.example", Password: password, Code: new("000000")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	f.WantCount(1, "second factors with five wrong codes", `select count(*) from second_factors where failures = 5`)
	f.WantCount(1, "notifications after five", wrongCodes)
	f.clock.Advance(time.Minute)
	right(f.code(secret, f.Now()))
	wrong(4)
	f.WantCount(2, "notifications after another three", wrongCodes)
}

func TestSecondFactor_AHundredWrongCodesStopUntilAReset(t *testing.T) {
	f := newFixture(t)
	session, secret, recovery := f.withFactor()
	for range 99 {
		f.clock.Advance(time.Minute)
		pgtest.RequireRefusal(t, f.reauthenticate(session, "", "000000"), affiliate.ReasonInvalidCredentials)
	}
	pgtest.RequireRefusal(t, f.secondFactor(f.challenge(password), "000000"), affiliate.ReasonInvalidCredentials)
	f.clock.Advance(time.Hour)
	for name, err := range map[string]error{
		"a login with the right code":    f.secondFactor(f.challenge(password), f.code(secret, f.Now())),
		"a login with a recovery code":   f.secondFactor(f.challenge(password), recovery[0]),
		"a removal of the second factor": f.removeFactor(session, f.code(secret, f.Now())),
		"a confirmation with a code":     f.reauthenticate(session, "", f.code(secret, f.Now())),
	} {
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
		var refusal *affiliate.Error
		const want = "There were 100 wrong codes in a row. Codes are refused until the password is reset."
		if errors.As(err, &refusal); refusal.Message != want {
			t.Errorf("%s is refused with %q, want %q", name, refusal.Message, want)
		}
	}
	f.WantCount(1, "notifications", wrongCodes)
	if err := f.resetPartner(f.resetToken(factorEmail), newPassword); err != nil {
		t.Fatal(err)
	}
	if err := f.secondFactor(f.challenge(newPassword), f.code(secret, f.Now())); err != nil {
		t.Errorf("a login after the reset of the password: %v", err)
	}
}
