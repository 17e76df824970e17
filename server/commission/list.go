package commission

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/server"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// filterRequest has the filter fields of list, statistics and export requests.
type filterRequest interface {
	GetParticipantId() string
	GetProgramId() string
	GetStatus() affiliatev1.CommissionStatus
	GetDateFrom() string
	GetDateTo() string
	GetTimezone() string
	GetSearch() string
}

// orderRequest has the sort fields of list and export requests.
type orderRequest interface {
	GetSortBy() string
	GetSortOrder() affiliatev1.SortOrder
}

// listRequest has the fields that the two list requests share.
type listRequest interface {
	filterRequest
	orderRequest
	GetPage() int32
	GetPageSize() int32
}

// exportRequest has the fields that the two export requests share.
type exportRequest interface {
	filterRequest
	orderRequest
}

// routeKind distinguishes the API routes of a workspace from the routes of a programme.
type routeKind bool

const (
	// workspaceRoute is a route for all programmes, or for the programme in the filter.
	workspaceRoute routeKind = false
	// programRoute is a route whose path contains the programme.
	programRoute routeKind = true
)

// filter returns the filter of a request. Errors: VALIDATION_ERROR and the errors of parseOwnProgram.
func (s *Service) filter(ctx context.Context, req filterRequest, needsReview, holdActive *bool, route routeKind) (commission.Filter, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return commission.Filter{}, err
	}
	filter := commission.Filter{
		Status:      commission.Status(server.EnumName(req.GetStatus())),
		NeedsReview: needsReview,
		HoldActive:  holdActive,
		At:          s.currentTime(),
		Created:     created,
		Search:      req.GetSearch(),
		HideEmails:  readerOf(ctx).masked,
	}
	if id, ok := affiliate.ParseID[affiliate.ParticipantID](req.GetParticipantId()); ok {
		filter.Participant = &id
	}
	if route == programRoute || req.GetProgramId() != "" {
		program, err := s.parseOwnProgram(ctx, req.GetProgramId())
		if err != nil {
			return commission.Filter{}, err
		}
		filter.Program = &program
	}
	return filter, nil
}

