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

// linkFixture is a workspace with one programme. Tests add links and promo codes.
type linkFixture struct {
	t           *testing.T
	store       *postgres.Store
	owner       *pgx.Conn
	now         time.Time
	scope       affiliate.Scope
	program     affiliate.ProgramID
	partner     affiliate.UserID
	participant affiliate.ParticipantID // the partner in the programme
}

// crowd is the number of participants, and of promo codes, in a large programme.
const crowd = 10_100

func newLinkFixture(t *testing.T) *linkFixture {
	t.Helper()
	f := &linkFixture{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
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
	f.scope = affiliate.Scope{Workspace: f.newWorkspace(), Mode: affiliate.ModeLive}
	f.program = f.newProgram(f.scope)
	return f
}

func (f *linkFixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.owner.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *linkFixture) newWorkspace() affiliate.WorkspaceID {
	f.t.Helper()
	id := affiliate.NewID[affiliate.Workspace](f.now)
	f.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'W', 'EUR', 'UTC', $2, $2)`, id, f.now)
	return id
}

func (f *linkFixture) newProgram(scope affiliate.Scope) affiliate.ProgramID {
	f.t.Helper()
	id := affiliate.NewID[affiliate.Program](f.now)
	f.exec(`
		insert into programs (workspace_id, id, mode, name, slug, status, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		values ($1, $2, $3, 'P', $2::uuid::text, 'active', '{}', 'EUR', 30, 'last_click', 'via', false, true, '{}', 1, $4, $4)`,
		scope.Workspace, id, scope.Mode, f.now)
	return id
}

// fill adds n participants to a programme. Each participant gets a default link and a
// promo code. The first participant gets fifty additional links.
func (f *linkFixture) fill(scope affiliate.Scope, program affiliate.ProgramID, n int) {
	f.t.Helper()
	f.exec(`set session_replication_role = replica`)
	f.exec(`
		with joined as (
			insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
				application_answers, applied_at, created_at, updated_at)
			select $1, gen_random_uuid(), $2, $3, u.id, u.name, u.email, 'approved', 'code-' || u.n, '{}', $4, $4, $4
			from (select id, name, email, row_number() over (order by id) as n from users) u where u.n <= $5
			returning id, referral_code
		), coded as (
			insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active,
				sync_to_processor, sync_status, created_at, updated_at)
			select $1, gen_random_uuid(), $2, id, $3, 'promo-' || $2::uuid || referral_code, 'percentage', 1000, random() < 0.9, false, 'none',
				$4 + random() * interval '90 days', $4
			from joined
		)
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
		select $1, gen_random_uuid(), $2, id, $3, referral_code || '-' || k, substr(md5(random()::text || id), 1, 20), 'https://a.example', k = 0,
			$4 + random() * interval '90 days', $4
		from joined, generate_series(0, case when referral_code = 'code-1' then 50 else 0 end) k`,
		scope.Workspace, program, scope.Mode, f.now, n)
	f.exec(`set session_replication_role = origin`)
}

// checkPlan checks that the plan contains the text index and no scan of a whole table. If
// sorted is true, the plan must read the page in the order of the index.
func (f *linkFixture) checkPlan(what, sql string, args pgx.NamedArgs, index string, sorted bool) {
	f.t.Helper()
	rows, _ := f.owner.Query(f.t.Context(), "explain "+sql, pgx.QueryExecModeCacheDescribe, args)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatalf("explain %s: %v", what, err)
	}
	plan := strings.Join(lines, "\n")
	if !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan on links") || strings.Contains(plan, "Seq Scan on promo_codes") ||
		strings.Contains(plan, "Seq Scan on participants") || strings.Contains(plan, "Seq Scan on stats_deltas") {
		f.t.Errorf("%s: the plan does not use %s, or it scans a whole table\n%s", what, index, plan)
	}
	if strings.Contains(sql, "count(*)") && !strings.Contains(plan, "Limit") {
		f.t.Errorf("%s: the plan of the count has no limit\n%s", what, plan)
	}
	// The page must be read in the order of the index. With a sort below the node Limit,
	// Postgres would read all matching rows.
	if _, below, ok := strings.Cut(plan, "Limit"); sorted && (!ok || strings.Contains(below, "Sort")) {
		f.t.Errorf("%s: the plan does not read the page in the order of the index\n%s", what, plan)
	}
}

func TestLinksAndPromoCodes_UseIndexes(t *testing.T) {
	t.Parallel()
	f := newLinkFixture(t)
	f.exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', 'p' || n, '', 'Jane', $1 from generate_series(1, $2::integer) n`, f.now, crowd)
	f.fill(f.scope, f.program, crowd)
	for range 20 {
		f.fill(f.scope, f.newProgram(f.scope), 100)
	}
	test := affiliate.Scope{Workspace: f.scope.Workspace, Mode: affiliate.ModeTest}
	f.fill(test, f.newProgram(test), 5000)
	other := affiliate.Scope{Workspace: f.newWorkspace(), Mode: affiliate.ModeLive}
	f.fill(other, f.newProgram(other), crowd)
	if err := f.owner.QueryRow(t.Context(), `select id, partner_id from participants where program_id = $1 and referral_code = 'code-1'`, f.program).
		Scan(&f.participant, &f.partner); err != nil {
		t.Fatal(err)
	}
	f.exec(`insert into link_totals (workspace_id, link_id) select workspace_id, id from links`)
	f.exec(`
		insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, hour, currency, clicks)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, id, $1, '', 1 from links`, f.now)
	pgtest.VacuumAnalyze(t, f.owner)

	page := affiliate.Page{Number: 3, Size: 20}
	yes, no := true, false
	for name, tc := range map[string]struct {
		filter affiliate.LinkFilter
		index  string
		sorted bool
	}{
		"links":                                {affiliate.LinkFilter{}, "links_by_age", true},
		"links of a participant":               {affiliate.LinkFilter{Participant: &f.participant}, "links_by_participant", false},
		"links with a rare prefix":             {affiliate.LinkFilter{Search: "code-777"}, "links_by_code", false},
		"links with any prefix":                {affiliate.LinkFilter{Search: "code"}, "links_by_age", true},
		"links of a participant with a prefix": {affiliate.LinkFilter{Search: "code", Participant: &f.participant}, "links_by_participant", false},
	} {
		list, count := postgres.LinkListSQL(tc.filter)
		args := postgres.LinkListArgs(f.scope, f.program, tc.filter, page)
		f.checkPlan(name, list, args, tc.index, tc.sorted)
		f.checkPlan(name+": deltas", list, args, "stats_deltas_by_link", false)
		// The total of all links is stored, so no statement counts it. For a prefix that
		// all links have, Postgres may scan the whole table.
		if tc.filter != (affiliate.LinkFilter{}) && tc.index != "links_by_age" {
			f.checkPlan(name+": total", count, args, "links_by_", false)
		}
	}
	for name, tc := range map[string]struct {
		filter affiliate.PromoCodeFilter
		index  string
		sorted bool
		total  string
	}{
		"promo codes":                    {affiliate.PromoCodeFilter{}, "promo_codes_by_age", true, ""},
		"promo codes of a participant":   {affiliate.PromoCodeFilter{Participant: &f.participant}, "promo_codes_by_participant", false, "Index Only Scan using promo_codes_by_participant"},
		"active promo codes":             {affiliate.PromoCodeFilter{Active: &yes}, "promo_codes_by_", true, "Index Only Scan using promo_codes_by_active"},
		"inactive promo codes":           {affiliate.PromoCodeFilter{Active: &no}, "promo_codes_by_active", true, "Index Only Scan using promo_codes_by_active"},
		"promo codes with a rare prefix": {affiliate.PromoCodeFilter{Search: "promo-" + f.program.String() + "code-777"}, "promo_codes_by_code", false, "promo_codes_by_code"},
		"promo codes with any prefix":    {affiliate.PromoCodeFilter{Search: "promo"}, "promo_codes_by_age", true, ""},
	} {
		list, count := postgres.PromoCodeListSQL(tc.filter)
		args := postgres.PromoCodeListArgs(f.scope, f.program, tc.filter, page)
		f.checkPlan(name, list, args, tc.index, tc.sorted)
		if tc.total != "" {
			f.checkPlan(name+": total", count, args, tc.total, false)
		}
	}
	args := pgx.NamedArgs{"partner": f.partner, "mode": f.scope.Mode, "program": f.program, "limit": 20, "offset": 0}
	for _, program := range []*affiliate.ProgramID{nil, &f.program} {
		list, count := postgres.PartnerLinksSQL(program)
		codes, codeCount := postgres.PartnerPromoCodesSQL(program)
		for name, tc := range map[string]struct{ sql, index string }{
			"own links":                 {list, "links_by_participant"},
			"number of own links":       {count, "Index Only Scan using links_by_participant"},
			"own promo codes":           {codes, "promo_codes_by_participant"},
			"number of own promo codes": {codeCount, "Index Only Scan using promo_codes_by_participant"},
		} {
			f.checkPlan(name, tc.sql, args, tc.index, false)
			f.checkPlan(name, tc.sql, args, "participants_by_partner", false)
		}
	}

	// Check the results of these statements too. The total of a search counts at most
	// MaxSearchTotal+1 rows.
	filter := affiliate.LinkFilter{Search: "code-"}
	links, total, err := f.store.Links(t.Context(), f.scope, f.program, filter, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != affiliate.MaxSearchTotal+1 || len(links) != 20 || links[0].Clicks != 1 {
		t.Errorf("Links returned %d links and the total %d, %v, want 20 and %d", len(links), total, err, affiliate.MaxSearchTotal+1)
	}
	codes, total, err := f.store.PromoCodes(t.Context(), f.scope, f.program, affiliate.PromoCodeFilter{Search: "promo"}, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != affiliate.MaxSearchTotal+1 || len(codes) != 20 {
		t.Errorf("PromoCodes returned %d promo codes and the total %d, %v, want 20 and %d", len(codes), total, err, affiliate.MaxSearchTotal+1)
	}
	own, total, err := f.store.PartnerLinks(t.Context(), f.partner, f.scope.Mode, &f.program, affiliate.Page{Number: 3, Size: 20})
	if err != nil || total != 51 || len(own) != 11 {
		t.Errorf("PartnerLinks returned %d links and the total %d, %v, want 11 and 51", len(own), total, err)
	}
}

// When a partner joins a programme, the store calls insertLink for the default link.
// Therefore insertLink must update the totals and counts itself.
func TestInsertLink_MaintainsCountAndTotals(t *testing.T) {
	f := newLinkFixture(t)
	f.exec(`insert into users (id, kind, email, password_hash, name, created_at) values (gen_random_uuid(), 'partner', 'p', '', 'Jane', $1)`, f.now)
	f.fill(f.scope, f.program, 1)
	f.exec(`delete from links`)
	if err := f.owner.QueryRow(t.Context(), `select id from participants`).Scan(&f.participant); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for i := range 20 {
		stored, err := f.store.InsertLink(t.Context(), affiliate.Link{
			ID: affiliate.NewID[affiliate.Link](f.now), Scope: f.scope, Program: f.program, Participant: f.participant, Code: fmt.Sprint("c", i),
			Destination: new(string), Version: 1, CreatedAt: f.now, UpdatedAt: f.now,
		})
		if err != nil || len(stored.ShortKey) != 10 {
			t.Fatalf("InsertLink returned %+v, %v, want a link with a short key of 10 characters", stored, err)
		}
		keys[stored.ShortKey] = true
	}
	_, total, err := f.store.Links(t.Context(), f.scope, f.program, affiliate.LinkFilter{}, affiliate.Page{Number: 1, Size: 1})
	if err != nil || total != 20 || len(keys) != 20 {
		t.Errorf("the total is %d with %d different short keys, %v, want 20 and 20", total, len(keys), err)
	}
	_, total, err = f.store.Links(t.Context(), f.scope, f.program, affiliate.LinkFilter{Participant: &f.participant}, affiliate.Page{Number: 1, Size: 1})
	if err != nil || total != 20 {
		t.Errorf("the total of the participant is %d, %v, want 20", total, err)
	}
	// A link of an unknown participant must be rejected.
	unknown := affiliate.NewID[affiliate.Participant](f.now)
	if _, err := f.store.InsertLink(t.Context(), affiliate.Link{
		ID: affiliate.NewID[affiliate.Link](f.now), Scope: f.scope, Program: f.program, Participant: unknown, Code: "c", IsDefault: true,
		Version: 1, CreatedAt: f.now, UpdatedAt: f.now,
	}); err == nil {
		t.Error("a link of an unknown participant was stored")
	}
}
