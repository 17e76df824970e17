package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// programFixture is a workspace without programmes. Tests that check query plans add many
// rows.
type programFixture struct {
	t     *testing.T
	store *postgres.Store
	owner *pgx.Conn
	now   time.Time
	scope affiliate.Scope
	user  affiliate.UserID
}

func newProgramFixture(t *testing.T) *programFixture {
	t.Helper()
	f := &programFixture{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	url := pgtest.New(t)
	var err error
	if f.store, err = postgres.Open(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.store.Close)
	if f.owner, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.owner.Close(context.Background()) })
	f.scope = affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](f.now), Mode: affiliate.ModeLive}
	f.user = affiliate.NewID[affiliate.User](f.now)
	f.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'W', 'EUR', 'UTC', $2, $2)`, f.scope.Workspace, f.now)
	return f
}

func (f *programFixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.owner.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// program creates a programme.
func (f *programFixture) program(status affiliate.ProgramStatus) affiliate.Program {
	f.t.Helper()
	page := "https://a.example"
	p, err := f.store.CreateProgram(f.t.Context(), affiliate.Program{
		ID: affiliate.NewID[affiliate.Program](f.now), Scope: f.scope, Name: "P", Status: status, WebsiteURL: &page,
		AllowedDomains: []string{}, WindowDays: 14, Model: affiliate.FirstClick, LinkParam: "via", IsPublic: true,
		Precedence: affiliate.DefaultPrecedence, FraudPolicy: affiliate.DefaultFraudPolicy,
		Rules: affiliate.DefaultRules(), RulesVersion: 1, CreatedAt: f.now, UpdatedAt: f.now,
	}, affiliate.Actor{User: &f.user})
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// crowd adds n participants to a programme. Each participant has a referral code. About a
// tenth of the participants are approved.
func (f *programFixture) crowd(p affiliate.Program, n int) {
	f.t.Helper()
	f.exec(`
		with made as (
			insert into users (id, kind, email, password_hash, name, created_at)
			select gen_random_uuid(), 'partner', gen_random_uuid()::text, '', 'Jane ' || n, $1 from generate_series(1, $2::int) n
			returning id, name, email
		), joined as (
			insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
			select $3, gen_random_uuid(), $4, $5, id, name, email, case when random() < 0.1 then 'approved' else 'pending' end, id::text, '{}', $1, $1 + random() * interval '90 days', $1
			from made
			returning id, referral_code
		), counted as (
			insert into participant_totals (workspace_id, participant_id, program_id, clicks, conversions, revenue_cents, commission_cents)
			select $3, id, $4, n * 3, n, n * 1000, n * 100 from (select id, floor(greatest(random() * 1000 - 900, 0)) as n from joined) as joined
		)
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select $3, $5, referral_code, $4, id, gen_random_uuid(), $1 from joined`,
		f.now, n, p.Scope.Workspace, p.ID, p.Scope.Mode)
}

func (f *programFixture) plan(sql string, args ...any) string {
	f.t.Helper()
	rows, err := f.owner.Query(f.t.Context(), "explain "+sql, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestProgramLists_UseIndexes(t *testing.T) {
	t.Parallel()
	f := newProgramFixture(t)
	p := f.program(affiliate.ProgramActive)
	for range 30 {
		f.program(affiliate.ProgramDraft)
	}
	f.crowd(p, 5000)
	small := f.program(affiliate.ProgramActive)
	f.crowd(small, 50)
	for range 4 {
		f.crowd(f.program(affiliate.ProgramActive), 1000)
	}
	f.exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at)
		select $1, gen_random_uuid(), 'live', 'public', '', sha256(n::text::bytea), n::text, 'pk_live_', '', $2 from generate_series(1, 3000) n`,
		f.scope.Workspace, f.now)
	f.exec(`
		insert into programs (workspace_id, id, mode, name, slug, status, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		select $1, gen_random_uuid(), 'test', 'P', 'p' || n, 'draft', '{}', 'EUR', 30, 'last_click', 'via', false, true, '{}', 1, $2, $2
		from generate_series(1, 3000) n`, f.scope.Workspace, f.now)
	pgtest.VacuumAnalyze(t, f.owner)

	list, count, all := postgres.ProgramListSQL(f.scope, affiliate.ProgramFilter{})
	other := f.scope
	other.Mode = affiliate.ModeTest
	found, foundCount, named := postgres.ProgramListSQL(other, affiliate.ProgramFilter{Search: "Rare"})
	for name, tc := range map[string]struct {
		sql    string
		args   []any
		index  string
		sorted bool // the index has the order of the list, so the plan must not sort
	}{
		"programmes":                         {list, []any{all}, "programs_by_age", true},
		"number of programmes":               {count, []any{all}, "Index Only Scan using programs_", false},
		"programmes by name":                 {found, []any{pgx.QueryExecModeCacheDescribe, named}, "programs_by_name", false},
		"number of programmes by name":       {foundCount, []any{pgx.QueryExecModeCacheDescribe, named}, "programs_by_name", false},
		"all codes, page by page":            {postgres.TargetsAfterSQL, []any{f.now, f.scope.Workspace, f.scope.Mode, "0", 100}, "referral_codes_pkey", false},
		"codes of a programme, page by page": {postgres.ProgramTargetsSQL, []any{f.now, f.scope.Workspace, small.ID, "0", 100}, "referral_codes_by_program", false},
		"all keys, page by page":             {postgres.PublicKeysAfterSQL, []any{f.scope.Workspace, affiliate.APIKeyID{}, 100}, "api_keys_pkey", true},
	} {
		plan := f.plan(tc.sql, tc.args...)
		if !strings.Contains(plan, tc.index) || tc.sorted && strings.Contains(plan, "Sort Key") {
			t.Errorf("%s: the plan does not use %s, or it sorts\n%s", name, tc.index, plan)
		}
	}
}

