package analytics

import (
	"cmp"
	"context"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// periodOf returns the period of a request.
func (s *Service) periodOf(req request) (analytics.Period, error) {
	period, wrong := analytics.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone(), s.now())
	return period, wrong.Err()
}

// selected returns what the caller has selected, after it has added the waiting entries of these
// workspaces to the sums.
func (s *Service) selected(ctx context.Context, req request, selectTargets selector) (selection, error) {
	found, err := selectTargets(ctx, req)
	if err == nil {
		s.addWaiting(ctx, found)
	}
	return found, err
}

// summary returns the sums of a period.
func (s *Service) summary(ctx context.Context, req request, selectTargets selector) (*affiliatev1.AnalyticsSummary, error) {
	period, err := s.periodOf(req)
	if err != nil {
		return nil, err
	}
	selected, err := s.selected(ctx, req, selectTargets)
	if err != nil {
		return nil, err
	}
	total, err := s.total(ctx, selected, period)
	if err != nil {
		return nil, err
	}
	out := &affiliatev1.AnalyticsSummary{
		From: server.Timestamp(period.From.Time()), To: server.Timestamp(period.To.Time()), Timezone: period.Zone.String(),
		Currency: selected.view.Currency, Metrics: metricsToProto(total.Metrics(selected.view)),
	}
	for _, amounts := range total.ByCurrency(selected.view) {
		out.ByCurrency = append(out.ByCurrency, &affiliatev1.AnalyticsAmounts{
			Currency: amounts.Currency, RevenueCents: amounts.RevenueCents, RefundedCents: amounts.RefundedCents,
			CommissionCents: amounts.CommissionCents, NetRevenueCents: amounts.NetRevenueCents,
		})
	}
	if req.GetCompare() == affiliatev1.AnalyticsComparison_ANALYTICS_COMPARISON_PREVIOUS {
		previous, err := s.total(ctx, selected, period.Previous())
		if err != nil {
			return nil, err
		}
		out.Previous = metricsToProto(previous.Metrics(selected.view))
	}
	return out, nil
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
	selected, err := s.selected(ctx, req, selectTargets)
	if err != nil {
		return nil, err
	}
	quarters, err := s.quarters(ctx, selected, period)
	if err != nil {
		return nil, err
	}
	if req.GetFormat() == affiliatev1.AnalyticsFormat_ANALYTICS_FORMAT_CSV {
		server.NameCSV(ctx, "timeseries", selected.mode, s.now().UTC())
	}
	out := &affiliatev1.AnalyticsTimeseries{Interval: server.EnumValue[affiliatev1.AnalyticsInterval](interval)}
	for _, point := range quarters.Series(period, interval) {
		out.Points = append(out.Points, pointToProto(point.Start, point.Metrics(selected.view)))
	}
	return out, nil
}

func intervalOf(req request) analytics.Interval {
	if interval := server.EnumName(req.GetInterval()); interval != "" {
		return analytics.Interval(interval)
	}
	return analytics.EachDay
}

// quarters returns the figures by quarter of an hour.
func (s *Service) quarters(ctx context.Context, selected selection, period analytics.Period) (analytics.QuarterFigures, error) {
	if len(selected.targets) == 0 || period.From >= period.To {
		return nil, nil
	}
	return s.store.Quarters(ctx, selected.mode, selected.targets, period)
}

// total returns the figures of all targets.
func (s *Service) total(ctx context.Context, selected selection, period analytics.Period) (analytics.Figures, error) {
	var total analytics.Figures
	byProgram, err := s.byProgram(ctx, selected, period)
	for _, figures := range byProgram {
		total.AddAll(*figures, 1)
	}
	return total, err
}

// byProgram returns the figures of the programmes of all targets.
func (s *Service) byProgram(ctx context.Context, selected selection, period analytics.Period) (map[affiliate.ProgramID]*analytics.Figures, error) {
	if len(selected.targets) == 0 || period.From >= period.To {
		return nil, nil
	}
	return s.store.Totals(ctx, selected.mode, selected.targets, period)
}

// maxCSVRows is the maximum number of rows of a breakdown as CSV.
const maxCSVRows = 10_000

