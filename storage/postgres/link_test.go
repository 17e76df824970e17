package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// crowd is the number of participants, and of promo codes, in a large programme.
const crowd = 10_100

// fillWithLinks adds n participants to the programme of a shop. Each participant gets a
// default link and a promo code. The first participant gets fifty additional links.
func fillWithLinks(s *pgtest.Shop, n int) {
	s.Helper()
	joinMany(s, n)
	s.ExecWithoutForeignKeys(`
		with numbered as (
			select id, 'code-' || row_number() over (order by id) as code from participants where program_id = $2
		), promoted as (
			insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active,
				sync_to_processor, sync_status, created_at, updated_at)
			select $1, gen_random_uuid(), $2, id, $3, 'promo-' || $2::uuid || code, 'percentage', 1000, random() < 0.9, false, 'none',
				$4::timestamptz + random() * interval '90 days', $4
			from numbered
		)
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
		select $1, gen_random_uuid(), $2, id, $3, code || '-' || k, substr(md5(random()::text || id), 1, 20), 'https://a.example', k = 0,
			$4::timestamptz + random() * interval '90 days', $4
		from numbered, generate_series(0, case when code = 'code-1' then 50 else 0 end) k`,
		s.Scope.Workspace, s.Program, s.Scope.Mode, s.Now())
}

// checkLinkPlan checks that the plan contains the text in index and no scan of a whole
// table. If sorted is true, the plan must read the page in the order of the index.
func (f *fixture) checkLinkPlan(what, sql string, args pgx.NamedArgs, index string, sorted bool) {
	f.Helper()
	plan := f.Plan(sql, args)
	checkPlan(f, what, plan, []string{index}, scansOf("links", "promo_codes", "participants", "stats_deltas"))
	if strings.Contains(sql, "count(*)") && !strings.Contains(plan, "Limit") {
		f.Errorf("%s: the plan of the count has no limit\n%s", what, plan)
	}
	// The page must be read in the order of the index. With a sort below the node Limit,
	// Postgres would read all matching rows.
	if _, below, ok := strings.Cut(plan, "Limit"); sorted && (!ok || strings.Contains(below, "Sort")) {
		f.Errorf("%s: the plan does not read the page in the order of the index\n%s", what, plan)
	}
}

