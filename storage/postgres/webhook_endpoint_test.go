package postgres_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestEndpointsAreStoredAsTheyWereMade(t *testing.T) {
	w := newWebhookWorld(t)
	description := "Orders"
	made := w.unstored(w.scope, "commission.*", "payout.paid")
	made.Description = &description
	off := w.unstored(w.scope)
	off.Active = false
	for _, e := range []affiliate.Endpoint{made, off} {
		if err := w.Store.CreateEndpoint(t.Context(), e, []byte("sealed"), w.by); err != nil {
			t.Fatal(err)
		}
	}
	manual := affiliate.DisabledByMerchant
	off.DisabledReason = &manual
	for _, want := range []affiliate.Endpoint{made, off} {
		got, err := w.Store.Endpoint(t.Context(), w.scope, want.ID)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if n := w.Count(`select count(*) from webhook_endpoints where secret = 'sealed' and previous_secret is null and epoch = 1`); n != 2 {
		t.Errorf("%d secrets", n)
	}
	line := w.audited(made)
	for _, part := range []string{"webhook.create - ", `"hooks.example.com:8443"`, "Orders", "commission.*"} {
		if !strings.Contains(line, part) {
			t.Errorf("no %s in %s", part, line)
		}
	}
	for _, secret := range []string{"sealed", "token"} {
		if strings.Contains(line, secret) {
			t.Errorf("%s in %s", secret, line)
		}
	}
}

func TestEndpointsAreListedNewestFirst(t *testing.T) {
	w := newWebhookWorld(t)
	var ids []affiliate.EndpointID
	for range 5 {
		w.now = w.now.Add(time.Second)
		ids = append(ids, w.create(w.scope).ID)
	}
	w.remove(affiliate.Endpoint{ID: ids[2], Scope: w.scope})
	for _, scope := range w.others() {
		w.create(scope)
	}
	for number, want := range map[int][]affiliate.EndpointID{1: {ids[4], ids[3], ids[1]}, 2: {ids[0]}, 3: nil} {
		list, total, err := w.Store.ListEndpoints(t.Context(), w.scope, affiliate.Page{Number: number, Size: 3})
		var got []affiliate.EndpointID
		for _, e := range list {
			got = append(got, e.ID)
		}
		if err != nil || total != 4 || !slices.Equal(got, want) {
			t.Errorf("page %d: %v of %d, %v", number, got, total, err)
		}
	}
}

// However many create at a time, a mode has ten; a deleted one makes room.
func TestAModeHasTenEndpoints(t *testing.T) {
	w := newWebhookWorld(t)
	var group sync.WaitGroup
	results := make([]error, 20)
	for i := range results {
		e := w.unstored(w.scope)
		group.Go(func() { results[i] = w.Store.CreateEndpoint(t.Context(), e, nil, w.by) })
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
		t.Errorf("%d were made, %d are there", made, n)
	}
	for what, scope := range w.others() {
		if err := w.Store.CreateEndpoint(t.Context(), w.unstored(scope), nil, w.by); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	list, _, err := w.Store.ListEndpoints(t.Context(), w.scope, affiliate.Page{Number: 1, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.remove(list[0])
	w.create(w.scope)
	pgtest.Refused(t, w.Store.CreateEndpoint(t.Context(), w.unstored(w.scope), nil, w.by), affiliate.ReasonWebhookLimitExceeded)
}

func TestUpdatingAnEndpoint(t *testing.T) {
	w := newWebhookWorld(t)
	e := w.create(w.scope)
	w.Exec(`update webhook_endpoints set consecutive_failures = 3, failing_since = $1, dead_letters = 7`, w.now)
	state := func() string {
		return w.text(`select concat_ws(' ', active, coalesce(disabled_reason, '-'), epoch, consecutive_failures, failing_since is not null, dead_letters, version)
			from webhook_endpoints`)
	}
	for i, step := range []struct {
		name   string
		change affiliate.EndpointChange
		state  string
		jobs   int
		line   string // empty: none is added
	}{
		{
			"subscriptions",
			affiliate.EndpointChange{Subscriptions: affiliate.Set([]string{"payout.*"})},
			"t - 1 3 t 7 2", 0,
			`webhook.update {"subscriptions": ["*"]} {"subscriptions": ["payout.*"]}`,
		},
		{
			"a description",
			affiliate.EndpointChange{Description: affiliate.Set("D")},
			"t - 1 3 t 7 3", 0,
			`webhook.update {"description": null} {"description": "D"}`,
		},
		{"nothing", affiliate.EndpointChange{}, "t - 1 3 t 7 3", 0, ""},
		{
			"as it is",
			affiliate.EndpointChange{Subscriptions: affiliate.Set([]string{"payout.*"}), Description: affiliate.Set("D"), Active: affiliate.Set(true)},
			"t - 1 3 t 7 3", 0, "",
		},
		{
			"off",
			affiliate.EndpointChange{Active: affiliate.Set(false), Description: affiliate.Clear[string]()},
			"f manual 2 3 t 7 4", 1,
			`webhook.update {"active": true, "description": "D", "disabled_reason": null} {"active": false, "description": null, "disabled_reason": "manual"}`,
		},
		{"off again", affiliate.EndpointChange{Active: affiliate.Set(false)}, "f manual 2 3 t 7 4", 1, ""},
		{
			"on",
			affiliate.EndpointChange{Active: affiliate.Set(true)},
			"t - 2 0 f 0 5", 1,
			`webhook.update {"active": false, "disabled_reason": "manual"} {"active": true, "disabled_reason": null}`,
		},
	} {
		lines := len(w.Actions("webhook", e.ID.String()))
		w.now = w.now.Add(time.Minute)
		after := w.update(e, step.change)
		stored, err := w.Store.Endpoint(t.Context(), w.scope, e.ID)
		if err != nil || !reflect.DeepEqual(after, stored) {
			t.Errorf("%s: %+v is stored as %+v, %v", step.name, after, stored, err)
		}
		if changed := after.UpdatedAt.Equal(w.now); changed != (step.line != "") {
			t.Errorf("%s: updated at %s", step.name, after.UpdatedAt)
		}
		if got := state(); got != step.state || w.Jobs("cancel_deliveries") != step.jobs {
			t.Errorf("%s: %s, %d jobs", step.name, got, w.Jobs("cancel_deliveries"))
		}
		added := len(w.Actions("webhook", e.ID.String())) - lines
		if want := min(len(step.line), 1); added != want {
			t.Fatalf("step %d, %s: %d lines", i, step.name, added)
		}
		if line := w.audited(e); added == 1 && line != step.line {
			t.Errorf("%s: %s", step.name, line)
		}
	}
}

// One that the service has turned off keeps the reason when a person turns it off
// once more.
func TestAnEndpointThatIsOffKeepsItsReason(t *testing.T) {
	w := newWebhookWorld(t)
	e := w.create(w.scope)
	w.Exec(`update webhook_endpoints set active = false, disabled_reason = 'gone'`)
	after := w.turn(e, false)
	if after.Active || after.DisabledReason == nil || *after.DisabledReason != affiliate.DisabledGone || after.Version != 1 {
		t.Errorf("%+v", after)
	}
}

func TestDeletingAnEndpointForgetsItsSecrets(t *testing.T) {
	w := newWebhookWorld(t)
	e := w.create(w.scope)
	later := w.now.Add(time.Hour)
	if _, err := w.Store.RotateSecret(t.Context(), w.scope, e.ID, []byte("second"), &later, w.by, w.now); err != nil {
		t.Fatal(err)
	}
	w.Exec(`update webhook_endpoints set sender = gen_random_uuid(), sender_until = $1`, later)
	w.remove(e)
	if n := w.Count(`
		select count(*) from webhook_endpoints
		where deleted_at = $1 and not active and epoch = 2 and secret is null and previous_secret is null and previous_until is null
			and sender is null and sender_until is null`, w.now); n != 1 {
		t.Error("something is left of it")
	}
	if w.Jobs("cancel_deliveries") != 1 || !strings.HasPrefix(w.audited(e), "webhook.delete {") {
		t.Errorf("%d jobs, %s", w.Jobs("cancel_deliveries"), w.audited(e))
	}
	if err := w.everyCall(w.scope, e.ID); err != nil {
		t.Error(err)
	}
}

func TestRotatedSecretsSignForAWhile(t *testing.T) {
	w := newWebhookWorld(t)
	e := w.create(w.scope)
	secrets := func(at time.Time) string {
		_, secrets, err := w.Store.EndpointSecrets(t.Context(), w.scope, e.ID, at)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s", secrets)
	}
	until := w.now.Add(affiliate.RotatedSecretKept)
	rotate := func(sealed string, keptUntil *time.Time, version int) {
		t.Helper()
		after, err := w.Store.RotateSecret(t.Context(), w.scope, e.ID, []byte(sealed), keptUntil, w.by, w.now)
		if err != nil || after.Version != version || !after.UpdatedAt.Equal(w.now) {
			t.Fatalf("%+v, %v", after, err)
		}
		if line := w.audited(e); !strings.HasPrefix(line, "webhook.rotate_secret - ") || strings.Contains(line, sealed) {
			t.Error(line)
		}
	}
	if got := secrets(w.now); got != "[first]" {
		t.Error(got)
	}
	rotate("second", &until, 2)
	for at, want := range map[time.Time]string{w.now: "[second first]", until.Add(-time.Millisecond): "[second first]", until: "[second]"} {
		if got := secrets(at); got != want {
			t.Errorf("%s: %s", at, got)
		}
	}
	rotate("third", &until, 3)
	if got := secrets(w.now); got != "[third second]" {
		t.Error(got)
	}
	rotate("fourth", nil, 4)
	if got := secrets(w.now); got != "[fourth]" {
		t.Error(got)
	}
	if n := w.Count(`select count(*) from webhook_endpoints where previous_secret is null and previous_until is null`); n != 1 {
		t.Error("the third secret is kept")
	}
}

// everyCall tells which call does something about an endpoint that the scope has
// not.
func (w *webhookWorld) everyCall(scope affiliate.Scope, id affiliate.EndpointID) error {
	w.t.Helper()
	ctx, delivery := w.t.Context(), affiliate.NewID[affiliate.Delivery](w.now)
	calls := map[string]func() error{
		"Endpoint": func() error { _, err := w.Store.Endpoint(ctx, scope, id); return err },
		"UpdateEndpoint": func() error {
			_, err := w.Store.UpdateEndpoint(ctx, scope, id, affiliate.EndpointChange{Active: affiliate.Set(false)}, w.by, w.now)
			return err
		},
		"DeleteEndpoint":  func() error { return w.Store.DeleteEndpoint(ctx, scope, id, w.by, w.now) },
		"RotateSecret":    func() error { _, err := w.Store.RotateSecret(ctx, scope, id, nil, nil, w.by, w.now); return err },
		"EndpointSecrets": func() error { _, _, err := w.Store.EndpointSecrets(ctx, scope, id, w.now); return err },
		"ListDeliveries": func() error {
			_, _, err := w.Store.ListDeliveries(ctx, scope, id, w.now, affiliate.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 1})
			return err
		},
		"Delivery": func() error { _, _, err := w.Store.Delivery(ctx, scope, id, delivery, w.now); return err },
		"RetryDelivery": func() error {
			_, _, err := w.Store.RetryDelivery(ctx, scope, id, delivery, w.now, w.by, w.now)
			return err
		},
		"RecoverDeliveries": func() error {
			_, err := w.Store.RecoverDeliveries(ctx, affiliate.RecoverDeliveries{Workspace: scope.Workspace, Mode: scope.Mode, Endpoint: id}, w.by)
			return err
		},
	}
	rows := func() string {
		return fmt.Sprint(w.Texts(`select e::text from webhook_endpoints e order by id`), w.Count(`select count(*) from audit_log`))
	}
	before := rows()
	for name, call := range calls {
		if reason := pgtest.ReasonOf(w.t, call()); reason != affiliate.ReasonWebhookNotFound {
			return fmt.Errorf("%s: %q", name, reason)
		}
	}
	if after := rows(); after != before {
		return fmt.Errorf("%s became %s", before, after)
	}
	return nil
}

func TestEndpointsOfOthersAreNotFound(t *testing.T) {
	w := newWebhookWorld(t)
	e := w.create(w.scope)
	for what, scope := range w.others() {
		if err := w.everyCall(scope, e.ID); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
