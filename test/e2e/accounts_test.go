package e2e_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func testAccounts(t *testing.T, sys *system) {
	register := func(t *testing.T, kind string, body object) response {
		t.Helper()
		return sys.client().post(t, "/api/v1/auth/"+kind+"/register", body)
	}
	merchant := object{"email": "Ann@Shop.example", "password": password, "name": " Ann ", "workspaceName": "Ann's Shop"}
	partner := object{"email": "ann@shop.example", "password": password, "name": "Ann", "country": "DE"}

	t.Run("a merchant registers and gets a workspace and a session", func(t *testing.T) {
		got := register(t, "merchant", merchant).wantStatus(http.StatusCreated).wantFields(object{
			"tokenType": "Bearer", "expiresIn": 900,
			"user.kind": "merchant", "user.email": "ann@shop.example", "user.name": "Ann", "user.role": "owner", "user.country": nil,
			"workspace.name": "Ann's Shop", "workspace.currency": "USD", "workspace.timezone": "UTC",
		})
		sys.account("merchant", "ann@shop.example", got).get(t, "/api/v1/programs").wantStatus(http.StatusOK)
	})
	t.Run("a partner may register with the e-mail address of a merchant", func(t *testing.T) {
		register(t, "partner", partner).wantStatus(http.StatusCreated).wantFields(object{
			"user.kind": "partner", "user.role": nil, "user.country": "DE", "workspace": nil,
		})
	})
	t.Run("an e-mail address is unique among merchants and among partners", func(t *testing.T) {
		register(t, "merchant", merchant).wantError(http.StatusConflict, "EMAIL_TAKEN")
		register(t, "partner", partner).wantError(http.StatusConflict, "EMAIL_TAKEN")
	})
	t.Run("a registration lists all invalid fields", func(t *testing.T) {
		register(t, "merchant", object{"email": "no address", "password": "short", "name": " "}).
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "email", "password", "name", "workspaceName")
		register(t, "partner", object{"email": "x@y.example", "password": strings.Repeat("p", 129), "name": "N", "country": "de"}).
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "password", "country")
		register(t, "partner", object{"email": "x@y.example", "password": "password123", "name": "N"}).
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "password")
	})
	t.Run("an unknown e-mail address and a wrong password get the same response", func(t *testing.T) {
		login := func(email, password string) response {
			return sys.client().post(t, "/api/v1/auth/merchant/login", object{"email": email, "password": password}).
				wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
		}
		wrong, unknown := login("ann@shop.example", "wrong password"), login("nobody@shop.example", "wrong password")
		if wrong.body != unknown.body {
			t.Errorf("the responses differ:\nwrong password:  %s\nunknown address: %s", wrong.body, unknown.body)
		}
		sys.client().post(t, "/api/v1/auth/merchant/login", object{"email": "ANN@shop.example", "password": password}).wantStatus(http.StatusOK)
	})
	t.Run("after ten failed logins for an e-mail address, logins are limited", testLoginThrottle(sys))
	t.Run("a refresh token works once, and its reuse ends the session", testRefresh(sys))
	t.Run("a logout applies immediately", testLogout(sys))
}

// testLoginThrottle checks that after ten failed logins each further failed login makes
// the time in Retry-After longer, for known and unknown e-mail addresses. It also checks
// that the next login is possible as soon as this time has passed.
func testLoginThrottle(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		for _, email := range []string{sys.newMerchant(t).email, "nobody-" + strconv.FormatInt(uniqueCounter.Add(1), 10) + "@example.com"} {
			try := func() response {
				return sys.client().post(t, "/api/v1/auth/merchant/login", object{"email": email, "password": "wrong password"})
			}
			for range 10 {
				try().wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
			}
			first := try().wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED").retryAfter()
			sys.clock.advance(first)
			try().wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
			if second := try().wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED").retryAfter(); second <= first || second > time.Minute {
				t.Errorf("the first Retry-After is %v and the second %v, want a longer second one of at most a minute", first, second)
			}
		}
	}
}

func testRefresh(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		for _, a := range []caller{sys.newMerchant(t), sys.newPartner(t)} {
			for _, path := range []string{"/api/v1/auth/" + a.kind + "/refresh", "/api/v1/auth/refresh"} {
				a := a.login(t)
				refresh := func(token string) response {
					return sys.client().post(t, path, object{"refreshToken": token})
				}
				second := sys.account(a.kind, a.email, refresh(a.refresh).wantStatus(http.StatusOK))
				if second.refresh == a.refresh || second.access == a.access {
					t.Error("a refresh returned the same tokens")
				}
				probe := "/api/v1/programs"
				want := ok
				if a.kind == "partner" {
					// A partner may not call GET /api/v1/programs. Therefore the partner
					// applies to an unknown programme: with a valid token the response
					// is 404.
					probe, want = "/api/v1/partner/programs/"+unknownIDs()["program_id"]+"/apply", notFound
				}
				method := map[string]string{"merchant": http.MethodGet, "partner": http.MethodPost}[a.kind]
				second.do(t, method, probe, nil).wantOutcome(want)

				refresh(a.refresh).wantError(http.StatusUnauthorized, "REFRESH_TOKEN_INVALID")
				refresh(second.refresh).wantError(http.StatusUnauthorized, "REFRESH_TOKEN_INVALID")
				second.do(t, method, probe, nil).wantOutcome(unauthorized)
			}
		}
		merchant := sys.newMerchant(t)
		sys.client().post(t, "/api/v1/auth/partner/refresh", object{"refreshToken": merchant.refresh}).
			wantError(http.StatusUnauthorized, "REFRESH_TOKEN_INVALID")
		sys.client().post(t, "/api/v1/auth/refresh", object{"refreshToken": "garbage"}).
			wantError(http.StatusUnauthorized, "REFRESH_TOKEN_INVALID")
	}
}

