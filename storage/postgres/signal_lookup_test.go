package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// manySignals adds many rows to the tables that the store reads to find the customer and
// the promo code of a conversion.
func (s *sales) manySignals() {
	s.Helper()
	s.manyParticipants(2000)
	s.exec(`
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active, sync_to_processor, sync_status, created_at, updated_at)
		select workspace_id, gen_random_uuid(), program_id, id, mode, 'code-' || id, 'percentage', 1000, true, false, 'none', $1, $1 from participants`, salesDay)
	s.exec(`
		insert into customers (workspace_id, mode, ref, program_id, participant_id, conversion_id, bound_at, signal_at, window_ends_at, created_at)
		select workspace_id, mode, 'ref-' || id, program_id, id, gen_random_uuid(), $1, $1, $1, $1 from participants`, salesDay)
	s.exec(`
		insert into customer_payments (workspace_id, mode, ref, program_id, payments, first_at)
		select workspace_id, mode, ref, program_id, 1, $1 from customers`, salesDay)
	s.exec(`insert into participant_totals (workspace_id, participant_id, program_id) select workspace_id, id, program_id from participants`)
	s.exec(`
		insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, hour, currency, conversions)
		select workspace_id, gen_random_uuid(), mode, program_id, id, $1, 'EUR', 1 from participants, generate_series(1, 3)`, salesDay)
	s.exec(`
		insert into groups (workspace_id, id, program_id, name, rate_bps, created_at, updated_at)
		select $1, gen_random_uuid(), $2, 'Group ' || n, 1000, $3, $3 from generate_series(1, 2000) as n`, s.scope.Workspace, s.program, salesDay)
	s.exec(`
		update participants t set group_id = g.id
		from (select id, row_number() over () as n from groups) as g, (select id, row_number() over () as n from participants) as p
		where p.n = g.n and t.id = p.id`)
	s.exec(`
		insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents, fee_cents,
			discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, participant_id, customer_ref,
			product_ids, is_recurring, fraud_score, fraud_signals, version, recurring_index)
		select workspace_id, gen_random_uuid(), mode, id::text, 'purchase', 100, 'EUR', 0, 0, 0, 0, $1, $1, 'api', 'recorded', true, 'CLICK_MATCHED',
			gen_random_uuid(), program_id, id, 'ref-' || id, '{}', false, 0, '[]', 1, 1 from participants`, salesDay)
	s.exec(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id, external_transaction_id, status,
			commission_type, event_type, rate_bps, amount_cents, original_amount_cents, currency, base_amount_cents, sale_amount_cents, sale_currency,
			needs_review, review_reasons, dispute_status, rule_snapshot, version, created_at, updated_at)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, participant_id, id, decision_id, external_transaction_id, 'pending',
			'percentage', 'purchase', 1000, 10, 10, 'EUR', 100, 100, 'EUR', false, '{}', 'none', '{}', 1, $1, $1 from conversions`, salesDay)
}

// The custom and the generic plans of each statement that reads a promo code, a customer
// or a participant for a decision must use indexes.
func TestSignalLookups_UseIndexes(t *testing.T) {
	t.Parallel()
	s := newSales(t)
	s.exec(`update programs set rules = rules || '{"tiers":[{"min_conversions":2,"rate_bps":4000}]}'`)
	s.manySignals()
	pgtest.VacuumAnalyze(t, s.asOwner())
	var participant, conversion string
	if err := s.sql.QueryRow(t.Context(), `select participant_id, id from conversions c where exists (
		select from participants t where t.id = c.participant_id and t.group_id is not null) limit 1`).Scan(&participant, &conversion); err != nil {
		t.Fatal(err)
	}
	earner := []string{"programs_", "participants_pkey", "groups_pkey", "participant_totals_pkey", "stats_deltas_by_participant"}
	for name, tc := range map[string]struct {
		sql, args string
		indexes   []string
	}{
		"lock_code":   {postgres.LockPromoCodeSQL, fmt.Sprintf("'%s', 'test', 'code-%s'", s.scope.Workspace, participant), []string{"promo_codes_code"}},
		"find_code":   {postgres.FindPromoCodeSQL, fmt.Sprintf("'%s', 'test', 'code-%s'", s.scope.Workspace, participant), append([]string{"promo_codes_code"}, earner...)},
		"binding":     {postgres.FindBindingSQL, fmt.Sprintf("'%s', 'test', 'ref-%s'", s.scope.Workspace, participant), append([]string{"customers_pkey"}, earner...)},
		"payments":    {postgres.FindPaymentsSQL, fmt.Sprintf("'%s', 'test', 'ref-%s'", s.scope.Workspace, participant), []string{"customer_payments_pkey"}},
		"recount":     {postgres.RecountPaymentsSQL, fmt.Sprintf("'%s', 'live', 'ref-%s', '{%s}'", s.scope.Workspace, participant, s.program), []string{"conversions_by_customer"}},
		"earned":      {postgres.FindEarnedSQL, fmt.Sprintf("'%s', 'test', '%s'", s.scope.Workspace, conversion), []string{"conversions_pkey", "commissions_decision"}},
		"participant": {postgres.FindParticipantSQL, fmt.Sprintf("'%s', 'test', '%s'", s.scope.Workspace, participant), earner},
	} {
		s.exec(`prepare ` + name + ` as ` + tc.sql)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			s.exec(`set plan_cache_mode = ` + mode)
			plan := strings.Join(s.explain(name+"("+tc.args+")"), "\n")
			for _, index := range tc.indexes {
				if !strings.Contains(plan, index) {
					t.Errorf("%s, %s: the plan does not use the index %s\n%s", name, mode, index, plan)
				}
			}
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s, %s: the plan scans a whole table\n%s", name, mode, plan)
			}
		}
	}
}

// FindClick must read the totals of a participant only if the rules of the programme have
// tiers.
func TestFindClick_ReadsPriorTotalsForTiersOnly(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay)
	s.exec(`prepare one as ` + postgres.SelectClicksSQL)
	at := salesDay.Format(time.RFC3339Nano)
	execute := fmt.Sprintf("one('{0}', '{%s}', '{%s}', '{%s}', '%s', '%s')", s.scope.Workspace, click, at, at, at)
	for tiers, want := range map[string]bool{``: false, ` || '{"tiers":[{"min_conversions":2,"rate_bps":4000}]}'`: true} {
		s.exec(`update programs set rules = rules - 'tiers'` + tiers)
		plan := strings.Join(s.explain(execute), "\n")
		read := regexp.MustCompile(`on stats_deltas d \(actual`).MatchString(plan)
		if read != want {
			t.Errorf("with the tiers %q, the plan reads stats_deltas: %t, want %t\n%s", tiers, read, want, plan)
		}
	}
}

// A transaction that has waited for the lock of a promo code must decide with the data
// from after the wait, because the previous transaction may have changed the data.
func TestRecordConversion_ReadsPromoCodeAfterWaiting(t *testing.T) {
	s := newSales(t)
	s.exec(`update programs set rules = rules || '{"tiers":[{"min_conversions":1,"rate_bps":4000}]}'`)
	s.exec(`
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, max_redemptions, active, sync_to_processor, sync_status, created_at, updated_at)
		values ($1, gen_random_uuid(), $2, $3, 'test', 'spring10', 'percentage', 1000, 5, true, false, 'none', $4, $4)`, s.scope.Workspace, s.program, s.participant, salesDay)
	code, ref := "spring10", "ann"
	sale := affiliate.Conversion{
		ID: affiliate.NewID[affiliate.Conversion](salesDay), Scope: s.scope, ExternalTransactionID: "order-1", EventType: affiliate.Purchase,
		Sale: affiliate.Sale{Paid: affiliate.Money{Cents: 100, Currency: "EUR"}}, OccurredAt: salesDay, CreatedAt: salesDay,
		Source: affiliate.SourceAPI, Status: affiliate.ConversionRecorded, PromoCode: &code, CustomerRef: &ref, Version: 1,
	}
	owner := s.asOwner()
	tx, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`update promo_codes set redemptions = 4`,
		`insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, hour, currency, conversions)
			select workspace_id, gen_random_uuid(), mode, program_id, id, now(), 'EUR', 1 from participants`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	recorded := make(chan error, 1)
	var seen affiliate.AttributionInputs
	go func() {
		in := affiliate.AttributionInputs{Mode: s.scope.Mode, EventType: sale.EventType, OccurredAt: salesDay, Sale: sale.Sale, PromoCode: &code}
		_, err := s.store.RecordConversion(context.Background(), affiliate.Report{Conversion: sale, Inputs: in, Decide: func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
			seen = in
			return decideAt(sale, salesDay)(in)
		}})
		recorded <- err
	}()
	watcher, waiting := s.asOwner(), false
	for deadline := time.Now().Add(20 * time.Second); !waiting; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("after 20 s, no transaction waits for the lock of the promo code")
		}
		const query = `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`
		if err := watcher.QueryRow(t.Context(), query).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-recorded; err != nil {
		t.Fatal(err)
	}
	if got := seen.FoundPromoCode; got.Redemptions != 4 || got.Earner.PriorTotals != (affiliate.PriorTotals{Conversions: 1}) {
		t.Errorf("the decision used the promo code %+v, want 4 redemptions and 1 earlier conversion", got)
	}
	if n := s.count(`promo_codes where redemptions = 5`); n != 1 {
		t.Errorf("%d promo codes have 5 redemptions, want 1", n)
	}
	if n := s.count(`river.river_job where kind = 'sync_directory'`); n != 1 {
		t.Errorf("%d jobs for the edge directory were enqueued, want 1", n)
	}
}

// If a decision redeems a promo code that has reached its maximum of redemptions, the
// store must return an internal error and roll back the transaction.
func TestRecordConversion_RedemptionLimitIsEnforced(t *testing.T) {
	s := newSales(t)
	id := affiliate.NewID[affiliate.PromoCode](salesDay)
	s.exec(`
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, max_redemptions, redemptions, active, sync_to_processor, sync_status, created_at, updated_at)
		values ($1, $2, $3, $4, 'test', 'spring10', 'percentage', 1000, 1, 1, true, false, 'none', $5, $5)`, s.scope.Workspace, id, s.program, s.participant, salesDay)
	code := "spring10"
	sale := affiliate.Conversion{
		ID: affiliate.NewID[affiliate.Conversion](salesDay), Scope: s.scope, ExternalTransactionID: "order-1", EventType: affiliate.Purchase,
		OccurredAt: salesDay, CreatedAt: salesDay, Source: affiliate.SourceAPI, Status: affiliate.ConversionRecorded, PromoCode: &code, Version: 1,
	}
	in := affiliate.AttributionInputs{Mode: s.scope.Mode, EventType: sale.EventType, OccurredAt: salesDay, PromoCode: &code}
	_, err := s.store.RecordConversion(t.Context(), affiliate.Report{Conversion: sale, Inputs: in, Decide: func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
		d, commission, err := decideAt(sale, salesDay)(in)
		d.Redeems = &id
		return d, commission, err
	}})
	var refusal *affiliate.Error
	if err == nil || errors.As(err, &refusal) {
		t.Errorf("RecordConversion returned %v, want an internal error", err)
	}
	if n := s.count(`conversions`) + s.count(`events`) + s.count(`promo_codes where redemptions <> 1`); n != 0 {
		t.Errorf("after the rollback, %d rows are stored or changed, want 0", n)
	}
}

// A conversion without a customer and without a promo code needs no round trip for their
// locks.
func TestRecordConversion_LimitsRoundTrips(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	counter := &batchCounter{}
	store := s.store.WithTracer(t, s.url, counter)
	record := func(external string, ref *string) {
		found, err := store.FindClick(t.Context(), s.scope.Workspace, click)
		if err != nil {
			t.Fatal(err)
		}
		c := affiliate.Conversion{
			ID: affiliate.NewID[affiliate.Conversion](salesDay), Scope: s.scope, ExternalTransactionID: external, EventType: affiliate.Purchase,
			Sale: affiliate.Sale{Paid: affiliate.Money{Cents: 100, Currency: "EUR"}}, OccurredAt: salesDay, CreatedAt: salesDay,
			Source: affiliate.SourceAPI, Status: affiliate.ConversionRecorded, Click: &click, CustomerRef: ref, Version: 1,
		}
		in := affiliate.AttributionInputs{Mode: s.scope.Mode, EventType: c.EventType, OccurredAt: salesDay, Sale: c.Sale, Click: &click, FoundClick: found}
		if _, err := store.RecordConversion(t.Context(), affiliate.Report{Conversion: c, Inputs: in, Decide: decideAt(c, salesDay)}); err != nil {
			t.Fatal(err)
		}
	}
	counter.batches = 0
	record("order-1", nil)
	if counter.batches != 4 {
		t.Errorf("%d batches were sent, want 4: the click, the facts, the conversion, and its effects", counter.batches)
	}
	ref := "ann"
	counter.batches = 0
	record("order-2", &ref)
	if counter.batches != 5 {
		t.Errorf("with a customer, %d batches were sent, want 5", counter.batches)
	}
}

// batchCounter is a tracer that counts batches. Each batch is one round trip.
type batchCounter struct{ batches int }

func (c *batchCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches++
	return ctx
}
func (*batchCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*batchCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (*batchCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (*batchCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
