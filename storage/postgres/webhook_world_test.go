package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// followEverything makes an endpoint of a workspace and a mode that gets a delivery
// of each event.
const followEverything = `
	insert into webhook_endpoints (workspace_id, id, mode, url, subscriptions, active, created_at, updated_at, version)
	values ($1, gen_random_uuid(), $2, 'https://example.com/', '{*}', true, $3, $3, 1)`

type webhookWorld struct {
	*pgtest.Fixture
	t     *testing.T
	now   time.Time
	scope affiliate.Scope
	by    affiliate.Actor
}

func newWebhookWorld(t *testing.T) *webhookWorld {
	t.Helper()
	w := &webhookWorld{t: t, now: time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}
	user := affiliate.NewID[affiliate.User](w.now)
	w.by = affiliate.Actor{User: &user}
	return w
}

// others are scopes that have nothing to do with the world's.
func (w *webhookWorld) others() map[string]affiliate.Scope {
	return map[string]affiliate.Scope{
		"another mode":      {Workspace: w.scope.Workspace, Mode: affiliate.ModeTest},
		"another workspace": {Workspace: w.NewWorkspace(), Mode: w.scope.Mode},
	}
}

func (w *webhookWorld) create(scope affiliate.Scope, subscriptions ...string) affiliate.Endpoint {
	w.t.Helper()
	e := w.unstored(scope, subscriptions...)
	if err := w.Store.CreateEndpoint(w.t.Context(), e, []byte("first"), w.by); err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *webhookWorld) unstored(scope affiliate.Scope, subscriptions ...string) affiliate.Endpoint {
	if subscriptions == nil {
		subscriptions = []string{"*"}
	}
	return affiliate.Endpoint{
		ID: affiliate.NewID[affiliate.Endpoint](w.now), Scope: scope, URL: "https://hooks.example.com:8443/in?token=t", Subscriptions: subscriptions,
		Active: true, CreatedAt: w.now, UpdatedAt: w.now, Version: 1,
	}
}

func (w *webhookWorld) update(e affiliate.Endpoint, change affiliate.EndpointChange) affiliate.Endpoint {
	w.t.Helper()
	after, err := w.Store.UpdateEndpoint(w.t.Context(), e.Scope, e.ID, change, w.by, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return after
}

func (w *webhookWorld) turn(e affiliate.Endpoint, active bool) affiliate.Endpoint {
	w.t.Helper()
	return w.update(e, affiliate.EndpointChange{Active: affiliate.Set(active)})
}

func (w *webhookWorld) remove(e affiliate.Endpoint) {
	w.t.Helper()
	if err := w.Store.DeleteEndpoint(w.t.Context(), e.Scope, e.ID, w.by, w.now); err != nil {
		w.t.Fatal(err)
	}
}

// text is a query's one row of one text.
func (w *webhookWorld) text(sql string, args ...any) string {
	w.t.Helper()
	texts := w.Texts(sql, args...)
	if len(texts) != 1 {
		w.t.Fatalf("%q", texts)
	}
	return texts[0]
}

// audited is what the audit log's newest line about an endpoint says: as it was and
// as it is.
func (w *webhookWorld) audited(e affiliate.Endpoint) string {
	w.t.Helper()
	return w.text(`
		select action || ' ' || coalesce(before::text, '-') || ' ' || coalesce(after::text, '-') from audit_log
		where resource_type = 'webhook' and resource_id = $1 and mode = $2 and workspace_id = $3 order by at desc, ctid desc limit 1`,
		e.ID, e.Scope.Mode, e.Scope.Workspace)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
