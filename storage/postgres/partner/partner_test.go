package partner_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/partner"
	partners "github.com/tributary-hq/tributary/storage/postgres/partner"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// newPartnerPlanFixture returns a fixture with ten partners and 1,000 programmes. Most
// rows belong to the nine partners that the tests do not query.
func newPartnerPlanFixture(t *testing.T) (f *fixture, partner pgtest.Participant) {
	t.Helper()
	f = newFixture(t)
	partner = f.JoinAllPrograms(1000, 10)[0]
	// Nine partners take part in all programmes. The partner that the tests query takes
	// part in a few dozen programmes.
	f.Exec(`delete from links using participants t where t.id = participant_id and t.partner_id = $1 and t.id <> $2 and t.workspace_id > '0a000000-0000-0000-0000-000000000000'`,
		partner.Partner, partner.ID)
	f.Exec(`delete from participants where partner_id = $1 and id <> $2 and workspace_id > '0a000000-0000-0000-0000-000000000000'`,
		partner.Partner, partner.ID)
	f.ExecWithoutForeignKeys(`insert into participant_totals (workspace_id, participant_id, program_id) select workspace_id, id, program_id from participants`)
	f.ExecWithoutForeignKeys(`insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, currency)
		select workspace_id, gen_random_uuid(), mode, program_id, id, null, 'EUR' from participants, generate_series(1, 3)`)
	f.ExecWithoutForeignKeys(`insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
		select workspace_id, id, 'EUR', slot, 1 from participants, generate_series(0, 3) slot`)
	f.Exec(`update programs set name = 'Programme ' || id::text, is_public = get_byte(uuid_send(id), 15) % 2 = 0`)
	// Each participant gets four commissions. The participant that the tests query gets
	// 8,000 more.
	for _, tc := range []struct{ rows, step, where string }{
		{"4", "1 hour", "true"}, {"8000", "1 minute", "t.id = '" + partner.ID.String() + "'"},
	} {
		f.ExecWithoutForeignKeys(`insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id,
			external_transaction_id, status, commission_type, event_type, rate_bps, amount_cents, original_amount_cents, currency,
			base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons, dispute_status, rule_snapshot, version,
			created_at, updated_at)
		select t.workspace_id, gen_random_uuid(), t.mode, t.program_id, t.id, t.partner_id, gen_random_uuid(), gen_random_uuid(),
			'x', case n % 4 when 0 then 'pending' when 1 then 'paid' when 2 then 'rejected' else 'approved' end, 'percentage', 'purchase', 2000,
			n, n, 'EUR', n, n, 'EUR', false, '{}', 'none', '{}', 1, t.created_at - n * interval '` + tc.step + `', t.created_at
		from participants t, generate_series(1, ` + tc.rows + `) n where ` + tc.where)
	}
	f.VacuumAnalyze()
	return f, partner
}

func TestPartnerStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f, joined := newPartnerPlanFixture(t)
	args := pgx.NamedArgs{"partner": joined.Partner, "mode": "live", "search": "programme 0a%", "limit": 20, "offset": 0, "program": joined.Program}
	for _, tc := range []struct {
		name        string
		filter      partner.ProgramFilter
		page, count string // texts that the plans of the page and of the total must contain
	}{
		{"own programmes", partner.ProgramFilter{}, "Limit", "participants_by_partner"},
		{"own programmes by name", partner.ProgramFilter{Search: "x"}, "Limit", "participants_by_partner"},
		{
			"public programmes",
			partner.ProgramFilter{Public: true},
			"Limit -> Index Scan using programs_public on programs p",
			"Index Only Scan using programs_public",
		},
		{"public programmes by name", partner.ProgramFilter{Public: true, Search: "x"}, "programs_public_by_name", "programs_public_by_name"},
	} {
		page, count := partners.PartnerProgramsSQL(tc.filter)
		f.CheckStatsPlan(tc.name, f.Plan(page, args), tc.page, "participants_by_partner", "links_default", "participant_totals_pkey",
			"stats_deltas_by_participant", "ledger_balances_pkey")
		f.CheckStatsPlan(tc.name+", total", f.Plan(count, args), tc.count)
	}

	newest := commission.Order{By: commission.SortCreatedAt}
	yesterday := f.Now().AddDate(0, 0, -1)
	for _, tc := range []struct {
		name   string
		filter partner.CommissionFilter
		order  commission.Order
		page   string // text that the plan of the page must contain
		count  string // text that the plan of the total must contain
	}{
		{
			"all",
			partner.CommissionFilter{},
			newest,
			"Limit -> Index Scan using commissions_by_partner on commissions c", "Limit -> Index Only Scan",
		},
		{
			"one status",
			partner.CommissionFilter{Status: commission.Paid},
			newest,
			"Limit -> Index Scan using commissions_by_partner_status on commissions c", "Limit -> Index Only Scan using commissions_by_partner_status",
		},
		{
			"dates",
			partner.CommissionFilter{Created: affiliate.Period{From: &yesterday}},
			newest,
			"Limit -> Index Scan using commissions_by_partner on commissions c", "Limit -> Index Only Scan using commissions_by_partner",
		},
		{
			"one status and dates",
			partner.CommissionFilter{Status: commission.Paid, Created: affiliate.Period{From: &yesterday}},
			newest,
			"Limit -> Index Scan using commissions_by_partner_status on commissions c", "Limit -> Index Only Scan using commissions_by_partner_status",
		},
		{
			"oldest first",
			partner.CommissionFilter{},
			commission.Order{By: commission.SortCreatedAt, Ascending: true},
			"Index Scan Backward using commissions_by_partner on commissions c", "",
		},
		{
			"one programme",
			partner.CommissionFilter{Program: &joined.Program},
			newest,
			"Limit -> Index Scan using commissions_by_participant on commissions c", "Limit -> Index Only Scan using commissions_by_participant",
		},
		{
			"by amount",
			partner.CommissionFilter{},
			commission.Order{By: commission.SortAmountCents},
			"commissions_by_partner", "",
		},
	} {
		pageSQL, pageArgs, countSQL, countArgs, err := partners.PartnerCommissionsSQL(
			t.Context(), f.DB, joined.Partner, affiliate.ModeLive, tc.filter, tc.order, affiliate.Page{Number: 1, Size: 20})
		if err != nil {
			t.Fatal(err)
		}
		f.CheckStatsPlan(tc.name, f.Plan(pageSQL, pageArgs...), tc.page)
		f.CheckStatsPlan(tc.name+", total", f.Plan(countSQL, countArgs...), tc.count)
	}
	f.ExecWithoutForeignKeys(`
		insert into payouts (workspace_id, id, batch_id, mode, program_id, participant_id, partner_id, amount_cents, currency, commission_count,
			adjustment_cents, status, method, created_at, updated_at)
		select workspace_id, gen_random_uuid(), gen_random_uuid(), mode, program_id, id, partner_id, 1, 'EUR', 0, 0, 'paid', 'manual', $1, $1
		from participants, generate_series(1, 4)`, f.Now())
	f.VacuumAnalyze()
	balances := f.Plan(partners.PartnerBalancesSQL, f.Now(), joined.Partner, "live")
	f.CheckStatsPlan("balances, paid", balances, "Index Only Scan using commissions_by_partner_status")
	f.CheckStatsPlan("balances, payouts", balances, "payouts_by_partner")
	oneSQL, oneArgs := partners.PartnerCommissionSQL(joined.Partner, affiliate.ModeLive, affiliate.NewID[affiliate.CommissionID](f.Now()))
	f.CheckStatsPlan("one commission", f.Plan(oneSQL, oneArgs...), "Index Scan using commissions_pkey")

	// Each participant gets two conversions, and the participant of the tests gets 3,000 more.
	f.ExecWithoutForeignKeys(`
		with made as (
			insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents,
				fee_cents, discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, participant_id,
				product_ids, is_recurring, fraud_score, fraud_signals, version)
			select t.workspace_id, gen_random_uuid(), t.mode, t.id || '-' || n, 'purchase', 100, 'EUR', 0, 0, 0, 0, at, at, 'api', 'recorded', true,
				'CLICK_MATCHED', gen_random_uuid(), t.program_id, t.id, '{}', false, 0, '[]', 1
			from participants t, generate_series(1, case when t.id = $1 then 3000 else 2 end) n,
				lateral (select $2::timestamptz - n * interval '5 minutes' as at) as instant
			returning *)
		insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
			program_id, participant_id, trace, decided_at)
		select workspace_id, decision_id, id, mode, true, 'click', reason_code, 'E', '2', program_id, participant_id,
			jsonb_build_object('program', jsonb_build_object('id', program_id), 'candidates', '[]'::jsonb), created_at
		from made`, joined.ID, f.Now())
	f.VacuumAnalyze("conversions", "attribution_decisions")
	tomorrow := f.Now().AddDate(0, 0, 1)
	for name, tc := range map[string]struct {
		lookup partner.SaleLookup
		want   []string
	}{
		"sales with a number": {partner.SaleLookup{ExternalID: joined.ID.String() + "-1"}, []string{"participants_by_partner", "conversions_external", "attribution_decisions_pkey"}},
		"sales of a day": {
			partner.SaleLookup{Program: &joined.Program, Day: affiliate.Period{From: &yesterday, Before: &tomorrow}},
			[]string{"Limit -> Index Scan using attribution_decisions_by_program", "conversions_pkey"},
		},
	} {
		sql, args := partners.RelatedSalesSQL(joined.Partner, affiliate.ModeLive, tc.lookup)
		pgtest.CheckPlan(t, name, f.Plan(sql, args...), tc.want, pgtest.ScansOf("conversions", "attribution_decisions", "commissions", "participants"))
	}

	// Add copies of the partner's commissions that are 30 days older.
	f.ExecWithoutForeignKeys(`
		insert into commissions
		select copy.*
		from commissions c,
			jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(), 'conversion_id', gen_random_uuid(), 'decision_id', gen_random_uuid(),
				'created_at', c.created_at - interval '30 days')) copy
		where c.partner_id = $1 and c.program_id = $2 and c.status <> 'paid'`, joined.Partner, joined.Program)
	for _, tc := range []struct {
		status commission.Status
		number int
		want   int
	}{
		{commission.Paid, 2, f.Count(`select count(*) from commissions where partner_id = $1 and status = 'paid'`, joined.Partner)},
		{"", 2, f.Count(`select count(*) from commissions where partner_id = $1 and mode = 'live'`, joined.Partner)},
		// On the last page, the store computes the total from the page.
		{"", f.Count(`select count(*) / 100 + 1 from commissions where partner_id = $1`, joined.Partner), f.Count(`select count(*) from commissions where partner_id = $1 and mode = 'live'`, joined.Partner)},
	} {
		found, total, err := partners.Commissions(t.Context(), f.DB, joined.Partner, affiliate.ModeLive,
			partner.CommissionFilter{Status: tc.status}, newest, affiliate.Page{Number: tc.number, Size: 100})
		if err != nil || total != int64(tc.want) || len(found) == 0 {
			t.Errorf("page %d with the status %q has %d rows and the total %d, %v, want the total %d", tc.number, tc.status, len(found), total, err, tc.want)
		}
	}
}
