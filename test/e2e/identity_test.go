package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

const otherPassword = "a different horse battery"

func TestIdentity(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_LIMIT_RESEND": "3"}})
	sys.recordMails(t)
	t.Run("a mail verifies the address of an account once", testVerification(sys))
	t.Run("a verification is sent three times in an hour", testResend(sys))
	t.Run("a mail resets a password", testReset(sys))
	t.Run("a mail to the new address changes the address of an account", testChangeOfAddress(sys))
	t.Run("a purchase with a former address of the partner is a self-referral", testFormerAddress(sys))
	t.Run("invitations are mailed", testInviteMails(sys))
}

func testVerification(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		verifyPath := "/api/v1/auth/email/verify"
		for _, a := range []caller{sys.newMerchant(t), sys.newPartner(t)} {
			token := sys.takeToken(t, notification.MailVerification, a.email)
			sys.client().post(t, "/api/v1/auth/"+a.kind+"/login", object{"email": a.email, "password": password}).
				wantStatus(http.StatusOK).wantFields(object{"user.emailVerified": false})
			sys.client().post(t, verifyPath, object{"token": token}).wantStatus(http.StatusOK).
				wantFields(object{"verified": true, "kind": a.kind})
			sys.client().post(t, verifyPath, object{"token": token}).wantError(http.StatusBadRequest, "VERIFICATION_TOKEN_INVALID")
			sys.client().post(t, "/api/v1/auth/"+a.kind+"/refresh", object{"refreshToken": a.refresh}).
				wantStatus(http.StatusOK).wantFields(object{"user.emailVerified": true})
		}
		sys.client().post(t, verifyPath, object{"token": "ver_unknown"}).wantError(http.StatusBadRequest, "VERIFICATION_TOKEN_INVALID")
		sys.client().post(t, verifyPath, object{}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "token")
	}
}

func testResend(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		for _, register := range []func(*testing.T) caller{sys.newMerchant, sys.newPartner} {
			a := register(t)
			path := "/api/v1/auth/" + a.kind + "/email/resend-verification"
			for range 3 {
				a.post(t, path, nil).wantStatus(http.StatusOK).wantFields(object{"sent": true})
			}
			rejected := a.post(t, path, nil).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
			if got, want := rejected.header.Get("RateLimit-Policy"), `"resend";q=3;w=3600`; got != want {
				t.Errorf("RateLimit-Policy is %q, want %q", got, want)
			}
			if wait := rejected.retryAfter(); wait < 58*time.Minute || wait > 61*time.Minute {
				t.Errorf("Retry-After is %v, want an hour", wait)
			}
			if n := sys.countMails(t, notification.MailVerification, a.email); n != 4 {
				t.Errorf("%d mails, want 1 from the registration and 3 that were sent again", n)
			}
			sys.client().post(t, path, nil).wantOutcome(unauthorized)
			sys.client().post(t, "/api/v1/auth/email/verify", object{"token": sys.takeToken(t, notification.MailVerification, a.email)}).wantStatus(http.StatusOK)
			sys.clock.advance(rejected.retryAfter())
			a = a.login(t)
			a.post(t, path, nil).wantStatus(http.StatusOK).wantFields(object{"sent": false})
		}
		sys.newPartner(t).post(t, "/api/v1/auth/merchant/email/resend-verification", nil).wantOutcome(forbidden)
	}
}

