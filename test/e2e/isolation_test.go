package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// testIsolation creates four fixtures: two workspaces with two modes each. A client of
// one fixture must not be able to read, count or change the data of another fixture.
func testIsolation(t *testing.T, sys *system) {
	partner := sys.newPartner(t)
	var fixtures []fixtureWithSale
	for _, merchant := range []caller{sys.newMerchant(t), sys.newMerchant(t)} {
		for _, mode := range []string{"test", "live"} {
			f := sys.newFixtureFor(t, merchant.inMode(mode), partner.inMode(mode), object{"slug": "same", "commissionRules": object{"percentage": 20}})
			fixtures = append(fixtures, fixtureWithSale{fixture: f, click: f.click(t)})
		}
	}

	t.Run("each fixture can use the same slug, referral code and order id", func(t *testing.T) {
		for i, f := range fixtures {
			sale := purchase(f.click)
			sale["external_transaction_id"] = "same-order"
			fixtures[i].commission = f.report(t, sale).wantStatus(http.StatusCreated).text("commission.id")
			sys.newPartner(t).inMode(f.mode()).post(t, f.applyPath(), object{"referralCode": "same-code"}).wantStatus(http.StatusCreated)
			f.report(t, sale).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")
		}
	})
	t.Run("lists contain and count only the data of their fixture", func(t *testing.T) {
		for _, f := range fixtures {
			f.merchant.get(t, "/api/v1/programs").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.id": f.program})
			f.merchant.get(t, f.programPath()+"/partners").wantStatus(http.StatusOK).wantFields(object{"total": 2, "data.1.id": f.participant})
			for _, list := range []string{"/api/v1/commissions", f.programPath() + "/commissions", "/api/v1/commissions?search=same-order", "/api/v1/commissions?search=" + partner.email} {
				f.merchant.get(t, list).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.id": f.commission})
			}
			f.merchant.get(t, "/api/v1/api-keys").wantStatus(http.StatusOK).wantFields(object{"publicKey": f.publicKey, "mode": f.mode()})
			if n := f.merchant.get(t, "/api/v1/api-keys").length("secretKeys"); n != 1 {
				t.Errorf("the list has %d secret keys, want 1", n)
			}
		}
	})

	before := make([]string, len(fixtures))
	for i, f := range fixtures {
		before[i] = f.snapshot(t)
	}
	for i, own := range fixtures {
		for j, foreign := range fixtures {
			if i == j {
				continue
			}
			sameWorkspace := own.merchant.workspace == foreign.merchant.workspace
			t.Run(fmt.Sprintf("fixture %d cannot access fixture %d", i, j), func(t *testing.T) { own.wantNoAccessTo(t, foreign, sameWorkspace) })
		}
	}
	for i, f := range fixtures {
		if after := f.snapshot(t); after != before[i] {
			t.Errorf("the data of fixture %d has changed:\nbefore %s\nafter  %s", i, before[i], after)
		}
	}
}

// fixtureWithSale is a fixture with the ids of a click and of a commission.
type fixtureWithSale struct {
	fixture
	click, commission string
}

func (f fixtureWithSale) mode() string { return f.merchant.header.Get("X-Mode") }

// snapshot returns the responses of several routes as one text. Tests compare snapshots
// to find changes.
func (f fixtureWithSale) snapshot(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{
		"/api/v1/programs", f.programPath(), f.programPath() + "/partners", f.participantPath(),
		"/api/v1/commissions", f.programPath() + "/commissions", f.commissionPath(f.commission),
	} {
		all.WriteString(f.merchant.get(t, path).wantStatus(http.StatusOK).body)
	}
	return all.String()
}

// wantNoAccessTo sends requests that read or change data with the ids of another fixture.
// All of them must fail.
func (f fixtureWithSale) wantNoAccessTo(t *testing.T, foreign fixtureWithSale, sameWorkspace bool) {
	t.Helper()
	// These lists return 403 for a programme of another workspace
	// (docs/merchant/authentication.md#modes), and 404 for a programme of the other mode.
	listOutcome := forbidden
	if sameWorkspace {
		listOutcome = notFound
	}
	merchant := f.merchant
	for _, list := range []string{foreign.programPath() + "/commissions", "/api/v1/commissions?programId=" + foreign.program} {
		merchant.get(t, list).wantOutcome(listOutcome)
	}
	for _, path := range []string{
		foreign.programPath(), foreign.programPath() + "/partners", foreign.participantPath(), foreign.commissionPath(foreign.commission),
		// Each of these paths contains an id of this fixture and an id of the other one.
		f.programPath() + "/partners/" + foreign.participant, f.commissionPath(foreign.commission), foreign.commissionPath(f.commission),
	} {
		merchant.get(t, path).wantOutcome(notFound)
	}
	merchant.patch(t, foreign.programPath(), object{"name": "Mine now"}).wantOutcome(notFound)
	for _, action := range []string{"activate", "pause", "archive"} {
		merchant.post(t, foreign.programPath()+"/"+action, nil).wantOutcome(notFound)
	}
	for _, path := range []string{foreign.participantPath(), f.programPath() + "/partners/" + foreign.participant} {
		for _, action := range []string{"approve", "reject", "suspend", "reinstate"} {
			merchant.patch(t, path+"/"+action, nil).wantOutcome(notFound)
		}
	}
	for _, path := range []string{foreign.commissionPath(foreign.commission), f.commissionPath(foreign.commission)} {
		for _, action := range []string{"approve", "reject"} {
			merchant.patch(t, path+"/"+action, nil).wantOutcome(notFound)
		}
	}
	f.partner.post(t, foreign.applyPath(), nil).wantOutcome(map[bool]outcome{
		true:  {http.StatusConflict, "APPLICATION_DUPLICATE"}, // partners do not belong to a workspace
		false: notFound,
	}[f.mode() == foreign.mode()])

	// The collector rejects the referral code of the other fixture. A sale with a click
	// of the other fixture is rejected or not attributed.
	f.sys.click(t, f.publicKey, object{"referral_code": foreign.code}).wantOutcome(notFound)
	report := f.report(t, purchase(foreign.click))
	if sameWorkspace {
		report.wantError(http.StatusUnprocessableEntity, "MODE_MISMATCH")
	} else {
		report.wantStatus(http.StatusCreated).wantFields(object{"attributed": false, "attribution.reason_code": "CLICK_UNKNOWN", "commission": nil})
	}
}
