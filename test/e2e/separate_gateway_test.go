package e2e_test

import (
	"net/http"
	"testing"
)

// TestSeparateGateway tests a gateway that is connected to the core's gRPC port over the
// network, from the registration of a merchant to the approval of a commission.
func TestSeparateGateway(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{separateProcesses: true, env: map[string]string{
		"TRIBUTARY_LIMIT_AUTH":    "10",
		"TRIBUTARY_LIMIT_TIMEOUT": "1s", // a slow Redis must not change the counts
	}})

	t.Run("the readiness of the gateway includes the core", func(t *testing.T) {
		sys.client().get(t, "/api/v1/health/ready").wantStatus(http.StatusOK).wantFields(object{"status": "ok"})
	})
	t.Run("from registration to approval", func(t *testing.T) {
		f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
		path := f.commissionPath(f.earnCommission(t))
		f.merchant.patch(t, path+"/approve", nil).wantStatus(http.StatusOK).wantFields(object{"status": "approved"})
		f.merchant.patch(t, path+"/approve", nil).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
		f.merchant.get(t, "/api/v1/commissions").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.status": "approved"})
	})
	t.Run("the gateway forwards errors, request ids and status codes", func(t *testing.T) {
		anonymous := sys.client()
		anonymous.get(t, "/api/v1/programs").wantOutcome(unauthorized)
		anonymous.post(t, "/api/v1/conversions", `{"broken`).wantOutcome(badKey)
		sys.newMerchant(t).post(t, "/api/v1/programs", object{"name": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
		anonymous.fromAddress("198.51.100.8").post(t, "/api/v1/auth/logout", object{"refreshToken": "none"}).wantStatus(http.StatusNoContent)
		anonymous.withHeader("X-Request-Id", "across-the-network").get(t, "/api/v1/programs").wantOutcome(unauthorized)
		if id := anonymous.withHeader("X-Request-Id", "across-the-network").get(t, "/api/v1/health").header.Get("X-Request-Id"); id != "across-the-network" {
			t.Errorf("X-Request-Id is %q, want across-the-network", id)
		}
	})
	t.Run("rate limits use the client's address", func(t *testing.T) {
		logout := func(address string) response {
			return sys.client().fromAddress(address).post(t, "/api/v1/auth/logout", object{"refreshToken": "none"})
		}
		for range 10 {
			logout("198.51.100.9").wantStatus(http.StatusNoContent)
		}
		rejected := logout("198.51.100.9").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		if rejected.retryAfter() == 0 || rejected.remaining() != 0 {
			t.Errorf("the headers of a 429 are %v, want a Retry-After and no remaining requests", rejected.header)
		}
		logout("198.51.100.10").wantStatus(http.StatusNoContent)
	})
}