// breakdown returns the sums of the values of a dimension.
func (s *Service) breakdown(ctx context.Context, req request, selectTargets selector) (*affiliatev1.AnalyticsBreakdown, error) {
	period, err := s.periodOf(req)
	if err != nil {
		return nil, err
	}
	dimension := analytics.Dimension(cmp.Or(server.EnumName(req.GetGroupBy()), string(analytics.ByParticipant)))
	selected, err := s.selected(ctx, req, selectTargets)
	if err != nil {
		return nil, err
	}
	byProgram, err := s.byProgram(ctx, selected, period)
	if err != nil {
		return nil, err
	}
	var total analytics.Figures
	byValue := map[string]*analytics.Figures{}
	for program, figures := range byProgram {
		total.AddAll(*figures, 1)
		if dimension == analytics.ByProgram && !program.IsZero() {
			byValue[program.String()] = figures
		}
	}
	if dimension != analytics.ByProgram && len(byProgram) > 0 {
		if byValue, err = s.byValue(ctx, selected, dimension, period); err != nil {
			return nil, err
		}
	}
	if !dimension.HasClicks() {
		total.DropClicks()
	}
	found := analytics.NewBreakdown(total, byValue, req.GetMetric(), selected.view)
	page := server.PageOf(req)
	if req.GetFormat() == affiliatev1.AnalyticsFormat_ANALYTICS_FORMAT_CSV {
		page = affiliate.Page{Number: 1, Size: maxCSVRows}
		server.NameCSV(ctx, "breakdown", selected.mode, s.now().UTC())
	}
	rows := found.Page(page)
	if err := s.label(ctx, selected, dimension, rows); err != nil {
		return nil, err
	}
	out := &affiliatev1.AnalyticsBreakdown{
		GroupBy: server.EnumValue[affiliatev1.AnalyticsDimension](dimension), Total: int64(len(found.Rows)), Other: metricsToProto(found.Other.Metrics(selected.view)),
	}
	for _, row := range rows {
		out.Rows = append(out.Rows, rowToProto(row))
	}
	return out, nil
}

// byValue returns the figures of the values of a dimension other than ByProgram.
func (s *Service) byValue(
	ctx context.Context, selected selection, dimension analytics.Dimension, period analytics.Period,
) (map[string]*analytics.Figures, error) {
	if dimension != analytics.ByParticipant && dimension != analytics.ByLink {
		return s.store.Values(ctx, selected.mode, selected.targets, dimension, period)
	}
	owners, err := s.store.Owners(ctx, selected.mode, selected.targets, period)
	if err != nil {
		return nil, err
	}
	byValue := map[string]*analytics.Figures{}
	for key, figures := range owners {
		value := key.Participant.String()
		if dimension == analytics.ByLink {
			if key.Link.IsZero() {
				continue
			}
			value = key.Link.String()
		}
		if byValue[value] == nil {
			byValue[value] = &analytics.Figures{}
		}
		byValue[value].AddAll(*figures, 1)
	}
	return byValue, nil
}

// noValue is the label of the row of clicks and conversions without a value.
const noValue = "(none)"

// label sets the labels of rows.
func (s *Service) label(ctx context.Context, selected selection, dimension analytics.Dimension, rows []analytics.Row) error {
	labels := map[string]string{}
	if slices.Contains([]analytics.Dimension{analytics.ByProgram, analytics.ByParticipant, analytics.ByLink}, dimension) && len(rows) > 0 {
		var ids []string
		for _, row := range rows {
			if row.Value != "" {
				ids = append(ids, row.Value)
			}
		}
		var err error
		if labels, err = s.store.Labels(ctx, selected.mode, selected.workspaces(), dimension, ids); err != nil {
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
	selected, err := s.selected(ctx, req, selectTargets)
	if err != nil {
		return nil, err
	}
	total, err := s.total(ctx, selected, period)
	if err != nil {
		return nil, err
	}
	out := &affiliatev1.AnalyticsFunnel{}
	for _, step := range total.Funnel(selected.view) {
		out.Steps = append(out.Steps, &affiliatev1.AnalyticsStep{Name: step.Name, Count: step.Count, Rate: step.Rate})
	}
	return out, nil
}

// cohorts returns the cohorts of the customers whose first conversion is in the period.
func (s *Service) cohorts(ctx context.Context, req request, selectTargets selector) (*affiliatev1.AnalyticsCohorts, error) {
	period, wrong := analytics.ParseCohorts(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone(), s.now())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	selected, err := s.selected(ctx, req, selectTargets)
	if err != nil {
		return nil, err
	}
	months := period.Starts(analytics.Month)
	var cells []analytics.CohortCell
	if len(selected.targets) > 0 && len(months) > 0 {
		var err error
		cells, err = s.store.Cohorts(ctx, selected.mode, selected.targets, months, period.From, period.To, selected.view.Currency)
		if err != nil {
			return nil, err
		}
	}
	out := &affiliatev1.AnalyticsCohorts{}
	for _, cohort := range analytics.Cohorts(months, cells) {
		out.Cohorts = append(out.Cohorts, cohortToProto(cohort))
	}
	return out, nil
}
