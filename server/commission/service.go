// Package commission serves the review of commissions: lists, detail, approval
// and rejection by people, and approval by the service when a hold elapses.
//
// Its model is the table of moves in package affiliate. It guarantees that of
// moves that race each is judged by the outcome of the one before, that a move
// that was answered with 200 has its line of history, its event and its line in
// the audit log, and that readers who may not see e-mail addresses neither see
// them nor can search them out.
//
// It does not promise that approval follows the end of a hold at once (the
// sweep runs every few seconds), nor that a page and its total are of the same
// instant.
package commission

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.CommissionService.
type Service struct {
	affiliatev1.UnimplementedCommissionServiceServer

	store Store
	now   func() time.Time
}

// New makes the service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// at is the instant of a call: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// listRequest is what the two lists have in common.
type listRequest interface {
	GetPage() int32
	GetPageSize() int32
	GetSortBy() string
	GetSortOrder() affiliatev1.SortOrder
	GetStatus() affiliatev1.CommissionStatus
	GetDateFrom() string
	GetDateTo() string
	GetTimezone() string
	GetSearch() string
}

// Check finds what is wrong with dates and time zones.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	list, ok := req.(listRequest)
	if !ok {
		return nil
	}
	_, wrong := affiliate.ParsePeriod(list.GetDateFrom(), list.GetDateTo(), list.GetTimezone())
	return wrong
}

// ListCommissions pages through all programmes of the mode, or one of them.
func (s *Service) ListCommissions(ctx context.Context, req *affiliatev1.ListCommissionsRequest) (*affiliatev1.ListCommissionsResponse, error) {
	var program *affiliate.ProgramID
	if req.GetProgramId() != "" {
		id, err := s.ownProgram(ctx, req.GetProgramId())
		if err != nil {
			return nil, err
		}
		program = &id
	}
	return s.list(ctx, req, req.NeedsReview, program)
}

// ListProgramCommissions pages through one programme.
func (s *Service) ListProgramCommissions(ctx context.Context, req *affiliatev1.ListProgramCommissionsRequest) (*affiliatev1.ListCommissionsResponse, error) {
	program, err := s.ownProgram(ctx, req.GetProgramId())
	if err != nil {
		return nil, err
	}
	return s.list(ctx, req, req.NeedsReview, &program)
}

// ownProgram is a programme that lists may be narrowed to: FORBIDDEN when it is
// another workspace's, NOT_FOUND when there is none or it is of the other mode.
func (s *Service) ownProgram(ctx context.Context, text string) (affiliate.ProgramID, error) {
	id, err := server.PathID[affiliate.Program](text)
	if err != nil {
		return id, err
	}
	owner, err := s.store.ProgramScope(ctx, id)
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

func (s *Service) list(
	ctx context.Context, req listRequest, needsReview *bool, program *affiliate.ProgramID,
) (*affiliatev1.ListCommissionsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	reader := readerOf(ctx)
	filter := affiliate.CommissionFilter{
		Program:     program,
		Status:      affiliate.CommissionStatus(server.Word(req.GetStatus())),
		NeedsReview: needsReview,
		Created:     created,
		Search:      req.GetSearch(),
		HideEmails:  reader.masked,
	}
	order := affiliate.CommissionOrder{
		By:        affiliate.CommissionSort(req.GetSortBy()),
		Ascending: req.GetSortOrder() == affiliatev1.SortOrder_SORT_ORDER_ASC,
	}
	if order.By == "" {
		order.By = affiliate.SortCreatedAt
	}
	page := server.PageOf(req)
	items, total, err := s.store.Commissions(ctx, server.PrincipalFrom(ctx).Scope(), filter, order, page)
	if err != nil {
		return nil, err
	}
	at := s.at()
	data := make([]*affiliatev1.CommissionListItem, len(items))
	for i, item := range items {
		data[i] = reader.item(item, at)
	}
	return &affiliatev1.ListCommissionsResponse{
		Data:  data,
		Total: total,
		Page:  int32(page.Number), // came in as an int32
		Limit: int32(page.Size),
	}, nil
}

// GetCommission reads one commission.
func (s *Service) GetCommission(ctx context.Context, req *affiliatev1.GetCommissionRequest) (*affiliatev1.Commission, error) {
	program, id, err := commissionOf(req)
	if err != nil {
		return nil, err
	}
	detail, err := s.store.Commission(ctx, server.PrincipalFrom(ctx).Scope(), program, id)
	if err != nil {
		return nil, err
	}
	return readerOf(ctx).detail(detail, s.at()), nil
}

// ApproveCommission approves.
func (s *Service) ApproveCommission(ctx context.Context, req *affiliatev1.ApproveCommissionRequest) (*affiliatev1.Commission, error) {
	return s.move(ctx, req, affiliate.CommissionTransition{Move: affiliate.MoveApprove})
}

// RejectCommission rejects.
func (s *Service) RejectCommission(ctx context.Context, req *affiliatev1.RejectCommissionRequest) (*affiliatev1.Commission, error) {
	t := affiliate.CommissionTransition{Move: affiliate.MoveReject, Reason: req.Reason}
	if code := server.Word(req.GetCode()); code != "" {
		t.Code = &code
	}
	return s.move(ctx, req, t)
}

// commissionRequest names one commission.
type commissionRequest interface {
	GetProgramId() string
	GetCommissionId() string
}

// commissionOf reads the path.
func commissionOf(req commissionRequest) (program affiliate.ProgramID, id affiliate.CommissionID, err error) {
	if program, err = server.PathID[affiliate.Program](req.GetProgramId()); err == nil {
		id, err = server.PathID[affiliate.Commission](req.GetCommissionId())
	}
	return program, id, err
}

func (s *Service) move(ctx context.Context, req commissionRequest, t affiliate.CommissionTransition) (*affiliatev1.Commission, error) {
	var err error
	if t.Program, t.Commission, err = commissionOf(req); err != nil {
		return nil, err
	}
	t.Scope, t.Actor, t.At = server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.at()
	detail, err := s.store.MoveCommission(ctx, t)
	if err != nil {
		return nil, err
	}
	return readerOf(ctx).detail(detail, t.At), nil
}
