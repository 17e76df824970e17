package e2e_test

import (
	"net/http"
	"testing"
)

// TestGatewayApart walks from registration to approval with the gateway as a
// process of its own: REST over the network to the core's gRPC port.
func TestGatewayApart(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{apart: true, env: map[string]string{"TRIBUTARY_LIMIT_AUTH": "10"}})

	t.Run("the core is ready behind it", func(t *testing.T) {
		sys.caller().get(t, "/api/v1/health/ready").want(http.StatusOK).wantFields(object{"status": "ok"})
	})
	t.Run("the walk", func(t *testing.T) {
		w := sys.world(t, "test", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
		path := w.commissionPath(w.earn(t))
		w.merchant.patch(t, path+"/approve", nil).want(http.StatusOK).wantFields(object{"status": "approved"})
		w.merchant.patch(t, path+"/approve", nil).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
		w.merchant.get(t, "/api/v1/commissions").want(http.StatusOK).wantFields(object{"total": 1, "data.0.status": "approved"})
	})
	t.Run("refusals, ids and status codes come through", func(t *testing.T) {
		nobody := sys.caller()
		nobody.get(t, "/api/v1/programs").wantOutcome(unauthorized)
		nobody.post(t, "/api/v1/conversions", `{"broken`).wantOutcome(badKey)
		sys.merchant(t).post(t, "/api/v1/programs", object{"name": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
		nobody.from("198.51.100.8").post(t, "/api/v1/auth/logout", object{"refreshToken": "none"}).want(http.StatusNoContent)
		nobody.with("X-Request-Id", "across-the-network").get(t, "/api/v1/programs").wantOutcome(unauthorized)
		if id := nobody.with("X-Request-Id", "across-the-network").get(t, "/api/v1/health").header.Get("X-Request-Id"); id != "across-the-network" {
			t.Errorf("the request id comes back as %q", id)
		}
	})
	t.Run("the client's address reaches the limits", func(t *testing.T) {
		logout := func(from string) answer {
			return sys.caller().from(from).post(t, "/api/v1/auth/logout", object{"refreshToken": "none"})
		}
		for range 10 {
			logout("198.51.100.9").want(http.StatusNoContent)
		}
		refused := logout("198.51.100.9").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		if refused.retryAfter() == 0 || refused.remaining() != 0 {
			t.Errorf("headers of a refusal: %v", refused.header)
		}
		logout("198.51.100.10").want(http.StatusNoContent)
	})
}
