package program_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

func TestGroupsAndRules_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	other := f.NewProgram(f.Scope)
	gold := f.NewGroup(f.Scope, f.Program, "Gold")
	f.Crowd(f.Program, 3000)
	f.Crowd(other, 3000)
	f.Exec(`
		insert into groups (workspace_id, id, program_id, name, rate_bps, created_at, updated_at)
		select $1, gen_random_uuid(), case when n % 10 = 0 then $2::uuid else $3::uuid end, 'G' || n, 100, $4, $4 from generate_series(1, 3000) n`,
		f.Scope.Workspace, f.Program, other, f.Now())
	f.Exec(`
		update participants t set group_id = g.id
		from (select id, row_number() over () as n from groups where program_id = $1) g
		where t.program_id = $1 and g.n = 1 + abs(hashtext(t.id::text)) % 300`, f.Program)
	f.Exec(`
		insert into program_rules (workspace_id, program_id, version, rules, at, by)
		select $1, p, n, '{}', $4, $5 from generate_series(2, 2000) n, unnest(array[$2, $3]::uuid[]) p`,
		f.Scope.Workspace, f.Program, other, f.Now(), f.Owner)
	f.VacuumAnalyze()

	args := pgx.NamedArgs{
		"workspace": f.Scope.Workspace, "mode": f.Scope.Mode, "program": f.Program, "limit": 20, "offset": 40, "groups": []affiliate.GroupID{gold.ID},
	}
	for name, tc := range map[string]struct {
		sql, index string
		sorted     bool // the index has the order of the list, so the plan must not sort
	}{
		"groups":            {programs.ListGroupsSQL, "groups_name", true},
		"number of groups":  {programs.CountGroupsSQL, "Index Only Scan using groups_name", false},
		"members of groups": {programs.CountGroupMembersSQL, "Index Only Scan using participants_by_group", false},
		"versions of rules": {programs.ListRulesSQL, "Backward using program_rules_pkey", true},
	} {
		plan := f.Plan(tc.sql, args)
		if !strings.Contains(plan, tc.index) || strings.Contains(plan, "Seq Scan on groups") || tc.sorted && strings.Contains(plan, "Sort Key") {
			t.Errorf("%s: the plan does not use %s, or it sorts\n%s", name, tc.index, plan)
		}
	}
}
