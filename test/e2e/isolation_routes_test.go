package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

// resident is a world with one of everything that a path can name.
type resident struct {
	world
	ids map[string]string
}

// merchantRoutes and partnerRoutes are those of the contract with ids in their
// path.
func routesOf(t *testing.T, who string) (named []route) {
	t.Helper()
	for _, r := range routes(t) {
		if contract[r.rpc].who == who && r.hasIDs() {
			named = append(named, r)
		}
	}
	return named
}

// everything is all that the API shows somebody, from every route that reads.
// The export of a batch of payouts is an act, which the audit log notes.
func everything(t *testing.T, from account, who string, ids map[string]string) string {
	t.Helper()
	var all strings.Builder
	for _, r := range routes(t) {
		if r.verb == http.MethodGet && r.rpc != "ExportPayoutBatch" && contract[r.rpc].takes(who) && contract[r.rpc].who != anyone && !strings.HasSuffix(r.template, "/api-keys") {
			all.WriteString(r.String() + "\n" + from.get(t, r.path(ids)).want(http.StatusOK).body + "\n")
		}
	}
	return all.String()
}

// TestNoRouteLeadsElsewhere: every route of a merchant, from every one of four
// worlds into every other, through the other's programme and through one's own;
// and every search for what only the other has. Nothing is read, counted or
// changed.
func TestNoRouteLeadsElsewhere(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	partner := sys.partner(t)
	var worlds []resident
	for _, merchant := range []account{sys.merchant(t), sys.merchant(t)} {
		for _, mode := range []string{"test", "live"} {
			w := sys.worldOf(t, merchant.in(mode), partner.in(mode), nil)
			worlds = append(worlds, resident{w, w.everyID(t)})
		}
	}
	before := make([]string, len(worlds))
	for i, w := range worlds {
		before[i] = everything(t, w.merchant, merchants, w.ids)
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
				want := r.absent()
				if rule.foreign != (outcome{}) && (!same || rule.foreign == allFailed) {
					want = rule.foreign
				}
				own.merchant.do(t, r.verb, r.path(foreign.ids), rule.sent()).wantOutcome(want)
				if strings.Count(r.template, "{") > 1 {
					own.merchant.do(t, r.verb, r.path(through), rule.sent()).wantOutcome(r.absent())
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
			// What a body names is looked for in one's own world, too.
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
		if after := everything(t, w.merchant, merchants, w.ids); after != before[i] {
			t.Errorf("world %d was\n%s\nand is\n%s", i, before[i], after)
		}
	}
}

// TestPartnersSeeTheirOwnOnly walks the partner's routes with another partner's
// ids and in the other mode.
func TestPartnersSeeTheirOwnOnly(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	w.earn(t)
	ids := w.everyID(t)
	rival := sys.partner(t).in("test")
	place := rival.post(t, w.applyPath(), nil).want(http.StatusCreated).text("id")
	w.merchant.patch(t, w.programPath()+"/partners/"+place+"/approve", nil).want(http.StatusOK)
	own := rival.post(t, "/api/v1/partner/links", object{"programId": w.program, "destinationUrl": "https://shop.example"}).want(http.StatusCreated).text("id")
	rivals := map[string]string{"program_id": w.program, "link_id": own}

	before := everything(t, w.partner, partners, ids)
	if shown := everything(t, rival, partners, rivals); strings.Contains(shown, w.participant) || strings.Contains(shown, w.code) || strings.Contains(shown, "ROUTES") {
		t.Errorf("a partner sees another's: %s", shown)
	}
	for _, r := range routesOf(t, partners) {
		if strings.Contains(r.template, "{link_id}") {
			rival.do(t, r.verb, r.path(ids), nil).wantOutcome(notFound)
			w.partner.in("live").do(t, r.verb, r.path(ids), nil).wantOutcome(notFound)
		}
	}
	if after := everything(t, w.partner, partners, ids); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}
