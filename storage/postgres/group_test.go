package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *programFixture) newGroup(p affiliate.Program, name string) affiliate.Group {
	f.t.Helper()
	rate := int64(1500)
	g := affiliate.Group{
		ID: affiliate.NewID[affiliate.Group](f.now), Scope: p.Scope, Program: p.ID, Name: name,
		Rate: affiliate.Rate{Bps: &rate}, Version: 1, CreatedAt: f.now, UpdatedAt: f.now,
	}
	if err := f.store.CreateGroup(f.t.Context(), g, affiliate.Actor{User: &f.user}); err != nil {
		f.t.Fatal(err)
	}
	return g
}

func TestGroupsAndRules_UseIndexes(t *testing.T) {
	t.Parallel()
	f := newProgramFixture(t)
	p, other := f.program(affiliate.ProgramActive), f.program(affiliate.ProgramActive)
	gold := f.newGroup(p, "Gold")
	f.crowd(p, 3000)
	f.crowd(other, 3000)
	f.exec(`
		insert into groups (workspace_id, id, program_id, name, rate_bps, created_at, updated_at)
		select $1, gen_random_uuid(), case when n % 10 = 0 then $2::uuid else $3::uuid end, 'G' || n, 100, $4, $4 from generate_series(1, 3000) n`,
		f.scope.Workspace, p.ID, other.ID, f.now)
	f.exec(`
		update participants t set group_id = g.id
		from (select id, row_number() over () as n from groups where program_id = $1) g
		where t.program_id = $1 and g.n = 1 + abs(hashtext(t.id::text)) % 300`, p.ID)
	f.exec(`
		insert into program_rules (workspace_id, program_id, version, rules, at, by)
		select $1, p, n, '{}', $4, $5 from generate_series(2, 2000) n, unnest(array[$2, $3]::uuid[]) p`,
		f.scope.Workspace, p.ID, other.ID, f.now, f.user)
	pgtest.VacuumAnalyze(t, f.owner)

	args := pgx.NamedArgs{
		"workspace": f.scope.Workspace, "mode": f.scope.Mode, "program": p.ID, "limit": 20, "offset": 40, "groups": []affiliate.GroupID{gold.ID},
	}
	for name, tc := range map[string]struct {
		sql, index string
		sorted     bool // the index has the order of the list, so the plan must not sort
	}{
		"groups":            {postgres.ListGroupsSQL, "groups_name", true},
		"number of groups":  {postgres.CountGroupsSQL, "Index Only Scan using groups_name", false},
		"members of groups": {postgres.CountGroupMembersSQL, "Index Only Scan using participants_by_group", false},
		"versions of rules": {postgres.ListRulesSQL, "Backward using program_rules_pkey", true},
	} {
		plan := f.plan(tc.sql, args)
		if !strings.Contains(plan, tc.index) || strings.Contains(plan, "Seq Scan on groups") || tc.sorted && strings.Contains(plan, "Sort Key") {
			t.Errorf("%s: the plan does not use %s, or it sorts\n%s", name, tc.index, plan)
		}
	}
}

// If the audit log entry of a change cannot be stored, the change must be rolled back.
func TestGroups_ChangeAndAuditEntryCommitTogether(t *testing.T) {
	f := newProgramFixture(t)
	p := f.program(affiliate.ProgramActive)
	g := f.newGroup(p, "G")
	by := affiliate.Actor{User: &f.user}
	f.exec(`revoke insert on audit_log from tributary_app`)
	other := g
	other.ID, other.Name = affiliate.NewID[affiliate.Group](f.now), "H"
	_, updated := f.store.UpdateGroup(t.Context(), f.scope, p.ID, g.ID, affiliate.GroupPatch{Name: affiliate.Set("I")}, f.now, by)
	for what, err := range map[string]error{
		"CreateGroup": f.store.CreateGroup(t.Context(), other, by),
		"UpdateGroup": updated,
		"DeleteGroup": f.store.DeleteGroup(t.Context(), f.scope, p.ID, g.ID, f.now, by),
	} {
		var refusal *affiliate.Error
		if err == nil || errors.As(err, &refusal) {
			t.Errorf("%s without an audit log returned %v, want an internal error", what, err)
		}
	}
	f.exec(`grant insert on audit_log to tributary_app`)
	groups, total, err := f.store.ListGroups(t.Context(), f.scope, p.ID, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != 1 || groups[0].Name != "G" || groups[0].Version != 1 {
		t.Errorf("after the failed changes, the groups are %v, %v, want version 1 of the group G", groups, err)
	}
}
