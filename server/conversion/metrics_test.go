package conversion_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	conversionservice "github.com/tributary-hq/tributary/server/conversion"
)

// failingStore fails to record conversions.
type failingStore struct {
	conversionservice.Store
	err error
}

func (s failingStore) RecordConversion(context.Context, conversion.Report) (conversion.ReportResult, error) {
	return conversion.ReportResult{}, s.err
}

func TestMetrics_CountReportsByOutcome(t *testing.T) {
	f := newFixture(t)
	registry := prometheus.NewRegistry()
	metrics := conversionservice.NewMetrics(registry)
	withStore := func(store conversionservice.Store) {
		f.service = conversionservice.New(conversionservice.Config{
			Store: store, Tail: f.stream, HashKeys: affiliate.HashKeys{[]byte(hashKey)}, Now: f.clock.Now, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
		})
	}
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
	click := f.NewClick(f.pat)
	for _, tc := range []struct {
		name    string
		store   conversionservice.Store
		report  *reportRequest
		counted string // empty if the report is not counted
	}{
		{"a conversion with a click", f.observed, purchase("order-1", click.ID), "test CLICK_MATCHED"},
		{"a duplicate", f.observed, purchase("order-1", click.ID), "test CONVERSION_DUPLICATE"},
		{"a click that does not exist", f.observed, purchase("order-2", f.UnstoredClick(f.pat).ID), "test CLICK_UNKNOWN"},
		{"a report without a signal", f.observed, &reportRequest{ExternalTransactionId: "order-3"}, ""},
		{"a refusal", failingStore{f.observed, affiliate.Refuse(affiliate.ReasonModeMismatch)}, purchase("order-4", click.ID), ""},
		{"a failure of the database", failingStore{f.observed, errors.New("connection reset")}, purchase("order-5", click.ID), "test INTERNAL_ERROR"},
	} {
		withStore(tc.store)
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
