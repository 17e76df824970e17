package webhook_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

func TestCreateWebhook_StoresTheRequest(t *testing.T) {
	f := newFixture(t)
	created := f.createEndpoint(func(req *affiliatev1.CreateWebhookRequest) {
		req.Subscriptions, req.Description = []string{"commission.*", "payout.paid"}, new("Orders")
	})
	disabled := f.createEndpoint(func(req *affiliatev1.CreateWebhookRequest) { req.Active = new(false) })
	for _, want := range []*affiliatev1.Webhook{
		{
			Id: created.ID.String(), Subscriptions: []string{"commission.*", "payout.paid"}, Description: new("Orders"),
			Active: true, Status: affiliatev1.WebhookStatus_WEBHOOK_STATUS_HEALTHY,
		},
		{
			Id: disabled.ID.String(), Subscriptions: []string{"*"},
			Status:         affiliatev1.WebhookStatus_WEBHOOK_STATUS_DISABLED,
			DisabledReason: affiliatev1.WebhookDisabledReason_WEBHOOK_DISABLED_REASON_MANUAL,
		},
	} {
		want.Url, want.Mode = endpointURL, affiliatev1.Mode_MODE_LIVE
		want.CreatedAt, want.UpdatedAt = server.Timestamp(f.Now()), server.Timestamp(f.Now())
		got, err := f.service.GetWebhook(f.asOwner(), &affiliatev1.GetWebhookRequest{WebhookId: want.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Errorf("GetWebhook returned\n%v, want\n%v", got, want)
		}
	}
	line := f.lastAudit(created)
	for _, part := range []string{"webhook.create - ", `"127.0.0.1:8443"`, "Orders", "commission.*"} {
		if !strings.Contains(line, part) {
			t.Errorf("the audit record %s does not contain %s", line, part)
		}
	}
	if strings.Contains(line, "token") {
		t.Errorf("the audit record %s contains the token of the URL", line)
	}
}

func TestListWebhooks_NewestFirst(t *testing.T) {
	f := newFixture(t)
	var ids []string
	for range 5 {
		f.clock.Advance(time.Second)
		ids = append(ids, f.createEndpoint().ID.String())
	}
	f.deleteEndpoint(f.endpoint(endpointID(t, ids[2])))
	for _, other := range f.otherShops() {
		other.createEndpoint()
	}
	for page, want := range map[int32][]string{1: {ids[4], ids[3], ids[1]}, 2: {ids[0]}, 3: nil} {
		list, err := f.service.ListWebhooks(f.asOwner(), &affiliatev1.ListWebhooksRequest{Page: new(page), PageSize: new(int32(3))})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list.GetData() {
			got = append(got, e.GetId())
		}
		if !slices.Equal(got, want) || list.GetTotal() != 4 {
			t.Errorf("page %d of ListWebhooks has %v of %d, want %v of 4", page, got, list.GetTotal(), want)
		}
	}
}

// A mode can have at most ten endpoints, even if requests run in parallel. After a
// deletion, another endpoint can be created.
func TestCreateWebhook_LimitHoldsInParallel(t *testing.T) {
	f := newFixture(t)
	var group sync.WaitGroup
	results := make([]error, 20)
	for i := range results {
		group.Go(func() { _, results[i] = f.createWebhook() })
	}
	group.Wait()
	counts := map[affiliate.Reason]int{}
	for _, err := range results {
		counts[pgtest.ReasonOf(t, err)]++
	}
	if counts[""] != webhook.MaxEndpoints || counts[affiliate.ReasonWebhookLimitExceeded] != 20-webhook.MaxEndpoints {
		t.Errorf("20 calls of CreateWebhook returned the errors %v, want %d successes, and %s for the others", counts, webhook.MaxEndpoints, affiliate.ReasonWebhookLimitExceeded)
	}
	list, err := f.service.ListWebhooks(f.asOwner(), &affiliatev1.ListWebhooksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if list.GetTotal() != webhook.MaxEndpoints {
		t.Errorf("%d endpoints are stored, want %d", list.GetTotal(), webhook.MaxEndpoints)
	}
	for name, other := range f.otherShops() {
		if _, err := other.createWebhook(); err != nil {
			t.Errorf("%s: CreateWebhook returned the error %v, want none", name, err)
		}
	}
	f.deleteEndpoint(f.endpoint(endpointID(t, list.GetData()[0].GetId())))
	f.createEndpoint()
	_, err = f.createWebhook()
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookLimitExceeded)
}

func TestUpdateWebhook(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	f.changeEndpoint(e.ID, func(e webhook.Endpoint) webhook.Endpoint {
		e.Health = webhook.Health{ConsecutiveFailures: 3, FailingSince: new(f.Now()), DeadLetters: 7, LastDeadLetterDay: new(f.Now())}
		return e
	})
	state := func(e webhook.Endpoint) string {
		text := fmt.Sprintf("active, epoch %d, version %d, %d failures, %d dead letters", e.Epoch, e.Version, e.ConsecutiveFailures, e.DeadLetters)
		if !e.Active {
			text = "in" + text + ", " + string(*e.DisabledReason)
		}
		if e.FailingSince != nil {
			text += ", failing"
		}
		if e.LastDeadLetterDay == nil {
			text += ", without the day of a dead letter"
		}
		return text
	}
	for _, step := range []struct {
		name      string
		req       *affiliatev1.UpdateWebhookRequest
		paths     []string
		wantState string
		wantJobs  int    // cancel jobs since the beginning
		wantAudit string // new audit record; empty if there must be none
	}{
		{
			"subscriptions", &affiliatev1.UpdateWebhookRequest{Subscriptions: []string{"payout.*"}},
			[]string{"subscriptions"},
			"active, epoch 1, version 2, 3 failures, 7 dead letters, failing", 0,
			`webhook.update {"subscriptions": ["*"]} {"subscriptions": ["payout.*"]}`,
		},
		{
			"a description", &affiliatev1.UpdateWebhookRequest{Description: new("D")},
			[]string{"description"},
			"active, epoch 1, version 3, 3 failures, 7 dead letters, failing", 0,
			`webhook.update {"description": null} {"description": "D"}`,
		},
		{
			"nothing", &affiliatev1.UpdateWebhookRequest{},
			nil,
			"active, epoch 1, version 3, 3 failures, 7 dead letters, failing", 0, "",
		},
		{
			"the same values",
			&affiliatev1.UpdateWebhookRequest{Subscriptions: []string{"payout.*"}, Description: new("D"), Active: new(true)},
			[]string{"subscriptions", "description", "active"},
			"active, epoch 1, version 3, 3 failures, 7 dead letters, failing", 0, "",
		},
		{
			"disabled", &affiliatev1.UpdateWebhookRequest{Active: new(false)},
			[]string{"active", "description"},
			"inactive, epoch 2, version 4, 3 failures, 7 dead letters, manual, failing", 1,
			`webhook.update {"active": true, "description": "D", "disabled_reason": null} {"active": false, "description": null, "disabled_reason": "manual"}`,
		},
		{
			"disabled again", &affiliatev1.UpdateWebhookRequest{Active: new(false)},
			[]string{"active"},
			"inactive, epoch 2, version 4, 3 failures, 7 dead letters, manual, failing", 1, "",
		},
		{
			"enabled", &affiliatev1.UpdateWebhookRequest{Active: new(true)},
			[]string{"active"},
			"active, epoch 2, version 5, 0 failures, 0 dead letters", 1,
			`webhook.update {"active": false, "disabled_reason": "manual"} {"active": true, "disabled_reason": null}`,
		},
	} {
		records := len(f.AuditActions("webhook", e.ID.String()))
		f.clock.Advance(time.Minute)
		after := f.update(e, step.req, step.paths...)
		if changed, want := after.UpdatedAt.Equal(f.Now()), step.wantAudit != ""; changed != want {
			t.Errorf("%s: the endpoint was updated at %s, now is %s, want a change: %v", step.name, after.UpdatedAt, f.Now(), want)
		}
		if got := state(after); got != step.wantState {
			t.Errorf("%s: the endpoint is %s, want %s", step.name, got, step.wantState)
		}
		if n := f.CountJobs("cancel_deliveries"); n != step.wantJobs {
			t.Errorf("%s: there are %d cancel jobs, want %d", step.name, n, step.wantJobs)
		}
		added := len(f.AuditActions("webhook", e.ID.String())) - records
		if want := min(len(step.wantAudit), 1); added != want {
			t.Fatalf("%s: UpdateWebhook wrote %d audit records, want %d", step.name, added, want)
		}
		if line := f.lastAudit(e); added == 1 && line != step.wantAudit {
			t.Errorf("%s: UpdateWebhook wrote the audit record %s, want %s", step.name, line, step.wantAudit)
		}
	}
}

// If a user disables an endpoint that the service has already disabled, the endpoint
// keeps the reason that the service stored.
func TestUpdateWebhook_KeepsTheDisabledReason(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	f.changeEndpoint(e.ID, func(e webhook.Endpoint) webhook.Endpoint { return e.Disable(webhook.DisabledGone, f.Now()) })
	after := f.setActive(e, false)
	if after.Active || after.DisabledReason == nil || *after.DisabledReason != webhook.DisabledGone {
		t.Errorf("the endpoint is active: %v, with the reason %s, want it to be disabled with the reason %s", after.Active, optional(after.DisabledReason), webhook.DisabledGone)
	}
	if after.Version != 2 {
		t.Errorf("the endpoint has version %d, want version 2, because the second change has no effect", after.Version)
	}
}

// optional returns the text of a value, or "none" for nil.
func optional[T any](value *T) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprint(*value)
}

