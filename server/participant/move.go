package participant

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	promocodes "github.com/tributary-hq/tributary/storage/postgres/promocode"
)

// ApproveParticipant approves a pending or rejected participant. The participant can then
// earn commissions.
func (s *Service) ApproveParticipant(ctx context.Context, req *affiliatev1.ApproveParticipantRequest) (*affiliatev1.Participant, error) {
	return s.moveOne(ctx, req, participant.ApproveParticipant, nil)
}

// RejectParticipant rejects a pending participant.
func (s *Service) RejectParticipant(ctx context.Context, req *affiliatev1.RejectParticipantRequest) (*affiliatev1.Participant, error) {
	return s.moveOne(ctx, req, participant.RejectParticipant, req.Reason)
}

// SuspendParticipant suspends an approved participant. The participant can then earn no
// commissions.
func (s *Service) SuspendParticipant(ctx context.Context, req *affiliatev1.SuspendParticipantRequest) (*affiliatev1.Participant, error) {
	return s.moveOne(ctx, req, participant.SuspendParticipant, req.Reason)
}

// ReinstateParticipant ends the suspension of a participant. The participant is then
// approved again.
func (s *Service) ReinstateParticipant(ctx context.Context, req *affiliatev1.ReinstateParticipantRequest) (*affiliatev1.Participant, error) {
	return s.moveOne(ctx, req, participant.ReinstateParticipant, nil)
}

func (s *Service) moveOne(ctx context.Context, req participantRequest, move participant.Move, reason *string) (*affiliatev1.Participant, error) {
	program, id := pathIDs(req)
	moved, err := s.move(ctx, program, id, move, reason, s.currentTime())
	if err != nil {
		return nil, err
	}
	return toProto(moved, server.PrincipalFrom(ctx).Role), nil
}

// BulkApproveParticipants approves several participants, each in a separate transaction.
func (s *Service) BulkApproveParticipants(ctx context.Context, req *affiliatev1.BulkApproveParticipantsRequest) (*affiliatev1.BulkParticipantsResponse, error) {
	return s.bulkMove(ctx, req, participant.ApproveParticipant, nil)
}

// BulkRejectParticipants rejects several participants, each in a separate transaction.
func (s *Service) BulkRejectParticipants(ctx context.Context, req *affiliatev1.BulkRejectParticipantsRequest) (*affiliatev1.BulkParticipantsResponse, error) {
	return s.bulkMove(ctx, req, participant.RejectParticipant, req.Reason)
}

// bulkRequest is a request about several participants.
type bulkRequest interface {
	programRequest
	GetParticipantIds() []string
}

// bulkMove applies the same status change to all participants in the request.
func (s *Service) bulkMove(ctx context.Context, req bulkRequest, move participant.Move, reason *string) (*affiliatev1.BulkParticipantsResponse, error) {
	program, at := server.PathID[affiliate.ProgramID](req.GetProgramId()), s.currentTime()
	return s.bulk(ctx, req, func(id affiliate.ParticipantID) (participant.Detail, error) {
		return s.move(ctx, program, id, move, reason, at)
	})
}

