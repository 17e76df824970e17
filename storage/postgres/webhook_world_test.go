package postgres_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// insertFullSubscription inserts an endpoint of a workspace and mode that receives all
// events.
const insertFullSubscription = `
	insert into webhook_endpoints (workspace_id, id, mode, url, subscriptions, active, created_at, updated_at, version)
	values ($1, gen_random_uuid(), $2, 'https://example.com/', '{*}', true, $3, $3, 1)`

// webhookWorld is a workspace with endpoints.
type webhookWorld struct {
	*pgtest.Fixture
	t     *testing.T
	now   time.Time
	scope affiliate.Scope
}

func newWebhookWorld(t *testing.T) *webhookWorld {
	t.Helper()
	w := &webhookWorld{t: t, now: time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}
	return w
}

// others returns scopes to which the fixture's endpoints do not belong.
func (w *webhookWorld) others() map[string]affiliate.Scope {
	return map[string]affiliate.Scope{
		"another mode":      {Workspace: w.scope.Workspace, Mode: affiliate.ModeTest},
		"another workspace": {Workspace: w.NewWorkspace(), Mode: w.scope.Mode},
	}
}

func (w *webhookWorld) create(scope affiliate.Scope, subscriptions ...string) affiliate.Endpoint {
	w.t.Helper()
	if subscriptions == nil {
		subscriptions = []string{"*"}
	}
	e := affiliate.Endpoint{ID: affiliate.NewID[affiliate.Endpoint](w.now), Scope: scope}
	w.Exec(`insert into webhook_endpoints (workspace_id, id, mode, url, subscriptions, active, created_at, updated_at, version)
		values ($1, $2, $3, 'https://example.com/', $4, true, $5, $5, 1)`, scope.Workspace, e.ID, scope.Mode, subscriptions, w.now)
	return e
}

func (w *webhookWorld) setActive(e affiliate.Endpoint, active bool) affiliate.Endpoint {
	w.t.Helper()
	w.Exec(`update webhook_endpoints set active = $2, epoch = epoch + (not $2)::int where id = $1`, e.ID, active)
	return e
}

func (w *webhookWorld) remove(e affiliate.Endpoint) {
	w.t.Helper()
	w.Exec(`update webhook_endpoints set active = false, epoch = epoch + 1, deleted_at = $2 where id = $1`, e.ID, w.now)
}

// text returns the single text that a query selects.
func (w *webhookWorld) text(sql string, args ...any) string {
	w.t.Helper()
	texts := w.Texts(sql, args...)
	if len(texts) != 1 {
		w.t.Fatalf("%q", texts)
	}
	return texts[0]
}