func TestDeleteWebhook_DeletesTheSecrets(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	f.rotateSecret(e.ID, false)
	sender := affiliate.SenderID{UUID: uuid.New()}
	if _, err := webhooks.Claim(t.Context(), f.DB, sender, []webhook.EndpointKey{e.Key()}, f.Now(), f.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	f.deleteEndpoint(e)
	if n := f.Count(`
		select count(*) from webhook_endpoints
		where deleted_at = $1 and not active and epoch = 2 and secret is null and previous_secret is null and previous_until is null
			and sender is null and sender_until is null`, f.Now()); n != 1 {
		t.Errorf("%d deleted endpoints have neither secrets nor a lease, want 1", n)
	}
	if n := f.CountJobs("cancel_deliveries"); n != 1 {
		t.Errorf("there are %d cancel jobs, want 1", n)
	}
	if line := f.lastAudit(e); !strings.HasPrefix(line, "webhook.delete {") {
		t.Errorf("the last audit record is %s, want webhook.delete", line)
	}
	_, err := f.service.GetWebhook(f.asOwner(), &affiliatev1.GetWebhookRequest{WebhookId: e.ID.String()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
	_, err = f.service.UpdateWebhook(f.asOwner(), &affiliatev1.UpdateWebhookRequest{WebhookId: e.ID.String(), Active: new(true), UpdateMask: mask("active")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
}

func TestRotateWebhookSecret_PreviousSecretSignsForADay(t *testing.T) {
	f := newFixture(t)
	created, err := f.createWebhook()
	if err != nil {
		t.Fatal(err)
	}
	id, names := endpointID(t, created.GetId()), map[string]string{created.GetSigningSecret(): "first"}
	rotate := func(name string, expireImmediately bool, version int) {
		t.Helper()
		names[f.rotateSecret(id, expireImmediately).GetSigningSecret()] = name
		after := f.endpoint(id)
		if after.Version != version || !after.UpdatedAt.Equal(f.Now()) {
			t.Fatalf("after a rotation, the endpoint has version %d and was updated at %s, want version %d and %s", after.Version, after.UpdatedAt, version, f.Now())
		}
		if line := f.lastAudit(after); !strings.HasPrefix(line, "webhook.rotate_secret - ") {
			t.Errorf("the last audit record is %s, want webhook.rotate_secret", line)
		}
	}
	check := func(at time.Time, want ...string) {
		t.Helper()
		var got []string
		for _, secret := range f.secrets(id, at) {
			got = append(got, names[secret])
		}
		if !slices.Equal(got, want) {
			t.Errorf("at %s, requests are signed with the secrets %q, want %q", at, got, want)
		}
	}
	check(f.Now(), "first")
	rotate("second", false, 2)
	end := f.Now().Add(webhook.RotatedSecretGrace)
	check(f.Now(), "second", "first")
	check(end.Add(-time.Millisecond), "second", "first")
	check(end, "second")
	rotate("third", false, 3)
	check(f.Now(), "third", "second")
	rotate("fourth", true, 4)
	check(f.Now(), "fourth")
	if n := f.Count(`select count(*) from webhook_endpoints where previous_secret is null and previous_until is null`); n != 1 {
		t.Errorf("%d endpoints have no previous secret, want 1", n)
	}
}
