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
	w := newUseCases(t)
	made := w.create(w.scope, func(req *affiliatev1.CreateWebhookRequest) {
		req.Subscriptions, req.Description = []string{"commission.*", "payout.paid"}, proto.String("Orders")
	})
	off := w.create(w.scope, func(req *affiliatev1.CreateWebhookRequest) { req.Active = proto.Bool(false) })
	description, manual := "Orders", affiliate.DisabledByMerchant
	for _, want := range []affiliate.Endpoint{
		{ID: made.ID, Subscriptions: []string{"commission.*", "payout.paid"}, Description: &description, Active: true},
		{ID: off.ID, Subscriptions: []string{"*"}, DisabledReason: &manual},
	} {
		want.Scope, want.URL, want.Epoch, want.Version, want.CreatedAt, want.UpdatedAt = w.scope, endpointURL, 1, 1, w.now, w.now
		if got := w.endpoint(w.scope, want.ID); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	line := w.audited(made)
	for _, part := range []string{"webhook.create - ", `"127.0.0.1:8443"`, "Orders", "commission.*"} {
		if !strings.Contains(line, part) {
			t.Errorf("no %s in %s", part, line)
		}
	}
	if strings.Contains(line, "token") {
		t.Errorf("a token in %s", line)
	}
}

func TestListWebhooks_NewestFirst(t *testing.T) {
	w := newUseCases(t)
	var made []affiliate.Endpoint
	for range 5 {
		w.now = w.now.Add(time.Second)
		made = append(made, w.create(w.scope))
	}
	w.remove(made[2])
	for _, scope := range w.others() {
		w.create(scope)
	}
	for number, want := range map[int][]affiliate.EndpointID{1: {made[4].ID, made[3].ID, made[1].ID}, 2: {made[0].ID}, 3: nil} {
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

// However many requests come at a time, a mode gets ten; a deletion makes room.
func TestCreateWebhook_AModeHasTen(t *testing.T) {
	w := newUseCases(t)
	var group sync.WaitGroup
	results := make([]error, 20)
	for i := range results {
		group.Go(func() { _, results[i] = w.tryCreate(w.scope) })
	}
	group.Wait()
	made := 0
	for _, err := range results {
		switch pgtest.ReasonOf(t, err) {
		case "":
			made++
		case affiliate.ReasonWebhookLimitExceeded:
		default:
			t.Error(err)
		}
	}
	if n := w.Count(`select count(*) from webhook_endpoints`); made != affiliate.MaxEndpoints || n != made {
		t.Errorf("%d were made, %d are stored", made, n)
	}
	for what, scope := range w.others() {
		if _, err := w.tryCreate(scope); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	list, _, err := w.webhooks.Endpoints(t.Context(), w.scope, affiliate.Page{Number: 1, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.remove(list[0])
	w.create(w.scope)
	_, err = w.tryCreate(w.scope)
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookLimitExceeded)
}

func TestUpdateWebhook(t *testing.T) {
	w := newUseCases(t)
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
		line  string // empty: none is added
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
			"the values that it has",
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
		lines := len(w.AuditActions("webhook", e.ID.String()))
		w.now = w.now.Add(time.Minute)
		after := w.update(e, step.req, step.paths...)
		if changed := after.UpdatedAt.Equal(w.now); changed != (step.line != "") {
			t.Errorf("%s: updated at %s", step.name, after.UpdatedAt)
		}
		if got := state(); got != step.state || w.CountJobs("cancel_deliveries") != step.jobs {
			t.Errorf("%s: %s, %d jobs", step.name, got, w.CountJobs("cancel_deliveries"))
		}
		added := len(w.AuditActions("webhook", e.ID.String())) - lines
		if want := min(len(step.line), 1); added != want {
			t.Fatalf("step %d, %s: %d lines", i, step.name, added)
		}
		if line := w.audited(e); added == 1 && line != step.line {
			t.Errorf("%s: %s", step.name, line)
		}
	}
}

// An endpoint that the service has disabled keeps its reason when a user disables it.
func TestUpdateWebhook_KeepsTheReason(t *testing.T) {
	w := newUseCases(t)
	e := w.create(w.scope)
	w.Exec(`update webhook_endpoints set active = false, disabled_reason = 'gone'`)
	after := w.turn(e, false)
	if after.Active || after.DisabledReason == nil || *after.DisabledReason != affiliate.DisabledGone || after.Version != 1 {
		t.Errorf("%+v", after)
	}
}

func TestDeleteWebhook_DeletesTheSecrets(t *testing.T) {
	w := newUseCases(t)
	e := w.create(w.scope)
	if _, err := w.service.RotateWebhookSecret(w.as(w.scope), &affiliatev1.RotateWebhookSecretRequest{WebhookId: e.ID.String()}); err != nil {
		t.Fatal(err)
	}
	w.Exec(`update webhook_endpoints set sender = gen_random_uuid(), sender_until = $1`, w.now.Add(time.Hour))
	w.remove(e)
	if n := w.Count(`
		select count(*) from webhook_endpoints
		where deleted_at = $1 and not active and epoch = 2 and secret is null and previous_secret is null and previous_until is null
			and sender is null and sender_until is null`, w.now); n != 1 {
		t.Error("something is left of it")
	}
	if w.CountJobs("cancel_deliveries") != 1 || !strings.HasPrefix(w.audited(e), "webhook.delete {") {
		t.Errorf("%d jobs, %s", w.CountJobs("cancel_deliveries"), w.audited(e))
	}
	_, err := w.service.GetWebhook(w.as(w.scope), &affiliatev1.GetWebhookRequest{WebhookId: e.ID.String()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
	_, err = w.service.UpdateWebhook(w.as(w.scope), &affiliatev1.UpdateWebhookRequest{WebhookId: e.ID.String(), Active: proto.Bool(true), UpdateMask: mask("active")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
}

func TestRotateWebhookSecret_KeepsTheSecretBeforeForADay(t *testing.T) {
	w := newUseCases(t)
	made, err := w.tryCreate(w.scope)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := affiliate.ParseID[affiliate.Endpoint](made.GetId())
	first := made.GetSigningSecret()
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
	rotate := func(atOnce bool, version int) string {
		t.Helper()
		rotated, err := w.service.RotateWebhookSecret(w.as(w.scope), &affiliatev1.RotateWebhookSecretRequest{WebhookId: made.GetId(), ExpireImmediately: atOnce})
		if err != nil {
			t.Fatal(err)
		}
		if after := w.endpoint(w.scope, id); after.Version != version || !after.UpdatedAt.Equal(w.now) {
			t.Fatalf("%+v", after)
		}
		if line := w.audited(affiliate.Endpoint{ID: id, Scope: w.scope}); !strings.HasPrefix(line, "webhook.rotate_secret - ") {
			t.Error(line)
		}
		return rotated.GetSigningSecret()
	}
	until := w.now.Add(affiliate.RotatedSecretGrace)
	if got := secrets(w.now); !slices.Equal(got, []string{first}) {
		t.Error("the first secret does not sign alone")
	}
	second := rotate(false, 2)
	for at, want := range map[time.Time][]string{w.now: {second, first}, until.Add(-time.Millisecond): {second, first}, until: {second}} {
		if got := secrets(at); !slices.Equal(got, want) {
			t.Errorf("%s: %d secrets sign, want %d", at, len(got), len(want))
		}
	}
	third := rotate(false, 3)
	if got := secrets(w.now); !slices.Equal(got, []string{third, second}) {
		t.Error("the third and the second secret do not sign")
	}
	fourth := rotate(true, 4)
	if got := secrets(w.now); !slices.Equal(got, []string{fourth}) {
		t.Error("the fourth secret does not sign alone")
	}
	if n := w.Count(`select count(*) from webhook_endpoints where previous_secret is null and previous_until is null`); n != 1 {
		t.Error("the third secret is stored")
	}
}
