package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

// idFilter is a query parameter whose value is an id.
type idFilter struct {
	route
	name, parameter string
}

// idFilters returns the id filters of all routes, from the proto descriptors.
func idFilters(t *testing.T) []idFilter {
	t.Helper()
	var all []idFilter
	for _, r := range routes(t) {
		// A partner's summary is not a list.
		if r.verb != http.MethodGet || r.rpc == "GetPartnerSummary" {
			continue
		}
		for i := range r.input.Fields().Len() {
			field := r.input.Fields().Get(i)
			name := string(field.Name())
			isID := strings.HasSuffix(name, "_id") || name == "actor"
			// A transaction id is text of the merchant.
			if isID && name != "external_transaction_id" && !strings.Contains(r.template, "{"+name+"}") {
				all = append(all, idFilter{r, name, field.JSONName()})
			}
		}
	}
	return all
}

// TestIDFilters checks that every list returns 404 if a filter has an id that does not
// exist in the caller's mode.
func TestIDFilters(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w, foreign := sys.world(t, "test", nil), sys.world(t, "test", nil)
	own, theirs := w.createAll(t), foreign.createAll(t)
	live := w.merchant.in("live").program(t, nil)
	event := func(w world, ids map[string]string) string {
		return w.merchant.get(t, webhooksPath+"/"+ids["webhook_id"]+"/deliveries").want(http.StatusOK).text("data.0.eventId")
	}
	unknown := unknownIDs()
	const never = "01890000-0000-7000-8000-000000000001"
	values := func(of map[string]string) (all []string) {
		for name, id := range of {
			// The audit log has no entries about clicks and deliveries.
			if name != "click_id" && name != "delivery_id" {
				all = append(all, id)
			}
		}
		return all
	}
	type ids struct{ known, unknown []string }
	filters := map[string]ids{
		"program_id":     {[]string{w.program}, []string{never, theirs["program_id"], live}},
		"participant_id": {[]string{w.participant}, []string{never, theirs["participant_id"]}},
		"group_id":       {[]string{own["group_id"]}, []string{never, theirs["group_id"]}},
		"batch_id":       {[]string{own["batch_id"]}, []string{never, theirs["batch_id"]}},
		"event_id":       {[]string{event(w, own)}, []string{"evt_" + strings.ReplaceAll(never, "-", ""), event(foreign, theirs)}},
		"actor":          {[]string{w.merchant.id, w.partner.id, own["key_id"], "system"}, []string{never, foreign.merchant.id, foreign.partner.id, theirs["key_id"]}},
		"resource_id":    {append(values(own), w.merchant.workspace), append(append(values(theirs), values(unknown)...), live, foreign.merchant.workspace)},
	}
	met := map[string]bool{}
	for _, f := range idFilters(t) {
		want, ok := filters[f.name]
		if !ok {
			t.Errorf("%s has the filter %s, which is missing in this test", f, f.name)
			continue
		}
		met[f.name] = true
		t.Run(f.String()+" "+f.name, func(t *testing.T) {
			from := w.callerFor(t, contract[f.rpc], "test")
			path := f.path(own) + "?" + f.parameter + "="
			for _, id := range want.known {
				from.get(t, path+id).want(http.StatusOK)
			}
			for _, id := range want.unknown {
				if f.name == "program_id" && id == theirs["program_id"] && strings.HasPrefix(f.template, "/api/v1/commissions") {
					from.get(t, path+id).wantOutcome(forbidden) // SPEC.md section 4
					continue
				}
				from.get(t, path+id).wantError(http.StatusNotFound, "NOT_FOUND")
			}
			if f.name != "actor" { // an actor may also be "system"
				from.get(t, path+"x").wantError(http.StatusBadRequest, "VALIDATION_ERROR")
			}
		})
	}
	if len(met) != len(filters) {
		t.Errorf("only %v are filters of a list", met)
	}

	t.Run("the audit log can still be filtered by deleted resources", func(t *testing.T) {
		w.merchant.do(t, http.MethodDelete, "/api/v1/api-keys/"+own["key_id"], nil).want(http.StatusNoContent)
		w.merchant.do(t, http.MethodDelete, w.programPath()+"/groups/"+own["group_id"], nil).want(http.StatusNoContent)
		w.merchant.do(t, http.MethodDelete, "/api/v1/workspace/invites/"+own["invite_id"], nil).want(http.StatusNoContent)
		sys.exec(t, `delete from api_keys where id = $1`, own["key_id"])
		for _, name := range []string{"key_id", "group_id", "invite_id"} {
			for _, path := range []string{"", "/export"} {
				w.merchant.get(t, workspacePath+"/audit-log"+path+"?resourceId="+own[name]).want(http.StatusOK)
			}
		}
	})
}
