package e2e_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readerOf returns a client that may call the route, or false if the merchant of the fixture,
// or with partnerReads its partner, has no such credential.
func (f fixture) readerOf(r route, partnerReads bool) (apiClient, bool) {
	rule := routeRules[r.rpc]
	switch {
	case rule.accepts == anyone:
		return apiClient{}, false
	case partnerReads:
		return f.partner.apiClient, rule.allows(partners)
	case rule.allows(merchants):
		return f.merchant.apiClient, true
	}
	return f.sys.client().withCredential(f.secretKey).inMode("test"), rule.allows(secretKeys)
}

// readAll calls every GET route that the merchant or its servers may call, or with
// partnerReads every one of the partner. It returns the bodies by route.
func (f fixture) readAll(t *testing.T, ids map[string]string, externalID string, partnerReads bool) map[string]string {
	t.Helper()
	bodies := map[string]string{}
	for _, r := range routes(t) {
		reader, ok := f.readerOf(r, partnerReads)
		if r.verb != http.MethodGet || !ok {
			continue
		}
		queries := map[string]string{"": ""}
		switch {
		case r.rpc == "FindDecision":
			queries[""] = "?external_transaction_id=" + url.QueryEscape(externalID)
		case r.rpc == "Search":
			queries[""] = "?q=" + url.QueryEscape(externalID)
		case strings.HasSuffix(r.rpc, "Breakdown"):
			for _, group := range []string{"participant", "link", "promoCode", "subId", "referrerDomain", "utmSource"} {
				queries[" by "+group] = "?groupBy=" + group
			}
		}
		for name, query := range queries {
			got := reader.get(t, r.path(ids)+query)
			if bodies[r.String()+name] = got.body; got.status >= http.StatusInternalServerError {
				t.Errorf("%s: status %d", got.request, got.status)
			}
		}
	}
	if len(bodies) < 20 {
		t.Fatalf("only %d routes were read", len(bodies))
	}
	return bodies
}

var (
	shownName     = regexp.MustCompile(`"partner_?(?:[nN]ame|[eE]mail)":"([^"]*)"`)
	pseudonymForm = regexp.MustCompile(`^erased-[0-9a-f]{8}$`)
)

// wantOnePseudonym checks that all bodies name the only partner of the workspace by the same
// pseudonym. It returns the pseudonym.
func wantOnePseudonym(t *testing.T, bodies map[string]string) string {
	t.Helper()
	names := map[string]string{}
	for route, body := range bodies {
		for _, match := range shownName.FindAllStringSubmatch(body, -1) {
			names[match[1]] = route
		}
	}
	if len(names) != 1 || !pseudonymForm.MatchString(slices.Collect(maps.Keys(names))[0]) {
		t.Fatalf("the partner has the names %v, want one pseudonym", names)
	}
	return slices.Collect(maps.Keys(names))[0]
}

// erasedSubject is a fixture whose participant, partner, buyer or workspace is erased.
type erasedSubject struct {
	fixture

	kind           string
	ids            map[string]string
	values         map[string]string // texts of the subject
	externalID     string
	pending        []string // commissions of the participant
	partnerReads   bool
	name, customer string
}

