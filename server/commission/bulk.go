package commission

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// BulkApproveCommissions approves each on its own.
func (s *Service) BulkApproveCommissions(ctx context.Context, req *affiliatev1.BulkApproveCommissionsRequest) (*affiliatev1.BulkCommissionsResponse, error) {
	return s.bulk(ctx, req, affiliate.CommissionTransition{Move: affiliate.MoveApprove})
}

// BulkRejectCommissions rejects each on its own.
func (s *Service) BulkRejectCommissions(ctx context.Context, req *affiliatev1.BulkRejectCommissionsRequest) (*affiliatev1.BulkCommissionsResponse, error) {
	return s.bulk(ctx, req, rejection(req.Reason, req.GetCode()))
}

// bulkRequest is a request about several commissions.
type bulkRequest interface {
	GetProgramId() string
	GetCommissionIds() []string
}

// bulk makes the move of one commission after the other.
func (s *Service) bulk(ctx context.Context, req bulkRequest, t affiliate.CommissionTransition) (*affiliatev1.BulkCommissionsResponse, error) {
	var err error
	if t.Program, err = server.PathID[affiliate.Program](req.GetProgramId()); err != nil {
		return nil, err
	}
	t.Scope, t.Actor, t.At = server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.at()
	outcomes, err := server.EachOf(req.GetCommissionIds(), func(id affiliate.CommissionID) (string, error) {
		t.Commission = id
		moved, err := s.store.MoveCommission(ctx, t)
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
