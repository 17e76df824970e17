package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

const serviceTokensPath = "/api/v1/service-tokens"

// testServiceTokens tests the life of a service token, and that a program can manage a
// workspace with it.
func testServiceTokens(t *testing.T, sys *system) {
	t.Run("manages a workspace", func(t *testing.T) { testServiceTokenManages(t, sys) })
	t.Run("is created, used, rolled and revoked", func(t *testing.T) { testServiceTokenLife(t, sys) })
	t.Run("has bounds", func(t *testing.T) { testServiceTokenBounds(t, sys) })
	t.Run("works over gRPC", func(t *testing.T) {
		owner := sys.newMerchant(t)
		token := owner.createServiceToken(t, "manager", "test", false)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token, "x-mode", "live")
		programs := affiliatev1.NewProgramServiceClient(sys.dial(t))
		created, err := programs.CreateProgram(ctx, &affiliatev1.CreateProgramRequest{Name: "From a service"})
		if err != nil || created.GetMode() != affiliatev1.Mode_MODE_TEST {
			t.Fatalf("CreateProgram returned %v, %v; want a programme of test mode", created, err)
		}
		_, err = affiliatev1.NewServiceTokenServiceClient(sys.dial(t)).ListServiceTokens(ctx, &affiliatev1.ListServiceTokensRequest{})
		wantGRPCError(t, err, codes.PermissionDenied, "FORBIDDEN")
		_, err = programs.ListPrograms(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+mistyped(token)), &affiliatev1.ListProgramsRequest{})
		wantGRPCError(t, err, codes.Unauthenticated, "UNAUTHORIZED")
	})
}

// testServiceTokenManages makes a program do what a team does: from the creation of a
// programme to the payout of its partner.
func testServiceTokenManages(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	ids, owner := f.createAll(t), f.merchant
	token := owner.createServiceToken(t, "admin", "test", true)
	name, creator := "service:"+owner.get(t, serviceTokensPath).text("data.0.name"), owner.get(t, serviceTokensPath).text("data.0.createdByName")
	service := sys.client().withCredential(token).inMode("live") // the token's mode is used
	f.merchant.apiClient = service
	f.sendPayouts(t)
	path := f.programPath()
	service.patch(t, path, object{"commissionRules": object{"percentage": 25}}).wantStatus(http.StatusOK)
	if by := service.get(t, path+"/rules").text("data.0.by"); by == "" {
		t.Error("the version of the rules does not say who made it")
	}
	live := f.sys.client().withCredential(owner.createServiceToken(t, "admin", "live", false)).get(t, path)
	if live.wantOutcome(notFound); strings.Contains(live.body, "X-Mode") {
		t.Errorf("a service token of live mode learns of test mode: %s", live.body)
	}
	service.post(t, path+"/announcements", object{"title": "New", "body": "Beans"}).wantStatus(http.StatusCreated)
	invite := service.post(t, path+"/partners/invite", object{"email": uniqueName("new") + "@example.com"}).wantStatus(http.StatusCreated)
	if invite.text("token") == "" {
		t.Error("the invitation has no token")
	}
	service.get(t, path+"/partners/invites").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.invitedBy": owner.id, "data.0.invitedByName": creator})
	service.patch(t, f.participantPath()+"/suspend", object{"reason": "check"}).wantStatus(http.StatusOK)
	service.patch(t, f.participantPath()+"/reinstate", nil).wantStatus(http.StatusOK)
	service.patch(t, f.participantPath(), object{"tags": []string{"vip"}}).wantStatus(http.StatusOK)
	service.do(t, http.MethodPut, path+"/fraud-policy", object{"policy": "observe"}).wantStatus(http.StatusOK)
	service.post(t, "/api/v1/fraud/events/"+ids["event_id"]+"/resolve", object{"outcome": "dismissed", "note": "known"}).wantStatus(http.StatusOK)
	service.patch(t, path+"/commissions/bulk-approve", object{"commissionIds": []string{ids["commission_id"]}}).wantStatus(http.StatusOK)
	service.get(t, path+"/commissions/"+ids["commission_id"]).wantStatus(http.StatusOK).wantFields(object{"status": "approved"})
	held := sys.newFixtureFor(t, owner, sys.newPartner(t).inMode("test"), rules(nil))
	early := held.commissionPath(held.earnCommission(t))
	service.patch(t, early+"/approve-override", object{"reason": "an old partner"}).wantStatus(http.StatusOK)
	got := service.get(t, early).wantStatus(http.StatusOK)
	if got.text("overrideBy") != got.text("approvedBy") {
		t.Errorf("overrideBy is %v, want the id of the token, %v", got.value("overrideBy"), got.value("approvedBy"))
	}
	got.wantFields(object{"approvedByName": name, "overrideByName": name, "history.1.actorName": name})
	other := sys.newPartner(t).inMode("test")
	colleague := other.post(t, f.applyPath(), object{}).wantStatus(http.StatusCreated).text("id")
	service.patch(t, path+"/partners/"+colleague+"/approve", nil).wantStatus(http.StatusOK)
	service.post(t, "/api/v1/conversions/"+ids["conversion_id"]+"/reattribute", object{
		"participant_id": colleague, "reason": "It was the colleague's link.",
	}).wantStatus(http.StatusOK)
	service.post(t, "/api/v1/api-keys", object{"name": "from a service"}).wantStatus(http.StatusCreated)
	service.get(t, "/api/v1/payouts/batches/"+ids["batch_id"]).wantStatus(http.StatusOK)
	service.get(t, "/api/v1/conversions").wantStatus(http.StatusOK)
	service.get(t, "/api/v1/analytics/summary").wantStatus(http.StatusOK)
	service.post(t, f.participantPath()+"/export", nil).wantStatus(http.StatusOK)

	service.do(t, http.MethodDelete, workspacePath+"/test-data", nil).wantStatus(http.StatusOK)

	// Every change is in the audit log under the name of the token.
	log := owner.get(t, workspacePath+"/audit-log?pageSize=100").wantStatus(http.StatusOK)
	var actions []string
	for i := range log.length("data") {
		if name, _ := log.value(fmt.Sprintf("data.%d.actorName", i)).(string); strings.HasPrefix(name, "service:service-") {
			actions = append(actions, log.text(fmt.Sprintf("data.%d.action", i)))
		}
	}
	for _, action := range []string{"program.update", "program.announce", "api_key.create"} {
		if !slices.Contains(actions, action) {
			t.Errorf("the audit log has the actions %v of the service token, want also %s", actions, action)
		}
	}
}

