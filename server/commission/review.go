package commission

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// ApproveCommission approves a pending commission whose hold period has ended.
func (s *Service) ApproveCommission(ctx context.Context, req *affiliatev1.ApproveCommissionRequest) (*affiliatev1.Commission, error) {
	return s.review(ctx, req, commission.Transition{Move: commission.MoveApprove})
}

// ApproveCommissionEarly approves a pending commission during its hold period.
func (s *Service) ApproveCommissionEarly(ctx context.Context, req *affiliatev1.ApproveCommissionEarlyRequest) (*affiliatev1.Commission, error) {
	reason := req.GetReason()
	return s.review(ctx, req, commission.Transition{Move: commission.MoveOverride, Reason: &reason})
}

// RejectCommission rejects a pending or approved commission.
func (s *Service) RejectCommission(ctx context.Context, req *affiliatev1.RejectCommissionRequest) (*affiliatev1.Commission, error) {
	return s.review(ctx, req, rejection(req.Reason, req.GetCode()))
}

// ClearCommissionReview removes the review flag and all review reasons of a commission.
func (s *Service) ClearCommissionReview(ctx context.Context, req *affiliatev1.ClearCommissionReviewRequest) (*affiliatev1.Commission, error) {
	return s.review(ctx, req, commission.Transition{Move: commission.MoveClearReview, Reason: req.Note})
}

func rejection(reason *string, code affiliatev1.RejectionCode) commission.Transition {
	t := commission.Transition{Move: commission.MoveReject, Reason: reason}
	if name := server.EnumName(code); name != "" {
		t.Code = &name
	}
	return t
}

// review applies the transition t to the commission in the path, with the caller as
// actor.
func (s *Service) review(ctx context.Context, req commissionRequest, t commission.Transition) (*affiliatev1.Commission, error) {
	var err error
	if t.Program, t.Commission, err = s.pathIDs(ctx, req); err != nil {
		return nil, err
	}
	t.Scope, t.Actor, t.At = server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.currentTime()
	detail, err := Move(ctx, s.db, t)
	if err != nil {
		return nil, err
	}
	return readerOf(ctx).detail(detail, t.At), nil
}

// Move applies a transition to a commission and returns the changed commission.
// Concurrent transitions run one after the other. Errors: NOT_FOUND and the errors of
// commission.Locked.Move.
func Move(ctx context.Context, db *postgres.DB, t commission.Transition) (commission.Detail, error) {
	var detail commission.Detail
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		commission, err := payouts.LockCommission(ctx, tx, t.Scope, t.Program, t.Commission)
		if err != nil {
			return err
		}
		change, err := commission.Move(t)
		if err != nil {
			return err
		}
		if err := payouts.ApplyCommissionChanges(ctx, tx, change); err != nil {
			return err
		}
		detail, err = commissions.Get(ctx, tx, t.Scope, t.Program, t.Commission)
		return err
	})
	return detail, err
}

// BulkApproveCommissions approves several commissions, each in a separate transaction.
func (s *Service) BulkApproveCommissions(ctx context.Context, req *affiliatev1.BulkApproveCommissionsRequest) (*affiliatev1.BulkCommissionsResponse, error) {
	return s.reviewBulk(ctx, req, commission.Transition{Move: commission.MoveApprove})
}

// BulkRejectCommissions rejects several commissions, each in a separate transaction.
func (s *Service) BulkRejectCommissions(ctx context.Context, req *affiliatev1.BulkRejectCommissionsRequest) (*affiliatev1.BulkCommissionsResponse, error) {
	return s.reviewBulk(ctx, req, rejection(req.Reason, req.GetCode()))
}

// bulkRequest is a request about several commissions.
type bulkRequest interface {
	GetProgramId() string
	GetCommissionIds() []string
}

// reviewBulk applies the transition t to each commission in the request. If the path of the
// request has no programme, the commissions can be of any programme.
func (s *Service) reviewBulk(ctx context.Context, req bulkRequest, t commission.Transition) (*affiliatev1.BulkCommissionsResponse, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if req.GetProgramId() != "" && program.IsZero() { // otherwise each commission would fail
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	t.Scope, t.Actor, t.At = server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.currentTime()
	return server.Bulk(ctx, server.DistinctIDs[affiliate.CommissionID](req.GetCommissionIds()), func(id affiliate.CommissionID) (string, error) {
		t.Commission, t.Program = id, program
		if program.IsZero() {
			var err error
			if t.Program, err = commissions.ProgramOfCommission(ctx, s.db, t.Scope, id); err != nil {
				return "", err
			}
		}
		moved, err := Move(ctx, s.db, t)
		return string(moved.Status), err
	}, func(id affiliate.CommissionID, o server.BulkOutcome) *affiliatev1.BulkCommissionResult {
		return &affiliatev1.BulkCommissionResult{
			CommissionId: id.String(), Success: o.Success, StatusCode: o.StatusCode,
			Status: server.EnumValue[affiliatev1.CommissionStatus](o.Status), Code: o.Code, Message: o.Message,
		}
	}, func(results []*affiliatev1.BulkCommissionResult, summary *affiliatev1.BulkSummary) *affiliatev1.BulkCommissionsResponse {
		return &affiliatev1.BulkCommissionsResponse{Summary: summary, Results: results}
	})
}
