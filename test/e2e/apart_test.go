package e2e_test

import (
	"net/http"
	"testing"
)

// TestSeparateGateway tests the way from registration to approval with a gateway that is
// connected to the core's gRPC port over the network.
func TestSeparateGateway(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{separateProcesses: true, env: map[string]string{"TRIBUTARY_LIMIT_AUTH": "10"}})

	t.Run("readiness includes the core", func(t *testing.T) {
		sys.caller().get(t, "/api/v1/health/ready").want(http.StatusOK).wantFields(object{"status": "ok"})
	})
	t.Run("from registration to approval", func(t *testing.T) {
		w := sys.world(t, "test", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
		path := w.commissionPath(w.earn(t))
		w.merchant.patch(t, path+"/approve", nil).want(http.StatusOK).wantFields(object{"status": "approved"})
		w.merchant.patch(t, path+"/approve", nil).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
		w.merchant.get(t, "/api/v1/commissions").want(http.StatusOK).wantFields(object{"total": 1, "data.0.status": "approved"})
	})
	t.Run("errors, request ids and status codes are passed on", func(t *testing.T) {
		anonymous := sys.caller()
		anonymous.get(t, "/api/v1/programs").wantOutcome(unauthorized)
		anonymous.post(t, "/api/v1/conversions", `{"broken`).wantOutcome(badKey)
		sys.merchant(t).post(t, "/api/v1/programs", object{"name": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
		anonymous.from("198.51.100.8").post(t, "/api/v1/auth/logout", object{"refreshToken": "none"}).want(http.StatusNoContent)
		anonymous.with("X-Request-Id", "across-the-network").get(t, "/api/v1/programs").wantOutcome(unauthorized)
		if id := anonymous.with("X-Request-Id", "across-the-network").get(t, "/api/v1/health").header.Get("X-Request-Id"); id != "across-the-network" {
			t.Errorf("X-Request-Id is %q", id)
		}
	})
	t.Run("rate limits use the client's address", func(t *testing.T) {
		logout := func(from string) response {
			return sys.caller().from(from).post(t, "/api/v1/auth/logout", object{"refreshToken": "none"})
		}
		for range 10 {
			logout("198.51.100.9").want(http.StatusNoContent)
		}
		refused := logout("198.51.100.9").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		if refused.retryAfter() == 0 || refused.remaining() != 0 {
			t.Errorf("headers of a 429: %v", refused.header)
		}
		logout("198.51.100.10").want(http.StatusNoContent)
	})
}
