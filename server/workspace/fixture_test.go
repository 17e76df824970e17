package workspace_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/server/workspace"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// fixture is a shop in test mode, with the service under test.
type fixture struct {
	*pgtest.Shop
	service *workspace.Service
	clock   *pgtest.Clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest)
	return &fixture{shop, workspace.New(shop.DB, servertest.Seal(t), server.Invitations{Limiter: servertest.Unlimited{}}, clock.Now), clock}
}

// newShop returns a fixture with a new workspace in the same database.
func (f *fixture) newShop() *fixture {
	f.Helper()
	return &fixture{f.NewShop(affiliate.ModeTest), f.service, f.clock}
}

// newMember adds a member, one millisecond after the previous member.
func (f *fixture) newMember(role affiliate.Role, changes ...pgtest.Row) affiliate.UserID {
	f.Helper()
	f.clock.Advance(time.Millisecond)
	return f.NewMember(f.Scope.Workspace, role, changes...)
}

// newTester adds a member with a verified address.
func (f *fixture) newTester(email string) {
	f.Helper()
	f.newMember(affiliate.RoleViewer, pgtest.Row{"email": email, "email_verified_at": f.Now()})
}

func (f *fixture) newSession(user affiliate.UserID) affiliate.SessionID {
	f.Helper()
	now := f.Now()
	id := affiliate.NewID[affiliate.SessionID](now)
	f.Insert("sessions", pgtest.Row{
		"id": id, "user_id": user, "created_at": now, "idle_expires_at": now.Add(time.Hour), "expires_at": now.Add(time.Hour),
	})
	return id
}

// sessionWorks reports whether a call with the session would be accepted now.
func (f *fixture) sessionWorks(session affiliate.SessionID) bool {
	f.Helper()
	_, _, ok, err := accounts.ActiveSession(f.Context(), f.DB, session, f.Now())
	if err != nil {
		f.Fatal(err)
	}
	return ok
}

// beginWithLock begins a transaction that locks the workspace. The transaction ends with
// the test, unless the caller ends it.
func (f *fixture) beginWithLock() pgx.Tx {
	f.Helper()
	tx, err := f.SQL.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(f.Context())) })
	if _, err := tx.Exec(f.Context(), `select from workspaces where id = $1 for no key update`, f.Scope.Workspace); err != nil {
		f.Fatal(err)
	}
	return tx
}

// as returns the context of a call by a user. The call was authorised with the given
// role, even if the user now has another role.
func (f *fixture) as(user affiliate.UserID, role affiliate.Role) context.Context {
	return servertest.AsMember(f, f.Scope, user, role)
}

func (f *fixture) asOwner() context.Context { return f.as(f.Owner, affiliate.RoleOwner) }

// asOwnerInLiveMode returns the context of a call by the owner in live mode. The data of
// the fixture is in test mode.
func (f *fixture) asOwnerInLiveMode() context.Context {
	return servertest.AsMember(f, affiliate.Scope{Workspace: f.Scope.Workspace, Mode: affiliate.ModeLive}, f.Owner, affiliate.RoleOwner)
}

// roleOf returns the role of a user, or the empty string if the user is not a member.
func (f *fixture) roleOf(user affiliate.UserID) affiliate.Role {
	f.Helper()
	var role affiliate.Role
	err := f.SQL.QueryRow(f.Context(), `select role from members where workspace_id = $1 and user_id = $2`, f.Scope.Workspace, user).Scan(&role)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		f.Fatal(err)
	}
	return role
}

// countAudit counts the audit records of an action.
func (f *fixture) countAudit(action string) int {
	f.Helper()
	return f.Count(`select count(*) from audit_log where workspace_id = $1 and action = $2`, f.Scope.Workspace, action)
}

// countDirectoryJobs counts the jobs that update the edge directory.
func (f *fixture) countDirectoryJobs() int {
	f.Helper()
	return f.CountJobs("sync_directory")
}
