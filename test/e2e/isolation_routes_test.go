package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// populatedFixture is a fixture with one resource for each path parameter of the API. The
// map ids contains the id of the resource by the name of the parameter.
type populatedFixture struct {
	fixture
	ids map[string]string
}

// idRoutes returns the routes that accept the given kind of credential and have ids in
// their path.
func idRoutes(t *testing.T, kind string) (found []route) {
	t.Helper()
	for _, r := range routes(t) {
		if routeRules[r.rpc].accepts == kind && r.hasIDs() {
			found = append(found, r)
		}
	}
	return found
}

// unrepeatable are the RPCs whose GET routes readEverything does not call. An export of
// payouts or of the ledger adds an entry to the audit log, a statement of balances contains
// its time, the notification log of live mode has no entries, and look-ups need a parameter.
var unrepeatable = []string{"ExportPayoutBatch", "ExportLedger", "ListLedgerBalances", "GetNotificationLogEntry", "LookupPartnerConversion", "FindDecision", "Search"}

// readEverything calls the GET routes that the account may call, except those in
// unrepeatable, and returns the responses as one text.
func readEverything(t *testing.T, reader caller, kind string, ids map[string]string) string {
	t.Helper()
	var all strings.Builder
	for _, r := range routes(t) {
		if r.verb == http.MethodGet && !slices.Contains(unrepeatable, r.rpc) && routeRules[r.rpc].allows(kind) && routeRules[r.rpc].accepts != anyone && !strings.HasSuffix(r.template, "/api-keys") {
			all.WriteString(r.String() + "\n" + reader.get(t, r.path(ids)).wantStatus(http.StatusOK).body + "\n")
		}
	}
	return all.String()
}

// testIsolationAllRoutes creates four fixtures: two workspaces with two modes each. For
// each pair of fixtures, the merchant of one fixture calls every merchant route with the
// ids of the other fixture. Routes with several ids are also called with a mixture: the
// merchant's own programme and the other ids of the other fixture. The merchant also
// searches for data of the other fixture. No call may read, count or change this data.
func testIsolationAllRoutes(t *testing.T, sys *system) {
	partner := sys.newPartner(t)
	var fixtures []populatedFixture
	for _, merchant := range []caller{sys.newMerchant(t), sys.newMerchant(t)} {
		for _, mode := range []string{"test", "live"} {
			f := sys.newFixtureFor(t, merchant.inMode(mode), partner.inMode(mode), nil)
			fixtures = append(fixtures, populatedFixture{f, f.createAll(t)})
		}
	}
	before := make([]string, len(fixtures))
	for i, f := range fixtures {
		before[i] = readEverything(t, f.merchant, merchants, f.ids)
		for _, other := range fixtures {
			if other.program != f.program && strings.Contains(before[i], other.program) {
				t.Errorf("fixture %d can read a programme of another fixture", i)
			}
		}
	}
	merchantRoutes := append(idRoutes(t, merchants), idRoutes(t, secretKeysOrMerchants)...)
	for i, own := range fixtures {
		for j, foreign := range fixtures {
			if i == j {
				continue
			}
			sameWorkspace := own.merchant.workspace == foreign.merchant.workspace
			mixedIDs := map[string]string{}
			for name, id := range foreign.ids {
				mixedIDs[name] = id
			}
			mixedIDs["program_id"] = own.program
			for _, r := range merchantRoutes {
				rule := routeRules[r.rpc]
				if rule.sharedByModes && sameWorkspace {
					continue
				}
				want := r.unknownOutcome()
				if rule.foreignOutcome != (outcome{}) && (!sameWorkspace || rule.foreignOutcome == allFailed) {
					want = rule.foreignOutcome
				}
				got := own.merchant.do(t, r.verb, r.path(foreign.ids), rule.requestBody())
				got.wantOutcome(want)
				// Only the member of the workspace learns that the ids exist in its other mode. An
				// unknown participant in the body exists in neither mode.
				mode := []string{"test", "live"}[j%2]
				exist := sameWorkspace && want.status == http.StatusNotFound && r.hasModalIDs() && rule.body["participantId"] == nil && rule.body["participant_id"] == nil
				if suggested := strings.Contains(got.body, "It exists in "+mode+" mode; send X-Mode: "+mode+"."); suggested != exist {
					t.Errorf("%s: the ids exist in %s mode of the workspace: %t; body %s", got.request, mode, sameWorkspace, got.body)
				}
				if strings.Count(r.template, "{") > 1 {
					got := own.merchant.do(t, r.verb, r.path(mixedIDs), rule.requestBody())
					got.wantOutcome(r.unknownOutcome())
					if strings.Contains(r.template, "{program_id}") && strings.Contains(got.body, "X-Mode") {
						t.Errorf("%s: the ids are of two modes; body %s", got.request, got.body)
					}
				}
			}
			for _, search := range []string{
				"/partners?search=" + foreign.code, "/partners?search=" + foreign.participant, "/links?search=" + foreign.code,
			} {
				own.merchant.get(t, own.programPath()+search).wantStatus(http.StatusOK).wantFields(object{"total": 0})
			}
			for _, text := range []string{foreign.code, foreign.participant, foreign.program} {
				if hits := own.merchant.get(t, "/api/v1/search?q="+text).wantStatus(http.StatusOK).body; hits != `{"hits":[]}` {
					t.Errorf("a search for %s of another fixture finds %s", text, hits)
				}
			}
			for _, filter := range []string{"/links?participantId=", "/promo-codes?participantId="} {
				own.merchant.get(t, own.programPath()+filter+foreign.participant).wantOutcome(notFound)
			}
			// An id in a request body must also belong to the client's workspace and
			// mode.
			for path, body := range map[string]object{
				"/links":       {"participantId": foreign.participant, "destinationUrl": "https://shop.example"},
				"/promo-codes": {"participantId": foreign.participant, "code": "FOREIGN", "discountType": "percentage", "discountValue": 10},
			} {
				own.merchant.post(t, own.programPath()+path, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "participantId")
			}
			own.merchant.patch(t, own.participantPath(), object{"groupId": foreign.ids["group_id"]}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "groupId")
			own.merchant.post(t, "/api/v1/conversions/"+own.ids["conversion_id"]+"/reattribute", object{"participant_id": foreign.participant, "reason": "x"}).
				wantError(http.StatusBadRequest, "VALIDATION_ERROR", "participant_id")
			if !sameWorkspace {
				own.merchant.post(t, workspacePath+"/transfer-ownership", object{"memberId": foreign.merchant.id}).wantOutcome(notFound)
			}
		}
	}
	for i, f := range fixtures {
		if after := readEverything(t, f.merchant, merchants, f.ids); after != before[i] {
			t.Errorf("the data of fixture %d has changed:\nbefore\n%s\nafter\n%s", i, before[i], after)
		}
	}
}

