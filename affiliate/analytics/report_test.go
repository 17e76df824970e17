package analytics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
)

func text(ratio *float64) string {
	if ratio == nil {
		return "none"
	}
	return fmt.Sprint(*ratio)
}

// A customer who buys ten times is one new customer. A conversion without a customer is one
// too, unless its buyer was erased.
func TestMetrics_ConversionRateCountsNewCustomers(t *testing.T) {
	figures := analytics.Figures{Plain: analytics.Counts{analytics.Clicks: 20}}
	for i := range 10 {
		c := analytics.Conversion{EventType: affiliate.Renewal, Customer: "customer", FirstOfCustomer: i == 0}
		figures.AddAll(c.Figures(), 1)
	}
	for _, c := range []analytics.Conversion{{EventType: affiliate.Purchase, WithoutCustomer: true}, {EventType: affiliate.Purchase, AllErased: true}} {
		figures.AddAll(c.Figures(), 1)
	}
	m := figures.Metrics(analytics.View{})
	if m.NewCustomers != 2 || text(m.ConversionRate) != "0.1" || text(m.EventsPerClick) != "0.6" {
		t.Errorf("there are %d new customers, conversionRate %s and eventsPerClick %s, want 2, 0.1 and 0.6",
			m.NewCustomers, text(m.ConversionRate), text(m.EventsPerClick))
	}
}

func TestFunnel_RatesAreAgainstTheStepBefore(t *testing.T) {
	for _, c := range []struct {
		name string
		analytics.Counts
		want string
	}{
		{"with signups", analytics.Counts{analytics.Clicks: 10, analytics.Signups: 5, analytics.Conversions: 8, analytics.Approved: 2, analytics.Paid: 1}, "none 0.5 1.6 0.25 0.5"},
		{"without signups", analytics.Counts{analytics.Clicks: 10, analytics.Conversions: 4, analytics.Approved: 2}, "none 0 0.4 0.5 0"},
		{"without clicks", analytics.Counts{analytics.Conversions: 4, analytics.Approved: 2}, "none none none 0.5 0"},
		{"without conversions", analytics.Counts{analytics.Clicks: 10}, "none 0 0 none none"},
	} {
		figures := analytics.Figures{Plain: c.Counts}
		var rates []string
		for _, step := range figures.Funnel(analytics.View{}) {
			rates = append(rates, text(step.Rate))
		}
		if got := strings.Join(rates, " "); got != c.want {
			t.Errorf("%s: the rates are %s, want %s", c.name, got, c.want)
		}
	}
}
