package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestIsolation checks two workspaces with two modes each. Each of these four worlds
// cannot read, count or change the data of another one.
func TestIsolation(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	partner := sys.partner(t)
	var worlds []isolated
	for _, merchant := range []account{sys.merchant(t), sys.merchant(t)} {
		for _, mode := range []string{"test", "live"} {
			w := sys.worldOf(t, merchant.in(mode), partner.in(mode), object{"slug": "same", "commissionRules": object{"percentage": 20}})
			worlds = append(worlds, isolated{world: w, click: w.click(t)})
		}
	}

	t.Run("each world can use the same names", func(t *testing.T) {
		for i, w := range worlds {
			sale := purchase(w.click)
			sale["external_transaction_id"] = "same-order"
			worlds[i].commission = w.report(t, sale).want(http.StatusCreated).text("commission.id")
			sys.partner(t).in(w.mode()).post(t, w.applyPath(), object{"referralCode": "same-code"}).want(http.StatusCreated)
			w.report(t, sale).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")
		}
	})
	t.Run("lists contain and count only the world's own data", func(t *testing.T) {
		for _, w := range worlds {
			w.merchant.get(t, "/api/v1/programs").want(http.StatusOK).wantFields(object{"total": 1, "data.0.id": w.program})
			w.merchant.get(t, w.programPath()+"/partners").want(http.StatusOK).wantFields(object{"total": 2, "data.1.id": w.participant})
			for _, list := range []string{"/api/v1/commissions", w.programPath() + "/commissions", "/api/v1/commissions?search=same-order", "/api/v1/commissions?search=" + partner.email} {
				w.merchant.get(t, list).want(http.StatusOK).wantFields(object{"total": 1, "data.0.id": w.commission})
			}
			w.merchant.get(t, "/api/v1/api-keys").want(http.StatusOK).wantFields(object{"publicKey": w.publicKey, "mode": w.mode()})
			if n := w.merchant.get(t, "/api/v1/api-keys").length("secretKeys"); n != 1 {
				t.Errorf("%d secret keys", n)
			}
		}
	})

	before := make([]string, len(worlds))
	for i, w := range worlds {
		before[i] = w.snapshot(t)
	}
	for i, own := range worlds {
		for j, foreign := range worlds {
			if i == j {
				continue
			}
			sameWorkspace := own.merchant.workspace == foreign.merchant.workspace
			t.Run(fmt.Sprintf("%d cannot access %d", i, j), func(t *testing.T) { own.wantNoAccessTo(t, foreign, sameWorkspace) })
		}
	}
	for i, w := range worlds {
		if after := w.snapshot(t); after != before[i] {
			t.Errorf("world %d has changed:\nbefore %s\nafter  %s", i, before[i], after)
		}
	}
}

// isolated is a world with a click and a commission.
type isolated struct {
	world
	click, commission string
}

func (w isolated) mode() string { return w.merchant.header.Get("X-Mode") }

// snapshot returns the responses of several routes as one text, to compare them later.
func (w isolated) snapshot(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{
		"/api/v1/programs", w.programPath(), w.programPath() + "/partners", w.participantPath(),
		"/api/v1/commissions", w.programPath() + "/commissions", w.commissionPath(w.commission),
	} {
		all.WriteString(w.merchant.get(t, path).want(http.StatusOK).body)
	}
	return all.String()
}

// wantNoAccessTo sends reads and changes with the ids of another world, which must all
// fail.
func (w isolated) wantNoAccessTo(t *testing.T, foreign isolated, sameWorkspace bool) {
	t.Helper()
	// For these lists SPEC.md section 4 requires 403 for a programme of another
	// workspace. A programme of the other mode is 404.
	narrowed := forbidden
	if sameWorkspace {
		narrowed = notFound
	}
	me := w.merchant
	for _, list := range []string{foreign.programPath() + "/commissions", "/api/v1/commissions?programId=" + foreign.program} {
		me.get(t, list).wantOutcome(narrowed)
	}
	for _, path := range []string{
		foreign.programPath(), foreign.programPath() + "/partners", foreign.participantPath(), foreign.commissionPath(foreign.commission),
		// Also with the caller's own programme in the path.
		w.programPath() + "/partners/" + foreign.participant, w.commissionPath(foreign.commission), foreign.commissionPath(w.commission),
	} {
		me.get(t, path).wantOutcome(notFound)
	}
	me.patch(t, foreign.programPath(), object{"name": "Mine now"}).wantOutcome(notFound)
	for _, move := range []string{"activate", "pause", "archive"} {
		me.post(t, foreign.programPath()+"/"+move, nil).wantOutcome(notFound)
	}
	for _, path := range []string{foreign.participantPath(), w.programPath() + "/partners/" + foreign.participant} {
		for _, move := range []string{"approve", "reject", "suspend", "reinstate"} {
			me.patch(t, path+"/"+move, nil).wantOutcome(notFound)
		}
	}
	for _, path := range []string{foreign.commissionPath(foreign.commission), w.commissionPath(foreign.commission)} {
		for _, move := range []string{"approve", "reject"} {
			me.patch(t, path+"/"+move, nil).wantOutcome(notFound)
		}
	}
	w.partner.post(t, foreign.applyPath(), nil).wantOutcome(map[bool]outcome{
		true:  {http.StatusConflict, "APPLICATION_DUPLICATE"}, // partners belong to no workspace
		false: notFound,
	}[w.mode() == foreign.mode()])

	// The collector and the conversion API.
	w.sys.click(t, w.publicKey, object{"referral_code": foreign.code}).wantOutcome(notFound)
	report := w.report(t, purchase(foreign.click))
	if sameWorkspace {
		report.wantError(http.StatusUnprocessableEntity, "MODE_MISMATCH")
	} else {
		report.want(http.StatusCreated).wantFields(object{"attributed": false, "attribution.reason_code": "CLICK_UNKNOWN", "commission": nil})
	}
}