func TestLinksAndPromoCodes_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	fillWithLinks(f.Shop, crowd)
	for range 20 {
		fillWithLinks(&pgtest.Shop{Fixture: f.Fixture, Scope: f.Scope, Program: f.NewProgram(f.Scope)}, 100)
	}
	fillWithLinks(f.InOtherMode(), 2000)
	fillWithLinks(f.NewShop(affiliate.ModeLive), 2000)
	var p pgtest.Participant // has fifty additional links
	if err := f.SQL.QueryRow(t.Context(), `select id, partner_id from participants where program_id = $1 order by id limit 1`, f.Program).
		Scan(&p.ID, &p.Partner); err != nil {
		t.Fatal(err)
	}
	f.ExecWithoutForeignKeys(`insert into link_totals (workspace_id, link_id) select workspace_id, id from links`)
	f.ExecWithoutForeignKeys(`
		insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, currency, clicks)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, id, '', 1 from links`)
	f.VacuumAnalyze()

	page := affiliate.Page{Number: 3, Size: 20}
	for name, tc := range map[string]struct {
		filter link.Filter
		index  string // text that the plan of the page must contain
		sorted bool   // the plan must read the page in the order of the index
	}{
		"links":                                {link.Filter{}, "links_by_age", true},
		"links of a participant":               {link.Filter{Participant: &p.ID}, "links_by_participant", false},
		"links with a rare prefix":             {link.Filter{Search: "code-777"}, "links_by_code", false},
		"links with any prefix":                {link.Filter{Search: "code"}, "links_by_age", true},
		"links of a participant with a prefix": {link.Filter{Search: "code", Participant: &p.ID}, "links_by_participant", false},
	} {
		list, count := postgres.LinkListSQL(tc.filter)
		args := postgres.LinkListArgs(f.Scope, f.Program, tc.filter, page)
		f.checkLinkPlan(name, list, args, tc.index, tc.sorted)
		f.checkLinkPlan(name+": deltas", list, args, "stats_deltas_by_link", false)
		// The total of all links is stored, so no statement counts it. For a prefix that
		// all links have, Postgres may scan the whole table.
		if tc.filter != (link.Filter{}) && tc.index != "links_by_age" {
			f.checkLinkPlan(name+": total", count, args, "links_by_", false)
		}
	}
	for name, tc := range map[string]struct {
		filter promocode.Filter
		index  string // text that the plan of the page must contain
		sorted bool   // the plan must read the page in the order of the index
		total  string // text that the plan of the total must contain; empty if not checked
	}{
		"promo codes":                    {promocode.Filter{}, "promo_codes_by_age", true, ""},
		"promo codes of a participant":   {promocode.Filter{Participant: &p.ID}, "promo_codes_by_participant", false, "Index Only Scan using promo_codes_by_participant"},
		"active promo codes":             {promocode.Filter{Active: new(true)}, "promo_codes_by_", true, "Index Only Scan using promo_codes_by_active"},
		"inactive promo codes":           {promocode.Filter{Active: new(false)}, "promo_codes_by_active", true, "Index Only Scan using promo_codes_by_active"},
		"promo codes with a rare prefix": {promocode.Filter{Search: "promo-" + f.Program.String() + "code-777"}, "promo_codes_by_code", false, "promo_codes_by_code"},
		"promo codes with any prefix":    {promocode.Filter{Search: "promo"}, "promo_codes_by_age", true, ""},
	} {
		list, count := postgres.PromoCodeListSQL(tc.filter)
		args := postgres.PromoCodeListArgs(f.Scope, f.Program, tc.filter, page)
		f.checkLinkPlan(name, list, args, tc.index, tc.sorted)
		if tc.total != "" {
			f.checkLinkPlan(name+": total", count, args, tc.total, false)
		}
	}
	args := pgx.NamedArgs{"partner": p.Partner, "mode": f.Scope.Mode, "program": f.Program, "limit": 20, "offset": 0}
	for _, program := range []*affiliate.ProgramID{nil, &f.Program} {
		list, count := postgres.PartnerLinksSQL(program)
		codes, codeCount := postgres.PartnerPromoCodesSQL(program)
		for name, tc := range map[string]struct{ sql, index string }{
			"own links":                 {list, "links_by_participant"},
			"number of own links":       {count, "Index Only Scan using links_by_participant"},
			"own promo codes":           {codes, "promo_codes_by_participant"},
			"number of own promo codes": {codeCount, "Index Only Scan using promo_codes_by_participant"},
		} {
			f.checkLinkPlan(name, tc.sql, args, tc.index, false)
			f.checkLinkPlan(name, tc.sql, args, "participants_by_partner", false)
		}
	}

	// Check the results of these statements too. The total of a search counts at most
	// MaxSearchTotal+1 rows.
	filter := link.Filter{Search: "code-"}
	links, total, err := f.Store.Links(t.Context(), f.Scope, f.Program, filter, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != affiliate.MaxSearchTotal+1 || len(links) != 20 || links[0].Clicks != 1 {
		t.Errorf("Links returned %d links and the total %d, %v, want 20 and %d", len(links), total, err, affiliate.MaxSearchTotal+1)
	}
	codes, total, err := f.Store.PromoCodes(t.Context(), f.Scope, f.Program, promocode.Filter{Search: "promo"}, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != affiliate.MaxSearchTotal+1 || len(codes) != 20 {
		t.Errorf("PromoCodes returned %d promo codes and the total %d, %v, want 20 and %d", len(codes), total, err, affiliate.MaxSearchTotal+1)
	}
	own, total, err := f.Store.PartnerLinks(t.Context(), p.Partner, f.Scope.Mode, &f.Program, affiliate.Page{Number: 3, Size: 20})
	if err != nil || total != 51 || len(own) != 11 {
		t.Errorf("PartnerLinks returned %d links and the total %d, %v, want 11 and 51", len(own), total, err)
	}
}

// When a partner joins a programme, the store calls insertLink for the default link.
// Therefore insertLink must update the totals and counts itself.
func TestInsertLink_MaintainsCountAndTotals(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Jane") // has one link
	keys := map[string]bool{}
	for i := range 20 {
		stored, err := f.Store.InsertLink(t.Context(), link.Link{
			ID: affiliate.NewID[affiliate.LinkID](f.Now()), Scope: f.Scope, Program: f.Program, Participant: p.ID, Code: fmt.Sprint("c", i),
			Destination: new(string), Version: 1, CreatedAt: f.Now(), UpdatedAt: f.Now(),
		})
		if err != nil || len(stored.ShortKey) != 10 {
			t.Fatalf("InsertLink returned %+v, %v, want a link with a short key of 10 characters", stored, err)
		}
		keys[stored.ShortKey] = true
	}
	_, total, err := f.Store.Links(t.Context(), f.Scope, f.Program, link.Filter{}, affiliate.Page{Number: 1, Size: 1})
	if err != nil || total != 21 || len(keys) != 20 {
		t.Errorf("the total is %d with %d different new short keys, %v, want 21 and 20", total, len(keys), err)
	}
	_, total, err = f.Store.Links(t.Context(), f.Scope, f.Program, link.Filter{Participant: &p.ID}, affiliate.Page{Number: 1, Size: 1})
	if err != nil || total != 21 {
		t.Errorf("the total of the participant is %d, %v, want 21", total, err)
	}
	// A link of an unknown participant must be rejected.
	unknown := affiliate.NewID[affiliate.ParticipantID](f.Now())
	if _, err := f.Store.InsertLink(t.Context(), link.Link{
		ID: affiliate.NewID[affiliate.LinkID](f.Now()), Scope: f.Scope, Program: f.Program, Participant: unknown, Code: "c", IsDefault: true,
		Version: 1, CreatedAt: f.Now(), UpdatedAt: f.Now(),
	}); err == nil {
		t.Error("a link of an unknown participant was stored")
	}
}
