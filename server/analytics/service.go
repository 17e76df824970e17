// Package analytics keeps the sums of the analytics and serves its routes.
//
//	clicks, conversions, refunds, reviews ──▶ analytics_log ──job, requests──▶ sums ──▶ routes
//
// A transaction that stores clicks or changes conversions inserts an entry into a log, which
// never waits for other transactions. A job adds the entries to the sums every few seconds. A
// request first adds the entries of its workspace, so that its response contains everything
// that was stored before. Each entry is added exactly once: the transaction that adds it also
// deletes it.
//
// For each conversion the package stores the numbers that it added to the sums. When a
// conversion changes, it subtracts the stored numbers and adds the current ones, so the
// sums depend only on the current state and not on the order of changes.
//
// The time of a response does not depend on the number of clicks. If more entries wait than one request
// can add, the response does not contain the newest ones.
package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

// Service implements affiliate.v1.AnalyticsService.
type Service struct {
	affiliatev1.UnimplementedAnalyticsServiceServer

	db  *postgres.DB
	log *slog.Logger
	now func() time.Time
}

// New returns a Service; now is its clock.
func New(db *postgres.DB, log *slog.Logger, now func() time.Time) *Service {
	return &Service{db: db, log: log, now: now}
}

// request has the fields that the two request messages share.
type request interface {
	GetDateFrom() string
	GetDateTo() string
	GetTimezone() string
	GetProgramId() string
	GetParticipantId() string
	GetLinkId() string
	GetIncludeBots() bool
	GetCompare() affiliatev1.AnalyticsComparison
	GetInterval() affiliatev1.AnalyticsInterval
	GetGroupBy() affiliatev1.AnalyticsDimension
	GetMetric() string
	GetFormat() affiliatev1.AnalyticsFormat
	GetPage() int32
	GetPageSize() int32
}

// GetAnalyticsSummary returns the numbers of a workspace in a period.
func (s *Service) GetAnalyticsSummary(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsSummary, error) {
	return s.summary(ctx, req, s.selectWorkspace)
}

// GetProgramAnalyticsSummary returns the numbers of a programme in a period.
func (s *Service) GetProgramAnalyticsSummary(ctx context.Context, req *affiliatev1.ProgramAnalyticsRequest) (*affiliatev1.AnalyticsSummary, error) {
	return s.summary(ctx, req, s.selectProgram)
}

// GetPartnerAnalyticsSummary returns the numbers of a partner in a period.
func (s *Service) GetPartnerAnalyticsSummary(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsSummary, error) {
	return s.summary(ctx, req, s.selectPartner)
}

// GetAnalyticsTimeseries returns the numbers of a workspace for each interval of a period.
func (s *Service) GetAnalyticsTimeseries(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsTimeseries, error) {
	return s.timeseries(ctx, req, s.selectWorkspace)
}

// GetProgramAnalyticsTimeseries returns the numbers of a programme for each interval of a period.
func (s *Service) GetProgramAnalyticsTimeseries(ctx context.Context, req *affiliatev1.ProgramAnalyticsRequest) (*affiliatev1.AnalyticsTimeseries, error) {
	return s.timeseries(ctx, req, s.selectProgram)
}

// GetPartnerAnalyticsTimeseries returns the numbers of a partner for each interval of a period.
func (s *Service) GetPartnerAnalyticsTimeseries(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsTimeseries, error) {
	return s.timeseries(ctx, req, s.selectPartner)
}

// GetAnalyticsBreakdown returns the numbers of a workspace for each value of a dimension.
func (s *Service) GetAnalyticsBreakdown(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsBreakdown, error) {
	return s.breakdown(ctx, req, s.selectWorkspace)
}

// GetProgramAnalyticsBreakdown returns the numbers of a programme for each value of a dimension.
func (s *Service) GetProgramAnalyticsBreakdown(ctx context.Context, req *affiliatev1.ProgramAnalyticsRequest) (*affiliatev1.AnalyticsBreakdown, error) {
	return s.breakdown(ctx, req, s.selectProgram)
}

// GetPartnerAnalyticsBreakdown returns the numbers of a partner for each value of a dimension.
func (s *Service) GetPartnerAnalyticsBreakdown(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsBreakdown, error) {
	return s.breakdown(ctx, req, s.selectPartner)
}

// GetAnalyticsFunnel returns the steps of a workspace from clicks to paid commissions.
func (s *Service) GetAnalyticsFunnel(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsFunnel, error) {
	return s.funnel(ctx, req, s.selectWorkspace)
}

// GetProgramAnalyticsFunnel returns the steps of a programme from clicks to paid commissions.
func (s *Service) GetProgramAnalyticsFunnel(ctx context.Context, req *affiliatev1.ProgramAnalyticsRequest) (*affiliatev1.AnalyticsFunnel, error) {
	return s.funnel(ctx, req, s.selectProgram)
}