// testServiceTokenLife tests the fields of a token, its use, the grace period and the end.
func testServiceTokenLife(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	created := owner.post(t, serviceTokensPath, object{"name": " Sync ", "role": "viewer", "mode": "test"}).wantStatus(http.StatusCreated)
	created.wantFields(object{"name": "Sync", "role": "viewer", "mode": "test", "allowPayouts": false, "prefix": "st_test_", "createdBy": owner.id})
	token := created.text("token")
	if !strings.HasPrefix(token, "st_test_") || !strings.HasSuffix(token, created.text("last4")) {
		t.Errorf("the token has the prefix %q and the wrong last characters", token[:8])
	}
	if life := created.instant("expiresAt").Sub(created.instant("createdAt")); life != 90*24*time.Hour {
		t.Errorf("the token is valid for %v, want 90 days", life)
	}
	list := func() response { t.Helper(); return owner.get(t, serviceTokensPath).wantStatus(http.StatusOK) }
	list().wantFields(object{"total": 1, "data.0.lastUsedAt": nil, "data.0.lastUsedIpPrefix": nil})
	if strings.Contains(list().body, token) {
		t.Error("the list contains the token")
	}
	service := sys.client().withCredential(token)
	used := service.fromAddress("198.51.100.7").get(t, "/api/v1/programs").wantStatus(http.StatusOK)
	if policy := used.header.Get("RateLimit-Policy"); !strings.HasPrefix(policy, `"general"`) {
		t.Errorf("the request counts in %s, want general", policy)
	}
	list().wantFields(object{"data.0.lastUsedIpPrefix": "198.51.100.0/24"})
	if list().value("data.0.lastUsedAt") == nil {
		t.Error("the list does not show that the token was used")
	}
	for mode, total := range map[string]int{"test": 1, "live": 0} {
		owner.get(t, serviceTokensPath+"?mode="+mode).wantStatus(http.StatusOK).wantFields(object{"total": total})
	}

	path := serviceTokensPath + "/" + created.text("id")
	rolled := owner.post(t, path+"/roll", object{"graceHours": 1}).wantStatus(http.StatusOK)
	rolled.wantFields(object{"name": "Sync", "role": "viewer", "mode": "test"})
	owner.post(t, path+"/roll", nil).wantOutcome(notFound)
	successor := sys.client().withCredential(rolled.text("token"))
	service.get(t, "/api/v1/programs").wantOutcome(ok)
	successor.get(t, "/api/v1/programs").wantOutcome(ok)
	sys.exec(t, `update service_tokens set expires_at = created_at where id = $1`, created.text("id")) // the grace period ends
	service.get(t, "/api/v1/programs").wantOutcome(unauthorized)
	owner.do(t, http.MethodDelete, serviceTokensPath+"/"+rolled.text("id"), nil).wantStatus(http.StatusNoContent)
	successor.get(t, "/api/v1/programs").wantOutcome(unauthorized)
	owner.do(t, http.MethodDelete, serviceTokensPath+"/"+rolled.text("id"), nil).wantOutcome(notFound)
	list().wantFields(object{"total": 0})
	for _, kind := range []string{"created", "rolled", "revoked"} {
		notification := owner.get(t, "/api/v1/notifications?category=security").wantStatus(http.StatusOK)
		if !strings.Contains(notification.body, "security.service_token_"+kind) {
			t.Errorf("there is no notification that a service token was %s", kind)
		}
	}
}

