package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// auditWorld is a database with a workspace whose audit log is large enough for the
// planner to choose indexes, and with the audit logs of other workspaces.
type auditWorld struct {
	*pgtest.Fixture
	t     *testing.T
	store *account.Store
	now   time.Time
	scope affiliate.Scope
	user  uuid.UUID
}

func newAuditWorld(t *testing.T) *auditWorld {
	t.Helper()
	w := &auditWorld{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), user: uuid.New()}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.store = account.NewStore(w.Store.DB)
	w.scope = affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](w.now), Mode: affiliate.ModeLive}
	w.Exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1, 'merchant', 'u@example.com', '', 'U', $2)`, w.user, w.now)
	fill := func(workspace affiliate.WorkspaceID, n int) {
		w.Exec(`
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
	w.Exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', n || '@example.com', '', 'U', $1 from generate_series(1, 3000) n`, w.now)
	w.Exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select gen_random_uuid(), 'W', 'EUR', 'UTC', $1, $1 from generate_series(1, 20)`, w.now)
	w.Exec(`
		insert into members (workspace_id, user_id, role, created_at)
		select w.id, u.id, 'viewer', $1
		from (select id, row_number() over () as n from users) u
		join (select id, row_number() over () as n from workspaces) w on w.n = 1 + u.n % 20`, w.now)
	w.Exec(`
		insert into member_invites (workspace_id, id, email, role, digest, invited_by, created_at, expires_at, ended_at)
		select w.id, gen_random_uuid(), n || '@example.com', 'viewer', sha256((w.id::text || n)::bytea), $1, $2::timestamptz, $2, case when n > 30 then $2 end
		from workspaces w, generate_series(1, 300) n`, w.user, w.now)
	w.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at)
		select id, gen_random_uuid(), 'live', 'secret', '', sha256((id::text || n)::bytea), '', '', $1 from workspaces, generate_series(1, 100) n`, w.now)
	w.VacuumAnalyze()
	return w
}

