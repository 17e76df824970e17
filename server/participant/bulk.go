package participant

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// BulkApproveParticipants approves each on its own.
func (s *Service) BulkApproveParticipants(ctx context.Context, req *affiliatev1.BulkApproveParticipantsRequest) (*affiliatev1.BulkParticipantsResponse, error) {
	return s.bulk(ctx, req, affiliate.ApproveParticipant, nil)
}

// BulkRejectParticipants rejects each on its own.
func (s *Service) BulkRejectParticipants(ctx context.Context, req *affiliatev1.BulkRejectParticipantsRequest) (*affiliatev1.BulkParticipantsResponse, error) {
	return s.bulk(ctx, req, affiliate.RejectParticipant, req.Reason)
}

// bulkRequest is a request about several participants.
type bulkRequest interface {
	inProgram
	GetParticipantIds() []string
}

// bulk makes one move after the other. An accident ends the request with what
// was done until then done; that is safe to send again.
func (s *Service) bulk(ctx context.Context, req bulkRequest, move affiliate.ParticipantMove, reason *string) (*affiliatev1.BulkParticipantsResponse, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	caller, at, actor := server.PrincipalFrom(ctx), s.at(), server.ActorFrom(ctx)
	folded := distinctIDs(req.GetParticipantIds())
	results := make([]*affiliatev1.BulkParticipantResult, len(folded))
	var succeeded int
	for i, id := range folded {
		p, err := s.store.MoveParticipant(ctx, caller.Scope(), program, id, move, reason, at, actor)
		var refusal *affiliate.Error
		switch {
		case err == nil:
			succeeded++
			results[i] = &affiliatev1.BulkParticipantResult{
				ParticipantId: id.String(), Success: true, StatusCode: http.StatusOK,
				Status: server.FromWord[affiliatev1.ParticipantStatus](p.Status),
			}
		case errors.As(err, &refusal):
			results[i] = failedMove(id, refusal)
		default:
			return nil, err
		}
	}
	failed := len(results) - succeeded
	response := &affiliatev1.BulkParticipantsResponse{
		Summary: &affiliatev1.BulkSummary{
			Total: int32(len(results)), Succeeded: int32(succeeded), Failed: int32(failed), //nolint:gosec // at most 100
		},
		Results: results,
	}
	return server.AnswerBulk(ctx, response, succeeded, failed)
}

// distinctIDs gives each id once, in the order given. What is no UUID has been
// refused before.
func distinctIDs(texts []string) []affiliate.ParticipantID {
	ids := make([]affiliate.ParticipantID, 0, len(texts))
	for _, text := range texts {
		if id, ok := affiliate.ParseID[affiliate.Participant](text); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// failedMove is what became of a participant that stays as it is; its status is
// known where the refusal tells it.
func failedMove(id affiliate.ParticipantID, refusal *affiliate.Error) *affiliatev1.BulkParticipantResult {
	code, message := string(refusal.Reason), refusal.Message
	if message == "" {
		message = server.Sentence(refusal.Reason)
	}
	return &affiliatev1.BulkParticipantResult{
		ParticipantId: id.String(), StatusCode: server.StatusCode(refusal.Reason),
		Status: server.FromWord[affiliatev1.ParticipantStatus](refusal.Metadata["status"]),
		Code:   &code, Message: &message,
	}
}