// testServiceTokenBounds tests who may create which tokens, and how many.
func testServiceTokenBounds(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	admin, developer := owner.addMember(t, "admin"), owner.addMember(t, "developer")
	year := time.Now().AddDate(1, 0, 1).UTC().Format(time.RFC3339)
	for name, tc := range map[string]struct {
		field string
		body  object
	}{
		"no name":           {"name", object{"name": " ", "role": "viewer"}},
		"no role":           {"role", object{"name": "x"}},
		"an owner":          {"role", object{"name": "x", "role": "owner"}},
		"unknown mode":      {"mode", object{"name": "x", "role": "viewer", "mode": "prod"}},
		"over a year":       {"expiresAt", object{"name": "x", "role": "viewer", "expiresAt": year}},
		"in the past":       {"expiresAt", object{"name": "x", "role": "viewer", "expiresAt": "2020-01-01T00:00:00Z"}},
		"a chosen token":    {"token", object{"name": "x", "role": "viewer", "token": "st_live_x"}},
		"payouts as a text": {"allowPayouts", object{"name": "x", "role": "viewer", "allowPayouts": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			owner.post(t, serviceTokensPath, tc.body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", tc.field)
		})
	}
	payouts := object{"name": "x", "role": "finance", "mode": "live", "allowPayouts": true}
	admin.post(t, serviceTokensPath, payouts).wantOutcome(forbidden)
	developer.post(t, serviceTokensPath, object{"name": "x", "role": "viewer"}).wantOutcome(forbidden)
	id := owner.post(t, serviceTokensPath, payouts).wantStatus(http.StatusCreated).text("id")
	admin.post(t, serviceTokensPath+"/"+id+"/roll", nil).wantOutcome(forbidden)
	admin.do(t, http.MethodDelete, serviceTokensPath+"/"+id, nil).wantStatus(http.StatusNoContent)

	// Twenty tokens of a mode, even if more requests run at the same time.
	var wait sync.WaitGroup
	var lock sync.Mutex
	statuses := map[int]int{}
	for range 30 {
		wait.Go(func() {
			got := owner.post(t, serviceTokensPath, object{"name": "many", "role": "viewer", "mode": "live"})
			lock.Lock()
			defer lock.Unlock()
			statuses[got.status]++
			if got.status != http.StatusCreated {
				got.wantError(http.StatusUnprocessableEntity, "API_KEY_LIMIT_EXCEEDED")
			}
		})
	}
	wait.Wait()
	if statuses[http.StatusCreated] != 20 {
		t.Errorf("30 requests at the same time had the statuses %v, want 20 times 201", statuses)
	}
	owner.post(t, serviceTokensPath, object{"name": "other mode", "role": "viewer", "mode": "test"}).wantStatus(http.StatusCreated)
	owner.get(t, serviceTokensPath+"?pageSize=100").wantStatus(http.StatusOK).wantFields(object{"total": 21})
}
