package e2e_test

import (
	"net/http"
	"testing"
)

// TestRegistration_OfMerchantsIsClosedByDefault tests a deployment that does not set the registration of
// merchants.
func TestRegistration_OfMerchantsIsClosedByDefault(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_REGISTRATION_MERCHANT": ""}})
	sys.client().post(t, "/api/v1/auth/merchant/register", object{
		"email": uniqueName("mia") + "@shop.example", "password": password, "name": "Mia", "workspaceName": "Shop",
	}).wantOutcome(outcome{http.StatusForbidden, "REGISTRATION_CLOSED"})
	sys.newPartner(t)
}

// TestRegistration_ByInvitation tests a deployment in which people need an invitation to
// register.
func TestRegistration_ByInvitation(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_REGISTRATION_MERCHANT": "invite", "TRIBUTARY_REGISTRATION_PARTNER": "invite"}})
	closed := outcome{http.StatusForbidden, "REGISTRATION_CLOSED"}
	merchant := object{"email": uniqueName("mia") + "@shop.example", "password": password, "name": "Mia", "workspaceName": "Shop"}
	partner := object{"email": uniqueName("pia") + "@blog.example", "password": password, "name": "Pia"}
	for path, body := range map[string]object{"merchant": merchant, "partner": partner} {
		register := "/api/v1/auth/" + path + "/register"
		sys.client().post(t, register, body).wantOutcome(closed)
		body["inviteToken"] = "inv_unknown"
		sys.client().post(t, register, body).wantOutcome(closed)
		delete(body, "inviteToken")
		body["email"] = "no address"
		sys.client().post(t, register, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "email")
	}
}