func testReset(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		for _, a := range []caller{sys.newMerchant(t), sys.newPartner(t)} {
			forgot, reset := "/api/v1/auth/"+a.kind+"/forgot-password", "/api/v1/auth/"+a.kind+"/reset-password"
			login := func(password string) response {
				return sys.client().post(t, "/api/v1/auth/"+a.kind+"/login", object{"email": a.email, "password": password})
			}
			for _, email := range []string{strings.ToUpper(a.email), "nobody-" + a.email} {
				if got := sys.client().post(t, forgot, object{"email": email}).wantStatus(http.StatusOK); got.body != "{}" {
					t.Errorf("%s: the body is %s, want {}", got.request, got.body)
				}
			}
			token := sys.takeToken(t, notification.MailPasswordReset, a.email)
			sys.client().post(t, reset, object{"token": token, "password": "password123"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "password")
			sys.client().post(t, reset, object{"token": token, "password": a.email}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "password")
			if got := sys.client().post(t, reset, object{"token": token, "password": otherPassword}).wantStatus(http.StatusOK); got.body != "{}" {
				t.Errorf("%s: the body is %s, want {}", got.request, got.body)
			}
			sys.client().post(t, reset, object{"token": token, "password": otherPassword}).wantError(http.StatusBadRequest, "RESET_TOKEN_INVALID")
			a.post(t, "/api/v1/auth/"+a.kind+"/email/resend-verification", nil).wantOutcome(unauthorized)
			login(password).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
			login(otherPassword).wantStatus(http.StatusOK).wantFields(object{"user.emailVerified": true})

			for range 5 {
				sys.client().post(t, forgot, object{"email": a.email}).wantStatus(http.StatusOK)
			}
			if n := sys.countMails(t, notification.MailPasswordReset, a.email); n != 2 {
				t.Errorf("%d further mails after one reset, want 2 in the same hour", n)
			}
		}
		sys.client().post(t, "/api/v1/auth/merchant/forgot-password", object{"email": "no address"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "email")
	}
}

func testChangeOfAddress(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		for _, a := range []caller{sys.newMerchant(t), sys.newPartner(t)} {
			change, newEmail := "/api/v1/auth/"+a.kind+"/email/change", "new-"+a.email
			request := func(email, password string) response {
				return a.post(t, change, object{"newEmail": email, "password": password})
			}
			request(newEmail, "a wrong password").wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
			request(a.email, password).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "newEmail")
			if got := request(newEmail, password).wantStatus(http.StatusAccepted); got.body != "{}" {
				t.Errorf("%s: the body is %s, want {}", got.request, got.body)
			}
			token := sys.takeToken(t, notification.MailEmailChange, newEmail)
			if n := sys.countMails(t, notification.MailEmailChangeNotice, a.email); n != 1 {
				t.Errorf("%d notices to the old address, want 1", n)
			}
			otherSession := a.login(t)
			sys.client().post(t, "/api/v1/auth/email/verify", object{"token": token}).wantStatus(http.StatusOK).wantFields(object{"kind": a.kind})
			sys.client().post(t, "/api/v1/auth/email/verify", object{"token": token}).wantError(http.StatusBadRequest, "VERIFICATION_TOKEN_INVALID")

			otherSession.post(t, change, nil).wantOutcome(unauthorized)
			sys.client().post(t, "/api/v1/auth/"+a.kind+"/refresh", object{"refreshToken": a.refresh}).
				wantStatus(http.StatusOK).wantFields(object{"user.email": newEmail, "user.emailVerified": true})
			sys.client().post(t, "/api/v1/auth/"+a.kind+"/login", object{"email": a.email, "password": password}).
				wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
			a.email = newEmail
			a.login(t)
		}
	}
}

func testFormerAddress(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
		buy := func(want any) {
			t.Helper()
			f.reportSale(t, f.click(t), object{"customer_email": strings.Replace(f.partner.email, "@", "+shop@", 1)}).wantFields(object{"fraud.signals.0.rule": want})
		}
		buy("self_referral_email")
		newEmail := uniqueName("moved") + "@elsewhere.example"
		f.partner.post(t, "/api/v1/auth/partner/email/change", object{"newEmail": newEmail, "password": password}).wantStatus(http.StatusAccepted)
		token := sys.takeToken(t, notification.MailEmailChange, newEmail)
		sys.client().post(t, "/api/v1/auth/email/verify", object{"token": token}).wantStatus(http.StatusOK)
		f.merchant.get(t, f.participantPath()).wantFields(object{"partnerEmail": newEmail})
		buy("self_referral_email")
		f.partner.post(t, "/api/v1/partner/account/erase", object{"confirmation": "DELETE"}).wantStatus(http.StatusOK)
		if n := sys.count(t, `select count(*) from former_emails where user_id = $1`, f.partner.id); n != 0 {
			t.Errorf("after the erasure of the account %d digests of former addresses are stored, want none", n)
		}
	}
}

