package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// crowd adds n participants to a programme. Each participant has a referral code. About a
// tenth of the participants are approved.
func (f *fixture) crowd(program affiliate.ProgramID, n int) {
	f.Helper()
	s := &pgtest.Shop{Fixture: f.Fixture, Scope: f.Scope, Program: program}
	joinMany(s, n)
	f.ExecWithoutForeignKeys(`
		update participants set created_at = created_at + random() * interval '90 days', status = case when random() < 0.1 then 'approved' else 'pending' end
		where program_id = $1`, program)
	f.ExecWithoutForeignKeys(`
		with counted as (
			insert into participant_totals (workspace_id, participant_id, program_id, clicks, conversions, revenue_cents, commission_cents)
			select workspace_id, id, program_id, n * 3, n, n * 1000, n * 100
			from participants p, lateral (select floor(greatest(random() * 1000 - 900, 0)) as n where p.id is not null) as random_number
			where program_id = $1
		)
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select workspace_id, mode, referral_code, program_id, id, gen_random_uuid(), created_at from participants where program_id = $1`, program)
}

func TestProgramLists_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	for range 30 {
		f.NewProgram(f.Scope)
	}
	f.crowd(f.Program, 2000)
	small := f.NewProgram(f.Scope)
	f.crowd(small, 50)
	for range 4 {
		f.crowd(f.NewProgram(f.Scope), 500)
	}
	f.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at)
		select $1, gen_random_uuid(), 'live', 'public', '', sha256(n::text::bytea), n::text, 'pk_live_', '', $2 from generate_series(1, 3000) n`,
		f.Scope.Workspace, f.Now())
	test := f.InOtherMode()
	copyProgram(test, 3000)
	f.VacuumAnalyze()

	listSQL, countSQL, listArgs := postgres.ProgramListSQL(f.Scope, program.Filter{})
	searchSQL, searchCountSQL, searchArgs := postgres.ProgramListSQL(test.Scope, program.Filter{Search: "Rare"})
	for name, tc := range map[string]struct {
		sql    string
		args   []any
		index  string
		sorted bool // the index has the order of the list, so the plan must not sort
	}{
		"programmes":                         {listSQL, []any{listArgs}, "programs_by_age", true},
		"number of programmes":               {countSQL, []any{listArgs}, "Index Only Scan using programs_", false},
		"programmes by name":                 {searchSQL, []any{searchArgs}, "programs_by_name", false},
		"number of programmes by name":       {searchCountSQL, []any{searchArgs}, "programs_by_name", false},
		"all codes, page by page":            {postgres.TargetsAfterSQL, []any{f.Now(), f.Scope.Workspace, f.Scope.Mode, "0", 100}, "referral_codes_pkey", false},
		"codes of a programme, page by page": {postgres.ProgramTargetsSQL, []any{f.Now(), f.Scope.Workspace, small, "0", 100}, "referral_codes_by_program", false},
		"all keys, page by page":             {postgres.PublicKeysAfterSQL, []any{f.Scope.Workspace, affiliate.APIKeyID{}, 100}, "api_keys_pkey", true},
	} {
		plan := f.Plan(tc.sql, tc.args...)
		if !strings.Contains(plan, tc.index) || tc.sorted && strings.Contains(plan, "Sort Key") {
			t.Errorf("%s: the plan does not use %s, or it sorts\n%s", name, tc.index, plan)
		}
	}
}

func TestPrograms_EachChangeIncrementsVersion(t *testing.T) {
	f := newFixture(t)
	want := 1
	for i := range 3 {
		patch := program.Patch{Name: affiliate.Set(fmt.Sprint("N", i))}
		for range 2 { // the second update changes nothing
			got, err := f.Store.UpdateProgram(t.Context(), f.Scope, f.Program, patch, f.Now(), by(f.Owner))
			if err != nil || got.Version != want+1 {
				t.Fatalf("UpdateProgram returned the version %d, %v, want %d", got.Version, err, want+1)
			}
		}
		want++
	}
	for _, status := range []program.Status{program.Paused, program.Active} {
		want++
		got, err := f.Store.MoveProgram(t.Context(), f.Scope, f.Program, status, f.Now(), by(f.Owner))
		if err != nil || got.Version != want {
			t.Fatalf("MoveProgram returned the version %d, %v, want %d", got.Version, err, want)
		}
	}
}

// If the audit log entry of a change cannot be stored, the change must be rolled back.
func TestPrograms_ChangeAndAuditEntryCommitTogether(t *testing.T) {
	f := newFixture(t)
	f.Exec(`revoke insert on audit_log from tributary_app`)
	if _, err := f.Store.MoveProgram(t.Context(), f.Scope, f.Program, program.Paused, f.Now(), by(f.Owner)); err == nil {
		t.Error("MoveProgram succeeded without an audit log")
	}
	if _, err := f.Store.UpdateProgram(t.Context(), f.Scope, f.Program, program.Patch{Name: affiliate.Set("Q")}, f.Now(), by(f.Owner)); err == nil {
		t.Error("UpdateProgram succeeded without an audit log")
	}
	if sample, err := f.Store.Program(t.Context(), f.Scope, f.Program); err != nil || sample.Status != program.Active || sample.Name != "P" {
		t.Errorf("after the failed changes, the programme is %v, %v, want the active programme P", sample, err)
	}
}
