package webhook_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/webhook"
)

// endpointURL is the URL of every endpoint of a useCases world.
const endpointURL = "https://127.0.0.1:8443/in?token=t"

// useCases is a world whose endpoints and deliveries are made and changed by the service.
type useCases struct{ *world }

func newUseCases(t *testing.T) *useCases {
	t.Helper()
	w := &useCases{newWorld(t)}
	w.now = time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)
	return w
}

// others are scopes that the world's endpoints do not belong to.
func (w *useCases) others() map[string]affiliate.Scope {
	return map[string]affiliate.Scope{
		"another mode":      {Workspace: w.scope.Workspace, Mode: affiliate.ModeTest},
		"another workspace": {Workspace: w.NewWorkspace(), Mode: w.scope.Mode},
	}
}

func (w *useCases) tryCreate(scope affiliate.Scope, change ...func(*affiliatev1.CreateWebhookRequest)) (*affiliatev1.CreatedWebhook, error) {
	req := &affiliatev1.CreateWebhookRequest{Url: endpointURL, Subscriptions: []string{"*"}}
	for _, c := range change {
		c(req)
	}
	return w.service.CreateWebhook(w.as(scope), req)
}

func (w *useCases) create(scope affiliate.Scope, change ...func(*affiliatev1.CreateWebhookRequest)) affiliate.Endpoint {
	w.t.Helper()
	made, err := w.tryCreate(scope, change...)
	if err != nil {
		w.t.Fatal(err)
	}
	id, _ := affiliate.ParseID[affiliate.Endpoint](made.GetId())
	return w.endpoint(scope, id)
}

func (w *useCases) endpoint(scope affiliate.Scope, id affiliate.EndpointID) affiliate.Endpoint {
	w.t.Helper()
	e, err := w.webhooks.Endpoint(w.t.Context(), scope, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *useCases) update(e affiliate.Endpoint, req *affiliatev1.UpdateWebhookRequest, paths ...string) affiliate.Endpoint {
	w.t.Helper()
	req.WebhookId, req.UpdateMask = e.ID.String(), mask(paths...)
	if _, err := w.service.UpdateWebhook(w.as(e.Scope), req); err != nil {
		w.t.Fatal(err)
	}
	return w.endpoint(e.Scope, e.ID)
}

func (w *useCases) turn(e affiliate.Endpoint, active bool) affiliate.Endpoint {
	w.t.Helper()
	return w.update(e, &affiliatev1.UpdateWebhookRequest{Active: proto.Bool(active)}, "active")
}

func (w *useCases) remove(e affiliate.Endpoint) {
	w.t.Helper()
	if _, err := w.service.DeleteWebhook(w.as(e.Scope), &affiliatev1.DeleteWebhookRequest{WebhookId: e.ID.String()}); err != nil {
		w.t.Fatal(err)
	}
}

// text returns the only text that a query selects.
func (w *useCases) text(sql string, args ...any) string {
	w.t.Helper()
	texts := w.Texts(sql, args...)
	if len(texts) != 1 {
		w.t.Fatalf("%q", texts)
	}
	return texts[0]
}

// audited returns the newest line of the audit log about an endpoint: the action, and
// the fields before and after.
func (w *useCases) audited(e affiliate.Endpoint) string {
	w.t.Helper()
	return w.text(`
		select action || ' ' || coalesce(before::text, '-') || ' ' || coalesce(after::text, '-') from audit_log
		where resource_type = 'webhook' and resource_id = $1 and mode = $2 and workspace_id = $3 order by at desc, ctid desc limit 1`,
		e.ID, e.Scope.Mode, e.Scope.Workspace)
}

// cancel runs one block of the job, which must cancel want deliveries.
func (w *useCases) cancel(e affiliate.Endpoint, limit, want int) {
	w.t.Helper()
	if n, err := webhook.CancelBlock(w.t.Context(), w.store, w.inAnHour, e.CancelDeliveries(), limit); err != nil || n != want {
		w.t.Fatalf("%d canceled, %v, want %d", n, err, want)
	}
}

func (w *useCases) cancelAll(e affiliate.Endpoint) {
	w.t.Helper()
	if _, err := webhook.CancelBlock(w.t.Context(), w.store, w.inAnHour, e.CancelDeliveries(), 1000); err != nil {
		w.t.Fatal(err)
	}
}

func (w *useCases) inAnHour() time.Time { return w.now.Add(time.Hour) }

// word returns a status as the API writes it.
func word(s affiliatev1.DeliveryStatus) affiliate.DeliveryStatus {
	return affiliate.DeliveryStatus(server.Word(s))
}
