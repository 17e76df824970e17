package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/tributary-hq/tributary/server"
)

// testSecondFactors tests the second factor over REST: enrolment, login, removal, and the
// setting of the workspace that requires it.
func testSecondFactors(t *testing.T, sys *system) {
	t.Run("protects the login", func(t *testing.T) {
		for _, a := range []caller{sys.newMerchant(t), sys.newPartner(t)} {
			testFactorOfAccount(t, sys, a)
		}
	})
	t.Run("is required on all routes that change something or read payout accounts", func(t *testing.T) { testRequiredFactorOnRoutes(t, sys) })
	t.Run("is required by a workspace", func(t *testing.T) { testRequiredFactor(t, sys) })
}

// enableFactor enables a second factor and returns the recovery codes.
func (a caller) enableFactor(t *testing.T) (recovery []string) {
	t.Helper()
	auth := "/api/v1/auth/" + a.kind + "/totp"
	secret := a.post(t, auth+"/enroll", nil).wantStatus(http.StatusOK).text("secret")
	code, err := totp.GenerateCode(secret, a.sys.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	confirmed := a.post(t, auth+"/confirm", object{"code": code}).wantStatus(http.StatusOK)
	return []string{confirmed.text("recoveryCodes.0"), confirmed.text("recoveryCodes.1"), confirmed.text("recoveryCodes.2")}
}

func testFactorOfAccount(t *testing.T, sys *system, a caller) {
	auth := "/api/v1/auth/" + a.kind
	recovery := a.enableFactor(t)
	login := func() response {
		return sys.client().post(t, auth+"/login", object{"email": a.email, "password": password})
	}
	challenge := login().wantError(http.StatusUnauthorized, "SECOND_FACTOR_REQUIRED").text("challenge")
	complete := func(code string) response {
		return sys.client().post(t, auth+"/login/second-factor", object{"challenge": challenge, "code": code})
	}
	complete("000000").wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS").wantFields(object{"message": "The code is wrong or was used before."})
	complete(recovery[0]).wantStatus(http.StatusOK).wantFields(object{"user.secondFactor": true, "tokenType": "Bearer"})
	complete(recovery[1]).wantError(http.StatusUnauthorized, "CHALLENGE_INVALID")
	a.post(t, auth+"/totp/enroll", object{"password": password}).wantError(http.StatusConflict, "SECOND_FACTOR_STATE_INVALID")
	a.do(t, http.MethodDelete, auth+"/totp", object{"code": recovery[0]}).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
	a.do(t, http.MethodDelete, auth+"/totp", object{"code": recovery[1]}).wantStatus(http.StatusNoContent)
	login().wantStatus(http.StatusOK).wantFields(object{"user.secondFactor": false})
}

// TestStolenSession uses a session that was stolen more than 15 minutes after the login. It can
// neither add a second factor nor change the payout method or the address.
func TestStolenSession(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	owner := sys.newPartner(t)
	sys.clock.advance(16 * time.Minute)
	auth, method := "/api/v1/auth/partner", "/api/v1/partner/payout-method"
	thief := sys.client().withCredential(sys.client().post(t, auth+"/refresh", object{"refreshToken": owner.refresh}).wantStatus(http.StatusOK).text("accessToken"))
	thief.post(t, auth+"/totp/enroll", object{}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "password")
	thief.post(t, auth+"/totp/enroll", object{"password": "a wrong password"}).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
	thief.post(t, auth+"/totp/confirm", object{"code": "123456"}).wantError(http.StatusConflict, "SECOND_FACTOR_STATE_INVALID")
	thief.patch(t, method, object{"method": "paypal", "account": "thief@example.com", "code": "123456"}).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
	thief.post(t, auth+"/email/change", object{"newEmail": uniqueName("thief") + "@example.com", "password": "a wrong password"}).
		wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
	owner = owner.login(t)
	owner.get(t, "/api/v1/partner/profile").wantStatus(http.StatusOK).wantFields(object{"payoutMethod": nil})
	owner.enableFactor(t)
	thief.get(t, "/api/v1/partner/profile").wantOutcome(unauthorized)
}

// TestStolenToken uses an access token that was stolen directly after the login. The thief
// adds a second factor and sets the first payout method with its codes, but gets no money
// before the owner of the account had 72 hours to notice it.
func TestStolenToken(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0}))
	thief := f.partner
	recovery := thief.enableFactor(t)
	set := thief.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "thief@example.com", "code": recovery[0]}).wantStatus(http.StatusOK)
	if hold := set.instant("heldUntil").Sub(set.instant("updatedAt")); hold != 72*time.Hour {
		t.Errorf("the payout method is held for %v, want 72 hours", hold)
	}
	thief.wantNewest(t, partnerFeed, "security", object{"type": "security.payout_method_changed"})
	thief.do(t, http.MethodDelete, "/api/v1/auth/partner/totp", object{"code": recovery[1]}).wantStatus(http.StatusNoContent)
	f.reportSale(t, f.click(t), nil)
	f.merchant.post(t, "/api/v1/payouts/preview", object{}).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.excludedBecause": "payout_account_changed"})
	f.createBatch(t, object{}).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
	sys.clock.advance(72 * time.Hour)
	f.merchant = f.merchant.login(t)
	f.merchant.post(t, "/api/v1/payouts/preview", object{}).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.excludedBecause": nil})
}

