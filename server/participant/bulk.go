package participant

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
)

// BulkApproveParticipants approves several participants, each in a separate transaction.
func (s *Service) BulkApproveParticipants(ctx context.Context, req *affiliatev1.BulkApproveParticipantsRequest) (*affiliatev1.BulkParticipantsResponse, error) {
	return s.bulk(ctx, req, participant.ApproveParticipant, nil)
}

// BulkRejectParticipants rejects several participants, each in a separate transaction.
func (s *Service) BulkRejectParticipants(ctx context.Context, req *affiliatev1.BulkRejectParticipantsRequest) (*affiliatev1.BulkParticipantsResponse, error) {
	return s.bulk(ctx, req, participant.RejectParticipant, req.Reason)
}

// bulkRequest is a request about several participants.
type bulkRequest interface {
	programRequest
	GetParticipantIds() []string
}

// bulk applies the same status change to all participants in the request, one after the
// other.
func (s *Service) bulk(ctx context.Context, req bulkRequest, move participant.Move, reason *string) (*affiliatev1.BulkParticipantsResponse, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	scope, at, actor := server.PrincipalFrom(ctx).Scope(), s.currentTime(), server.ActorFrom(ctx)
	outcomes, err := server.ForEachID(req.GetParticipantIds(), func(id affiliate.ParticipantID) (string, error) {
		moved, err := participants.Move(ctx, s.db, scope, program, id, move, reason, at, actor)
		return string(moved.Status), err
	})
	if err != nil {
		return nil, err
	}
	response, succeeded := &affiliatev1.BulkParticipantsResponse{}, 0
	for _, o := range outcomes {
		if o.Success {
			succeeded++
		}
		response.Results = append(response.Results, &affiliatev1.BulkParticipantResult{
			ParticipantId: o.ID, Success: o.Success, StatusCode: o.StatusCode,
			Status: server.EnumValue[affiliatev1.ParticipantStatus](o.Status), Code: o.Code, Message: o.Message,
		})
	}
	response.Summary = server.BulkSummary(len(outcomes), succeeded)
	return server.RespondToBulk(ctx, response)
}
