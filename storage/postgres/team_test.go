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
	w := &team{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest}
	w.owner = w.member(affiliate.RoleOwner)
	return w
}

func (w *team) member(role affiliate.Role) affiliate.UserID {
	w.t.Helper()
	id := w.merchant("Member")
	w.join(w.scope.Workspace, id, role)
	return id
}

func (w *team) merchant(name string) affiliate.UserID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.User](w.now)
	w.Insert("users", pgtest.Row{
		"id": id, "kind": affiliate.Merchant, "email": id.String() + "@shop.example", "password_hash": "", "name": name, "created_at": w.now,
	})
	return id
}

func (w *team) join(workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) {
	w.t.Helper()
	w.Insert("members", pgtest.Row{"workspace_id": workspace, "user_id": user, "role": role, "created_at": w.now})
}

func by(user affiliate.UserID) affiliate.Actor { return affiliate.Actor{User: &user} }

// lastRecord returns the newest audit record of an action as "before → after".
func (w *team) lastRecord(action string) string {
	w.t.Helper()
	lines := w.Texts(`
		select coalesce(before::text, 'null') || ' → ' || coalesce(after::text, 'null') from audit_log
		where workspace_id = $1 and action = $2 order by at desc, id desc limit 1`, w.scope.Workspace, action)
	return strings.Join(lines, "")
}
