package analytics

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

// periodOf returns the period of a request.
func (s *Service) periodOf(req request) (analytics.Period, error) {
	period, wrong := analytics.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone(), s.now())
	return period, wrong.Err()
}

// read adds the waiting entries of the selected workspaces to the sums. Then it calls fn with
// the caller's selection and a reader. All statements of the reader read the same snapshot.
func (s *Service) read(ctx context.Context, req request, selectTargets selector, fn func(r *rollups.Reader, selected selection) error) error {
	selected, err := selectTargets(ctx, req)
	if err != nil {
		return err
	}
	s.addWaiting(ctx, selected)
	return rollups.InSnapshot(ctx, s.db, func(r *rollups.Reader) error { return fn(r, selected) })
}

// summary returns the sums of a period.
func (s *Service) summary(ctx context.Context, req request, selectTargets selector) (*affiliatev1.AnalyticsSummary, error) {
	period, err := s.periodOf(req)
	if err != nil {
		return nil, err
	}
	out := &affiliatev1.AnalyticsSummary{
		From: server.Timestamp(period.From.Time()), To: server.Timestamp(period.To.Time()), Timezone: period.Zone.String(),
	}
	err = s.read(ctx, req, selectTargets, func(r *rollups.Reader, selected selection) error {
		total, err := totalOf(ctx, r, selected, period)
		if err != nil {
			return err
		}
		out.Currency, out.Metrics = selected.view.Currency, metricsToProto(total.Metrics(selected.view))
		for _, amounts := range total.ByCurrency(selected.view) {
			out.ByCurrency = append(out.ByCurrency, &affiliatev1.AnalyticsAmounts{
				Currency: amounts.Currency, RevenueCents: amounts.RevenueCents, RefundedCents: amounts.RefundedCents,
				CommissionCents: amounts.CommissionCents, NetRevenueCents: amounts.NetRevenueCents,
			})
		}
		if req.GetCompare() == affiliatev1.AnalyticsComparison_ANALYTICS_COMPARISON_PREVIOUS {
			previous, err := totalOf(ctx, r, selected, period.Previous())
			if err != nil {
				return err
			}
			out.Previous = metricsToProto(previous.Metrics(selected.view))
		}
		return nil
	})
	return out, err
}

// timeseries returns the sums of the intervals of a period.
func (s *Service) timeseries(ctx context.Context, req request, selectTargets selector) (*affiliatev1.AnalyticsTimeseries, error) {
	period, err := s.periodOf(req)
	if err != nil {
		return nil, err
	}
	interval := intervalOf(req)
	wrong := period.Check(interval)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	out := &affiliatev1.AnalyticsTimeseries{Interval: server.EnumValue[affiliatev1.AnalyticsInterval](interval)}
	err = s.read(ctx, req, selectTargets, func(r *rollups.Reader, selected selection) error {
		series := analytics.NewSeries(period, interval)
		if len(series.Points) > 0 {
			if err := r.Days(ctx, selected.mode, selected.targets, period, series.Add); err != nil {
				return err
			}
		}
		for _, point := range series.Points {
			out.Points = append(out.Points, pointToProto(point.Start, point.Metrics(selected.view)))
		}
		if req.GetFormat() == affiliatev1.AnalyticsFormat_ANALYTICS_FORMAT_CSV {
			server.NameCSV(ctx, "timeseries", selected.mode, s.now().UTC())
		}
		return nil
	})
	return out, err
}

func intervalOf(req request) analytics.Interval {
	if interval := server.EnumName(req.GetInterval()); interval != "" {
		return analytics.Interval(interval)
	}
	return analytics.EachDay
}

// totalOf returns the sum of the figures of all targets.
func totalOf(ctx context.Context, r *rollups.Reader, selected selection, period analytics.Period) (analytics.Figures, error) {
	byProgram, err := r.Totals(ctx, selected.mode, selected.targets, period)
	return sumOf(byProgram), err
}

func sumOf(byProgram map[affiliate.ProgramID]*analytics.Figures) (total analytics.Figures) {
	for _, figures := range byProgram {
		total.AddAll(*figures, 1)
	}
	return total
}

// maxCSVRows is the number of rows on a page of a breakdown as CSV. A row has two texts of at
// most 255 bytes, so a page is smaller than the limit of a gRPC response, 4 MiB.
const maxCSVRows = 5000

// breakdown returns the sums of the values of a dimension.
func (s *Service) breakdown(ctx context.Context, req request, selectTargets selector) (*affiliatev1.AnalyticsBreakdown, error) {
	period, err := s.periodOf(req)
	if err != nil {
		return nil, err
	}
	dimension := analytics.Dimension(cmp.Or(server.EnumName(req.GetGroupBy()), string(analytics.ByParticipant)))
	out := &affiliatev1.AnalyticsBreakdown{GroupBy: server.EnumValue[affiliatev1.AnalyticsDimension](dimension)}
	err = s.read(ctx, req, selectTargets, func(r *rollups.Reader, selected selection) error {
		byProgram, err := r.Totals(ctx, selected.mode, selected.targets, period)
		if err != nil {
			return err
		}
		total := sumOf(byProgram)
		if !dimension.HasClicks() {
			total.DropClicks()
		}
		byValue, err := valuesOf(ctx, r, selected, dimension, period, byProgram)
		if err != nil {
			return err
		}
		found := analytics.NewBreakdown(total, byValue, req.GetMetric(), selected.view)
		page := server.PageOf(req)
		if req.GetFormat() == affiliatev1.AnalyticsFormat_ANALYTICS_FORMAT_CSV {
			page.Size = maxCSVRows
			server.NameCSV(ctx, "breakdown", selected.mode, s.now().UTC())
		}
		rows := found.Page(page)
		if err := label(ctx, r, selected, dimension, rows); err != nil {
			return err
		}
		out.Total, out.Other = int64(len(found.Rows)), metricsToProto(found.Other.Metrics(selected.view))
		for _, row := range rows {
			out.Rows = append(out.Rows, rowToProto(row))
		}
		return nil
	})
	return out, err
}

