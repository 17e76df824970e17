package commission

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// ApproveCommission approves a pending commission whose hold is over.
func (s *Service) ApproveCommission(ctx context.Context, req *affiliatev1.ApproveCommissionRequest) (*affiliatev1.Commission, error) {
	return s.review(ctx, req, affiliate.CommissionTransition{Move: affiliate.MoveApprove})
}

// ApproveCommissionEarly approves a pending commission during its hold.
func (s *Service) ApproveCommissionEarly(ctx context.Context, req *affiliatev1.ApproveCommissionEarlyRequest) (*affiliatev1.Commission, error) {
	reason := req.GetReason()
	return s.review(ctx, req, affiliate.CommissionTransition{Move: affiliate.MoveOverride, Reason: &reason})
}

// RejectCommission rejects a pending or approved commission.
func (s *Service) RejectCommission(ctx context.Context, req *affiliatev1.RejectCommissionRequest) (*affiliatev1.Commission, error) {
	return s.review(ctx, req, rejection(req.Reason, req.GetCode()))
}

// ClearCommissionReview removes all review reasons.
func (s *Service) ClearCommissionReview(ctx context.Context, req *affiliatev1.ClearCommissionReviewRequest) (*affiliatev1.Commission, error) {
	return s.review(ctx, req, affiliate.CommissionTransition{Move: affiliate.MoveClearReview, Reason: req.Note})
}

func rejection(reason *string, code affiliatev1.RejectionCode) affiliate.CommissionTransition {
	t := affiliate.CommissionTransition{Move: affiliate.MoveReject, Reason: reason}
	if word := server.Word(code); word != "" {
		t.Code = &word
	}
	return t
}

// review makes the move t of the commission in the request's path on behalf of the
// caller.
func (s *Service) review(ctx context.Context, req commissionRequest, t affiliate.CommissionTransition) (*affiliatev1.Commission, error) {
	var err error
	if t.Program, t.Commission, err = pathIDs(req); err != nil {
		return nil, err
	}
	t.Scope, t.Actor, t.At = server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.at()
	detail, err := Move(ctx, s.store, t)
	if err != nil {
		return nil, err
	}
	return readerOf(ctx).detail(detail, t.At), nil
}

// Move makes one move of one commission and returns the commission after it. Moves
// that race run one after the other: a move that has become illegal is refused with
// its reason. Errors: NOT_FOUND, and those of the move.
func Move(ctx context.Context, store Store, t affiliate.CommissionTransition) (affiliate.CommissionDetail, error) {
	var detail affiliate.CommissionDetail
	err := store.InTx(ctx, func(tx Tx) error {
		commission, err := tx.LockCommission(ctx, t.Scope, t.Program, t.Commission)
		if err != nil {
			return err
		}
		change, err := commission.Move(t)
		if err != nil {
			return err
		}
		if err := tx.ApplyCommissionChanges(ctx, change); err != nil {
			return err
		}
		detail, err = tx.CommissionDetail(ctx, t.Scope, t.Program, t.Commission)
		return err
	})
	return detail, err
}

// BulkApproveCommissions approves several commissions, each in a transaction of its
// own.
func (s *Service) BulkApproveCommissions(ctx context.Context, req *affiliatev1.BulkApproveCommissionsRequest) (*affiliatev1.BulkCommissionsResponse, error) {
	return s.reviewBulk(ctx, req, affiliate.CommissionTransition{Move: affiliate.MoveApprove})
}

// BulkRejectCommissions rejects several commissions, each in a transaction of its
// own.
func (s *Service) BulkRejectCommissions(ctx context.Context, req *affiliatev1.BulkRejectCommissionsRequest) (*affiliatev1.BulkCommissionsResponse, error) {
	return s.reviewBulk(ctx, req, rejection(req.Reason, req.GetCode()))
}

// bulkRequest is a request about several commissions.
type bulkRequest interface {
	GetProgramId() string
	GetCommissionIds() []string
}

// reviewBulk makes the move t of each commission in the request.
func (s *Service) reviewBulk(ctx context.Context, req bulkRequest, t affiliate.CommissionTransition) (*affiliatev1.BulkCommissionsResponse, error) {
	var err error
	if t.Program, err = server.PathID[affiliate.Program](req.GetProgramId()); err != nil {
		return nil, err
	}
	t.Scope, t.Actor, t.At = server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.at()
	outcomes, err := server.EachOf(req.GetCommissionIds(), func(id affiliate.CommissionID) (string, error) {
		t.Commission = id
		moved, err := Move(ctx, s.store, t)
		return string(moved.Status), err
	})
	if err != nil {
		return nil, err
	}
	response, succeeded := &affiliatev1.BulkCommissionsResponse{}, 0
	for _, o := range outcomes {
		if o.Success {
			succeeded++
		}
		response.Results = append(response.Results, &affiliatev1.BulkCommissionResult{
			CommissionId: o.ID, Success: o.Success, StatusCode: o.StatusCode,
			Status: server.FromWord[affiliatev1.CommissionStatus](o.Status), Code: o.Code, Message: o.Message,
		})
	}
	response.Summary = server.BulkSummary(len(outcomes), succeeded)
	return server.AnswerBulk(ctx, response)
}