// newErasedSubject creates a subject of which the routes show all values, and erases it.
func newErasedSubject(t *testing.T, sys *system, kind string) erasedSubject {
	t.Helper()
	s := erasedSubject{kind: kind, name: uniqueName("Quintessa Quokkatron"), partnerReads: kind == "workspace"}
	email := uniqueName("quintessa") + "@quokkatron.example"
	partner := sys.account("partner", email, sys.client().post(t, "/api/v1/auth/partner/register", object{
		"email": email, "password": password, "name": s.name,
	}).wantStatus(http.StatusCreated)).inMode("test")
	s.fixture = sys.newFixtureFor(t, sys.newMerchant(t).inMode("test"), partner, rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	s.ids = s.createAll(t)
	s.merchant.patch(t, "/api/v1/payouts/"+s.ids["payout_id"]+"/mark-paid", object{"reference": "tx-1"}).wantStatus(http.StatusOK)
	programme := uniqueName("Quokka Programme")
	s.merchant.patch(t, s.programPath(), object{"name": programme}).wantStatus(http.StatusOK)
	ofPartner, ofBuyer := s.aLife(t)
	s.externalID, s.customer = ofBuyer["external id"], ofBuyer["customer"]
	sale := s.merchant.get(t, "/api/v1/commissions?search="+s.externalID).wantStatus(http.StatusOK)
	s.ids["conversion_id"], s.ids["commission_id"] = sale.text("data.0.conversionId"), sale.text("data.0.id")
	s.pending = []string{s.earnCommission(t), s.earnCommission(t)}
	s.merchant.patch(t, s.programPath(), rules(object{"autoApproval": false})).wantStatus(http.StatusOK)
	s.pending = append(s.pending, s.earnCommission(t)) // its hold period is running
	seen := []string{"name", "address", "code", "second code", "promo code", "note", "tag", "reason", "sub id"}
	switch s.values = ofPartner; kind {
	case "buyer":
		s.values, seen = ofBuyer, []string{"external id", "metadata", "product", "subscription"}
	case "workspace":
		s.values, seen = map[string]string{"programme": programme}, []string{"programme"}
	default:
		s.values["name"], s.values["address"] = s.name, email
	}
	before := s.readAll(t, s.ids, s.externalID, s.partnerReads)
	for _, name := range seen {
		if len(traces(before, map[string]string{name: s.values[name]})) == 0 {
			t.Errorf("%s: no route shows the %s before the erasure", kind, name)
		}
	}
	switch kind {
	case "participant":
		s.merchant.post(t, s.participantPath()+"/erase", confirmed).wantStatus(http.StatusOK)
	case "partner":
		s.partner.post(t, "/api/v1/partner/account/erase", confirmed).wantStatus(http.StatusOK)
	case "buyer":
		s.eraseBuyer(t, object{"customerId": s.customer})
	case "workspace":
		s.merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantStatus(http.StatusOK)
	}
	return s
}

// wantNothingShown checks that no GET route shows one of the values.
func (s erasedSubject) wantNothingShown(t *testing.T, values map[string]string) map[string]string {
	t.Helper()
	bodies := s.readAll(t, s.ids, s.externalID, s.partnerReads)
	if found := traces(bodies, values); len(found) > 0 {
		t.Errorf("after the erasure of the %s:\n%s", s.kind, strings.Join(found, "\n"))
	}
	return bodies
}

// wantMovesUnderPseudonym reviews commissions of an erased participant and writes to its
// ledger.
func (s erasedSubject) wantMovesUnderPseudonym(t *testing.T, pseudonym string) {
	t.Helper()
	for name, got := range map[string]response{
		"approve": s.merchant.patch(t, s.commissionPath(s.pending[0])+"/approve", nil),
		"reject":  s.merchant.patch(t, s.commissionPath(s.pending[1])+"/reject", object{"reason": "The order was returned."}),
		"early":   s.merchant.patch(t, s.commissionPath(s.pending[2])+"/approve-override", object{"reason": "The order is safe."}),
	} {
		got.wantStatus(http.StatusOK).wantFields(object{"partnerName": pseudonym, "partnerEmail": pseudonym})
		if found := traces(map[string]string{name: got.body}, s.values); len(found) > 0 {
			t.Errorf("the response to a move contains values: %v", found)
		}
	}
	for _, search := range []string{s.name, s.partner.email} {
		s.merchant.get(t, "/api/v1/commissions?search="+url.QueryEscape(search)).wantFields(object{"total": 0})
	}
	if found := s.merchant.get(t, "/api/v1/commissions?search="+pseudonym); found.number("total") == 0 {
		t.Errorf("a search for the pseudonym finds nothing: %s", found.body)
	}
	ledger := s.participantPath() + "/ledger"
	s.merchant.post(t, ledger, object{"type": "bonus", "amountCents": 100, "reason": "Thanks"}).wantError(http.StatusConflict, "PARTICIPANT_ERASED")
	s.merchant.post(t, ledger, object{"type": "adjustment", "amountCents": -100, "reason": "Written off"}).wantStatus(http.StatusCreated)
}

// The routes show the name and the address of the subject until the response to the erasure
// arrives, and its other values until the steps have ended.
func TestErasure_NoRouteShowsErasedValues(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	var subjects []erasedSubject
	for _, kind := range []string{"participant", "partner", "buyer", "workspace"} {
		s := newErasedSubject(t, sys, kind)
		subjects = append(subjects, s)
		if kind == "participant" || kind == "partner" {
			bodies := s.wantNothingShown(t, map[string]string{"name": s.values["name"], "address": s.values["address"]})
			s.wantMovesUnderPseudonym(t, wantOnePseudonym(t, bodies))
		}
	}
	sys.finishErasures(t)
	for _, s := range subjects {
		bodies := s.wantNothingShown(t, s.values)
		if s.kind == "participant" || s.kind == "partner" {
			wantOnePseudonym(t, bodies)
		}
	}
}