// GetPartnerAnalyticsFunnel returns the steps of a partner from clicks to paid commissions.
func (s *Service) GetPartnerAnalyticsFunnel(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsFunnel, error) {
	return s.funnel(ctx, req, s.selectPartner)
}

// GetAnalyticsCohorts returns the cohorts of the customers of a workspace.
func (s *Service) GetAnalyticsCohorts(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsCohorts, error) {
	return s.cohorts(ctx, req, s.selectWorkspace)
}

// GetProgramAnalyticsCohorts returns the cohorts of the customers of a programme.
func (s *Service) GetProgramAnalyticsCohorts(ctx context.Context, req *affiliatev1.ProgramAnalyticsRequest) (*affiliatev1.AnalyticsCohorts, error) {
	return s.cohorts(ctx, req, s.selectProgram)
}

// GetPartnerAnalyticsCohorts returns the cohorts of the customers of a partner.
func (s *Service) GetPartnerAnalyticsCohorts(ctx context.Context, req *affiliatev1.AnalyticsRequest) (*affiliatev1.AnalyticsCohorts, error) {
	return s.cohorts(ctx, req, s.selectPartner)
}

// selector returns the selection of the caller of a request.
type selector func(ctx context.Context, req request) (selection, error)

// Check implements server.Checker. The functions of the reports check the rules that only some routes have.
func (s *Service) Check(message proto.Message) affiliate.Violations {
	req, ok := message.(request)
	if !ok {
		return nil
	}
	_, found := analytics.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone(), s.now())
	server.CheckEnum("compare", req.GetCompare(), &found)
	server.CheckEnum("interval", req.GetInterval(), &found)
	server.CheckEnum("group_by", req.GetGroupBy(), &found)
	server.CheckEnum("format", req.GetFormat(), &found)
	return found
}

// NewGauges returns the gauge of the oldest change that the analytics do not contain; now is its clock.
func NewGauges(db *postgres.DB, now func() time.Time) *server.Gauges {
	return server.NewGauges("analytics", func(ctx context.Context, set server.SetGauge) error {
		at, err := rollups.Oldest(ctx, db)
		age := 0.0
		if at != nil {
			age = max(0, now().Sub(*at).Seconds())
		}
		set(0, age)
		return err
	}, server.Gauge{
		Name: "tributary_analytics_oldest_entry_seconds",
		Help: "Age of the oldest change that the analytics do not contain yet, or 0 if they contain all changes.",
	})
}

const (
	// interval is the time between two runs of the job.
	interval = 2 * time.Second
	// maxScopes is the maximum number of workspaces and modes that a run looks up at once.
	maxScopes = 1000
	// maxRunTime is the time after which a run starts no further transaction.
	maxRunTime = 30 * time.Second
	// timeout is the time after which a run is cancelled, for example because the database is slow.
	timeout = time.Minute
)

// NewWorker returns the worker of the job analytics.AddAnalytics; now is its clock.
func NewWorker(db *postgres.DB, log *slog.Logger, now func() time.Time) *server.Worker[analytics.AddAnalytics] {
	run := func(ctx context.Context, _ *river.Job[analytics.AddAnalytics]) error {
		return addAnalytics(ctx, db, log, now)
	}
	return &server.Worker[analytics.AddAnalytics]{Limit: timeout, Run: run}
}

// PeriodicJob returns the job that a River client inserts every two seconds. At most one job
// runs at a time. A failed job is not retried, because the next job adds the same entries.
func PeriodicJob() *river.PeriodicJob {
	return server.OneAtATime(river.PeriodicInterval(interval), analytics.AddAnalytics{}, true)
}

// addAnalytics adds the entries of the log to the sums, until none are left or maxRunTime has passed.
// It skips a workspace and mode whose sums another transaction changes at the same time, for example
// the transaction of a request. An error in one workspace does not stop the work for the others.
func addAnalytics(ctx context.Context, db *postgres.DB, log *slog.Logger, now func() time.Time) error {
	started := now()
	scopes, err := rollups.Waiting(ctx, db, maxScopes)
	if err != nil {
		return err
	}
	var failed []error
	for len(scopes) > 0 {
		var left []affiliate.Scope
		for _, scope := range scopes {
			r, err := fold(ctx, db, log, scope, now())
			if err != nil {
				failed = append(failed, fmt.Errorf("workspace %s, %s: %w", scope.Workspace, scope.Mode, err))
			}
			if r.more {
				left = append(left, scope)
			}
			if lasted := now().Sub(started); lasted >= maxRunTime {
				log.LogAttrs(ctx, slog.LevelWarn, "clicks and conversions arrive faster than they are added to the analytics", slog.Duration("lasted", lasted))
				return errors.Join(failed...)
			}
		}
		scopes = left
	}
	return errors.Join(failed...)
}