func TestPrograms_EachChangeIncrementsVersion(t *testing.T) {
	f := newProgramFixture(t)
	p := f.program(affiliate.ProgramActive)
	by := affiliate.Actor{User: &f.user}
	want := p.Version
	for i := range 3 {
		patch := affiliate.ProgramPatch{Name: affiliate.Set(fmt.Sprint("N", i))}
		for range 2 { // the second update changes nothing
			got, err := f.store.UpdateProgram(t.Context(), f.scope, p.ID, patch, f.now, by)
			if err != nil || got.Version != want+1 {
				t.Fatalf("UpdateProgram returned the version %d, %v, want %d", got.Version, err, want+1)
			}
		}
		want++
	}
	for _, to := range []affiliate.ProgramStatus{affiliate.ProgramPaused, affiliate.ProgramActive} {
		want++
		got, err := f.store.MoveProgram(t.Context(), f.scope, p.ID, to, f.now, by)
		if err != nil || got.Version != want {
			t.Fatalf("MoveProgram returned the version %d, %v, want %d", got.Version, err, want)
		}
	}
}

// If the audit log entry of a change cannot be stored, the change must be rolled back.
func TestPrograms_ChangeAndAuditEntryCommitTogether(t *testing.T) {
	f := newProgramFixture(t)
	p := f.program(affiliate.ProgramActive)
	f.exec(`revoke insert on audit_log from tributary_app`)
	if _, err := f.store.MoveProgram(t.Context(), f.scope, p.ID, affiliate.ProgramPaused, f.now, affiliate.Actor{User: &f.user}); err == nil {
		t.Error("MoveProgram succeeded without an audit log")
	}
	if _, err := f.store.UpdateProgram(t.Context(), f.scope, p.ID, affiliate.ProgramPatch{Name: affiliate.Set("Q")}, f.now, affiliate.Actor{User: &f.user}); err == nil {
		t.Error("UpdateProgram succeeded without an audit log")
	}
	if read, err := f.store.Program(t.Context(), f.scope, p.ID); err != nil || read.Status != affiliate.ProgramActive || read.Name != "P" {
		t.Errorf("after the failed changes, the programme is %v, %v, want the active programme P", read, err)
	}
	f.exec(`grant insert on audit_log to tributary_app`)
}
