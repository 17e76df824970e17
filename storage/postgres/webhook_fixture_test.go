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

// webhookFixture is a workspace. Tests add endpoints.
type webhookFixture struct {
	*pgtest.Fixture
	t     *testing.T
	now   time.Time
	scope affiliate.Scope
}

func newWebhookFixture(t *testing.T) *webhookFixture {
	t.Helper()
	f := &webhookFixture{t: t, now: time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)}
	f.Fixture = pgtest.Open(t, func() time.Time { return f.now })
	f.scope = affiliate.Scope{Workspace: f.NewWorkspace(), Mode: affiliate.ModeLive}
	return f
}

// others returns the other mode of the workspace and the scope of another workspace.
func (f *webhookFixture) others() map[string]affiliate.Scope {
	return map[string]affiliate.Scope{
		"another mode":      {Workspace: f.scope.Workspace, Mode: affiliate.ModeTest},
		"another workspace": {Workspace: f.NewWorkspace(), Mode: f.scope.Mode},
	}
}

// create creates an endpoint. Without subscriptions, it receives all events.
func (f *webhookFixture) create(scope affiliate.Scope, subscriptions ...string) affiliate.Endpoint {
	f.t.Helper()
	if subscriptions == nil {
		subscriptions = []string{"*"}
	}
	e := affiliate.Endpoint{ID: affiliate.NewID[affiliate.Endpoint](f.now), Scope: scope}
	f.Exec(`insert into webhook_endpoints (workspace_id, id, mode, url, subscriptions, active, created_at, updated_at, version)
		values ($1, $2, $3, 'https://example.com/', $4, true, $5, $5, 1)`, scope.Workspace, e.ID, scope.Mode, subscriptions, f.now)
	return e
}

func (f *webhookFixture) setActive(e affiliate.Endpoint, active bool) affiliate.Endpoint {
	f.t.Helper()
	f.Exec(`update webhook_endpoints set active = $2, epoch = epoch + (not $2)::int where id = $1`, e.ID, active)
	return e
}

func (f *webhookFixture) remove(e affiliate.Endpoint) {
	f.t.Helper()
	f.Exec(`update webhook_endpoints set active = false, epoch = epoch + 1, deleted_at = $2 where id = $1`, e.ID, f.now)
}

// text returns the single text that a query selects.
func (f *webhookFixture) text(sql string, args ...any) string {
	f.t.Helper()
	texts := f.Texts(sql, args...)
	if len(texts) != 1 {
		f.t.Fatalf("%s returned %q, want one text", sql, texts)
	}
	return texts[0]
}
