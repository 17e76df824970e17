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

// endpointURL is the URL of all endpoints of a serviceWorld.
const endpointURL = "https://127.0.0.1:8443/in?token=t"

// serviceWorld is a world whose endpoints and deliveries are created and changed through
// the service.
type serviceWorld struct{ *world }

func newServiceWorld(t *testing.T) *serviceWorld {
	t.Helper()
	w := &serviceWorld{newWorld(t)}
	w.now = time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)
	return w
}

// otherScopes returns scopes to which the world's endpoints do not belong.
func (w *serviceWorld) otherScopes() map[string]affiliate.Scope {
	return map[string]affiliate.Scope{
		"another mode":      {Workspace: w.scope.Workspace, Mode: affiliate.ModeTest},
		"another workspace": {Workspace: w.NewWorkspace(), Mode: w.scope.Mode},
	}
}

func (w *serviceWorld) tryCreate(scope affiliate.Scope, change ...func(*affiliatev1.CreateWebhookRequest)) (*affiliatev1.CreatedWebhook, error) {
	req := &affiliatev1.CreateWebhookRequest{Url: endpointURL, Subscriptions: []string{"*"}}
	for _, c := range change {
		c(req)
	}
	return w.service.CreateWebhook(w.asMerchant(scope), req)
}

func (w *serviceWorld) create(scope affiliate.Scope, change ...func(*affiliatev1.CreateWebhookRequest)) affiliate.Endpoint {
	w.t.Helper()
	created, err := w.tryCreate(scope, change...)
	if err != nil {
		w.t.Fatal(err)
	}
	id, _ := affiliate.ParseID[affiliate.Endpoint](created.GetId())
	return w.endpoint(scope, id)
}

func (w *serviceWorld) endpoint(scope affiliate.Scope, id affiliate.EndpointID) affiliate.Endpoint {
	w.t.Helper()
	e, err := w.webhooks.Endpoint(w.t.Context(), scope, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *serviceWorld) update(e affiliate.Endpoint, req *affiliatev1.UpdateWebhookRequest, paths ...string) affiliate.Endpoint {
	w.t.Helper()
	req.WebhookId, req.UpdateMask = e.ID.String(), mask(paths...)
	if _, err := w.service.UpdateWebhook(w.asMerchant(e.Scope), req); err != nil {
		w.t.Fatal(err)
	}
	return w.endpoint(e.Scope, e.ID)
}

func (w *serviceWorld) setActive(e affiliate.Endpoint, active bool) affiliate.Endpoint {
	w.t.Helper()
	return w.update(e, &affiliatev1.UpdateWebhookRequest{Active: proto.Bool(active)}, "active")
}

func (w *serviceWorld) deleteEndpoint(e affiliate.Endpoint) {
	w.t.Helper()
	if _, err := w.service.DeleteWebhook(w.asMerchant(e.Scope), &affiliatev1.DeleteWebhookRequest{WebhookId: e.ID.String()}); err != nil {
		w.t.Fatal(err)
	}
}

// text returns the only text that a query selects.
func (w *serviceWorld) text(sql string, args ...any) string {
	w.t.Helper()
	texts := w.Texts(sql, args...)
	if len(texts) != 1 {
		w.t.Fatalf("%q", texts)
	}
	return texts[0]
}

// lastAudit returns the newest audit record of an endpoint as text: the action, and the
// fields before and after the change.
func (w *serviceWorld) lastAudit(e affiliate.Endpoint) string {
	w.t.Helper()
	return w.text(`
		select action || ' ' || coalesce(before::text, '-') || ' ' || coalesce(after::text, '-') from audit_log
		where resource_type = 'webhook' and resource_id = $1 and mode = $2 and workspace_id = $3 order by at desc, ctid desc limit 1`,
		e.ID, e.Scope.Mode, e.Scope.Workspace)
}

// cancelBlock runs one block of the cancel job, which must cancel want deliveries.
func (w *serviceWorld) cancelBlock(e affiliate.Endpoint, limit, want int) {
	w.t.Helper()
	if n, err := webhook.CancelBlock(w.t.Context(), w.store, w.oneHourLater, e.CancelDeliveries(), limit); err != nil || n != want {
		w.t.Fatalf("%d canceled, %v, want %d", n, err, want)
	}
}

func (w *serviceWorld) cancelAllDeliveries(e affiliate.Endpoint) {
	w.t.Helper()
	if _, err := webhook.CancelBlock(w.t.Context(), w.store, w.oneHourLater, e.CancelDeliveries(), 1000); err != nil {
		w.t.Fatal(err)
	}
}

func (w *serviceWorld) oneHourLater() time.Time { return w.now.Add(time.Hour) }

// statusOf converts a status of the API.
func statusOf(s affiliatev1.DeliveryStatus) affiliate.DeliveryStatus {
	return affiliate.DeliveryStatus(server.EnumName(s))
}
