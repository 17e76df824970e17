package conversion_test

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// manySignals adds many rows to the tables from which the store reads the customer and the
// promo code of a conversion.
func (s *sales) manySignals() {
	s.Helper()
	s.CopyProgram(2000)
	s.JoinMany(2000)
	s.Exec(`
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active, sync_to_processor, sync_status, created_at, updated_at)
		select workspace_id, gen_random_uuid(), program_id, id, mode, 'code-' || id, 'percentage', 1000, true, false, 'none', $1, $1 from participants`, pgtest.Noon)
	s.Exec(`
		insert into customers (workspace_id, mode, ref, program_id, participant_id, conversion_id, bound_at, signal_at, window_ends_at, created_at)
		select workspace_id, mode, 'ref-' || id, program_id, id, gen_random_uuid(), $1, $1, $1, $1 from participants`, pgtest.Noon)
	s.Exec(`
		insert into customer_payments (workspace_id, mode, ref, program_id, payments, first_at)
		select workspace_id, mode, ref, program_id, 1, $1 from customers`, pgtest.Noon)
	s.Exec(`insert into participant_totals (workspace_id, participant_id, program_id) select workspace_id, id, program_id from participants on conflict do nothing`)
	s.Exec(`
		insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, currency, conversions)
		select workspace_id, gen_random_uuid(), mode, program_id, id, 'EUR', 1 from participants, generate_series(1, 3)`)
	s.Exec(`
		insert into groups (workspace_id, id, program_id, name, rate_bps, created_at, updated_at)
		select $1, gen_random_uuid(), $2, 'Group ' || n, 1000, $3, $3 from generate_series(1, 2000) as n`, s.Scope.Workspace, s.Program, pgtest.Noon)
	s.Exec(`
		update participants t set group_id = g.id
		from (select id, row_number() over () as n from groups) as g, (select id, row_number() over () as n from participants) as p
		where p.n = g.n and t.id = p.id`)
	s.Exec(`
		insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents, fee_cents,
			discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, participant_id, customer_ref,
			product_ids, is_recurring, fraud_score, fraud_signals, version, recurring_index)
		select workspace_id, gen_random_uuid(), mode, id::text, 'purchase', 100, 'EUR', 0, 0, 0, 0, $1, $1, 'api', 'recorded', true, 'CLICK_MATCHED',
			gen_random_uuid(), program_id, id, 'ref-' || id, '{}', false, 0, '[]', 1, 1 from participants`, pgtest.Noon)
	s.Exec(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id, external_transaction_id, status,
			commission_type, event_type, rate_bps, amount_cents, original_amount_cents, currency, base_amount_cents, sale_amount_cents, sale_currency,
			needs_review, review_reasons, dispute_status, rule_snapshot, version, created_at, updated_at)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, participant_id, id, decision_id, external_transaction_id, 'pending',
			'percentage', 'purchase', 1000, 10, 10, 'EUR', 100, 100, 'EUR', false, '{}', 'none', '{}', 1, $1, $1 from conversions`, pgtest.Noon)
}

// The custom and the generic plans of each statement that reads a promo code, a customer
// or a participant for a decision must use indexes.
func TestSignalLookups_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	s := newSales(t)
	s.Exec(`update programs set rules = rules || '{"tiers":[{"min_conversions":2,"rate_bps":4000}]}'`)
	s.manySignals()
	s.VacuumAnalyze()
	var participant, conversion string
	if err := s.SQL.QueryRow(t.Context(), `select participant_id, id from conversions c where exists (
		select from participants t where t.id = c.participant_id and t.group_id is not null) limit 1`).Scan(&participant, &conversion); err != nil {
		t.Fatal(err)
	}
	earner := []string{"programs_", "participants_pkey", "groups_pkey", "participant_totals_pkey", "stats_deltas_by_participant"}
	for name, tc := range map[string]struct {
		sql, args string
		indexes   []string
	}{
		"lock of a promo code": {conversions.LockPromoCodeSQL, fmt.Sprintf("'%s', 'live', 'code-%s'", s.Scope.Workspace, participant), []string{"promo_codes_code"}},
		"promo code":           {conversions.FindPromoCodeSQL, fmt.Sprintf("'%s', 'live', 'code-%s'", s.Scope.Workspace, participant), append([]string{"promo_codes_code"}, earner...)},
		"customer binding":     {conversions.FindBindingSQL, fmt.Sprintf("'%s', 'live', 'ref-%s'", s.Scope.Workspace, participant), append([]string{"customers_pkey"}, earner...)},
		"known customer":       {conversions.SelectKnownCustomerSQL, fmt.Sprintf("'%s', 'live', '{ref-%s,other}'", s.Scope.Workspace, participant), []string{"customers_pkey"}},
		"number of payments":   {conversions.FindPaymentsSQL, fmt.Sprintf("'%s', 'live', 'ref-%s'", s.Scope.Workspace, participant), []string{"customer_payments_pkey"}},
		"recount of payments":  {conversions.RecountPaymentsSQL, fmt.Sprintf("'%s', 'test', 'ref-%s', '{%s}'", s.Scope.Workspace, participant, s.Program), []string{"conversions_by_customer"}},
		"active commission":    {conversions.FindActiveCommissionSQL, fmt.Sprintf("'%s', 'live', '%s'", s.Scope.Workspace, conversion), []string{"conversions_pkey", "commissions_decision"}},
		"participant":          {conversions.FindParticipantSQL, fmt.Sprintf("'%s', 'live', '%s'", s.Scope.Workspace, participant), earner},
	} {
		for mode, plan := range s.ExecutedPlans(tc.sql, tc.args) {
			pgtest.CheckPlan(t, name+", "+mode, plan, tc.indexes, pgtest.ScansOf(""))
		}
	}
}

// FindClick must read the totals of a participant only if the rules of the programme have
// tiers.
func TestFindClick_ReadsPriorTotalsForTiersOnly(t *testing.T) {
	s := newSales(t)
	click := s.click(pgtest.Noon)
	at := pgtest.Noon.Format(time.RFC3339Nano)
	args := fmt.Sprintf("'{0}', '{%s}', '{%s}', '{%s}', '%s', '%s'", s.Scope.Workspace, click, at, at, at)
	for tiers, want := range map[string]bool{``: false, ` || '{"tiers":[{"min_conversions":2,"rate_bps":4000}]}'`: true} {
		s.Exec(`update programs set rules = rules - 'tiers'` + tiers)
		for mode, plan := range s.ExecutedPlans(conversions.SelectClicksSQL, args) {
			if found := regexp.MustCompile(`on stats_deltas d \(actual`).MatchString(plan); found != want {
				t.Errorf("%s: with the tiers %q, the plan reads stats_deltas: %t, want %t\n%s", mode, tiers, found, want, plan)
			}
		}
	}
}

// A transaction that has waited for the lock of a promo code must decide with the data
// from after the wait, because the transaction that held the lock may have changed the
// data.
func TestRecord_ReadsPromoCodeAfterWaiting(t *testing.T) {
	s := newSales(t)
	s.Exec(`update programs set rules = rules || '{"tiers":[{"min_conversions":1,"rate_bps":4000}]}'`)
	code := s.NewPromoCode(s.participant, "spring10", func(c *promocode.PromoCode) { c.MaxRedemptions = new(int64(5)) }).Code
	report := s.Report("order-1", affiliate.ClickID{}, pgtest.ByCustomer("ann"), func(c *conversion.Conversion) { c.PromoCode = &code })
	tx, err := s.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`update promo_codes set redemptions = 4`,
		`insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, currency, conversions)
			select workspace_id, gen_random_uuid(), mode, program_id, id, 'EUR', 1 from participants`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	recorded := make(chan error, 1)
	var seen attribution.Inputs
	go func() {
		decide := report.Decide
		report.Decide = func(in attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
			seen = in
			return decide(in)
		}
		_, err := s.Record(report)
		recorded <- err
	}()
	s.AwaitLock()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-recorded; err != nil {
		t.Fatal(err)
	}
	if got := seen.FoundPromoCode; got.Redemptions != 4 || got.PriorTotals != (attribution.PriorTotals{Conversions: 1}) {
		t.Errorf("the decision used the promo code %+v, want 4 redemptions and 1 earlier conversion", got)
	}
	if n := s.Count(`select count(*) from promo_codes where redemptions = 5`); n != 1 {
		t.Errorf("%d promo codes have 5 redemptions, want 1", n)
	}
	if n := s.Count(`select count(*) from river.river_job where kind = 'sync_directory'`); n != 1 {
		t.Errorf("%d jobs for the edge directory were enqueued, want one for the redemption", n)
	}
}

// If a decision redeems a promo code that has reached its maximum number of redemptions,
// the store must return an internal error and roll back the transaction.
func TestRecord_RedemptionLimitIsEnforced(t *testing.T) {
	s := newSales(t)
	code := s.NewPromoCode(s.participant, "spring10", func(c *promocode.PromoCode) { c.MaxRedemptions = new(int64(1)) })
	s.Exec(`update promo_codes set redemptions = 1`)
	report := s.Report("order-1", affiliate.ClickID{}, func(c *conversion.Conversion) { c.PromoCode = &code.Code })
	decide := report.Decide
	report.Decide = func(in attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
		d, commission, err := decide(in)
		d.Redeems = &code.ID
		return d, commission, err
	}
	_, err := s.Record(report)
	var refusal *affiliate.Error
	if err == nil || errors.As(err, &refusal) {
		t.Errorf("RecordConversion returned %v, want an internal error", err)
	}
	if n := s.Count(`select count(*) from conversions`) + s.Count(`select count(*) from events`) + s.Count(`select count(*) from promo_codes where redemptions <> 1`); n != 0 {
		t.Errorf("after the rollback, %d rows are stored or changed, want 0", n)
	}
}

// The store locks the customer and the promo code of a conversion in one round trip. For
// a conversion without a customer and without a promo code, it must omit this round trip.
func TestRecord_LimitsRoundTrips(t *testing.T) {
	s := newSales(t)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	counter := &statementRecorder{}
	traced := s.withDB(s.OpenWith(postgres.Config{Tracer: counter}))
	for i, tc := range []struct {
		change  []func(*conversion.Conversion)
		batches int
	}{
		{nil, 4}, // lock the click, read the inputs of the decision, insert the conversion, insert its effects
		{[]func(*conversion.Conversion){pgtest.ByCustomer("ann")}, 5},
	} {
		counter.batches = 0
		if _, err := traced.Record(traced.Report(fmt.Sprint("order-", i), click, tc.change...)); err != nil {
			t.Fatal(err)
		}
		if counter.batches != tc.batches {
			t.Errorf("for order-%d, %d batches were sent, want %d", i, counter.batches, tc.batches)
		}
	}
}