// parseOwnProgram parses the id of a programme and checks that the programme belongs to
// the caller's workspace and mode. Errors: FORBIDDEN if the programme belongs to another
// workspace, NOT_FOUND if it does not exist or belongs to the other mode.
func (s *Service) parseOwnProgram(ctx context.Context, text string) (affiliate.ProgramID, error) {
	id := server.PathID[affiliate.ProgramID](text)
	owner, err := commissions.ProgramScope(ctx, s.db, id)
	if err != nil {
		return id, err
	}
	switch scope := server.PrincipalFrom(ctx).Scope(); {
	case owner.Workspace != scope.Workspace:
		return id, affiliate.Refuse(affiliate.ReasonForbidden)
	case owner.Mode != scope.Mode:
		return id, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return id, nil
}

// orderOf returns the sort order of a request. The default is newest first.
func orderOf(req orderRequest) commission.Order {
	order := commission.Order{
		By:        commission.Sort(req.GetSortBy()),
		Ascending: req.GetSortOrder() == affiliatev1.SortOrder_SORT_ORDER_ASC,
	}
	if order.By == "" {
		order.By = commission.SortCreatedAt
	}
	return order
}

// ListCommissions returns one page of the commissions of the workspace or a programme.
func (s *Service) ListCommissions(ctx context.Context, req *affiliatev1.ListCommissionsRequest) (*affiliatev1.ListCommissionsResponse, error) {
	return s.list(ctx, req, req.NeedsReview, req.HoldActive, workspaceRoute)
}

// ListProgramCommissions returns one page of the commissions of one programme.
func (s *Service) ListProgramCommissions(ctx context.Context, req *affiliatev1.ListProgramCommissionsRequest) (*affiliatev1.ListCommissionsResponse, error) {
	return s.list(ctx, req, req.NeedsReview, req.HoldActive, programRoute)
}

func (s *Service) list(ctx context.Context, req listRequest, needsReview, holdActive *bool, route routeKind) (*affiliatev1.ListCommissionsResponse, error) {
	filter, err := s.filter(ctx, req, needsReview, holdActive, route)
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	items, total, err := commissions.List(ctx, s.db, server.PrincipalFrom(ctx).Scope(), filter, orderOf(req), page)
	if err != nil {
		return nil, err
	}
	if filter.Search != "" || filter.HoldActive != nil { // otherwise the total is exact
		total = server.SearchTotal(ctx, total, filter.Search)
	}
	reader, at := readerOf(ctx), s.currentTime()
	return &affiliatev1.ListCommissionsResponse{
		Data:  server.ConvertAll(items, func(c commission.Item) *affiliatev1.CommissionListItem { return reader.item(c, at) }),
		Total: total,
		Page:  int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

// GetCommissionStats returns statistics of the commissions of the caller's workspace and
// mode. The request can name a programme as a filter.
func (s *Service) GetCommissionStats(ctx context.Context, req *affiliatev1.GetCommissionStatsRequest) (*affiliatev1.CommissionStats, error) {
	return s.stats(ctx, req, req.NeedsReview, req.HoldActive, workspaceRoute)
}

// GetProgramCommissionStats returns statistics of the commissions of one programme.
func (s *Service) GetProgramCommissionStats(ctx context.Context, req *affiliatev1.GetProgramCommissionStatsRequest) (*affiliatev1.CommissionStats, error) {
	return s.stats(ctx, req, req.NeedsReview, req.HoldActive, programRoute)
}

func (s *Service) stats(ctx context.Context, req filterRequest, needsReview, holdActive *bool, route routeKind) (*affiliatev1.CommissionStats, error) {
	filter, err := s.filter(ctx, req, needsReview, holdActive, route)
	if err != nil {
		return nil, err
	}
	stats, err := commissions.Stats(ctx, s.db, server.PrincipalFrom(ctx).Scope(), filter)
	if err != nil {
		return nil, err
	}
	if stats.Capped {
		server.MarkCapped(ctx)
	}
	return statsToProto(stats), nil
}

func statsToProto(stats commission.Stats) *affiliatev1.CommissionStats {
	statusStats := func(status commission.Status) *affiliatev1.CommissionStatusStats {
		sum := stats.ByStatus[status]
		return &affiliatev1.CommissionStatusStats{Count: sum.Count, AmountCents: sum.AmountCents}
	}
	out := &affiliatev1.CommissionStats{
		TotalCount:         stats.Count,
		TotalAmountCents:   stats.InCurrency.AmountCents,
		Currency:           stats.Currency,
		AverageAmountCents: stats.AverageCents(),
		NeedsReviewCount:   stats.NeedsReview,
		OnHoldCount:        stats.OnHold,
		ReadyCount:         stats.Ready,
		ByStatus: &affiliatev1.CommissionStatsByStatus{
			Pending:  statusStats(commission.Pending),
			Approved: statusStats(commission.Approved),
			Rejected: statusStats(commission.Rejected),
			Paid:     statusStats(commission.Paid),
			Refunded: statusStats(commission.Refunded),
		},
	}
	for _, currency := range slices.Sorted(maps.Keys(stats.ByCurrency)) {
		sum := stats.ByCurrency[currency]
		out.ByCurrency = append(out.ByCurrency, &affiliatev1.CommissionCurrencyStats{
			Currency: currency, Count: sum.Count, AmountCents: sum.AmountCents,
		})
	}
	return out
}

// ExportCommissions streams the commissions of the caller's workspace and mode as CSV. If
// the request names a programme, it streams only the commissions of this programme.
func (s *Service) ExportCommissions(req *affiliatev1.ExportCommissionsRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	return s.export(req, req.NeedsReview, req.HoldActive, workspaceRoute, stream)
}

// ExportProgramCommissions streams the commissions of one programme as CSV.
func (s *Service) ExportProgramCommissions(req *affiliatev1.ExportProgramCommissionsRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	return s.export(req, req.NeedsReview, req.HoldActive, programRoute, stream)
}

func (s *Service) export(req exportRequest, needsReview, holdActive *bool, route routeKind, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	ctx := stream.Context()
	filter, err := s.filter(ctx, req, needsReview, holdActive, route)
	if err != nil {
		return err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	columns := []string{
		"id", "createdAt", "status", "commissionType", "programName", "partnerName", "amountCents", "currency",
		"saleAmountCents", "saleCurrency", "externalTransactionId", "promoCode", "needsReview", "holdUntil", "approvedAt",
		"rejectedAt", "paidAt", "refundedAt", "payoutId",
	}
	return server.StreamCSV(stream, "commissions", scope.Mode, s.currentTime(), columns, func(w *csv.Writer) error {
		for row, err := range commissions.Export(ctx, s.db, scope, filter, orderOf(req)) {
			if err != nil {
				return err
			}
			writeRow(w, row)
			if err := w.EndRow(); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeRow(w *csv.Writer, row *commission.Row) {
	w.ID(row.ID.UUID)
	w.Time(row.CreatedAt)
	w.Bytes(row.Status)
	w.Bytes(row.Type)
	w.Bytes(row.ProgramName)
	w.Bytes(row.PartnerName)
	w.Int(row.AmountCents)
	w.Bytes(row.Currency)
	w.Int(row.SaleAmountCents)
	w.Bytes(row.SaleCurrency)
	w.Bytes(row.ExternalTransactionID)
	if row.PromoCode == nil {
		w.Empty()
	} else {
		w.Bytes(row.PromoCode)
	}
	w.Bool(row.NeedsReview)
	w.OptionalTime(row.HoldUntil)
	w.OptionalTime(row.ApprovedAt)
	w.OptionalTime(row.RejectedAt)
	w.OptionalTime(row.PaidAt)
	w.OptionalTime(row.RefundedAt)
	if row.Payout == nil {
		w.Empty()
	} else {
		w.ID(row.Payout.UUID)
	}
}
