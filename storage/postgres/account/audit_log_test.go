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

// auditFixture is a database with the audit logs of several workspaces. The audit log of
// the workspace under test is so large that the planner of Postgres chooses indexes.
type auditFixture struct {
	*pgtest.Fixture
	t     *testing.T
	store *account.Store
	now   time.Time
	scope affiliate.Scope
	user  uuid.UUID
}

func newAuditFixture(t *testing.T) *auditFixture {
	t.Helper()
	f := &auditFixture{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), user: uuid.New()}
	f.Fixture = pgtest.Open(t, func() time.Time { return f.now })
	f.store = account.NewStore(f.Store.DB)
	f.scope = affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](f.now), Mode: affiliate.ModeLive}
	f.Exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1, 'merchant', 'u@example.com', '', 'U', $2)`, f.user, f.now)
	fill := func(workspace affiliate.WorkspaceID, n int) {
		f.Exec(`
			insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
			select $1, gen_random_uuid(), case n % 3 when 0 then 'test' when 1 then 'live' end, $2::timestamptz - n * interval '1 minute',
				case when n % 200 = 0 then $3::text when n % 2 = 0 then 'system' else md5((n % 20)::text)::uuid::text end,
				'commission.approve', 'commission', md5((n / 10)::text)::uuid
			from generate_series(1, $4::int) n`, workspace, f.now, f.user.String(), n)
	}
	fill(f.scope.Workspace, 16_000)
	for range 8 {
		fill(affiliate.NewID[affiliate.Workspace](f.now), 10_000)
	}
	f.Exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', n || '@example.com', '', 'U', $1 from generate_series(1, 3000) n`, f.now)
	f.Exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select gen_random_uuid(), 'W', 'EUR', 'UTC', $1, $1 from generate_series(1, 20)`, f.now)
	f.Exec(`
		insert into members (workspace_id, user_id, role, created_at)
		select w.id, u.id, 'viewer', $1
		from (select id, row_number() over () as n from users) u
		join (select id, row_number() over () as n from workspaces) w on w.n = 1 + u.n % 20`, f.now)
	f.Exec(`
		insert into member_invites (workspace_id, id, email, role, digest, invited_by, created_at, expires_at, ended_at)
		select w.id, gen_random_uuid(), n || '@example.com', 'viewer', sha256((w.id::text || n)::bytea), $1, $2::timestamptz, $2, case when n > 30 then $2 end
		from workspaces w, generate_series(1, 300) n`, f.user, f.now)
	f.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at)
		select id, gen_random_uuid(), 'live', 'secret', '', sha256((id::text || n)::bytea), '', '', $1 from workspaces, generate_series(1, 100) n`, f.now)
	f.VacuumAnalyze()
	return f
}

