package program_test

import (
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

func TestProgramLists_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	for range 30 {
		f.NewProgram(f.Scope)
	}
	f.Crowd(f.Program, 2000)
	small := f.NewProgram(f.Scope)
	f.Crowd(small, 50)
	for range 4 {
		f.Crowd(f.NewProgram(f.Scope), 500)
	}
	f.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at)
		select $1, gen_random_uuid(), 'live', 'public', '', sha256(n::text::bytea), n::text, 'pk_live_', '', $2 from generate_series(1, 3000) n`,
		f.Scope.Workspace, f.Now())
	test := f.InOtherMode()
	test.CopyProgram(3000)
	f.VacuumAnalyze()

	f.CheckSearchPlan(func(db *postgres.DB) ([]affiliate.Hit, error) {
		return programs.Search(t.Context(), db, test.Scope, "copy")
	}, "programs_by_name")
	listSQL, countSQL, listArgs := programs.ProgramListSQL(f.Scope, program.Filter{})
	searchSQL, searchCountSQL, searchArgs := programs.ProgramListSQL(test.Scope, program.Filter{Search: "Rare"})
	for name, tc := range map[string]struct {
		sql    string
		args   []any
		index  string
		sorted bool // the index has the order of the list, so the plan must not sort
	}{
		"programmes":                   {listSQL, []any{listArgs}, "programs_by_age", true},
		"number of programmes":         {countSQL, []any{listArgs}, "Index Only Scan using programs_", false},
		"programmes by name":           {searchSQL, []any{searchArgs}, "programs_by_name", false},
		"number of programmes by name": {searchCountSQL, []any{searchArgs}, "programs_by_name", false},
	} {
		plan := f.Plan(tc.sql, tc.args...)
		if !strings.Contains(plan, tc.index) || tc.sorted && strings.Contains(plan, "Sort Key") {
			t.Errorf("%s: the plan does not use %s, or it sorts\n%s", name, tc.index, plan)
		}
	}
}