func testLogout(sys *system) func(*testing.T) {
	return func(t *testing.T) {
		for _, path := range []string{"/api/v1/auth/logout", "/api/v1/auth/merchant/logout"} {
			merchant := sys.newMerchant(t)
			loggedOut := merchant.login(t)
			for range 2 {
				if got := sys.client().post(t, path, object{"refreshToken": loggedOut.refresh}).wantStatus(http.StatusNoContent); got.body != "" {
					t.Errorf("the response to a logout has the body %q, want none", got.body)
				}
			}
			loggedOut.get(t, "/api/v1/programs").wantOutcome(unauthorized)
			sys.client().post(t, "/api/v1/auth/refresh", object{"refreshToken": loggedOut.refresh}).
				wantError(http.StatusUnauthorized, "REFRESH_TOKEN_INVALID")
			merchant.get(t, "/api/v1/programs").wantStatus(http.StatusOK)
		}
		sys.client().post(t, "/api/v1/auth/partner/logout", object{"refreshToken": "garbage"}).wantStatus(http.StatusNoContent)
	}
}

func testKeys(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t)

	t.Run("each mode has its public key from the start", func(t *testing.T) {
		for _, mode := range []string{"test", "live"} {
			got := merchant.inMode(mode).get(t, "/api/v1/api-keys").wantStatus(http.StatusOK).wantFields(object{"mode": mode, "secretKeys": []any{}})
			if key := got.text("publicKey"); !strings.HasPrefix(key, "pk_"+mode+"_") {
				t.Errorf("in mode %s the public key is %s, want the prefix pk_%[1]s_", mode, key)
			}
		}
	})
	t.Run("a secret key is returned only when it is created", func(t *testing.T) {
		created := merchant.inMode("test").post(t, "/api/v1/api-keys", object{"name": "Server"}).wantStatus(http.StatusCreated).
			wantFields(object{"name": "Server", "prefix": "sk_test_", "lastUsedAt": nil, "expiresAt": nil})
		secret := created.text("secretKey")
		if !strings.HasPrefix(secret, "sk_test_") || !strings.HasSuffix(secret, created.text("last4")) {
			t.Errorf("prefix and last4 do not match the key: %s", created.body)
		}
		listed := merchant.inMode("test").get(t, "/api/v1/api-keys").wantFields(object{
			"secretKeys.0.id": created.text("id"), "secretKeys.0.prefix": "sk_test_", "secretKeys.0.last4": created.text("last4"), "secretKeys.0.lastUsedAt": nil,
		})
		if strings.Contains(listed.body, secret) {
			t.Error("the list contains the secret key")
		}
		merchant.inMode("live").get(t, "/api/v1/api-keys").wantFields(object{"secretKeys": []any{}})

		sys.client().withCredential(secret).post(t, "/api/v1/conversions", nil).wantOutcome(invalid)
		merchant.inMode("test").get(t, "/api/v1/api-keys").instant("secretKeys.0.lastUsedAt")
	})
	t.Run("a key expires at expiresAt", func(t *testing.T) {
		expiresAt := sys.clock.now().Add(time.Minute).UTC().Format(time.RFC3339)
		secret := merchant.inMode("test").post(t, "/api/v1/api-keys", object{"name": "Short", "expiresAt": expiresAt}).wantStatus(http.StatusCreated).text("secretKey")
		sys.client().withCredential(secret).post(t, "/api/v1/conversions", nil).wantOutcome(invalid)
		sys.clock.advance(time.Minute)
		sys.client().withCredential(secret).post(t, "/api/v1/conversions", nil).wantOutcome(badKey)

		merchant.post(t, "/api/v1/api-keys", object{"name": "Late", "expiresAt": expiresAt}).
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "expiresAt")
	})
	t.Run("a mode has at most ten secret keys", func(t *testing.T) {
		live := merchant.inMode("live")
		for range 10 {
			live.createSecretKey(t)
		}
		live.post(t, "/api/v1/api-keys", object{"name": "Eleventh"}).wantError(http.StatusUnprocessableEntity, "API_KEY_LIMIT_EXCEEDED")
		merchant.inMode("test").createSecretKey(t)
	})
}
