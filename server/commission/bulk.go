package commission

import (
	"context"
	"errors"
	"net/http"
	"slices"

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

// bulk makes the move of one commission after the other. An accident ends the
// request with what was done until then done; that is safe to send again.
func (s *Service) bulk(ctx context.Context, req bulkRequest, t affiliate.CommissionTransition) (*affiliatev1.BulkCommissionsResponse, error) {
	var err error
	if t.Program, err = server.PathID[affiliate.Program](req.GetProgramId()); err != nil {
		return nil, err
	}
	t.Scope, t.Actor, t.At = server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.at()
	folded := distinctIDs(req.GetCommissionIds())
	results := make([]*affiliatev1.BulkCommissionResult, len(folded))
	var succeeded int
	for i, id := range folded {
		t.Commission = id
		moved, err := s.store.MoveCommission(ctx, t)
		var refusal *affiliate.Error
		switch {
		case err == nil:
			succeeded++
			results[i] = &affiliatev1.BulkCommissionResult{
				CommissionId: id.String(), Success: true, StatusCode: http.StatusOK,
				Status: server.FromWord[affiliatev1.CommissionStatus](moved.Status),
			}
		case errors.As(err, &refusal):
			results[i] = failedMove(id, refusal)
		default:
			return nil, err
		}
	}
	failed := len(results) - succeeded
	response := &affiliatev1.BulkCommissionsResponse{
		Summary: &affiliatev1.BulkSummary{
			Total: int32(len(results)), Succeeded: int32(succeeded), Failed: int32(failed), //nolint:gosec // at most 100
		},
		Results: results,
	}
	return server.AnswerBulk(ctx, response, succeeded, failed)
}

// distinctIDs gives each id once, in the order given. What is no UUID has been
// refused before.
func distinctIDs(texts []string) []affiliate.CommissionID {
	ids := make([]affiliate.CommissionID, 0, len(texts))
	for _, text := range texts {
		if id, ok := affiliate.ParseID[affiliate.Commission](text); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// failedMove is what became of a commission that stays as it is; its status is
// known where the refusal tells it.
func failedMove(id affiliate.CommissionID, refusal *affiliate.Error) *affiliatev1.BulkCommissionResult {
	code, message := string(refusal.Reason), refusal.Message
	if message == "" {
		message = server.Sentence(refusal.Reason)
	}
	return &affiliatev1.BulkCommissionResult{
		CommissionId: id.String(), StatusCode: server.StatusCode(refusal.Reason),
		Status: server.FromWord[affiliatev1.CommissionStatus](refusal.Metadata["status"]),
		Code:   &code, Message: &message,
	}
}
