package workspace_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/workspace"
	"github.com/tributary-hq/tributary/storage/postgres"
	accountpg "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace with one owner.
type world struct {
	t        *testing.T
	store    *postgres.Store
	accounts *accountpg.Store
	conn     *pgx.Conn
	service  *workspace.Service
	now      time.Time
	id       affiliate.WorkspaceID
	owner    affiliate.UserID
	url      string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	w.url = pgtest.New(t)
	var err error
	if w.store, err = postgres.Open(t.Context(), postgres.Config{URL: w.url}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.conn, err = pgx.Connect(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.conn.Close(context.WithoutCancel(t.Context())) })
	w.accounts = accountpg.NewStore(w.store.DB)
	w.service = workspace.New(stores.Workspace(w.store.DB), func() time.Time { return w.now })
	w.id = w.newWorkspace()
	w.owner = w.newMember(affiliate.RoleOwner, "owner@shop.example")
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.conn.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.conn.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) newWorkspace() affiliate.WorkspaceID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.Workspace](w.now)
	w.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'Shop', 'USD', 'UTC', $2, $2)`, id, w.now)
	return id
}

// newMember adds a member, one millisecond after the previous member.
func (w *world) newMember(role affiliate.Role, email string) affiliate.UserID {
	w.t.Helper()
	w.now = w.now.Add(time.Millisecond)
	id := affiliate.NewID[affiliate.User](w.now)
	w.exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1, 'merchant', $2, '', 'Member', $3)`, id, email, w.now)
	w.exec(`insert into members (workspace_id, user_id, role, created_at) values ($1, $2, $3, $4)`, w.id, id, role, w.now)
	return id
}

func (w *world) newSession(user affiliate.UserID) affiliate.SessionID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.Session](w.now)
	w.exec(`insert into sessions (id, user_id, created_at, idle_expires_at, expires_at) values ($1, $2, $3, $4, $4)`,
		id, user, w.now, w.now.Add(time.Hour))
	return id
}

func (w *world) sessionLive(session affiliate.SessionID) bool {
	w.t.Helper()
	_, _, ok, err := w.accounts.LiveSession(w.t.Context(), session, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return ok
}

// lockWorkspace locks the workspace in another transaction. release ends it.
func (w *world) lockWorkspace() (release func()) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) })
	tx, err := conn.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Exec(w.t.Context(), `select from workspaces where id = $1 for no key update`, w.id); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		if err := tx.Commit(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// as returns the context of a call by a member after authentication.
func (w *world) as(user affiliate.UserID, role affiliate.Role, mode affiliate.Mode) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: user, Workspace: w.id, Role: role, Mode: mode,
	})
}

func (w *world) asOwner() context.Context {
	return w.as(w.owner, affiliate.RoleOwner, affiliate.ModeTest)
}

func (w *world) roleOf(user affiliate.UserID) affiliate.Role {
	w.t.Helper()
	var role affiliate.Role
	err := w.conn.QueryRow(w.t.Context(), `select role from members where workspace_id = $1 and user_id = $2`, w.id, user).Scan(&role)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		w.t.Fatal(err)
	}
	return role
}

// countAudit counts the audit records of an action.
func (w *world) countAudit(action string) int {
	w.t.Helper()
	return w.count(`select count(*) from audit_log where workspace_id = $1 and action = $2`, w.id, action)
}

func (w *world) jobs() int {
	w.t.Helper()
	return w.count(`select count(*) from river.river_job where kind = 'sync_directory'`)
}

func (w *world) requireReason(err error, reason affiliate.Reason) {
	w.t.Helper()
	if !errors.Is(err, affiliate.Refuse(reason)) {
		w.t.Errorf("got %v, want %s", err, reason)
	}
}

func asError(err error, target **affiliate.Error) bool { return errors.As(err, target) }
