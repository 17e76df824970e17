package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/check"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The gauges show the results that a run of any process has stored. Before the first run,
// the age counts from the start of the process.
func TestGauges_ShowLatestResults(t *testing.T) {
	clock := pgtest.NewRunningClock()
	f := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest)
	commission := f.NewCommission(f.Join("Pat"))
	registry := prometheus.NewRegistry()
	registry.MustRegister(check.NewGauges(f.DB, clock.Now))
	values := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				name := strings.TrimPrefix(family.GetName(), "tributary_check_")
				for _, label := range metric.GetLabel() {
					name = label.GetValue()
				}
				all[name] = metric.GetGauge().GetValue()
			}
		}
		return all
	}
	const age = "oldest_result_seconds"
	clock.Advance(time.Hour)
	if got := values(); len(got) != 25 || got["balances"] != 0 || got[age] < 3600 || got[age] > 3660 {
		t.Errorf("before the first run the gauges are %v, want 23 checks without violations, an age of an hour, and the counter of failures", got)
	}

	f.Exec(`update commissions set amount_cents = amount_cents - 1 where id = $1`, commission.ID)
	if _, err := run(t, f.DB, time.Now); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Minute)
	got := values()
	if got["commission_history"] != 1 || got["payout_ledger"] != 0 || got["clock"] != 0 {
		t.Errorf("after a run with a violation the gauges are %v", got)
	}
	// The worker of run uses the clock of the machine.
	if got[age] < 3600 || got[age] > 3800 {
		t.Errorf("the age of the results is %v", got[age])
	}

	f.Exec(`update commissions set amount_cents = amount_cents + 1 where id = $1`, commission.ID)
	if _, err := check.Run(t.Context(), f.DB, clock.Now); err != nil {
		t.Fatal(err)
	}
	if got := values(); got["commission_history"] != 0 || got[age] > 60 {
		t.Errorf("after a run without violations the gauges are %v", got)
	}

	f.Exec(`drop table check_results`)
	const want = `
		# HELP tributary_gauges_failed_total Scrapes in which a group of gauges is missing, because the database did not respond within a second, by group.
		# TYPE tributary_gauges_failed_total counter
		tributary_gauges_failed_total{group="checks"} 1
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Errorf("without the table: %v", err)
	}
}