// plan returns the query plan of a statement for the given arguments.
func plan(f *pgtest.Fixture, sql string, args ...any) string {
	return strings.Join(f.Texts("explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...), "\n")
}

func TestAuditLogPlansAndExport(t *testing.T) {
	t.Parallel()
	f := newAuditFixture(t)
	checkAuditPlans(t, f)
	checkAuditExport(t, f)
}

func checkAuditPlans(t *testing.T, f *auditFixture) {
	t.Helper()
	resource := uuid.MustParse("c4ca4238-a0b9-2382-0dcc-509a6f75849b") // md5 of 1
	day := f.now.AddDate(0, 0, -2)
	for name, tc := range map[string]struct {
		filter affiliate.AuditFilter
		index  string // index that the plan must use
		total  string // part of the plan of the statement that counts the entries
	}{
		"all":        {affiliate.AuditFilter{}, "audit_log_by_age", "Limit -> Index Only Scan using audit_log_by_"},
		"a noun":     {affiliate.AuditFilter{ActionNoun: "commission"}, "audit_log_by_age", "Limit -> Bitmap Heap Scan on audit_log l"},
		"a period":   {affiliate.AuditFilter{At: affiliate.Period{From: &day}}, "audit_log_by_age", "Limit -> Index Only Scan using audit_log_by_age"},
		"an actor":   {affiliate.AuditFilter{Actor: f.user.String()}, "audit_log_by_actor", "Limit -> Index Only Scan using audit_log_by_actor"},
		"a resource": {affiliate.AuditFilter{ResourceID: &resource}, "audit_log_by_resource", "Limit -> Index Only Scan using audit_log_by_resource"},
		"an actor's noun": {
			affiliate.AuditFilter{Actor: f.user.String(), ActionNoun: "commission"}, "audit_log_by_actor", "audit_log_by_actor",
		},
	} {
		page, count, export, args := account.AuditSQL(f.scope, tc.filter, 20)
		for what, plan := range map[string]string{
			"page":   plan(f.Fixture, page, args),
			"total":  plan(f.Fixture, count, args),
			"export": plan(f.Fixture, export, args),
		} {
			if what != "total" && (!strings.Contains(plan, "users_pkey") || !strings.Contains(plan, "api_keys_pkey")) {
				t.Errorf("%s, %s: the plan does not read the names of actors by primary key\n%s", name, what, plan)
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
		args := pgx.NamedArgs{"workspace": f.scope.Workspace, "mode": f.scope.Mode, "id": f.user}
		plan := plan(f.Fixture, sql, args)
		if !strings.Contains(plan, "using audit_log_by_"+name) || strings.Contains(plan, "Seq Scan on audit_log") || strings.Contains(plan, "Seq Scan on api_keys") {
			t.Errorf("statement that looks for the id of a %s: the plan does not use the index audit_log_by_%s\n%s", name, name, plan)
		}
	}
	args := pgx.NamedArgs{"workspace": f.scope.Workspace, "now": f.now, "limit": 20, "offset": 0}
	for name, tc := range map[string]struct{ sql, part string }{
		"open invitations":           {account.ListInvitesSQL, "member_invites_open"},
		"number of open invitations": {account.CountInvitesSQL, "Limit -> Index Scan using member_invites_open"},
		"number of members":          {account.CountMembersSQL, "Limit -> Index Only Scan using members_pkey"},
	} {
		if plan := plan(f.Fixture, tc.sql, args); !strings.Contains(strings.Join(strings.Fields(plan), " "), tc.part) {
			t.Errorf("%s: the plan does not contain %q\n%s", name, tc.part, plan)
		}
	}

	entries, total, err := f.store.AuditLog(t.Context(), f.scope, affiliate.AuditFilter{}, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != 16_000-16_000/3 || len(entries) != 20 {
		t.Errorf("AuditLog returned %d entries and the total %d, %v, want 20 and %d", len(entries), total, err, 16_000-16_000/3)
	}
	for i, entry := range entries {
		if entry.Mode != nil && *entry.Mode != affiliate.ModeLive || i > 0 && entry.At.After(entries[i-1].At) {
			t.Errorf("entry %d is %v, want an entry of live mode or of no mode that is not newer than the entry before", i, entry)
		}
	}
}

// checkAuditExport checks that an export reads one snapshot and that it frees its
// resources when its reader stops.
func checkAuditExport(t *testing.T, f *auditFixture) {
	t.Helper()
	exported := 0
	for entry, err := range f.store.ExportAuditLog(t.Context(), f.scope, affiliate.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if exported++; exported == 1 {
			f.Exec(`
				insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
				values ($1, gen_random_uuid(), 'live', $2, 'system', 'late.entry', 'late', gen_random_uuid())`,
				f.scope.Workspace, f.now.AddDate(-1, 0, 0))
		}
		if entry.Action == "late.entry" {
			t.Error("the export contains an entry that was added after the export had begun")
		}
	}
	rows := f.Count(`
		select count(*) from audit_log where workspace_id = $1 and coalesce(mode, 'live') = 'live' and action <> 'late.entry'`, f.scope.Workspace)
	if exported != rows {
		t.Errorf("exported %d of %d rows", exported, rows)
	}

	// When a reader stops, the export must release its connection and must no longer
	// count as a running export. The pool has 20 connections, and a workspace may run 2
	// exports at the same time.
	for range 25 {
		exported = 0
		for _, err := range f.store.ExportAuditLog(t.Context(), f.scope, affiliate.AuditFilter{}) {
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
