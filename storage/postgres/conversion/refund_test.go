package conversion_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// park stores a refund of the full amount of a sale that is not recorded.
func (s *sales) park(external, id string) {
	s.Helper()
	refund := conversion.Refund{
		ID: affiliate.NewID[conversion.RefundID](pgtest.Noon), Scope: s.Scope, ExternalRefundID: id, ExternalTransactionID: external,
		CreatedAt: pgtest.Noon, ExpiresAt: pgtest.Noon.Add(conversion.ParkedRefundLifetime),
	}
	if err := s.DB.InTx(s.Context(), func(tx *postgres.Tx) error {
		_, err := conversions.LockRefundedOrErased(s.Context(), tx, refund)
		return err
	}); err != nil {
		s.Fatal(err)
	}
}

// manyRefunds stores n refunds in the fixture's workspace and n refunds in another
// workspace. One in ten refunds is parked: it waits for its sale, which is not recorded.
func (s *sales) manyRefunds(n int) {
	s.Helper()
	for _, workspace := range []affiliate.WorkspaceID{s.Scope.Workspace, affiliate.NewID[affiliate.WorkspaceID](pgtest.Noon)} {
		s.Exec(`
			insert into refunds (workspace_id, id, mode, external_refund_id, external_transaction_id, conversion_id, amount_cents, created_at, applied_at, expires_at)
			select $1, gen_random_uuid(), $2, 'refund-' || n, 'order-' || n, case when n % 10 > 0 then gen_random_uuid() end, case when n % 10 > 0 then n end,
				$3, case when n % 10 > 0 then $3::timestamptz end, $3::timestamptz + n * interval '1 minute'
			from generate_series(1, $4::integer) n`, workspace, s.Scope.Mode, pgtest.Noon, n)
	}
}

func TestRefundStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	s := newSales(t)
	s.manyRefunds(5_000)
	// The conversions have no decisions, because the statements do not read decisions.
	s.Exec(`
		insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents,
			fee_cents, discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, product_ids, is_recurring,
			fraud_score, fraud_signals, version)
		select $1, gen_random_uuid(), $2, 'order-' || n, 'purchase', n, 'EUR', 0, 0, 0, 0, $3, $3, 'api', 'recorded', false, 'CLICK_UNKNOWN',
			gen_random_uuid(), '{}', false, 0, '[]', 1
		from generate_series(1, 5000) n`, s.Scope.Workspace, s.Scope.Mode, pgtest.Noon)
	s.VacuumAnalyze()
	key := fmt.Sprintf("'%s', 'live', ", s.Scope.Workspace)
	reportArgs := fmt.Sprintf(`'{%s}', '{live}', '{order-10}', '{%s}'`, s.Scope.Workspace, s.Scope.Workspace)
	at := pgtest.Noon.Add(time.Hour).Format(time.RFC3339)
	for name, tc := range map[string]struct {
		sql, args string
		want      []string
	}{
		"sales with parked refunds":         {conversions.SelectParkedForSQL, reportArgs, []string{`Index Only Scan using refunds_parked on refunds`}},
		"recorded sales":                    {conversions.SelectDuplicatesSQL, reportArgs, []string{`Index Only Scan using conversions_external on conversions`}},
		"lock of parked refunds":            {conversions.LockParkedSQL, key + `'order-10', '00000000-0000-0000-0000-000000000000', 100`, []string{`Index Scan using refunds_parked on refunds`}},
		"lock of a sale":                    {conversions.LockSaleSQL, key + `'order-10'`, []string{`Index Scan using conversions_external on conversions`}},
		"page of sales with parked refunds": {conversions.PageParkedSQL, key + `'order-3', 100`, []string{`Index Only Scan using refunds_parked on refunds`, `using conversions_external on conversions`}},
		"expired refunds":                   {conversions.DropExpiredRefundsSQL, `'` + at + `', 100`, []string{`Index Scan using refunds_parked_by_expiry on refunds`, `Index Scan using refunds_pkey on refunds`}},
	} {
		for mode, plan := range s.ExecutedPlans(tc.sql, tc.args) {
			pgtest.CheckPlan(t, name+", "+mode, plan, tc.want, pgtest.ScansOf("refunds", "conversions"))
		}
	}
}

func TestSalesWithParkedRefunds_ReadsAllPages(t *testing.T) {
	s := newSales(t)
	for i := range 25 {
		for j := range 2 {
			s.park(fmt.Sprint("order-", i), fmt.Sprint("refund-", i, "-", j))
		}
	}
	// Record every fifth sale. Before that, change the transaction ids of the refunds, so
	// that the refunds stay parked. Then restore the ids.
	s.Exec(`update refunds set external_transaction_id = 'hidden-' || external_transaction_id`)
	for i := 0; i < 25; i += 5 {
		if err := s.record(fmt.Sprint("order-", i), s.click(pgtest.Noon.Add(-time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	s.Exec(`update refunds set external_transaction_id = substr(external_transaction_id, 8)`)
	found := map[string]int{}
	var cursor conversion.ParkedSale
	for pages := 1; ; pages++ {
		page, next, err := conversions.SalesWithParkedRefunds(t.Context(), s.DB, cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, sale := range page {
			if sale.Workspace != s.Scope.Workspace || sale.Mode != s.Scope.Mode {
				t.Errorf("SalesWithParkedRefunds returned %+v, want a sale in the scope %v", sale, s.Scope)
			}
			found[sale.ExternalTransactionID]++
		}
		if cursor = next; cursor == (conversion.ParkedSale{}) {
			if pages != 3 {
				t.Errorf("the sales were on %d pages, want 3", pages)
			}
			break
		}
	}
	for i := 0; i < 25; i += 5 {
		if n := found[fmt.Sprint("order-", i)]; n != 1 {
			t.Errorf("order-%d was found %d times, want once", i, n)
		}
	}
	if len(found) != 5 {
		t.Errorf("the sales %v were found, want 5 sales", found)
	}
}

func TestDropExpiredRefunds_RespectsLimit(t *testing.T) {
	s := newSales(t)
	for i := range 5 {
		s.park("order-1", fmt.Sprint("refund-", i))
	}
	end := pgtest.Noon.Add(conversion.ParkedRefundLifetime)
	for _, step := range []struct {
		at      time.Time
		dropped int64
	}{{end.Add(-time.Millisecond), 0}, {end, 3}, {end, 2}} {
		if n, err := conversions.DropExpiredRefunds(t.Context(), s.DB, step.at, 3); err != nil || n != step.dropped {
			t.Errorf("DropExpiredRefunds dropped %d refunds, %v, want %d", n, err, step.dropped)
		}
	}
}
