package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// team is a workspace with an owner.
type team struct {
	*pgtest.Fixture
	t     *testing.T
	now   time.Time
	scope affiliate.Scope
	owner affiliate.UserID
}

func newTeam(t *testing.T) *team {
	t.Helper()
	f := &team{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	f.Fixture = pgtest.Open(t, func() time.Time { return f.now })
	f.scope = affiliate.Scope{Workspace: f.NewWorkspace(), Mode: affiliate.ModeTest}
	f.owner = f.member(affiliate.RoleOwner)
	return f
}

// member adds a new user with a role to the workspace.
func (f *team) member(role affiliate.Role) affiliate.UserID {
	f.t.Helper()
	id := f.merchant("Member")
	f.join(f.scope.Workspace, id, role)
	return id
}

// merchant creates a user who is a merchant.
func (f *team) merchant(name string) affiliate.UserID {
	f.t.Helper()
	id := affiliate.NewID[affiliate.User](f.now)
	f.Insert("users", pgtest.Row{
		"id": id, "kind": affiliate.Merchant, "email": id.String() + "@shop.example", "password_hash": "", "name": name, "created_at": f.now,
	})
	return id
}

func (f *team) join(workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) {
	f.t.Helper()
	f.Insert("members", pgtest.Row{"workspace_id": workspace, "user_id": user, "role": role, "created_at": f.now})
}

// lastEntry returns the newest audit log entry of an action as "before → after".
func (f *team) lastEntry(action string) string {
	f.t.Helper()
	lines := f.Texts(`
		select coalesce(before::text, 'null') || ' → ' || coalesce(after::text, 'null') from audit_log
		where workspace_id = $1 and action = $2 order by at desc, id desc limit 1`, f.scope.Workspace, action)
	return strings.Join(lines, "")
}