// plan returns the query plan of a statement for the given arguments.
func plan(f *pgtest.Fixture, sql string, args ...any) string {
	return strings.Join(f.Texts("explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...), "\n")
}

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
		total  string
	}{
		"all":        {affiliate.AuditFilter{}, "audit_log_by_age", "Limit -> Index Only Scan using audit_log_by_"},
		"a noun":     {affiliate.AuditFilter{ActionNoun: "commission"}, "audit_log_by_age", "Limit -> Bitmap Heap Scan on audit_log l"},
		"a period":   {affiliate.AuditFilter{At: affiliate.Period{From: &day}}, "audit_log_by_age", "Limit -> Index Only Scan using audit_log_by_age"},
		"an actor":   {affiliate.AuditFilter{Actor: w.user.String()}, "audit_log_by_actor", "Limit -> Index Only Scan using audit_log_by_actor"},
		"a resource": {affiliate.AuditFilter{ResourceID: &resource}, "audit_log_by_resource", "Limit -> Index Only Scan using audit_log_by_resource"},
		"an actor's noun": {
			affiliate.AuditFilter{Actor: w.user.String(), ActionNoun: "commission"}, "audit_log_by_actor", "audit_log_by_actor",
		},
	} {
		page, count, export, args := account.AuditSQL(w.scope, tc.filter, 20)
		for what, plan := range map[string]string{
			"page":   plan(w.Fixture, page, args),
			"total":  plan(w.Fixture, count, args),
			"export": plan(w.Fixture, export, args),
		} {
			if what != "total" && (!strings.Contains(plan, "users_pkey") || !strings.Contains(plan, "api_keys_pkey")) {
				t.Errorf("%s, %s: the plan does not read names by key\n%s", name, what, plan)
			}
			if what == "total" && !strings.Contains(strings.Join(strings.Fields(plan), " "), tc.total) {
				t.Errorf("%s, total: the plan does not contain %q\n%s", name, tc.total, plan)
			}
			// A statement that reads all entries of the workspace may use any index whose
			// first column is the workspace.
			anyIndex := what != "page" && tc.index == "audit_log_by_age"
			if !strings.Contains(plan, tc.index) && !anyIndex || strings.Contains(plan, "Seq Scan on audit_log") {
				t.Errorf("%s, %s: the plan does not use %s\n%s", name, what, tc.index, plan)
			}
			if what == "page" && tc.index == "audit_log_by_age" && strings.Contains(plan, "Sort") {
				t.Errorf("%s: the plan of a page sorts entries of other pages\n%s", name, plan)
			}
		}
	}
	for name, sql := range map[string]string{"actor": account.ActorKnownSQL, "resource": account.ResourceKnownSQL} {
		args := pgx.NamedArgs{"workspace": w.scope.Workspace, "mode": w.scope.Mode, "id": w.user}
		plan := plan(w.Fixture, sql, args)
		if !strings.Contains(plan, "using audit_log_by_"+name) || strings.Contains(plan, "Seq Scan on audit_log") || strings.Contains(plan, "Seq Scan on api_keys") {
			t.Errorf("check that the id of a %s is known:\n%s", name, plan)
		}
	}
	args := pgx.NamedArgs{"workspace": w.scope.Workspace, "now": w.now, "limit": 20, "offset": 0}
	for name, tc := range map[string]struct{ sql, part string }{
		"open invitations":           {account.ListInvitesSQL, "member_invites_open"},
		"number of open invitations": {account.CountInvitesSQL, "Limit -> Index Scan using member_invites_open"},
		"number of members":          {account.CountMembersSQL, "Limit -> Index Only Scan using members_pkey"},
	} {
		if plan := plan(w.Fixture, tc.sql, args); !strings.Contains(strings.Join(strings.Fields(plan), " "), tc.part) {
			t.Errorf("%s: the plan does not contain %q\n%s", name, tc.part, plan)
		}
	}

	entries, total, err := w.store.AuditLog(t.Context(), w.scope, affiliate.AuditFilter{}, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != 16_000-16_000/3 || len(entries) != 20 {
		t.Errorf("got %d entries and the total %d, %v", len(entries), total, err)
	}
	for i, entry := range entries {
		if entry.Mode != nil && *entry.Mode != affiliate.ModeLive || i > 0 && entry.At.After(entries[i-1].At) {
			t.Errorf("entry %d: %v", i, entry)
		}
	}
}

// checkAuditExport checks that an export reads one snapshot and that it frees its
// resources when its reader stops.
func checkAuditExport(t *testing.T, w *auditWorld) {
	t.Helper()
	exported := 0
	for entry, err := range w.store.ExportAuditLog(t.Context(), w.scope, affiliate.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if exported++; exported == 1 {
			w.Exec(`
				insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
				values ($1, gen_random_uuid(), 'live', $2, 'system', 'late.entry', 'late', gen_random_uuid())`,
				w.scope.Workspace, w.now.AddDate(-1, 0, 0))
		}
		if entry.Action == "late.entry" {
			t.Error("the export contains an entry that was added after it began")
		}
	}
	rows := w.Count(`
		select count(*) from audit_log where workspace_id = $1 and coalesce(mode, 'live') = 'live' and action <> 'late.entry'`, w.scope.Workspace)
	if exported != rows {
		t.Errorf("exported %d of %d rows", exported, rows)
	}

	// A reader that stops must free its connection and its place among the workspace's
	// running exports. The pool has 20 connections, and a workspace may run 2 exports.
	for range 25 {
		exported = 0
		for _, err := range w.store.ExportAuditLog(t.Context(), w.scope, affiliate.AuditFilter{}) {
			if exported++; err != nil {
				t.Fatal(err)
			}
			break
		}
		if exported != 1 {
			t.Errorf("the export continued to row %d after the reader had stopped", exported)
		}
	}
}
