package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

// populatedWorld is a world with one resource for each path parameter.
type populatedWorld struct {
	world
	ids map[string]string
}

// routesOf returns the routes for a kind of credential that have ids in their path.
func routesOf(t *testing.T, who string) (named []route) {
	t.Helper()
	for _, r := range routes(t) {
		if contract[r.rpc].accepts == who && r.hasIDs() {
			named = append(named, r)
		}
	}
	return named
}

// readEverything returns the responses of all GET routes that the account may call, as
// one text. It leaves out the export of a payout batch, which writes to the audit log.
func readEverything(t *testing.T, from account, who string, ids map[string]string) string {
	t.Helper()
	var all strings.Builder
	for _, r := range routes(t) {
		if r.verb == http.MethodGet && r.rpc != "ExportPayoutBatch" && contract[r.rpc].allows(who) && contract[r.rpc].accepts != anyone && !strings.HasSuffix(r.template, "/api-keys") {
			all.WriteString(r.String() + "\n" + from.get(t, r.path(ids)).want(http.StatusOK).body + "\n")
		}
	}
	return all.String()
}

// TestIsolation_AllRoutes calls every route of a merchant from each of four worlds with
// the ids of every other world, also with the caller's own programme in the path. It
// also searches for data of the other worlds. No call may read, count or change
// anything.
func TestIsolation_AllRoutes(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	partner := sys.partner(t)
	var worlds []populatedWorld
	for _, merchant := range []account{sys.merchant(t), sys.merchant(t)} {
		for _, mode := range []string{"test", "live"} {
			w := sys.worldOf(t, merchant.in(mode), partner.in(mode), nil)
			worlds = append(worlds, populatedWorld{w, w.createAll(t)})
		}
	}
	before := make([]string, len(worlds))
	for i, w := range worlds {
		before[i] = readEverything(t, w.merchant, merchants, w.ids)
		for _, other := range worlds {
			if other.program != w.program && strings.Contains(before[i], other.program) {
				t.Errorf("world %d shows a programme of another", i)
			}
		}
	}
	named := routesOf(t, merchants)
	for i, own := range worlds {
		for j, foreign := range worlds {
			if i == j {
				continue
			}
			same := own.merchant.workspace == foreign.merchant.workspace
			through := map[string]string{}
			for name, id := range foreign.ids {
				through[name] = id
			}
			through["program_id"] = own.program
			for _, r := range named {
				rule := contract[r.rpc]
				if rule.modeless && same {
					continue
				}
				want := r.unknownOutcome()
				if rule.foreign != (outcome{}) && (!same || rule.foreign == allFailed) {
					want = rule.foreign
				}
				own.merchant.do(t, r.verb, r.path(foreign.ids), rule.requestBody()).wantOutcome(want)
				if strings.Count(r.template, "{") > 1 {
					own.merchant.do(t, r.verb, r.path(through), rule.requestBody()).wantOutcome(r.unknownOutcome())
				}
			}
			for _, search := range []string{
				"/partners?search=" + foreign.code, "/partners?search=" + foreign.participant, "/links?search=" + foreign.code,
			} {
				own.merchant.get(t, own.programPath()+search).want(http.StatusOK).wantFields(object{"total": 0})
			}
			for _, filter := range []string{"/links?participantId=", "/promo-codes?participantId="} {
				own.merchant.get(t, own.programPath()+filter+foreign.participant).wantOutcome(notFound)
			}
			// Ids in a body are also looked up only in the caller's own world.
			for path, body := range map[string]object{
				"/links":       {"participantId": foreign.participant, "destinationUrl": "https://shop.example"},
				"/promo-codes": {"participantId": foreign.participant, "code": "FOREIGN", "discountType": "percentage", "discountValue": 10},
			} {
				own.merchant.post(t, own.programPath()+path, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "participantId")
			}
			own.merchant.patch(t, own.participantPath(), object{"groupId": foreign.ids["group_id"]}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "groupId")
			own.merchant.post(t, "/api/v1/conversions/"+own.ids["conversion_id"]+"/reattribute", object{"participant_id": foreign.participant, "reason": "x"}).
				wantError(http.StatusBadRequest, "VALIDATION_ERROR", "participant_id")
			if !same {
				own.merchant.post(t, workspacePath+"/transfer-ownership", object{"memberId": foreign.merchant.id}).wantOutcome(notFound)
			}
		}
	}
	for i, w := range worlds {
		if after := readEverything(t, w.merchant, merchants, w.ids); after != before[i] {
			t.Errorf("world %d has changed:\nbefore\n%s\nafter\n%s", i, before[i], after)
		}
	}
}

// TestIsolation_Partners calls the partner's routes with another partner's ids and in
// the other mode.
func TestIsolation_Partners(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	w.earn(t)
	ids := w.createAll(t)
	rival := sys.partner(t).in("test")
	place := rival.post(t, w.applyPath(), nil).want(http.StatusCreated).text("id")
	w.merchant.patch(t, w.programPath()+"/partners/"+place+"/approve", nil).want(http.StatusOK)
	own := rival.post(t, "/api/v1/partner/links", object{"programId": w.program, "destinationUrl": "https://shop.example"}).want(http.StatusCreated).text("id")
	rivals := map[string]string{"program_id": w.program, "link_id": own}

	before := readEverything(t, w.partner, partners, ids)
	if shown := readEverything(t, rival, partners, rivals); strings.Contains(shown, w.participant) || strings.Contains(shown, w.code) || strings.Contains(shown, "ROUTES") {
		t.Errorf("a partner sees the data of another partner: %s", shown)
	}
	for _, r := range routesOf(t, partners) {
		if strings.Contains(r.template, "{link_id}") {
			rival.do(t, r.verb, r.path(ids), nil).wantOutcome(notFound)
			w.partner.in("live").do(t, r.verb, r.path(ids), nil).wantOutcome(notFound)
		}
	}
	if after := readEverything(t, w.partner, partners, ids); after != before {
		t.Errorf("the data has changed:\nbefore\n%s\nafter\n%s", before, after)
	}
}
