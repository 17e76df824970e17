package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// receivedCodes contains the error codes that the tests have received.
var receivedCodes sync.Map

// missingCodes returns the error codes of the API that no test has received.
func missingCodes() []string {
	var missing []string
	values := affiliatev1.ErrorReason(0).Descriptor().Values()
	for i := 1; i < values.Len(); i++ {
		code := strings.TrimPrefix(string(values.Get(i).Name()), "ERROR_REASON_")
		if _, received := receivedCodes.Load(code); !received {
			missing = append(missing, code)
		}
	}
	return missing
}

// An internal error has a fixed message that reveals no internal details.
func TestInternalError_RevealsNoDetails(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.newMerchant(t)
	sys.exec(t, `revoke select on programs from tributary_app`)
	got := merchant.get(t, "/api/v1/programs").wantError(http.StatusInternalServerError, "INTERNAL_ERROR")
	if strings.Contains(got.body, "permission") || strings.Contains(got.body, "programs") {
		t.Errorf("the response reveals internal details: %s", got.body)
	}
	if id := got.header.Get("X-Request-Id"); id == "" || !strings.Contains(sys.logs.String(), id) {
		t.Errorf("the log has no error with the request id %q", id)
	}
}

// The status of an erased participant cannot change. The test erases the participant in
// the database, because the API has no call that erases a participant.
func testErasedParticipantCannotChangeStatus(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	sys.exec(t, `update participants set erased_at = now() where id = $1`, f.participant)
	for _, action := range []string{"approve", "reject", "suspend", "reinstate"} {
		f.merchant.patch(t, f.participantPath()+"/"+action, nil).wantError(http.StatusConflict, "PARTICIPANT_ERASED")
	}
	f.merchant.get(t, f.participantPath()).wantStatus(http.StatusOK).instant("erasedAt")
}
