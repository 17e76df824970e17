package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// idFilter is a query parameter that filters a list by an id.
type idFilter struct {
	route
	name, parameter string
}

// idFilters returns the id filters of all routes, from the proto descriptors.
func idFilters(t *testing.T) []idFilter {
	t.Helper()
	var all []idFilter
	for _, r := range routes(t) {
		if r.verb != http.MethodGet {
			continue
		}
		for i := range r.input.Fields().Len() {
			field := r.input.Fields().Get(i)
			name := string(field.Name())
			isID := strings.HasSuffix(name, "_id") || name == "actor"
			// The values of external_transaction_id and customer_id are texts that the merchant has
			// chosen, so an unknown value is not an error.
			isID = isID && name != "last_event_id" // the number of an event in a stream
			if isID && name != "external_transaction_id" && name != "external_id" && name != "customer_id" && !strings.Contains(r.template+r.first, "{"+name+"}") {
				all = append(all, idFilter{r, name, field.JSONName()})
			}
		}
	}
	return all
}

// testIDFilters checks that every list returns 404 if the workspace has no resource with
// the id of the filter in the client's mode.
func testIDFilters(t *testing.T, sys *system) {
	f, foreign := sys.newFixture(t, "test", nil), sys.newFixture(t, "test", nil)
	ownIDs, foreignIDs := f.createAll(t), foreign.createAll(t)
	live := f.merchant.inMode("live").createProgram(t, nil)
	event := func(f fixture, ids map[string]string) string {
		return f.merchant.get(t, webhooksPath+"/"+ids["webhook_id"]+"/deliveries").wantStatus(http.StatusOK).text("data.0.eventId")
	}
	unknown := unknownIDs()
	const neverUsed = "01890000-0000-7000-8000-000000000001"
	values := func(ids map[string]string) (all []string) {
		for name, id := range ids {
			// The audit log has no entries about these records. The last ones are not ids.
			if !slices.Contains([]string{"click_id", "delivery_id", "notification_id", "entry_id", "session_id", "proposal_id", "token", "digest", "workspace_slug", "program_slug"}, name) {
				all = append(all, id)
			}
		}
		return all
	}
	type filterValues struct{ known, unknown []string }
	filters := map[string]filterValues{
		"program_id":         {[]string{f.program}, []string{neverUsed, foreignIDs["program_id"], live}},
		"participant_id":     {[]string{f.participant}, []string{neverUsed, foreignIDs["participant_id"]}},
		"partner_account_id": {[]string{f.partner.id}, []string{neverUsed, foreign.partner.id}},
		"link_id":            {[]string{ownIDs["link_id"]}, []string{neverUsed, foreignIDs["link_id"]}},
		"group_id":           {[]string{ownIDs["group_id"]}, []string{neverUsed, foreignIDs["group_id"]}},
		"batch_id":           {[]string{ownIDs["batch_id"]}, []string{neverUsed, foreignIDs["batch_id"]}},
		"event_id":           {[]string{event(f, ownIDs)}, []string{"evt_" + strings.ReplaceAll(neverUsed, "-", ""), event(foreign, foreignIDs)}},
		"actor":              {[]string{f.merchant.id, f.partner.id, ownIDs["key_id"], "system"}, []string{neverUsed, foreign.merchant.id, foreign.partner.id, foreignIDs["key_id"]}},
		"resource_id":        {append(values(ownIDs), f.merchant.workspace), append(append(values(foreignIDs), values(unknown)...), live, foreign.merchant.workspace)},
	}
	tested := map[string]bool{}
	for _, filter := range idFilters(t) {
		want, ok := filters[filter.name]
		if !ok {
			t.Errorf("%s has the filter %s, which this test does not cover", filter, filter.name)
			continue
		}
		tested[filter.name] = true
		t.Run(filter.String()+" "+filter.name, func(t *testing.T) {
			client := f.clientFor(t, routeRules[filter.rpc], "test")
			path := filter.path(ownIDs) + "?" + filter.parameter + "="
			if filter.rpc == "LookupPartnerConversion" { // it needs an order or a day
				path = filter.path(ownIDs) + "?externalTransactionId=unknown&" + filter.parameter + "="
			}
			for _, id := range want.known {
				client.get(t, path+id).wantStatus(http.StatusOK)
			}
			for _, id := range want.unknown {
				if filter.name == "program_id" && id == foreignIDs["program_id"] && strings.HasPrefix(filter.template, "/api/v1/commissions") {
					client.get(t, path+id).wantOutcome(forbidden) // lists of commissions return 403 here (docs/merchant/authentication.md#modes)
					continue
				}
				client.get(t, path+id).wantError(http.StatusNotFound, "NOT_FOUND")
			}
			if filter.name != "actor" { // an actor may also be "system"
				client.get(t, path+"x").wantError(http.StatusBadRequest, "VALIDATION_ERROR")
			}
		})
	}
	if len(tested) != len(filters) {
		t.Errorf("the lists have only the filters %v, but this test covers %d filters", tested, len(filters))
	}

	t.Run("the audit log can still be filtered by deleted resources", func(t *testing.T) {
		f.merchant.do(t, http.MethodDelete, "/api/v1/api-keys/"+ownIDs["key_id"], nil).wantStatus(http.StatusNoContent)
		f.merchant.do(t, http.MethodDelete, f.programPath()+"/groups/"+ownIDs["group_id"], nil).wantStatus(http.StatusNoContent)
		f.merchant.do(t, http.MethodDelete, "/api/v1/workspace/invites/"+ownIDs["invite_id"], nil).wantStatus(http.StatusNoContent)
		sys.exec(t, `delete from api_keys where id = $1`, ownIDs["key_id"])
		for _, name := range []string{"key_id", "group_id", "invite_id"} {
			for _, path := range []string{"", "/export"} {
				f.merchant.get(t, workspacePath+"/audit-log"+path+"?resourceId="+ownIDs[name]).wantStatus(http.StatusOK)
			}
		}
	})
}
