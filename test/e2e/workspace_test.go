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

// addMember invites a new person to the account's workspace and accepts the invitation.
func (a account) addMember(t *testing.T, role string) account {
	t.Helper()
	email := uniqueName("member") + "@example.com"
	token := a.post(t, workspacePath+"/invites", object{"email": email, "role": role}).want(http.StatusCreated).text("token")
	return a.sys.account("merchant", email, a.sys.caller().post(t, "/api/v1/auth/merchant/accept-invite", object{
		"token": token, "name": "Max Member", "password": password,
	}).want(http.StatusCreated))
}

func (a account) memberPath() string { return workspacePath + "/members/" + a.id }

func TestWorkspaceSettings(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	owner := sys.merchant(t)
	owner.get(t, workspacePath).want(http.StatusOK).wantFields(object{
		"id": owner.workspace, "allowedOrigins": []string{}, "originPolicy": "observe", "testMailRedirect": nil,
	})
	change := object{
		"name": " New name ", "currency": "eur", "timezone": "Europe/Berlin", "testMailRedirect": "dev@example.com",
		"allowedOrigins": []string{"HTTPS://Shop.Example:443", "https://*.shop.example", "http://localhost:3000"}, "originPolicy": "enforce",
	}
	owner.patch(t, workspacePath, change).want(http.StatusOK).wantFields(object{
		"name": "New name", "currency": "EUR", "timezone": "Europe/Berlin", "testMailRedirect": "dev@example.com", "originPolicy": "enforce",
		"allowedOrigins": []string{"https://shop.example", "https://*.shop.example", "http://localhost:3000"},
	})
	// A missing field stays unchanged, null clears it. A new currency applies to
	// programmes that are created later.
	owner.patch(t, workspacePath, object{"testMailRedirect": nil}).want(http.StatusOK).wantFields(object{"testMailRedirect": nil, "currency": "EUR"})
	owner.in("test").post(t, "/api/v1/programs", object{"name": "P"}).want(http.StatusCreated).wantFields(object{"currency": "EUR"})

	before := owner.get(t, workspacePath).body
	for field, body := range map[string]object{
		"name": {"name": " "}, "currency": {"currency": "XYZ"}, "timezone": {"timezone": "Mars/Olympus"},
		"originPolicy": {"allowedOrigins": []string{}}, "testMailRedirect": {"testMailRedirect": "nobody"},
		"allowedOrigins[0]": {"allowedOrigins": []string{"https://shop.example/path"}}, "id": {"id": "x"},
	} {
		owner.patch(t, workspacePath, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
	if after := owner.get(t, workspacePath).body; after != before {
		t.Errorf("invalid input changed %s to %s", before, after)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	owner := sys.merchant(t)
	admin, viewer := owner.addMember(t, "admin"), owner.addMember(t, "viewer")
	owner.get(t, workspacePath+"/members").want(http.StatusOK).wantFields(object{
		"total": 3, "data.0.id": owner.id, "data.0.role": "owner", "data.1.email": admin.email, "data.2.role": "viewer",
	})
	viewer.get(t, workspacePath+"/members").want(http.StatusOK).wantFields(object{"data.1.email": "m***@example.com"})

	// A new role applies at once, also to existing tokens.
	viewer.post(t, "/api/v1/programs", object{"name": "P"}).wantOutcome(forbidden)
	admin.patch(t, viewer.memberPath(), object{"role": "manager"}).want(http.StatusOK).wantFields(object{"role": "manager"})
	viewer.post(t, "/api/v1/programs", object{"name": "P"}).want(http.StatusCreated)

	// An admin cannot change an owner or create one.
	admin.patch(t, owner.memberPath(), object{"role": "viewer"}).wantOutcome(forbidden)
	admin.do(t, http.MethodDelete, owner.memberPath(), nil).wantOutcome(forbidden)
	admin.patch(t, viewer.memberPath(), object{"role": "owner"}).wantOutcome(forbidden)
	admin.post(t, workspacePath+"/invites", object{"email": "o@example.com", "role": "owner"}).wantOutcome(forbidden)
	admin.post(t, workspacePath+"/transfer-ownership", object{"memberId": admin.id}).wantOutcome(forbidden)

	// The last owner cannot leave.
	owner.do(t, http.MethodDelete, owner.memberPath(), nil).wantError(http.StatusConflict, "LAST_OWNER")
	owner.patch(t, owner.memberPath(), object{"role": "admin"}).wantError(http.StatusConflict, "LAST_OWNER")

	// The removal of a member ends all sessions of the member.
	elsewhere := viewer.login(t)
	admin.do(t, http.MethodDelete, viewer.memberPath(), nil).want(http.StatusNoContent)
	for _, ended := range []account{viewer, elsewhere} {
		ended.get(t, workspacePath).wantOutcome(unauthorized)
		sys.caller().post(t, "/api/v1/auth/refresh", object{"refreshToken": ended.refresh}).wantError(http.StatusUnauthorized, "REFRESH_TOKEN_INVALID")
	}
	admin.do(t, http.MethodDelete, viewer.memberPath(), nil).wantOutcome(notFound)

	// After a transfer the former owner has no rights of an owner.
	owner.post(t, workspacePath+"/transfer-ownership", object{"memberId": admin.id}).want(http.StatusOK).wantFields(object{"id": admin.id, "role": "owner"})
	owner.post(t, workspacePath+"/transfer-ownership", object{"memberId": owner.id}).wantOutcome(forbidden)
	admin.do(t, http.MethodDelete, owner.memberPath(), nil).want(http.StatusNoContent)
	admin.get(t, workspacePath+"/members").want(http.StatusOK).wantFields(object{"total": 1})
}

func TestMembers_LastOwnerStaysUnderConcurrency(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	owners := []account{sys.merchant(t)}
	for range 3 {
		owners = append(owners, owners[0].addMember(t, "owner"))
	}
	responses := concurrently(len(owners), func(i int) response { return owners[i].do(t, http.MethodDelete, owners[i].memberPath(), nil) })
	if got := countStatuses(responses); got["204"] != 3 || got["409 LAST_OWNER"] != 1 {
		t.Errorf("%v", got)
	}
}

func TestInvites(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	owner := sys.merchant(t)
	accept := func(token string) response {
		return sys.caller().post(t, "/api/v1/auth/merchant/accept-invite", object{"token": token, "name": "Ina", "password": password})
	}
	invite := func(email string) response {
		return owner.post(t, workspacePath+"/invites", object{"email": email, "role": "developer"})
	}
	made := invite("Ina@Example.com").want(http.StatusCreated)
	if life := made.instant("expiresAt").Sub(made.instant("createdAt")); life != 7*24*time.Hour {
		t.Errorf("the invitation is valid for %v", life)
	}
	list := owner.get(t, workspacePath+"/invites").want(http.StatusOK).wantFields(object{"total": 1, "data.0.email": "ina@example.com", "data.0.role": "developer"})
	if strings.Contains(list.body, made.text("token")) {
		t.Error("the list contains the token")
	}
	// An address has at most one valid invitation, which can be accepted once.
	again := invite("ina@example.com").want(http.StatusCreated)
	accept(made.text("token")).wantOutcome(notFound)
	if got := countStatuses(concurrently(10, func(int) response { return accept(again.text("token")) })); got["201"] != 1 || got["404 NOT_FOUND"] != 9 {
		t.Errorf("%v", got)
	}
	invite("ina@example.com").wantError(http.StatusConflict, "EMAIL_TAKEN")
	invite(owner.email).wantError(http.StatusConflict, "EMAIL_TAKEN")

	revoked := invite("ron@example.com").want(http.StatusCreated)
	owner.do(t, http.MethodDelete, workspacePath+"/invites/"+revoked.text("id"), nil).want(http.StatusNoContent)
	accept(revoked.text("token")).wantOutcome(notFound)
	late := invite("late@example.com").want(http.StatusCreated)
	sys.clock.advance(7*24*time.Hour + time.Second)
	accept(late.text("token")).wantOutcome(notFound)

	// A removed member can be invited again.
	back := owner.login(t).addMember(t, "viewer")
	owner = owner.login(t)
	owner.do(t, http.MethodDelete, back.memberPath(), nil).want(http.StatusNoContent)
	token := invite(back.email).want(http.StatusCreated).text("token")
	accept(token).want(http.StatusCreated).wantFields(object{"user.id": back.id, "user.role": "developer", "workspace.id": owner.workspace})
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	owner := sys.merchant(t).in("test")
	from := owner.with("X-Forwarded-For", "203.0.113.77").with("X-Request-Id", "request-of-the-test")
	program := from.post(t, "/api/v1/programs", object{"name": "=Audited"}).want(http.StatusCreated).text("id")
	from.patch(t, "/api/v1/programs/"+program, object{"name": "Changed"}).want(http.StatusOK)

	log := workspacePath + "/audit-log"
	owner.get(t, log+"?resourceType=program&resourceId="+program).want(http.StatusOK).wantFields(object{
		"total": 2, "data.0.action": "program.update", "data.0.actor": owner.id, "data.0.actorName": "Mara Merchant",
		"data.0.before.name": "=Audited", "data.0.after.name": "Changed",
		"data.0.ipPrefix": "203.0.113.0/24", "data.0.requestId": "request-of-the-test", "data.0.mode": "test",
		"data.1.action": "program.create", "data.1.before": nil,
	})
	// Entries about the workspace are shown in both modes, entries about the programme
	// only in its own mode.
	owner.in("live").get(t, log).want(http.StatusOK).wantFields(object{"total": 1, "data.0.action": "workspace.create", "data.0.mode": nil})
	owner.get(t, log+"?action=program.*").want(http.StatusOK).wantFields(object{"total": 2})
	owner.get(t, log+"?actor="+owner.id+"&pageSize=1&page=2").want(http.StatusOK).wantFields(object{"total": 3, "data.0.action": "program.create"})
	owner.get(t, log+"?dateTo=2020-01-01").want(http.StatusOK).wantFields(object{"total": 0})
	owner.get(t, log+"?action=nonsense").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "action")
	owner.get(t, log+"?resourceId=1").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "resourceId")

	file := owner.get(t, log+"/export?action=program.*").want(http.StatusOK)
	if got := file.header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	if got := file.header.Get("Content-Disposition"); !strings.HasPrefix(got, `attachment; filename="audit-log-test-`) {
		t.Errorf("content disposition %q", got)
	}
	rows, err := csv.NewReader(strings.NewReader(file.body)).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][0] != "id" || rows[1][4] != "program.update" {
		t.Fatalf("%v, %q", err, rows)
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
	w := sys.world(t, "test", nil)
	click := w.click(t)
	reported := func(key string) int {
		return sys.caller().as(key).post(t, "/api/v1/conversions", purchase(click)).status
	}
	keys := w.merchant.get(t, "/api/v1/api-keys").want(http.StatusOK)
	old := keys.text("secretKeys.0.id")
	rolled := w.merchant.post(t, "/api/v1/api-keys/"+old+"/roll", object{"graceHours": 2}).want(http.StatusOK)
	if reported(w.secretKey) != http.StatusCreated || reported(rolled.text("secretKey")) != http.StatusCreated {
		t.Error("both keys must work during the grace period")
	}
	w.merchant.post(t, "/api/v1/api-keys/"+old+"/roll", nil).wantOutcome(notFound)
	sys.clock.advance(2*time.Hour + time.Second)
	w.merchant = w.merchant.login(t)
	if reported(w.secretKey) != http.StatusUnauthorized || reported(rolled.text("secretKey")) != http.StatusCreated {
		t.Error("after the grace period only the new key must work")
	}
	w.merchant.do(t, http.MethodDelete, "/api/v1/api-keys/"+rolled.text("id"), nil).want(http.StatusNoContent)
	if reported(rolled.text("secretKey")) != http.StatusUnauthorized {
		t.Error("a revoked key still works")
	}
	w.merchant.do(t, http.MethodDelete, "/api/v1/api-keys/"+rolled.text("id"), nil).wantOutcome(notFound)

	// A mode has at most ten keys, also with concurrent requests.
	got := countStatuses(concurrently(20, func(i int) response {
		return w.merchant.post(t, "/api/v1/api-keys", object{"name": fmt.Sprint("key ", i)})
	}))
	if got["201"] != 10 || got["422 API_KEY_LIMIT_EXCEEDED"] != 10 {
		t.Errorf("%v", got)
	}

	// The collector rejects a rolled public key after its grace period, or at once if
	// there is none.
	publicID := keys.text("publicKeyId")
	graced := w.merchant.post(t, "/api/v1/api-keys/"+publicID+"/roll", object{"graceHours": 1}).want(http.StatusOK)
	taken := func(key string) int { return sys.click(t, key, object{"referral_code": w.code}).status }
	eventually(t, waitTimeout, "the collector accepts the new key and the old key", func() error {
		if a, b := taken(graced.text("publicKey")), taken(w.publicKey); a != http.StatusCreated || b != http.StatusCreated {
			return fmt.Errorf("new %d, old %d", a, b)
		}
		return nil
	})
	w.merchant.get(t, "/api/v1/api-keys").want(http.StatusOK).wantFields(object{"publicKey": graced.text("publicKey"), "publicKeyId": graced.text("id")})
	w.merchant.post(t, "/api/v1/api-keys/"+graced.text("id")+"/roll", object{"graceHours": 0}).want(http.StatusOK)
	eventually(t, waitTimeout, "the collector rejects the key that was rolled without a grace period", func() error {
		if got := taken(graced.text("publicKey")); got != http.StatusUnauthorized {
			return fmt.Errorf("it returns %d", got)
		}
		return nil
	})
	sys.clock.advance(time.Hour + time.Second)
	if got := taken(w.publicKey); got != http.StatusUnauthorized {
		t.Errorf("after the grace period the collector returns %d", got)
	}
	w.merchant.login(t).post(t, "/api/v1/api-keys/"+publicID+"/roll", object{"graceHours": 73}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "graceHours")
}
