package webhook_test

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCreateWebhook_StoresTheRequest(t *testing.T) {
	w := newServiceWorld(t)
	created := w.create(w.scope, func(req *affiliatev1.CreateWebhookRequest) {
		req.Subscriptions, req.Description = []string{"commission.*", "payout.paid"}, proto.String("Orders")
	})
	disabled := w.create(w.scope, func(req *affiliatev1.CreateWebhookRequest) { req.Active = proto.Bool(false) })
	description, manual := "Orders", affiliate.DisabledByMerchant
	for _, want := range []affiliate.Endpoint{
		{ID: created.ID, Subscriptions: []string{"commission.*", "payout.paid"}, Description: &description, Active: true},
		{ID: disabled.ID, Subscriptions: []string{"*"}, DisabledReason: &manual},
	} {
		want.Scope, want.URL, want.Epoch, want.Version, want.CreatedAt, want.UpdatedAt = w.scope, endpointURL, 1, 1, w.now, w.now
		if got := w.endpoint(w.scope, want.ID); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	line := w.lastAudit(created)
	for _, part := range []string{"webhook.create - ", `"127.0.0.1:8443"`, "Orders", "commission.*"} {
		if !strings.Contains(line, part) {
			t.Errorf("the audit record does not contain %s: %s", part, line)
		}
	}
	if strings.Contains(line, "token") {
		t.Errorf("the audit record contains the token: %s", line)
	}
}

func TestListWebhooks_NewestFirst(t *testing.T) {
	w := newServiceWorld(t)
	var created []affiliate.Endpoint
	for range 5 {
		w.now = w.now.Add(time.Second)
		created = append(created, w.create(w.scope))
	}
	w.deleteEndpoint(created[2])
	for _, scope := range w.otherScopes() {
		w.create(scope)
	}
	for number, want := range map[int][]affiliate.EndpointID{1: {created[4].ID, created[3].ID, created[1].ID}, 2: {created[0].ID}, 3: nil} {
		list, total, err := w.webhooks.Endpoints(t.Context(), w.scope, affiliate.Page{Number: number, Size: 3})
		var got []affiliate.EndpointID
		for _, e := range list {
			got = append(got, e.ID)
		}
		if err != nil || total != 4 || !slices.Equal(got, want) {
			t.Errorf("page %d: %v of %d, %v", number, got, total, err)
		}
	}
}

// A mode can have ten endpoints, also when requests run in parallel. After a deletion,
// another endpoint can be created.
func TestCreateWebhook_LimitHoldsInParallel(t *testing.T) {
	w := newServiceWorld(t)
	var group sync.WaitGroup
	results := make([]error, 20)
	for i := range results {
		group.Go(func() { _, results[i] = w.tryCreate(w.scope) })
	}
	group.Wait()
	created := 0
	for _, err := range results {
		switch pgtest.ReasonOf(t, err) {
		case "":
			created++
		case affiliate.ReasonWebhookLimitExceeded:
		default:
			t.Error(err)
		}
	}
	if n := w.Count(`select count(*) from webhook_endpoints`); created != affiliate.MaxEndpoints || n != created {
		t.Errorf("%d were created, %d are stored", created, n)
	}
	for name, scope := range w.otherScopes() {
		if _, err := w.tryCreate(scope); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, _, err := w.webhooks.Endpoints(t.Context(), w.scope, affiliate.Page{Number: 1, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.deleteEndpoint(list[0])
	w.create(w.scope)
	_, err = w.tryCreate(w.scope)
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookLimitExceeded)
}

func TestUpdateWebhook(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	w.Exec(`update webhook_endpoints set consecutive_failures = 3, failing_since = $1, dead_letters = 7`, w.now)
	state := func() string {
		return w.text(`select concat_ws(' ', active, coalesce(disabled_reason, '-'), epoch, consecutive_failures, failing_since is not null, dead_letters, version)
			from webhook_endpoints`)
	}
	for i, step := range []struct {
		name  string
		req   *affiliatev1.UpdateWebhookRequest
		paths []string
		state string
		jobs  int
		audit string // new audit record; empty if there must be none
	}{
		{
			"subscriptions", &affiliatev1.UpdateWebhookRequest{Subscriptions: []string{"payout.*"}},
			[]string{"subscriptions"},
			"t - 1 3 t 7 2", 0,
			`webhook.update {"subscriptions": ["*"]} {"subscriptions": ["payout.*"]}`,
		},
		{
			"a description", &affiliatev1.UpdateWebhookRequest{Description: proto.String("D")},
			[]string{"description"},
			"t - 1 3 t 7 3", 0,
			`webhook.update {"description": null} {"description": "D"}`,
		},
		{"nothing", &affiliatev1.UpdateWebhookRequest{}, nil, "t - 1 3 t 7 3", 0, ""},
		{
			"the same values",
			&affiliatev1.UpdateWebhookRequest{Subscriptions: []string{"payout.*"}, Description: proto.String("D"), Active: proto.Bool(true)},
			[]string{"subscriptions", "description", "active"},
			"t - 1 3 t 7 3", 0, "",
		},
		{
			"disabled", &affiliatev1.UpdateWebhookRequest{Active: proto.Bool(false)},
			[]string{"active", "description"},
			"f manual 2 3 t 7 4", 1,
			`webhook.update {"active": true, "description": "D", "disabled_reason": null} {"active": false, "description": null, "disabled_reason": "manual"}`,
		},
		{"disabled again", &affiliatev1.UpdateWebhookRequest{Active: proto.Bool(false)}, []string{"active"}, "f manual 2 3 t 7 4", 1, ""},
		{
			"enabled", &affiliatev1.UpdateWebhookRequest{Active: proto.Bool(true)},
			[]string{"active"},
			"t - 2 0 f 0 5", 1,
			`webhook.update {"active": false, "disabled_reason": "manual"} {"active": true, "disabled_reason": null}`,
		},
	} {
		records := len(w.AuditActions("webhook", e.ID.String()))
		w.now = w.now.Add(time.Minute)
		after := w.update(e, step.req, step.paths...)
		if changed := after.UpdatedAt.Equal(w.now); changed != (step.audit != "") {
			t.Errorf("%s: updated at %s", step.name, after.UpdatedAt)
		}
		if got := state(); got != step.state || w.CountJobs("cancel_deliveries") != step.jobs {
			t.Errorf("%s: %s, %d jobs", step.name, got, w.CountJobs("cancel_deliveries"))
		}
		added := len(w.AuditActions("webhook", e.ID.String())) - records
		if want := min(len(step.audit), 1); added != want {
			t.Fatalf("step %d, %s: %d new audit records", i, step.name, added)
		}
		if line := w.lastAudit(e); added == 1 && line != step.audit {
			t.Errorf("%s: %s", step.name, line)
		}
	}
}

// An endpoint that the service has disabled keeps its reason when a user disables it.
func TestUpdateWebhook_KeepsTheDisabledReason(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	w.Exec(`update webhook_endpoints set active = false, disabled_reason = 'gone'`)
	after := w.setActive(e, false)
	if after.Active || after.DisabledReason == nil || *after.DisabledReason != affiliate.DisabledGone || after.Version != 1 {
		t.Errorf("%+v", after)
	}
}

func TestDeleteWebhook_DeletesTheSecrets(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	if _, err := w.service.RotateWebhookSecret(w.asMerchant(w.scope), &affiliatev1.RotateWebhookSecretRequest{WebhookId: e.ID.String()}); err != nil {
		t.Fatal(err)
	}
	w.Exec(`update webhook_endpoints set sender = gen_random_uuid(), sender_until = $1`, w.now.Add(time.Hour))
	w.deleteEndpoint(e)
	if n := w.Count(`
		select count(*) from webhook_endpoints
		where deleted_at = $1 and not active and epoch = 2 and secret is null and previous_secret is null and previous_until is null
			and sender is null and sender_until is null`, w.now); n != 1 {
		t.Error("the row still has a secret or a lease")
	}
	if w.CountJobs("cancel_deliveries") != 1 || !strings.HasPrefix(w.lastAudit(e), "webhook.delete {") {
		t.Errorf("%d jobs, %s", w.CountJobs("cancel_deliveries"), w.lastAudit(e))
	}
	_, err := w.service.GetWebhook(w.asMerchant(w.scope), &affiliatev1.GetWebhookRequest{WebhookId: e.ID.String()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
	_, err = w.service.UpdateWebhook(w.asMerchant(w.scope), &affiliatev1.UpdateWebhookRequest{WebhookId: e.ID.String(), Active: proto.Bool(true), UpdateMask: mask("active")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
}

func TestRotateWebhookSecret_PreviousSecretSignsForADay(t *testing.T) {
	w := newServiceWorld(t)
	created, err := w.tryCreate(w.scope)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := affiliate.ParseID[affiliate.Endpoint](created.GetId())
	first := created.GetSigningSecret()
	secrets := func(at time.Time) []string {
		t.Helper()
		_, sealed, err := w.webhooks.EndpointSecrets(t.Context(), w.scope, id, at)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, s := range sealed {
			plain, err := w.keys.Open(s, id.UUID[:])
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, domain.Secret(plain).Text())
		}
		return texts
	}
	rotate := func(expireImmediately bool, version int) string {
		t.Helper()
		rotated, err := w.service.RotateWebhookSecret(w.asMerchant(w.scope), &affiliatev1.RotateWebhookSecretRequest{WebhookId: created.GetId(), ExpireImmediately: expireImmediately})
		if err != nil {
			t.Fatal(err)
		}
		if after := w.endpoint(w.scope, id); after.Version != version || !after.UpdatedAt.Equal(w.now) {
			t.Fatalf("%+v", after)
		}
		if line := w.lastAudit(affiliate.Endpoint{ID: id, Scope: w.scope}); !strings.HasPrefix(line, "webhook.rotate_secret - ") {
			t.Error(line)
		}
		return rotated.GetSigningSecret()
	}
	until := w.now.Add(affiliate.RotatedSecretGrace)
	if got := secrets(w.now); !slices.Equal(got, []string{first}) {
		t.Error("requests must be signed with the first secret only")
	}
	second := rotate(false, 2)
	for at, want := range map[time.Time][]string{w.now: {second, first}, until.Add(-time.Millisecond): {second, first}, until: {second}} {
		if got := secrets(at); !slices.Equal(got, want) {
			t.Errorf("%s: %d secrets, want %d", at, len(got), len(want))
		}
	}
	third := rotate(false, 3)
	if got := secrets(w.now); !slices.Equal(got, []string{third, second}) {
		t.Error("requests must be signed with the third and the second secret")
	}
	fourth := rotate(true, 4)
	if got := secrets(w.now); !slices.Equal(got, []string{fourth}) {
		t.Error("requests must be signed with the fourth secret only")
	}
	if n := w.Count(`select count(*) from webhook_endpoints where previous_secret is null and previous_until is null`); n != 1 {
		t.Error("the third secret is still stored")
	}
}
