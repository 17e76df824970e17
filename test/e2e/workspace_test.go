package e2e_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const workspacePath = "/api/v1/workspace"

// addMember invites a new person to the account's workspace, accepts the invitation, and
// returns the new account.
func (a caller) addMember(t *testing.T, role string) caller {
	t.Helper()
	email := uniqueName("member") + "@example.com"
	token := a.post(t, workspacePath+"/invites", object{"email": email, "role": role}).wantStatus(http.StatusCreated).text("token")
	return a.sys.account("merchant", email, a.sys.client().post(t, "/api/v1/auth/merchant/accept-invite", object{
		"token": token, "name": "Max Member", "password": password,
	}).wantStatus(http.StatusCreated))
}

func (a caller) memberPath() string { return workspacePath + "/members/" + a.id }

func testWorkspaceSettings(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	owner.get(t, workspacePath).wantStatus(http.StatusOK).wantFields(object{
		"id": owner.workspace, "allowedOrigins": []string{}, "originPolicy": "observe", "testMailRedirect": nil,
	})
	sys.exec(t, `update users set email_verified_at = created_at where id = $1`, owner.id)
	change := object{
		"name": " New name ", "currency": "eur", "timezone": "Europe/Berlin", "testMailRedirect": owner.email,
		"allowedOrigins": []string{"HTTPS://Shop.Example:443", "https://*.shop.example", "http://localhost:3000"}, "originPolicy": "enforce",
	}
	owner.patch(t, workspacePath, change).wantStatus(http.StatusOK).wantFields(object{
		"name": "New name", "currency": "EUR", "timezone": "Europe/Berlin", "testMailRedirect": owner.email, "originPolicy": "enforce",
		"allowedOrigins": []string{"https://shop.example", "https://*.shop.example", "http://localhost:3000"},
	})
	// A field that is missing in the body is not changed. The value null clears a field.
	// A new currency applies only to programmes that are created later.
	owner.patch(t, workspacePath, object{"testMailRedirect": nil}).wantStatus(http.StatusOK).wantFields(object{"testMailRedirect": nil, "currency": "EUR"})
	owner.inMode("test").post(t, "/api/v1/programs", object{"name": "P"}).wantStatus(http.StatusCreated).wantFields(object{"currency": "EUR"})

	before := owner.get(t, workspacePath).body
	for field, body := range map[string]object{
		"name": {"name": " "}, "currency": {"currency": "XYZ"}, "timezone": {"timezone": "Mars/Olympus"},
		"originPolicy": {"allowedOrigins": []string{}}, "testMailRedirect": {"testMailRedirect": "dev@example.com"},
		"allowedOrigins[0]": {"allowedOrigins": []string{"https://shop.example/path"}}, "id": {"id": "x"},
	} {
		owner.patch(t, workspacePath, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
	if after := owner.get(t, workspacePath).body; after != before {
		t.Errorf("invalid requests have changed the workspace:\nbefore %s\nafter  %s", before, after)
	}
}

func testMembers(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	admin, viewer := owner.addMember(t, "admin"), owner.addMember(t, "viewer")
	owner.get(t, workspacePath+"/members").wantStatus(http.StatusOK).wantFields(object{
		"total": 3, "data.0.id": owner.id, "data.0.role": "owner", "data.1.email": admin.email, "data.2.role": "viewer",
	})
	viewer.get(t, workspacePath+"/members").wantStatus(http.StatusOK).wantFields(object{"data.1.email": "m***@example.com"})

	// A new role applies immediately, even to existing access tokens.
	viewer.post(t, "/api/v1/programs", object{"name": "P"}).wantOutcome(forbidden)
	admin.patch(t, viewer.memberPath(), object{"role": "manager"}).wantStatus(http.StatusOK).wantFields(object{"role": "manager"})
	viewer.post(t, "/api/v1/programs", object{"name": "P"}).wantStatus(http.StatusCreated)

	// An admin cannot change, remove or create an owner.
	admin.patch(t, owner.memberPath(), object{"role": "viewer"}).wantOutcome(forbidden)
	admin.do(t, http.MethodDelete, owner.memberPath(), nil).wantOutcome(forbidden)
	admin.patch(t, viewer.memberPath(), object{"role": "owner"}).wantOutcome(forbidden)
	admin.post(t, workspacePath+"/invites", object{"email": "o@example.com", "role": "owner"}).wantOutcome(forbidden)
	admin.post(t, workspacePath+"/transfer-ownership", object{"memberId": admin.id}).wantOutcome(forbidden)

	// The last owner cannot leave.
	owner.do(t, http.MethodDelete, owner.memberPath(), nil).wantError(http.StatusConflict, "LAST_OWNER")
	owner.patch(t, owner.memberPath(), object{"role": "admin"}).wantError(http.StatusConflict, "LAST_OWNER")

	// The removal of a member ends all sessions of the member.
	otherSession := viewer.login(t)
	admin.do(t, http.MethodDelete, viewer.memberPath(), nil).wantStatus(http.StatusNoContent)
	for _, ended := range []caller{viewer, otherSession} {
		ended.get(t, workspacePath).wantOutcome(unauthorized)
		sys.client().post(t, "/api/v1/auth/refresh", object{"refreshToken": ended.refresh}).wantError(http.StatusUnauthorized, "REFRESH_TOKEN_INVALID")
	}
	admin.do(t, http.MethodDelete, viewer.memberPath(), nil).wantOutcome(notFound)

	// After a transfer of the ownership, the former owner has no permissions of an owner.
	owner.post(t, workspacePath+"/transfer-ownership", object{"memberId": admin.id}).wantStatus(http.StatusOK).wantFields(object{"id": admin.id, "role": "owner"})
	owner.post(t, workspacePath+"/transfer-ownership", object{"memberId": owner.id}).wantOutcome(forbidden)
	admin.do(t, http.MethodDelete, owner.memberPath(), nil).wantStatus(http.StatusNoContent)
	admin.get(t, workspacePath+"/members").wantStatus(http.StatusOK).wantFields(object{"total": 1})
}

func testMembersLastOwnerStaysUnderConcurrency(t *testing.T, sys *system) {
	owners := []caller{sys.newMerchant(t)}
	for range 3 {
		owners = append(owners, owners[0].addMember(t, "owner"))
	}
	responses := concurrently(len(owners), func(i int) response { return owners[i].do(t, http.MethodDelete, owners[i].memberPath(), nil) })
	if got := countStatuses(responses); got["204"] != 3 || got["409 LAST_OWNER"] != 1 {
		t.Errorf("four concurrent requests to leave got %v, want three 204 and one LAST_OWNER", got)
	}
}

func TestInvites(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	owner := sys.newMerchant(t)
	accept := func(token string) response {
		return sys.client().post(t, "/api/v1/auth/merchant/accept-invite", object{"token": token, "name": "Ina", "password": password})
	}
	invite := func(email string) response {
		return owner.post(t, workspacePath+"/invites", object{"email": email, "role": "developer"})
	}
	created := invite("Ina@Example.com").wantStatus(http.StatusCreated)
	if validity := created.instant("expiresAt").Sub(created.instant("createdAt")); validity != 7*24*time.Hour {
		t.Errorf("the invitation is valid for %v, want 7 days", validity)
	}
	list := owner.get(t, workspacePath+"/invites").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.email": "ina@example.com", "data.0.role": "developer"})
	if strings.Contains(list.body, created.text("token")) {
		t.Error("the list contains the token")
	}
	// An e-mail address has at most one valid invitation: a new invitation replaces the
	// old invitation. An invitation can be accepted only once.
	again := invite("ina@example.com").wantStatus(http.StatusCreated)
	accept(created.text("token")).wantOutcome(notFound)
	if got := countStatuses(concurrently(10, func(int) response { return accept(again.text("token")) })); got["201"] != 1 || got["404 NOT_FOUND"] != 9 {
		t.Errorf("ten concurrent requests to accept got %v, want one 201 and nine 404", got)
	}
	invite("ina@example.com").wantError(http.StatusConflict, "EMAIL_TAKEN")
	invite(owner.email).wantError(http.StatusConflict, "EMAIL_TAKEN")

	revoked := invite("ron@example.com").wantStatus(http.StatusCreated)
	owner.do(t, http.MethodDelete, workspacePath+"/invites/"+revoked.text("id"), nil).wantStatus(http.StatusNoContent)
	accept(revoked.text("token")).wantOutcome(notFound)
	late := invite("late@example.com").wantStatus(http.StatusCreated)
	sys.clock.advance(7*24*time.Hour + time.Second)
	accept(late.text("token")).wantOutcome(notFound)

	// A removed member can be invited again.
	rejoined := owner.login(t).addMember(t, "viewer")
	owner = owner.login(t)
	owner.do(t, http.MethodDelete, rejoined.memberPath(), nil).wantStatus(http.StatusNoContent)
	token := invite(rejoined.email).wantStatus(http.StatusCreated).text("token")
	accept(token).wantStatus(http.StatusCreated).wantFields(object{"user.id": rejoined.id, "user.role": "developer", "workspace.id": owner.workspace})
}

func testAuditLog(t *testing.T, sys *system) {
	owner := sys.newMerchant(t).inMode("test")
	client := owner.withHeader("X-Forwarded-For", "203.0.113.77").withHeader("X-Request-Id", "request-of-the-test")
	program := client.post(t, "/api/v1/programs", object{"name": "=Audited"}).wantStatus(http.StatusCreated).text("id")
	client.patch(t, "/api/v1/programs/"+program, object{"name": "Changed"}).wantStatus(http.StatusOK)

	log := workspacePath + "/audit-log"
	owner.get(t, log+"?resourceType=program&resourceId="+program).wantStatus(http.StatusOK).wantFields(object{
		"total": 2, "data.0.action": "program.update", "data.0.actor": owner.id, "data.0.actorName": "Mara Merchant",
		"data.0.before.name": "=Audited", "data.0.after.name": "Changed",
		"data.0.ipPrefix": "203.0.113.0/24", "data.0.requestId": "request-of-the-test", "data.0.mode": "test",
		"data.1.action": "program.create", "data.1.before": nil,
	})
	// Entries about the workspace are in the audit log of both modes. Entries about a
	// programme are only in the audit log of its mode.
	owner.inMode("live").get(t, log).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.action": "workspace.create", "data.0.mode": nil})
	owner.get(t, log+"?action=program.*").wantStatus(http.StatusOK).wantFields(object{"total": 2})
	owner.get(t, log+"?actor="+owner.id+"&pageSize=1&page=2").wantStatus(http.StatusOK).wantFields(object{"total": 3, "data.0.action": "program.create"})
	owner.get(t, log+"?dateTo=2020-01-01").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	owner.get(t, log+"?action=nonsense").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "action")
	owner.get(t, log+"?resourceId=1").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "resourceId")

	file := owner.get(t, log+"/export?action=program.*").wantStatus(http.StatusOK)
	if got := file.header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
		t.Errorf("the export has the content type %q, want CSV", got)
	}
	if got := file.header.Get("Content-Disposition"); !strings.HasPrefix(got, `attachment; filename="audit-log-test-`) {
		t.Errorf("the export has the content disposition %q, want a file name that starts with audit-log-test-", got)
	}
	rows, err := csv.NewReader(strings.NewReader(file.body)).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][0] != "id" || rows[1][4] != "program.update" {
		t.Fatalf("the export is %q (error %v), want two entries", rows, err)
	}
	owner.get(t, log+"/export?action=nonsense").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "action")

	// The service has no privilege to change or delete entries of the audit log.
	for _, sql := range []string{"update audit_log set actor = 'x'", "delete from audit_log"} {
		sys.wantPermissionDenied(t, "set role tributary_app; "+sql)
	}
}

