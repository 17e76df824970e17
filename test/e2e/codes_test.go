package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// answered holds the error codes that tests have met on the wire.
var answered sync.Map

// neverAnswered are the codes of the contract that no test has met.
func neverAnswered() []string {
	var missing []string
	values := affiliatev1.ErrorReason(0).Descriptor().Values()
	for i := 1; i < values.Len(); i++ {
		code := strings.TrimPrefix(string(values.Get(i).Name()), "ERROR_REASON_")
		if _, met := answered.Load(code); !met {
			missing = append(missing, code)
		}
	}
	return missing
}

// An accident of ours is told in fixed words: nothing of the inside gets out.
func TestAccidentsAreInternalErrors(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.merchant(t)
	sys.exec(t, `revoke select on programs from tributary_app`)
	got := merchant.get(t, "/api/v1/programs").wantError(http.StatusInternalServerError, "INTERNAL_ERROR")
	if strings.Contains(got.body, "permission") || strings.Contains(got.body, "programs") {
		t.Errorf("the answer tells of the inside: %s", got.body)
	}
	if id := got.header.Get("X-Request-Id"); id == "" || !strings.Contains(sys.logs.String(), id) {
		t.Errorf("the accident is not in the log under %q", id)
	}
}

// Erasure freezes a participant. No API erases yet, so a fixture does.
func TestErasedParticipantsAreFrozen(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	sys.exec(t, `update participants set erased_at = now() where id = $1`, w.participant)
	for _, move := range []string{"approve", "reject", "suspend", "reinstate"} {
		w.merchant.patch(t, w.participantPath()+"/"+move, nil).wantError(http.StatusConflict, "PARTICIPANT_ERASED")
	}
	w.merchant.get(t, w.participantPath()).want(http.StatusOK).instant("erasedAt")
}
