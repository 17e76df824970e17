// Package commission serves the review of commissions: lists, their stats and
// their CSV, detail, approval and rejection by people, one by one or many at a
// time, and approval by the service when a hold elapses.
//
// Its model is the table of moves in package affiliate. It guarantees that of
// moves that race each is judged by the outcome of the one before, that a move
// that was answered with 200 has its line of history, its event and its line in
// the audit log, that a page and its total are of the same instant, and that
// readers who may not see e-mail addresses neither see them nor can search them
// out.
//
// It does not promise that approval follows the end of a hold at once (the
// sweep runs every few seconds), nor that a list and its stats, which are two
// requests, are of the same instant.
package commission

import (
	"context"
	"time"

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

// ApproveCommissionEarly approves while the hold runs.
func (s *Service) ApproveCommissionEarly(ctx context.Context, req *affiliatev1.ApproveCommissionEarlyRequest) (*affiliatev1.Commission, error) {
	reason := req.GetReason()
	return s.move(ctx, req, affiliate.CommissionTransition{Move: affiliate.MoveOverride, Reason: &reason})
}

// RejectCommission rejects.
func (s *Service) RejectCommission(ctx context.Context, req *affiliatev1.RejectCommissionRequest) (*affiliatev1.Commission, error) {
	return s.move(ctx, req, rejection(req.Reason, req.GetCode()))
}

// ClearCommissionReview takes all review flags off.
func (s *Service) ClearCommissionReview(ctx context.Context, req *affiliatev1.ClearCommissionReviewRequest) (*affiliatev1.Commission, error) {
	return s.move(ctx, req, affiliate.CommissionTransition{Move: affiliate.MoveClearReview, Reason: req.Note})
}

func rejection(reason *string, code affiliatev1.RejectionCode) affiliate.CommissionTransition {
	t := affiliate.CommissionTransition{Move: affiliate.MoveReject, Reason: reason}
	if word := server.Word(code); word != "" {
		t.Code = &word
	}
	return t
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