func testRequiredFactor(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	require := object{"requireSecondFactor": true}
	setUp := outcome{http.StatusForbidden, "SECOND_FACTOR_SETUP_REQUIRED"}
	owner.patch(t, workspacePath, require).wantOutcome(setUp)
	service := sys.client().withCredential(owner.createServiceToken(t, "admin", "live", false))
	service.patch(t, workspacePath, require).wantOutcome(forbidden)
	owner.get(t, workspacePath).wantFields(object{"requireSecondFactor": false})
	owner.enableFactor(t)
	owner.patch(t, workspacePath, require).wantStatus(http.StatusOK).wantFields(object{"requireSecondFactor": true})
	owner.patch(t, workspacePath, object{"name": "Shop"}).wantStatus(http.StatusOK)
	service.patch(t, workspacePath, object{"name": "Shop 2"}).wantStatus(http.StatusOK)
	for _, role := range []string{"admin", "manager", "finance", "developer", "viewer"} {
		email := uniqueName(role) + "@shop.example"
		token := owner.post(t, workspacePath+"/invites", object{"email": email, "role": role}).wantStatus(http.StatusCreated).text("token")
		joined := sys.client().post(t, "/api/v1/auth/merchant/accept-invite", object{"token": token, "name": "Mo", "password": password}).wantStatus(http.StatusCreated)
		member := caller{apiClient: sys.client().withCredential(joined.text("accessToken")), kind: "merchant", email: email}
		member.get(t, "/api/v1/programs").wantStatus(http.StatusOK)
		member.post(t, "/api/v1/notifications/read-all", object{}).wantOutcome(setUp)
		if role == "admin" {
			member.post(t, "/api/v1/programs", object{"name": "Club"}).wantOutcome(setUp)
		}
		member.enableFactor(t)
		member.post(t, "/api/v1/notifications/read-all", object{}).wantStatus(http.StatusOK)
	}
}

// withoutFactor has the RPCs other than GET that a member without a second factor may call
// in a workspace that requires one. The first two add the factor. The third is needed to read
// the stream of notifications in a browser. The last two change nothing.
var withoutFactor = map[string]bool{"EnrollMerchantTotp": true, "ConfirmMerchantTotp": true, "CreateStreamTicket": true, "CreateDownloadTicket": true, "SimulateAttribution": true, "PreviewProgramRules": true}

// testRequiredFactorOnRoutes calls all routes whose policy accepts members. The workspace
// requires a second factor, and its owner has none. The service tokens are not affected.
func testRequiredFactorOnRoutes(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	services := map[string]apiClient{}
	for _, mode := range []string{"test", "live"} {
		services[mode] = sys.client().withCredential(owner.createServiceToken(t, "admin", mode, true))
	}
	sys.exec(t, "update workspaces set require_second_factor = true where id = $1", owner.workspace)
	setUp, known := outcome{http.StatusForbidden, "SECOND_FACTOR_SETUP_REQUIRED"}, map[string]bool{}
	for _, r := range routes(t) {
		policy, _ := server.PolicyOf(r.method)
		if policy.Accept&server.MerchantToken == 0 {
			continue
		}
		known[r.rpc] = true
		want := setUp
		if r.verb == http.MethodGet && !routeRules[r.rpc].movesPayouts || withoutFactor[r.rpc] {
			want = routeRules[r.rpc].allowedOutcome
		}
		t.Run(r.String(), func(t *testing.T) {
			owner.do(t, r.verb, r.path(unknownIDs()), nil).wantOutcome(want)
			if policy.Accept&server.ServiceToken == 0 {
				return
			}
			mode := string(policy.ServiceMode)
			if mode == "" {
				mode = "test"
			}
			services[mode].do(t, r.verb, r.path(unknownIDs()), nil).wantOutcome(routeRules[r.rpc].allowedOutcome)
		})
	}
	for rpc := range withoutFactor {
		if !known[rpc] {
			t.Errorf("%s is in withoutFactor, but no member can call it", rpc)
		}
	}
	owner = owner.login(t)
	refreshed := sys.client().post(t, "/api/v1/auth/refresh", object{"refreshToken": owner.refresh}).wantStatus(http.StatusOK)
	sys.client().post(t, "/api/v1/auth/logout", object{"refreshToken": refreshed.text("refreshToken")}).wantStatus(http.StatusNoContent)
	owner.get(t, "/api/v1/programs").wantOutcome(unauthorized)
}