// valuesOf returns the figures of the values of a dimension.
func valuesOf(
	ctx context.Context, r *rollups.Reader, selected selection, dimension analytics.Dimension, period analytics.Period,
	byProgram map[affiliate.ProgramID]*analytics.Figures,
) (map[string]*analytics.Figures, error) {
	byValue := map[string]*analytics.Figures{}
	switch dimension {
	case analytics.ByProgram:
		for program, figures := range byProgram {
			if !program.IsZero() {
				byValue[program.String()] = figures
			}
		}
		return byValue, nil
	case analytics.ByParticipant, analytics.ByLink:
	default:
		return r.Values(ctx, selected.mode, selected.targets, dimension, period)
	}
	owners, err := r.Owners(ctx, selected.mode, selected.targets, period)
	if err != nil {
		return nil, err
	}
	for owner, figures := range owners {
		value := owner.Participant.String()
		if dimension == analytics.ByLink {
			if owner.Link.IsZero() {
				continue
			}
			value = owner.Link.String()
		}
		if byValue[value] == nil {
			byValue[value] = &analytics.Figures{}
		}
		byValue[value].AddAll(*figures, 1)
	}
	return byValue, nil
}

// noValue is the label of the row for clicks and conversions without a value.
const noValue = "(none)"

// label sets the labels of rows.
func label(ctx context.Context, r *rollups.Reader, selected selection, dimension analytics.Dimension, rows []analytics.Row) error {
	labels := map[string]string{}
	if slices.Contains([]analytics.Dimension{analytics.ByProgram, analytics.ByParticipant, analytics.ByLink}, dimension) && len(rows) > 0 {
		var ids []string
		for _, row := range rows {
			if row.Value != "" {
				ids = append(ids, row.Value)
			}
		}
		var err error
		if labels, err = r.Labels(ctx, selected.mode, selected.workspaces(), dimension, ids); err != nil {
			return err
		}
	}
	for i, row := range rows {
		label, ok := labels[row.Value]
		switch {
		case row.Value == "":
			label = noValue
		case !ok:
			label = row.Value
		}
		rows[i].Label = label
	}
	return nil
}

// funnel returns the steps from clicks to paid commissions.
func (s *Service) funnel(ctx context.Context, req request, selectTargets selector) (*affiliatev1.AnalyticsFunnel, error) {
	period, err := s.periodOf(req)
	if err != nil {
		return nil, err
	}
	out := &affiliatev1.AnalyticsFunnel{}
	err = s.read(ctx, req, selectTargets, func(r *rollups.Reader, selected selection) error {
		total, err := totalOf(ctx, r, selected, period)
		for _, step := range total.Funnel(selected.view) {
			out.Steps = append(out.Steps, &affiliatev1.AnalyticsStep{Name: step.Name, Count: step.Count, Rate: step.Rate})
		}
		return err
	})
	return out, err
}

// cohorts returns the cohorts of the customers whose first conversion is in the period.
func (s *Service) cohorts(ctx context.Context, req request, selectTargets selector) (*affiliatev1.AnalyticsCohorts, error) {
	period, wrong := analytics.ParseCohorts(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone(), s.now())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	out := &affiliatev1.AnalyticsCohorts{}
	err := s.read(ctx, req, selectTargets, func(r *rollups.Reader, selected selection) error {
		report := analytics.NewCohortReport(period, selected.view.Currency)
		err := r.Cohorts(ctx, selected.mode, selected.cohortTargets(), report)
		for _, cohort := range report.Cohorts() {
			out.Cohorts = append(out.Cohorts, cohortToProto(cohort))
		}
		return err
	})
	return out, err
}

func metricsToProto(m analytics.Metrics) *affiliatev1.AnalyticsMetrics {
	return &affiliatev1.AnalyticsMetrics{
		Clicks: m.Clicks, UniqueClicks: m.UniqueClicks, Signups: m.Signups, Conversions: m.Conversions, NewCustomers: m.NewCustomers,
		RevenueCents: m.RevenueCents, RefundedCents: m.RefundedCents, CommissionCents: m.CommissionCents, NetRevenueCents: m.NetRevenueCents,
		ConversionRate: m.ConversionRate, EventsPerClick: m.EventsPerClick, EpcCents: m.EPCCents, AovCents: m.AOVCents, ReturnOnCommission: m.ReturnOnCommission,
	}
}

func pointToProto(start time.Time, m analytics.Metrics) *affiliatev1.AnalyticsPoint {
	out := &affiliatev1.AnalyticsPoint{Start: server.Timestamp(start)}
	server.CopyShared(out.ProtoReflect(), metricsToProto(m).ProtoReflect())
	return out
}

func rowToProto(row analytics.Row) *affiliatev1.AnalyticsRow {
	out := &affiliatev1.AnalyticsRow{Label: row.Label, Value: server.OptionalString(row.Value)}
	server.CopyShared(out.ProtoReflect(), metricsToProto(row.Metrics).ProtoReflect())
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
