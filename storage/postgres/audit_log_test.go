package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// auditWorld has a log of a size at which plans matter, and other workspaces'
// around it.
type auditWorld struct {
	t     *testing.T
	store *postgres.Store
	owner *pgx.Conn
	now   time.Time
	scope affiliate.Scope
	user  uuid.UUID
}

func newAuditWorld(t *testing.T) *auditWorld {
	t.Helper()
	w := &auditWorld{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), user: uuid.New()}
	url := pgtest.New(t)
	var err error
	if w.store, err = postgres.Open(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.owner, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.owner.Close(context.Background()) })
	w.scope = affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](w.now), Mode: affiliate.ModeLive}
	w.exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1, 'merchant', 'u@example.com', '', 'U', $2)`, w.user, w.now)
	fill := func(workspace affiliate.WorkspaceID, n int) {
		w.exec(`
			insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
			select $1, gen_random_uuid(), case n % 3 when 0 then 'test' when 1 then 'live' end, $2::timestamptz - n * interval '1 minute',
				case when n % 200 = 0 then $3::text when n % 2 = 0 then 'system' else md5((n % 20)::text)::uuid::text end,
				'commission.approve', 'commission', md5((n / 10)::text)::uuid
			from generate_series(1, $4::int) n`, workspace, w.now, w.user.String(), n)
	}
	fill(w.scope.Workspace, 16_000)
	for range 8 {
		fill(affiliate.NewID[affiliate.Workspace](w.now), 10_000)
	}
	w.exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', n || '@example.com', '', 'U', $1 from generate_series(1, 3000) n`, w.now)
	w.exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select gen_random_uuid(), 'W', 'EUR', 'UTC', $1, $1 from generate_series(1, 20)`, w.now)
	w.exec(`
		insert into member_invites (workspace_id, id, email, role, digest, invited_by, created_at, expires_at, ended_at)
		select w.id, gen_random_uuid(), n || '@example.com', 'viewer', sha256((w.id::text || n)::bytea), $1, $2::timestamptz, $2, case when n > 30 then $2 end
		from workspaces w, generate_series(1, 300) n`, w.user, w.now)
	w.exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at)
		select id, gen_random_uuid(), 'live', 'secret', '', sha256((id::text || n)::bytea), '', '', $1 from workspaces, generate_series(1, 100) n`, w.now)
	pgtest.VacuumAnalyze(t, w.owner)
	return w
}