func testInviteMails(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		f := sys.newFixture(t, "test", nil)
		member := uniqueName("member") + "@example.com"
		invite := f.merchant.post(t, workspacePath+"/invites", object{"email": member, "role": "viewer"}).wantStatus(http.StatusCreated)
		if token := sys.takeToken(t, notification.MailMemberInvite, member); token == invite.text("token") {
			t.Error("the mail has the token of the response, want another one")
		}
		partner := sys.newPartner(t)
		invite = f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": partner.email}).wantStatus(http.StatusCreated)
		if token := sys.takeToken(t, notification.MailParticipantInvite, partner.email); token == invite.text("token") {
			t.Error("the mail has the token of the response, want another one")
		}
		joined := sys.client().post(t, "/api/v1/auth/merchant/accept-invite", object{
			"token": f.merchant.post(t, workspacePath+"/invites", object{"email": member, "role": "viewer"}).text("token"), "name": "Finn", "password": password,
		})
		joined.wantStatus(http.StatusCreated).wantFields(object{"user.emailVerified": false})
		sys.takeToken(t, notification.MailVerification, member)

		// Strangers have registered two addresses. The owners of the addresses have the mails
		// of their invitations and get the accounts.
		for kind, path := range map[notification.MailKind]string{notification.MailMemberInvite: workspacePath + "/invites", notification.MailParticipantInvite: f.programPath() + "/partners/invite"} {
			stranger, body := sys.newMerchant(t), object{"role": "viewer"}
			accept, owner := "/api/v1/auth/merchant/accept-invite", object{"name": "Olga", "password": otherPassword}
			if kind == notification.MailParticipantInvite {
				stranger, body = sys.newPartner(t), object{}
				accept = "/api/v1/auth/partner/register"
				owner["email"] = stranger.email
			}
			body["email"] = stranger.email
			shown := f.merchant.post(t, path, body).wantStatus(http.StatusCreated).text("token")
			field := "token"
			if kind == notification.MailParticipantInvite {
				field = "inviteToken"
			}
			owner[field] = shown
			sys.client().post(t, accept, owner).wantError(http.StatusConflict, "EMAIL_TAKEN")
			owner[field] = sys.takeToken(t, kind, stranger.email)
			sys.client().post(t, accept, owner).wantStatus(http.StatusCreated).wantFields(object{"user.id": stranger.id, "user.name": "Olga", "user.emailVerified": true})
			stranger.post(t, "/api/v1/auth/"+stranger.kind+"/email/resend-verification", nil).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
			login := object{"email": stranger.email, "password": password}
			sys.client().post(t, "/api/v1/auth/"+stranger.kind+"/login", login).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
			login["password"] = otherPassword
			sys.client().post(t, "/api/v1/auth/"+stranger.kind+"/login", login).wantStatus(http.StatusOK)
		}
	}
}

// With the setting TRIBUTARY_REQUIRE_VERIFIED_EMAIL, some changes in live mode require a
// verified address.
func TestIdentity_RequiresVerifiedAddress(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_REQUIRE_VERIFIED_EMAIL": "true"}})
	sys.recordMails(t)
	merchant, partner := sys.newMerchant(t), sys.newPartner(t)
	test, live := merchant.inMode("test"), merchant.inMode("live")
	program := live.post(t, "/api/v1/programs", object{
		"name": "Friends", "websiteUrl": "https://shop.example",
	}).wantStatus(http.StatusCreated).text("id")
	const payoutMethod = "/api/v1/partner/payout-method"
	notVerified := outcome{http.StatusForbidden, "EMAIL_NOT_VERIFIED"}

	test.createSecretKey(t)
	live.post(t, "/api/v1/api-keys", object{"name": "Server"}).wantOutcome(notVerified)
	// The mode of a service token is in the body, so the header does not matter.
	for _, header := range []caller{test, live} {
		for _, mode := range []string{"test", "live"} {
			header.post(t, serviceTokensPath, object{"name": "Sync", "role": "admin", "mode": mode}).wantOutcome(notVerified)
		}
	}
	live.post(t, "/api/v1/programs/"+program+"/activate", nil).wantOutcome(notVerified)
	live.post(t, "/api/v1/payouts/batches/"+unknownID+"/confirm", nil).wantOutcome(notVerified)
	for _, mode := range []string{"test", "live"} {
		partner.inMode(mode).patch(t, payoutMethod, object{"method": "manual", "password": password}).wantOutcome(notVerified)
	}
	// The permission is checked first.
	partner.post(t, "/api/v1/api-keys", object{"name": "Server"}).wantOutcome(forbidden)
	merchant.setRole(t, "viewer")
	live.post(t, "/api/v1/api-keys", object{"name": "Server"}).wantOutcome(forbidden)
	merchant.setRole(t, "owner")

	for _, a := range []caller{merchant, partner} {
		token := sys.takeToken(t, notification.MailVerification, a.email)
		sys.client().post(t, "/api/v1/auth/email/verify", object{"token": token}).wantStatus(http.StatusOK)
	}
	live.createSecretKey(t)
	live.post(t, "/api/v1/programs/"+program+"/activate", nil).wantStatus(http.StatusOK)
	live.post(t, "/api/v1/payouts/batches/"+unknownID+"/confirm", nil).wantOutcome(notFound)
	partner.patch(t, payoutMethod, object{"method": "manual", "password": password}).wantStatus(http.StatusOK)
}
