package buyer

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// positional returns a statement whose named arguments are replaced by numbered ones, with the
// arguments.
func positional(t *testing.T, sql string, named pgx.NamedArgs) (string, []any) {
	t.Helper()
	text, args, err := named.RewriteQuery(t.Context(), nil, sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	return text, args
}

// All statements that walk tables read ranges of indexes. The tables have more rows than a
// buyer has, of which most belong to other buyers and workspaces.
func TestStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	shop := f.NewShop(affiliate.ModeTest)
	shops := []*pgtest.Shop{shop, shop.InOtherMode(), f.NewShop(affiliate.ModeTest), f.NewShop(affiliate.ModeLive)}
	operation := affiliate.NewID[privacy.BuyerErasureID](f.Now())
	connection := processor.ConnectionIDOf(shop.Scope, conversion.Stripe)
	for _, s := range shops {
		w, mode := s.Scope.Workspace, s.Scope.Mode
		f.ExecWithoutForeignKeys(`
			insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents, fee_cents,
				discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, product_ids, is_recurring, fraud_score, fraud_signals,
				version, customer_ref, customer_email_hash, processor)
			select $1, gen_random_uuid(), $2, 'order-' || n, 'purchase', 100, 'EUR', 0, 0, 0, 0, $3, $3, 'api', 'recorded', false, 'CLICK_UNKNOWN', gen_random_uuid(),
				'{}', false, 0, '[]', 1, 'ref' || n % 1000, decode(lpad(to_hex(n % 1000), 64, '0'), 'hex'), jsonb_build_object('customer_id', 'cus_' || n % 1000)
			from generate_series(1, 5000) n`, w, mode, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into refunds (workspace_id, id, mode, external_refund_id, external_transaction_id, conversion_id, amount_cents, created_at, expires_at)
			select $1, gen_random_uuid(), $2, 'refund-' || n, 'order-' || n, case when n % 2 = 0 then gen_random_uuid() end, case when n % 2 = 0 then 1 end, $3, $3
			from generate_series(1, 5000) n`, w, mode, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
			select c.workspace_id, gen_random_uuid(), $3::date, c.mode, 'conversion.created', c.id, '{}', $3 from conversions c where c.workspace_id = $1 and c.mode = $2`, w, mode, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into events (workspace_id, id, day, mode, type, body, created_at)
			select $1, gen_random_uuid(), $3::date, $2, 'commission.created', '{}', $3 from generate_series(1, 100)`, w, mode, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into conversion_aliases (workspace_id, mode, id, conversion_id)
			select c.workspace_id, c.mode, 'pi_' || c.external_transaction_id, c.id from conversions c where c.workspace_id = $1 and c.mode = $2`, w, mode)
		f.ExecWithoutForeignKeys(`
			insert into processor_charges (workspace_id, mode, id, currency, amount_cents, refunded_cents, conversion_id, read_number, updated_at)
			select c.workspace_id, c.mode, 'ch_' || c.external_transaction_id, 'EUR', 1, 1, c.id, 1, $3 from conversions c where c.workspace_id = $1 and c.mode = $2`, w, mode, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into processor_charge_aliases (workspace_id, mode, id, charge_id)
			select g.workspace_id, g.mode, 'in_' || g.id, g.id from processor_charges g where g.workspace_id = $1 and g.mode = $2`, w, mode)
		f.ExecWithoutForeignKeys(`
			insert into processor_events (workspace_id, connection_id, id, mode, type, account_id, resync, status, happened_at, received_at, body)
			select $1, $2, 'evt_' || n, $3, 'invoice.paid', 'a', false, 'applied', $4, $4, case when n % 100 = 0 then '\x00'::bytea end
			from generate_series(1, 5000) n`, w, processor.ConnectionIDOf(s.Scope, conversion.Stripe), mode, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into idempotency_keys (workspace_id, mode, method, key, fingerprint, response, created_at, expires_at)
			select $1, $2, '/m', 'key-' || n, '\x00', convert_to('{"conversion":{"id":"0190a1b2-0000-7000-8000-' || lpad(to_hex(n), 12, '0') || '"}}', 'UTF8'), $3, $3
			from generate_series(1, 5000) n`, w, mode, f.Now())
		f.ExecWithoutForeignKeys(`insert into customers (workspace_id, mode, ref, created_at) select $1, $2, 'ref' || n, $3 from generate_series(1, 5000) n`, w, mode, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into customer_payments (workspace_id, mode, ref, program_id, payments, first_at)
			select $1, $2, 'ref' || n, gen_random_uuid(), 1, $3 from generate_series(1, 5000) n`, w, mode, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into buyer_erasure_sales (workspace_id, operation_id, conversion_id, mode, erased, followed)
			select c.workspace_id, case when n < 20 then $3::uuid else gen_random_uuid() end, c.id, c.mode, n >= 20, n >= 20
			from (select c.*, row_number() over () as n from conversions c where c.workspace_id = $1 and c.mode = $2) c`, w, mode, operation)
		f.ExecWithoutForeignKeys(`
			insert into buyer_erasure_customers (workspace_id, operation_id, ref)
			select $1, case when n < 20 then $2::uuid else gen_random_uuid() end, 'ref' || n from generate_series(1, 2000) n
			on conflict do nothing`, w, operation)
		f.ExecWithoutForeignKeys(`
			insert into buyer_erasures (workspace_id, id, kind, status, step, created_at, requested_at, finished_at)
			select $1, gen_random_uuid(), 'email', 'done', 'again', $2, $2, $2 from generate_series(1, 1000)`, w, f.Now())
		f.ExecWithoutForeignKeys(`
			insert into buyer_erasure_keys (workspace_id, key, operation_id, fingerprint, expires_at)
			select o.workspace_id, o.id::text, o.id, uuid_send(o.id), $2 from buyer_erasures o where o.workspace_id = $1
			on conflict do nothing`, w, f.Now())
	}
	f.VacuumAnalyze("conversions", "refunds", "events", "conversion_aliases", "processor_charges", "processor_charge_aliases", "processor_events", "idempotency_keys", "customers", "customer_payments",
		"buyer_erasure_sales", "buyer_erasure_customers", "buyer_erasures", "buyer_erasure_keys")

	workspace := shop.Scope.Workspace
	args := pgx.NamedArgs{"workspace": workspace, "operation": operation, "after": affiliate.ConversionID{}, "most": 100, "until": f.Now()}
	by := func(value any) pgx.NamedArgs {
		named := pgx.NamedArgs{"value": value}
		for key, v := range args {
			named[key] = v
		}
		return named
	}
	some := []affiliate.ConversionID{affiliate.NewID[affiliate.ConversionID](f.Now()), affiliate.NewID[affiliate.ConversionID](f.Now())}
	hash := make([]byte, 32)
	for _, tc := range []struct {
		name, sql string
		args      []any
		named     pgx.NamedArgs
		indexes   []string
	}{
		{"transaction", addSalesOfTransaction, nil, by("order-7"), []string{"conversions_external"}},
		{"alias", addSalesOfAlias, nil, by("pi_order-7"), []string{"conversion_aliases_pkey", "conversions_pkey"}},
		{"charge", addSalesOfCharge, nil, by("ch_7"), []string{"processor_charges_pkey", "processor_charge_aliases_pkey", "conversions_pkey"}},
		{"customer of the processor", addSalesOfProcessorCustomer, nil, by("cus_7"), []string{"conversions_by_processor_customer"}},
		{"customer", addSalesOfCustomer, nil, by("ref7"), []string{"conversions_by_customer"}},
		{"e-mail", addSalesOfEmail, nil, by(hash), []string{"conversions_by_email"}},
		{"search", searchSales, []any{workspace, affiliate.ConversionID{}, 100}, nil, []string{"conversions_pkey", "conversion_aliases_by_conversion", "processor_charges_by_conversion", "processor_charge_aliases_by_charge"}},
		{"next sales", nextSales, []any{workspace, operation, 20}, nil, []string{"buyer_erasure_sales_"}},
		{"lock sales", lockSales, []any{workspace, some}, nil, []string{"conversions_pkey"}},
		{"lock commissions", lockCommissions, []any{workspace, some}, nil, nil},
		{"aliases", aliasesOfSales, []any{workspace, some}, nil, []string{"conversion_aliases_by_conversion"}},
		{"refunds", refundsOfSales, []any{workspace, some}, nil, []string{"refunds_by_conversion", "conversions_pkey", "refunds_parked"}},
		{"events", eventsOfSales, []any{workspace, some}, nil, []string{"events_"}},
		{"customers", deleteCustomers, []any{workspace, operation, f.Now()}, nil, []string{"customers_pkey"}},
		{"payments", deletePayments, []any{workspace, operation, f.Now()}, nil, []string{"customer_payments_pkey"}},
		{"responses", deleteResponses, nil, pgx.NamedArgs{"workspace": workspace, "operation": operation, "mode": "test", "method": "/m", "key": "key-1", "most": 100}, []string{"idempotency_keys_pkey"}},
		{"take over", takeOver, []any{workspace, operation, affiliate.Digests{hash, hash}}, nil, []string{"buyer_erasures_pkey", "buyer_erasure_sales_", "buyer_erasure_customers_pkey"}},
		{"list of erasures", listErasures, []any{workspace, 20, 40}, nil, []string{"Limit", "Index Scan Backward using buyer_erasures_pkey"}},
		{"active erasure", lockActiveErasure, []any{workspace, privacy.BuyerEmail, affiliate.Digests{hash, hash}, digestSize}, nil, []string{"buyer_erasures_active"}},
		{"events of the processor", waitingEvents, []any{workspace, connection, "evt_1", 50, f.Now()}, nil, []string{"processor_events_with_body"}},
	} {
		sql, values := tc.sql, tc.args
		if tc.named != nil {
			sql, values = positional(t, tc.sql, tc.named)
		}
		plan := f.Plan(sql, values...)
		for _, index := range tc.indexes {
			if !strings.Contains(plan, index) {
				t.Errorf("%s: the plan does not use %s\n%s", tc.name, index, plan)
			}
		}
		if scan := regexp.MustCompile(`Seq Scan on (conversions|refunds|events_\w+|conversion_aliases|processor_charges|processor_charge_aliases|processor_events|idempotency_keys|customers|customer_payments)\b`).FindString(plan); scan != "" {
			t.Errorf("%s: the plan contains %q\n%s", tc.name, scan, plan)
		}
	}
}