func TestKeys_RollAndRevoke(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	click := f.click(t)
	reportStatus := func(key string) int {
		return sys.client().withCredential(key).post(t, "/api/v1/conversions", purchase(click)).status
	}
	keys := f.merchant.get(t, "/api/v1/api-keys").wantStatus(http.StatusOK)
	old := keys.text("secretKeys.0.id")
	rolled := f.merchant.post(t, "/api/v1/api-keys/"+old+"/roll", object{"graceHours": 2}).wantStatus(http.StatusOK)
	if reportStatus(f.secretKey) != http.StatusCreated || reportStatus(rolled.text("secretKey")) != http.StatusCreated {
		t.Error("both keys must work during the grace period")
	}
	f.merchant.post(t, "/api/v1/api-keys/"+old+"/roll", nil).wantOutcome(notFound)
	sys.clock.advance(2*time.Hour + time.Second)
	f.merchant = f.merchant.login(t)
	if reportStatus(f.secretKey) != http.StatusUnauthorized || reportStatus(rolled.text("secretKey")) != http.StatusCreated {
		t.Error("after the grace period only the new key must work")
	}
	f.merchant.do(t, http.MethodDelete, "/api/v1/api-keys/"+rolled.text("id"), nil).wantStatus(http.StatusNoContent)
	if reportStatus(rolled.text("secretKey")) != http.StatusUnauthorized {
		t.Error("a revoked key still works")
	}
	f.merchant.do(t, http.MethodDelete, "/api/v1/api-keys/"+rolled.text("id"), nil).wantOutcome(notFound)

	// A mode has at most ten secret keys, even if they are created concurrently.
	got := countStatuses(concurrently(20, func(i int) response {
		return f.merchant.post(t, "/api/v1/api-keys", object{"name": fmt.Sprint("key ", i)})
	}))
	if got["201"] != 10 || got["422 API_KEY_LIMIT_EXCEEDED"] != 10 {
		t.Errorf("20 concurrent requests got %v, want ten 201 and ten API_KEY_LIMIT_EXCEEDED", got)
	}

	// After the grace period the collector rejects a public key that was rolled. Without
	// a grace period it rejects the key immediately.
	publicID := keys.text("publicKeyId")
	rolledKey := f.merchant.post(t, "/api/v1/api-keys/"+publicID+"/roll", object{"graceHours": 1}).wantStatus(http.StatusOK)
	clickStatus := func(key string) int { return sys.click(t, key, object{"referral_code": f.code}).status }
	eventually(t, waitTimeout, "the collector accepts the new key and the old key", func() error {
		if a, b := clickStatus(rolledKey.text("publicKey")), clickStatus(f.publicKey); a != http.StatusCreated || b != http.StatusCreated {
			return fmt.Errorf("the collector returns %d for the new key and %d for the old key", a, b)
		}
		return nil
	})
	f.merchant.get(t, "/api/v1/api-keys").wantStatus(http.StatusOK).wantFields(object{"publicKey": rolledKey.text("publicKey"), "publicKeyId": rolledKey.text("id")})
	f.merchant.post(t, "/api/v1/api-keys/"+rolledKey.text("id")+"/roll", object{"graceHours": 0}).wantStatus(http.StatusOK)
	eventually(t, waitTimeout, "the collector rejects the key that was rolled without a grace period", func() error {
		if got := clickStatus(rolledKey.text("publicKey")); got != http.StatusUnauthorized {
			return fmt.Errorf("the collector returns %d", got)
		}
		return nil
	})
	sys.clock.advance(time.Hour + time.Second)
	if got := clickStatus(f.publicKey); got != http.StatusUnauthorized {
		t.Errorf("after the grace period the collector returns %d for the old key, want 401", got)
	}
	f.merchant.login(t).post(t, "/api/v1/api-keys/"+publicID+"/roll", object{"graceHours": 73}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "graceHours")
}