// bulk calls change for all participants in the request, one after the other.
func (s *Service) bulk(
	ctx context.Context, req bulkRequest, change func(affiliate.ParticipantID) (participant.Detail, error),
) (*affiliatev1.BulkParticipantsResponse, error) {
	if server.PathID[affiliate.ProgramID](req.GetProgramId()).IsZero() { // otherwise each participant would fail
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return server.Bulk(ctx, server.DistinctIDs[affiliate.ParticipantID](req.GetParticipantIds()), func(id affiliate.ParticipantID) (string, error) {
		changed, err := change(id)
		return string(changed.Status), err
	}, func(id affiliate.ParticipantID, o server.BulkOutcome) *affiliatev1.BulkParticipantResult {
		return &affiliatev1.BulkParticipantResult{
			ParticipantId: id.String(), Success: o.Success, StatusCode: o.StatusCode,
			Status: server.EnumValue[affiliatev1.ParticipantStatus](o.Status), Code: o.Code, Message: o.Message,
		}
	}, func(results []*affiliatev1.BulkParticipantResult, summary *affiliatev1.BulkSummary) *affiliatev1.BulkParticipantsResponse {
		return &affiliatev1.BulkParticipantsResponse{Summary: summary, Results: results}
	})
}

// move approves, rejects, suspends or reinstates a participant. reason may be nil. A suspension
// also deactivates promo codes (deactivateSyncedCodes) and flags commissions for review. A
// reinstatement removes the flags. The metadata of a refusal contains the current status.
func (s *Service) move(
	ctx context.Context, program affiliate.ProgramID, id affiliate.ParticipantID, move participant.Move, reason *string, at time.Time,
) (moved participant.Detail, err error) {
	scope, by := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx)
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := participants.Lock(ctx, tx, scope, program, id)
		if err != nil {
			return err
		}
		after, err := before.Move(move, reason, at)
		if err != nil {
			return err
		}
		if move == participant.SuspendParticipant {
			if err := deactivateSyncedCodes(ctx, tx, after, at, by); err != nil {
				return err
			}
		}
		newValues := map[string]any{"status": after.Status, "reason": after.Object().Reason}
		if err := storeStatus(ctx, tx, before, after, move.Event(), "participant."+string(move), newValues, by); err != nil {
			return err
		}
		// The review comes after all other locks. If a conversion is decided at the same
		// time, its commission may stay without a flag.
		if move == participant.SuspendParticipant || move == participant.ReinstateParticipant {
			if err := reviewNextChunk(ctx, tx, commission.ReviewPending{
				Workspace: scope.Workspace, Mode: scope.Mode, Program: program, Participant: id, Move: move, Since: at,
				User: by.User, Key: by.Key, ServiceToken: by.ServiceToken,
			}, after.Partner, at); err != nil {
				return err
			}
		}
		moved, err = participants.Get(ctx, tx, scope, program, id)
		return err
	})
	return moved, err
}

// storeStatus stores a new status of a locked participant with everything that follows from
// it. The counts come last, because other transactions wait for their rows.
func storeStatus(
	ctx context.Context, tx *postgres.Tx, before, after participant.Participant, event affiliate.EventName, action string, newValues any, by affiliate.Actor,
) error {
	if err := participants.Update(ctx, tx, after); err != nil {
		return err
	}
	oldValues := map[string]participant.Status{"status": before.Status}
	if err := changed(ctx, tx, after, action, by, oldValues, newValues, after.Event(event, after.UpdatedAt, oldValues)); err != nil {
		return err
	}
	return postgres.ChangeCounts(ctx, tx, after.Workspace, after.Program,
		postgres.CountChange{What: postgres.ParticipantCount + string(before.Status), ID: after.ID.UUID, N: -1},
		postgres.CountChange{What: postgres.ParticipantCount + string(after.Status), ID: after.ID.UUID, N: 1},
	)
}

// changed stores everything that follows from a change of a participant: the audit record,
// the events, and the job that updates the edge directory.
func changed(
	ctx context.Context, tx *postgres.Tx, p participant.Participant, action string, by affiliate.Actor, oldValues, newValues any, events ...affiliate.Event,
) error {
	if err := tx.Audit(ctx, auditLine(p, action, by, oldValues, newValues)); err != nil {
		return err
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: p.Workspace, Participant: &p.ID})
}

func auditLine(p participant.Participant, action string, by affiliate.Actor, oldValues, newValues any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: p.Workspace, Mode: &p.Mode, Actor: by, At: p.UpdatedAt,
		Action: action, ResourceType: "participant", ResourceID: p.ID, Before: oldValues, After: newValues,
	}
}

// deactivateSyncedCodes deactivates those promo codes of a suspended participant that also
// exist, or will exist, at the payment processor. This is necessary because the processor
// does not check the participant's status.
func deactivateSyncedCodes(ctx context.Context, tx *postgres.Tx, p participant.Participant, at time.Time, by affiliate.Actor) error {
	codes, err := promocodes.DeactivateSynced(ctx, tx, p.Scope, p.ID, at)
	if err != nil {
		return err
	}
	oldValues, newValues := map[string]bool{"active": true}, map[string]bool{"active": false}
	events, jobs := make([]affiliate.Event, len(codes)), make([]affiliate.Job, len(codes))
	for i, code := range codes {
		err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: p.Workspace, Mode: &p.Mode, Actor: by, At: at,
			Action: "promo_code.deactivate", ResourceType: "promo_code", ResourceID: code.ID, Before: oldValues, After: newValues,
		})
		if err != nil {
			return err
		}
		events[i] = affiliate.NewEvent(p.Scope, affiliate.EventPromoCodeDeactivated, at, code.Object(), oldValues)
		jobs[i] = code.SyncJob()
	}
	if err := tx.Enqueue(ctx, jobs...); err != nil {
		return err
	}
	return tx.Publish(ctx, events...)
}
