package analytics

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate/analytics"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func metricsToProto(m analytics.Metrics) *affiliatev1.AnalyticsMetrics {
	return &affiliatev1.AnalyticsMetrics{
		Clicks: m.Clicks, UniqueClicks: m.UniqueClicks, Signups: m.Signups, Conversions: m.Conversions, NewCustomers: m.NewCustomers,
		RevenueCents: m.RevenueCents, RefundedCents: m.RefundedCents, CommissionCents: m.CommissionCents, NetRevenueCents: m.NetRevenueCents,
		ConversionRate: m.ConversionRate, EventsPerClick: m.EventsPerClick, EpcCents: m.EPCCents, AovCents: m.AOVCents, ReturnOnCommission: m.ReturnOnCommission,
	}
}

func pointToProto(start time.Time, m analytics.Metrics) *affiliatev1.AnalyticsPoint {
	return &affiliatev1.AnalyticsPoint{
		Start:  server.Timestamp(start),
		Clicks: m.Clicks, UniqueClicks: m.UniqueClicks, Signups: m.Signups, Conversions: m.Conversions, NewCustomers: m.NewCustomers,
		RevenueCents: m.RevenueCents, RefundedCents: m.RefundedCents, CommissionCents: m.CommissionCents, NetRevenueCents: m.NetRevenueCents,
		ConversionRate: m.ConversionRate, EventsPerClick: m.EventsPerClick, EpcCents: m.EPCCents, AovCents: m.AOVCents, ReturnOnCommission: m.ReturnOnCommission,
	}
}

func rowToProto(row analytics.Row) *affiliatev1.AnalyticsRow {
	m := row.Metrics
	out := &affiliatev1.AnalyticsRow{
		Label:  row.Label,
		Clicks: m.Clicks, UniqueClicks: m.UniqueClicks, Signups: m.Signups, Conversions: m.Conversions, NewCustomers: m.NewCustomers,
		RevenueCents: m.RevenueCents, RefundedCents: m.RefundedCents, CommissionCents: m.CommissionCents, NetRevenueCents: m.NetRevenueCents,
		ConversionRate: m.ConversionRate, EventsPerClick: m.EventsPerClick, EpcCents: m.EPCCents, AovCents: m.AOVCents, ReturnOnCommission: m.ReturnOnCommission,
	}
	if row.Value != "" {
		out.Value = &row.Value
	}
	return out
}

func cohortToProto(c analytics.Cohort) *affiliatev1.AnalyticsCohort {
	out := &affiliatev1.AnalyticsCohort{Start: server.Timestamp(c.Start), Size: c.Size}
	for i, cell := range c.Cells {
		out.Periods = append(out.Periods, &affiliatev1.AnalyticsCohortPeriod{
			Index: int32(i), RevenueCents: cell.RevenueCents, Conversions: cell.Conversions, //nolint:gosec // at most 24 months
			CommissionCents: cell.CommissionCents, Active: cell.Customers,
		})
	}
	return out
}