// testIsolationPartners calls the routes of a partner with the ids of another partner,
// and in the other mode.
func testIsolationPartners(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	f.earnCommission(t)
	ids := f.createAll(t)
	rival := sys.newPartner(t).inMode("test")
	participantID := rival.post(t, f.applyPath(), nil).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, f.programPath()+"/partners/"+participantID+"/approve", nil).wantStatus(http.StatusOK)
	rivalLink := rival.post(t, "/api/v1/partner/links", object{"programId": f.program, "destinationUrl": "https://shop.example"}).wantStatus(http.StatusCreated).text("id")
	rivalIDs := map[string]string{"program_id": f.program, "link_id": rivalLink}
	rival.patch(t, "/api/v1/partner/payout-method", object{"method": "manual", "password": password}).wantStatus(http.StatusOK)
	rivalPath := f.programPath() + "/partners/" + participantID
	f.merchant.post(t, rivalPath+"/ledger", object{"type": "bonus", "amountCents": 500, "reason": "Thanks"}).wantStatus(http.StatusCreated)
	batch := f.createBatch(t, object{}).wantStatus(http.StatusCreated).text("id")
	f.merchant.post(t, "/api/v1/payouts/batches/"+batch+"/confirm", nil).wantStatus(http.StatusOK)
	ofRival := f
	ofRival.code = rival.get(t, "/api/v1/partner/programs/"+f.program).wantStatus(http.StatusOK).text("participation.referralCode")
	rivalIDs["commission_id"] = ofRival.earnCommission(t)
	rivalIDs["payout_id"] = rival.get(t, "/api/v1/partner/payouts").wantStatus(http.StatusOK).text("data.0.id")

	before := readEverything(t, f.partner, partners, ids)
	if shown := readEverything(t, rival, partners, rivalIDs); strings.Contains(shown, f.participant) || strings.Contains(shown, f.code) || strings.Contains(shown, "ROUTES") || strings.Contains(shown, ids["proposal_id"]) {
		t.Errorf("a partner sees the data of another partner: %s", shown)
	}
	for _, r := range idRoutes(t, partners) {
		if slices.ContainsFunc([]string{"{link_id}", "{commission_id}", "{payout_id}", "{notification_id}", "{proposal_id}"}, func(id string) bool {
			return strings.Contains(r.template, id)
		}) {
			rival.do(t, r.verb, r.path(ids), nil).wantOutcome(notFound)
			f.partner.inMode("live").do(t, r.verb, r.path(ids), nil).wantOutcome(notFound)
		}
	}
	if after := readEverything(t, f.partner, partners, ids); after != before {
		t.Errorf("the data has changed:\nbefore\n%s\nafter\n%s", before, after)
	}
}
