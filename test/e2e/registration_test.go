package e2e_test

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// TestRegistration_OfMerchantsIsClosedByDefault tests a deployment that does not set the registration of
// merchants. Only the set-up code of the log creates the first workspace.
func TestRegistration_OfMerchantsIsClosedByDefault(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_REGISTRATION_MERCHANT": ""}})
	register := func(body object) response {
		maps.Copy(body, object{"email": uniqueName("mia") + "@shop.example", "password": password, "name": "Mia", "workspaceName": "Shop"})
		return sys.client().post(t, "/api/v1/auth/merchant/register", body)
	}
	closed := outcome{http.StatusForbidden, "REGISTRATION_CLOSED"}
	register(object{}).wantOutcome(closed)
	sys.client().get(t, "/api/v1/instance").wantStatus(http.StatusOK).wantFields(object{"setupRequired": true})
	register(object{"setupCode": "AAAA-BBBB-CCCC-DDDD"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "setupCode")
	code := sys.setupCode(t)
	register(object{"setupCode": code}).wantStatus(http.StatusCreated).wantFields(object{"workspace.name": "Shop"})
	sys.client().get(t, "/api/v1/instance").wantStatus(http.StatusOK).wantFields(object{"setupRequired": false})
	register(object{"setupCode": code}).wantOutcome(closed)
	sys.newPartner(t)
}

// setupCode returns the set-up code in the log of the core.
func (sys *system) setupCode(t *testing.T) string {
	t.Helper()
	var code string
	eventually(t, waitTimeout, "the core logs the set-up code", func() error {
		_, rest, found := strings.Cut(sys.logs.String(), `"setup_code":"`)
		if code, _, _ = strings.Cut(rest, `"`); !found {
			return errors.New("there is no code")
		}
		return nil
	})
	return code
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
