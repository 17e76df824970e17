package conversion_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	conversionservice "github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMetrics_CountReportsByOutcome(t *testing.T) {
	f := newFixture(t)
	registry := prometheus.NewRegistry()
	f.config.Metrics = conversionservice.NewMetrics(registry)
	f.restart()
	counts := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]float64{}
		for _, metric := range families[0].GetMetric() {
			all[metric.GetLabel()[0].GetValue()+" "+metric.GetLabel()[1].GetValue()] = metric.GetCounter().GetValue()
		}
		return all
	}
	if got := counts(); len(got) != 2*(len(attribution.DecisionReasons())+2) {
		t.Errorf("at the start there are %d time series: %v", len(got), got)
	}
	click, liveClick := f.NewClick(f.pat), f.NewClick(f.InOtherMode(pgtest.Rules()).Join("Lia"))
	for _, tc := range []struct {
		name    string
		report  *reportRequest
		counted string // empty if the report is not counted
	}{
		{"a conversion with a click", purchase("order-1", click.ID), "test CLICK_MATCHED"},
		{"a duplicate", purchase("order-1", click.ID), "test CONVERSION_DUPLICATE"},
		{"a click that does not exist", purchase("order-2", f.UnstoredClick(f.pat).ID), "test CLICK_UNKNOWN"},
		{"a report without a signal", &reportRequest{ExternalTransactionId: "order-3"}, ""},
		{"a refusal", purchase("order-4", liveClick.ID), ""},
		{"a failure of the database", purchase("order-5", click.ID), "test INTERNAL_ERROR"},
	} {
		if tc.counted == "test INTERNAL_ERROR" {
			f.failRecording()
		}
		before := counts()
		_, _ = f.report(tc.report)
		for outcome, n := range counts() {
			want := before[outcome]
			if outcome == tc.counted {
				want++
			}
			if n != want {
				t.Errorf("%s: %s is %v, want %v", tc.name, outcome, n, want)
			}
		}
	}
}
