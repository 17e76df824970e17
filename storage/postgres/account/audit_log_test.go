package account_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// newAuditFixture returns a fixture with the audit logs of several workspaces. The audit
// log of the shop is so large that the planner of Postgres chooses indexes.
func newAuditFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	fill := func(workspace affiliate.WorkspaceID, n int) {
		f.Exec(`
			insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
			select $1, gen_random_uuid(), case n % 3 when 0 then 'test' when 1 then 'live' end, $2::timestamptz - n * interval '1 minute',
				case when n % 200 = 0 then $3::text when n % 2 = 0 then 'system' else md5((n % 20)::text)::uuid::text end,
				'commission.approve', 'commission', md5((n / 10)::text)::uuid
			from generate_series(1, $4::int) n`, workspace, f.Now(), f.Owner.String(), n)
	}
	fill(f.Scope.Workspace, 16_000)
	for range 8 {
		fill(affiliate.NewID[affiliate.WorkspaceID](f.Now()), 10_000)
	}
	f.Exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', n || '@example.com', '', 'U', $1 from generate_series(1, 3000) n`, f.Now())
	f.Exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select gen_random_uuid(), 'W', 'EUR', 'UTC', $1, $1 from generate_series(1, 20)`, f.Now())
	f.Exec(`
		insert into members (workspace_id, user_id, role, created_at)
		select w.id, u.id, 'viewer', $1
		from (select id, row_number() over () as n from users) u
		join (select id, row_number() over () as n from workspaces) w on w.n = 1 + u.n % 20
		on conflict do nothing`, f.Now())
	f.Exec(`
		insert into member_invites (workspace_id, id, email, role, digest, mail_digest, invited_by, created_at, expires_at, ended_at)
		select w.id, gen_random_uuid(), n || '@example.com', 'viewer', sha256((w.id::text || n)::bytea), sha256((w.id::text || -n)::bytea), $1, $2::timestamptz, $2, case when n > 30 then $2 end
		from workspaces w, generate_series(1, 300) n`, f.Owner, f.Now())
	f.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at)
		select id, gen_random_uuid(), 'live', 'secret', '', sha256((id::text || n)::bytea), '', '', $1 from workspaces, generate_series(1, 100) n`, f.Now())
	f.VacuumAnalyze()
	return f
}

func TestAuditLogPlansAndExport(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newAuditFixture(t)
	checkAuditPlans(t, f)
	checkAuditExport(t, f)
}

func checkAuditPlans(t *testing.T, f *fixture) {
	t.Helper()
	resource := uuid.MustParse("c4ca4238-a0b9-2382-0dcc-509a6f75849b") // md5 of 1
	day := f.Now().AddDate(0, 0, -2)
	for name, tc := range map[string]struct {
		filter affiliate.AuditFilter
		index  string // index that the plan must use
		total  string // part of the plan of the statement that counts the entries
	}{
		"all":            {affiliate.AuditFilter{}, "audit_log_by_age", "Limit -> Index Only Scan using audit_log_by_"},
		"an action noun": {affiliate.AuditFilter{ActionNoun: "commission"}, "audit_log_by_age", "Limit -> Bitmap Heap Scan on audit_log l"},
		"a period":       {affiliate.AuditFilter{At: affiliate.Period{From: &day}}, "audit_log_by_age", "Limit -> Index Only Scan using audit_log_by_age"},
		"an actor":       {affiliate.AuditFilter{Actor: f.Owner.String()}, "audit_log_by_actor", "Limit -> Index Only Scan using audit_log_by_actor"},
		"a resource":     {affiliate.AuditFilter{ResourceID: &resource}, "audit_log_by_resource", "Limit -> Index Only Scan using audit_log_by_resource"},
		"an actor and an action noun": {
			affiliate.AuditFilter{Actor: f.Owner.String(), ActionNoun: "commission"}, "audit_log_by_actor", "audit_log_by_actor",
		},
	} {
		page, count, export, pageArgs, args := accounts.AuditSQL(f.Scope, tc.filter, 20)
		for what, plan := range map[string]string{
			"page":   f.Plan(page, pageArgs...),
			"total":  f.Plan(count, args...),
			"export": f.Plan(export, args...),
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
	for name, sql := range map[string]string{"actor": accounts.ActorKnownSQL, "resource": accounts.ResourceKnownSQL} {
		args := pgx.NamedArgs{"workspace": f.Scope.Workspace, "mode": f.Scope.Mode, "id": f.Owner}
		plan := f.Plan(sql, args)
		if !strings.Contains(plan, "using audit_log_by_"+name) || strings.Contains(plan, "Seq Scan on audit_log") || strings.Contains(plan, "Seq Scan on api_keys") {
			t.Errorf("statement that looks for the id of a %s: the plan does not use the index audit_log_by_%s\n%s", name, name, plan)
		}
	}
	args := pgx.NamedArgs{"workspace": f.Scope.Workspace, "now": f.Now(), "limit": 20, "offset": 0}
	for name, tc := range map[string]struct{ sql, start, index string }{
		"open invitations":           {accounts.ListInvitesSQL, "Limit", "member_invites_open"},
		"number of open invitations": {accounts.CountInvitesSQL, "Aggregate -> Limit", "member_invites_open"},
		"number of members":          {accounts.CountMembersSQL, "Aggregate -> Limit", "Index Only Scan using members_pkey"},
	} {
		plan := f.Plan(tc.sql, args)
		if flat := strings.Join(strings.Fields(plan), " "); !strings.HasPrefix(flat, tc.start) || !strings.Contains(flat, tc.index) {
			t.Errorf("%s: the plan does not start with %q, or it does not contain %q\n%s", name, tc.start, tc.index, plan)
		}
	}

	entries, total, err := accounts.AuditLog(t.Context(), f.DB, f.Scope, affiliate.AuditFilter{}, affiliate.Page{Number: 1, Size: 20})
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
func checkAuditExport(t *testing.T, f *fixture) {
	t.Helper()
	exported := 0
	for entry, err := range accounts.ExportAuditLog(t.Context(), f.DB, f.Scope, affiliate.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if exported++; exported == 1 {
			f.Exec(`
				insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
				values ($1, gen_random_uuid(), 'live', $2, 'system', 'late.entry', 'late', gen_random_uuid())`,
				f.Scope.Workspace, f.Now().AddDate(-1, 0, 0))
		}
		if entry.Action == "late.entry" {
			t.Error("the export contains an entry that was added after the export had begun")
		}
	}
	rows := f.Count(`
		select count(*) from audit_log where workspace_id = $1 and coalesce(mode, 'live') = 'live' and action <> 'late.entry'`, f.Scope.Workspace)
	if exported != rows {
		t.Errorf("exported %d of %d rows", exported, rows)
	}

	// When a reader stops, the export must release its connection and must no longer
	// count as a running export. The pool has 20 connections, and a workspace may run 2
	// exports at the same time.
	for range 25 {
		exported = 0
		for _, err := range accounts.ExportAuditLog(t.Context(), f.DB, f.Scope, affiliate.AuditFilter{}) {
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