func (w *auditWorld) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.owner.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *auditWorld) plan(sql string, args ...any) string {
	w.t.Helper()
	rows, _ := w.owner.Query(w.t.Context(), "explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatalf("explain %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

// They share a world, which takes a while to fill.
func TestAuditLogPlansAndExport(t *testing.T) {
	t.Parallel()
	w := newAuditWorld(t)
	checkAuditPlans(t, w)
	checkAuditExport(t, w)
}

func checkAuditPlans(t *testing.T, w *auditWorld) {
	t.Helper()
	resource := uuid.MustParse("c4ca4238-a0b9-2382-0dcc-509a6f75849b") // md5 of 1
	day := w.now.AddDate(0, 0, -2)
	for name, tc := range map[string]struct {
		filter affiliate.AuditFilter
		index  string
	}{
		"all":        {affiliate.AuditFilter{}, "audit_log_by_age"},
		"a noun":     {affiliate.AuditFilter{Action: "commission.*"}, "audit_log_by_age"},
		"a period":   {affiliate.AuditFilter{At: affiliate.Period{From: &day}}, "audit_log_by_age"},
		"an actor":   {affiliate.AuditFilter{Actor: w.user.String()}, "audit_log_by_actor"},
		"a resource": {affiliate.AuditFilter{ResourceID: &resource}, "audit_log_by_resource"},
	} {
		page, count, export, args := postgres.AuditSQL(w.scope, tc.filter)
		for what, plan := range map[string]string{
			"page":   w.plan(page, append(append([]any{}, args...), 20, 0)...),
			"total":  w.plan(count, args...),
			"export": w.plan(export, args...),
		} {
			if what != "total" && (!strings.Contains(plan, "users_pkey") || !strings.Contains(plan, "api_keys_pkey")) {
				t.Errorf("%s, %s: a name costs a walk\n%s", name, what, plan)
			}
			// What reads all of a workspace may take any index that starts with it.
			whole := what != "page" && tc.index == "audit_log_by_age"
			if !strings.Contains(plan, tc.index) && !whole || strings.Contains(plan, "Seq Scan on audit_log") {
				t.Errorf("%s, %s: not by %s\n%s", name, what, tc.index, plan)
			}
			if what == "page" && tc.index == "audit_log_by_age" && strings.Contains(plan, "Sort") {
				t.Errorf("%s: a page sorts what it does not show\n%s", name, plan)
			}
		}
	}
	invites := w.plan(strings.NewReplacer("@workspace", "'"+w.scope.Workspace.String()+"'", "@now", "'2026-03-01'", "@limit", "20", "@offset", "0").
		Replace(postgres.ListMemberInvitesSQL))
	if !strings.Contains(invites, "member_invites_open") {
		t.Errorf("open invitations:\n%s", invites)
	}

	entries, total, err := w.store.AuditLog(t.Context(), w.scope, affiliate.AuditFilter{}, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != affiliate.MaxAuditTotal || len(entries) != 20 {
		t.Errorf("%d entries of %d, %v", len(entries), total, err)
	}
	for i, entry := range entries {
		if entry.Mode != nil && *entry.Mode != affiliate.ModeLive || i > 0 && entry.At.After(entries[i-1].At) {
			t.Errorf("entry %d: %v", i, entry)
		}
	}
}

// An export sees one instant and ends with its reader.
func checkAuditExport(t *testing.T, w *auditWorld) {
	t.Helper()
	at := 0
	err := w.store.ExportAuditLog(t.Context(), w.scope, affiliate.AuditFilter{}, func(entry affiliate.AuditEntry) error {
		if at++; at == 1 {
			w.exec(`
				insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
				values ($1, gen_random_uuid(), 'live', $2, 'system', 'late.entry', 'late', gen_random_uuid())`,
				w.scope.Workspace, w.now.AddDate(-1, 0, 0))
		}
		if entry.Action == "late.entry" {
			t.Error("the export shows what came after its beginning")
		}
		return nil
	})
	var rows int
	if scan := w.owner.QueryRow(t.Context(), `
		select count(*) from audit_log where workspace_id = $1 and coalesce(mode, 'live') = 'live' and action <> 'late.entry'`,
		w.scope.Workspace).Scan(&rows); scan != nil || err != nil || at != rows {
		t.Errorf("%d of %d rows, %v, %v", at, rows, err, scan)
	}

	enough := errors.New("enough")
	at = 0
	err = w.store.ExportAuditLog(t.Context(), w.scope, affiliate.AuditFilter{}, func(affiliate.AuditEntry) error {
		at++
		return enough
	})
	if !errors.Is(err, enough) || at != 1 {
		t.Errorf("%d rows, %v", at, err)
	}
}

func TestExportsMayTakeTenMinutesAndOnlyRead(t *testing.T) {
	store, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for name, want := range map[string]string{"statement_timeout": "10min", "transaction_read_only": "on", "role": "tributary_app"} {
		if got, err := store.ExportSetting(t.Context(), name); err != nil || got != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	// The one connection is as before.
	var timeout string
	if err := store.InTx(t.Context(), func(tx *postgres.Tx) error {
		return tx.QueryRow(t.Context(), `select current_setting('statement_timeout')`).Scan(&timeout)
	}); err != nil || timeout != "10s" {
		t.Errorf("after an export: %s, %v", timeout, err)
	}
}

func TestLogsCannotBeRewritten(t *testing.T) {
	conn := asService(t, pgtest.New(t))
	for table, column := range map[string]string{"audit_log": "actor", "account_audit_log": "action"} {
		for _, statement := range []string{
			fmt.Sprintf("update %s set %s = %s", table, column, column),
			"delete from " + table,
			"truncate " + table,
		} {
			_, err := conn.Exec(t.Context(), statement)
			var pgErr *pgconn.PgError
			if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
				t.Errorf("%s: %v, want insufficient_privilege", statement, err)
			}
		}
	}
}
