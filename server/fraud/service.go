// Package fraud serves the fraud policies of programmes, and fraud events. The fraud
// rules (package affiliate/fraud) compute a score for each attributed conversion. If the
// score is at least 50, an open fraud event is created, and a member of the merchant
// reviews it:
//
//	open event ─┬─ confirm ─▶ the commission is rejected
//	            └─ dismiss ─▶ the fraud flag of the commission is removed
//
// The package guarantees that an event is resolved once, even if several users try to
// resolve it at the same time. The resolution of an event and the change of the
// commission are stored in one transaction. A new policy applies to conversions that are
// attributed after the policy was stored. It does not affect earlier conversions.
//
// A resolution does not change a commission that is already paid, refunded or rejected,
// and a blocked conversion has no commission.
package fraud

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	frauds "github.com/tributary-hq/tributary/storage/postgres/fraud"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// Service implements affiliate.v1.FraudService.
type Service struct {
	affiliatev1.UnimplementedFraudServiceServer

	db  *postgres.DB
	now func() time.Time
}

// New returns a Service; now is its clock.
func New(db *postgres.DB, now func() time.Time) *Service { return &Service{db: db, now: now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// GetFraudPolicy returns the fraud policy of a programme.
func (s *Service) GetFraudPolicy(ctx context.Context, req *affiliatev1.GetFraudPolicyRequest) (*affiliatev1.ProgramFraudPolicy, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	policy, err := frauds.Policy(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program)
	if err != nil {
		return nil, err
	}
	return policyToProto(policy), nil
}

// PutFraudPolicy replaces the fraud policy of a programme. If the new policy is equal to
// the old one, it does nothing.
func (s *Service) PutFraudPolicy(ctx context.Context, req *affiliatev1.PutFraudPolicyRequest) (*affiliatev1.ProgramFraudPolicy, error) {
	id := server.PathID[affiliate.ProgramID](req.GetProgramId())
	scope := server.PrincipalFrom(ctx).Scope()
	policy := fraud.ProgramFraudPolicy{
		Program: id, Policy: fraud.Policy(server.EnumName(req.GetPolicy())), Settings: settingsOf(req), UpdatedAt: s.currentTime(),
	}
	var after fraud.ProgramFraudPolicy
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		program, err := programs.LockForUpdate(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		before, err := frauds.Policy(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), policy.Object())
		if err != nil {
			return err
		}
		if oldValues == nil {
			after = before
			return nil
		}
		after = policy
		if err := frauds.UpdatePolicy(ctx, tx, scope, policy); err != nil {
			return err
		}
		program.FraudPolicy, program.Version, program.UpdatedAt = policy.Policy, program.Version+1, policy.UpdatedAt
		// The webhook event has the policy without its lists, which are private.
		var previous any
		if before.Policy != policy.Policy {
			previous = map[string]fraud.Policy{"fraud_policy": before.Policy}
		}
		if err := tx.Audit(ctx, program.AuditLine("program.put_fraud_policy", policy.UpdatedAt, server.ActorFrom(ctx), oldValues, newValues)); err != nil {
			return err
		}
		return tx.Publish(ctx, affiliate.NewEvent(scope, affiliate.EventProgramUpdated, policy.UpdatedAt, program.Object(), previous))
	})
	if err != nil {
		return nil, err
	}
	return policyToProto(after), nil
}

// ListFraudEvents returns one page of fraud events, newest first.
func (s *Service) ListFraudEvents(ctx context.Context, req *affiliatev1.ListFraudEventsRequest) (*affiliatev1.ListFraudEventsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	filter := fraud.EventFilter{
		Program:     server.ParseOptionalID[affiliate.ProgramID](req.ProgramId),
		Participant: server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId),
		Status:      fraud.EventStatus(server.EnumName(req.GetStatus())),
		Created:     created,
	}
	page, scope := server.PageOf(req), server.PrincipalFrom(ctx).Scope()
	if err := postgres.CheckFilter(ctx, s.db, scope, filter.Program, filter.Participant, nil); err != nil {
		return nil, err
	}
	events, total, err := frauds.ListEvents(ctx, s.db, scope, filter, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListFraudEventsResponse{
		Data: server.ConvertAll(events, eventToProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetFraudEvent returns one fraud event.
func (s *Service) GetFraudEvent(ctx context.Context, req *affiliatev1.GetFraudEventRequest) (*affiliatev1.FraudEvent, error) {
	event, err := frauds.GetEvent(ctx, s.db, server.PrincipalFrom(ctx).Scope(), server.PathID[fraud.EventID](req.GetEventId()))
	if err != nil {
		return nil, err
	}
	return eventToProto(event), nil
}

// ResolveFraudEvent confirms or dismisses an open event. If the event is confirmed, its
// commission is rejected. If the event is dismissed, the fraud reason is removed from the
// review reasons of the commission. Errors: FRAUD_EVENT_RESOLVED.
func (s *Service) ResolveFraudEvent(ctx context.Context, req *affiliatev1.ResolveFraudEventRequest) (*affiliatev1.FraudEvent, error) {
	event, err := s.resolve(ctx, server.PathID[fraud.EventID](req.GetEventId()), req)
	if err != nil {
		return nil, err
	}
	return eventToProto(event), nil
}

// BulkResolveFraudEvents resolves several events, each in a separate transaction.
func (s *Service) BulkResolveFraudEvents(ctx context.Context, req *affiliatev1.BulkResolveFraudEventsRequest) (*affiliatev1.BulkFraudEventsResponse, error) {
	return server.Bulk(ctx, server.DistinctIDs[fraud.EventID](req.GetEventIds()), func(id fraud.EventID) (string, error) {
		event, err := s.resolve(ctx, id, &affiliatev1.ResolveFraudEventRequest{Outcome: req.GetOutcome(), Note: req.Note})
		return string(event.Status), err
	}, func(id fraud.EventID, o server.BulkOutcome) *affiliatev1.BulkFraudEventResult {
		return &affiliatev1.BulkFraudEventResult{
			EventId: id.String(), Success: o.Success, StatusCode: o.StatusCode,
			Status: server.EnumValue[affiliatev1.FraudEventStatus](o.Status), Code: o.Code, Message: o.Message,
		}
	}, func(results []*affiliatev1.BulkFraudEventResult, summary *affiliatev1.BulkSummary) *affiliatev1.BulkFraudEventsResponse {
		return &affiliatev1.BulkFraudEventsResponse{Summary: summary, Results: results}
	})
}

// resolve resolves one event. Errors: NOT_FOUND, FRAUD_EVENT_RESOLVED.
func (s *Service) resolve(ctx context.Context, id fraud.EventID, req *affiliatev1.ResolveFraudEventRequest) (fraud.Event, error) {
	scope, actor, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.currentTime()
	var after fraud.Event
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := frauds.LockEvent(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		if after, err = before.Resolve(fraud.EventStatus(server.EnumName(req.GetOutcome())), req.Note, actor, at); err != nil {
			return err
		}
		if err := frauds.UpdateResolution(ctx, tx, after); err != nil {
			return err
		}
		err = tx.Audit(ctx, affiliate.AuditLine{
			Workspace: scope.Workspace, Mode: &scope.Mode, Actor: actor, At: at,
			Action: "fraud_event.resolve", ResourceType: "fraud_event", ResourceID: id,
			Before: map[string]any{"status": before.Status}, After: map[string]any{"status": after.Status},
		})
		if err == nil && after.Commission != nil {
			err = moveCommission(ctx, tx, after, actor, at)
		}
		if err != nil {
			return err
		}
		after, err = frauds.GetEvent(ctx, tx, scope, id)
		return err
	})
	return after, err
}

// moveCommission changes the commission of a resolved event. If the commission can no longer
// be changed in this way, for example because it is paid, it stays as it is.
func moveCommission(ctx context.Context, tx *postgres.Tx, event fraud.Event, actor affiliate.Actor, at time.Time) error {
	locked, err := payouts.LockCommissions(ctx, tx, event.Scope, []affiliate.CommissionID{*event.Commission})
	if err != nil || len(locked) == 0 {
		return err
	}
	c := locked[0]
	t := commission.Transition{
		Scope: event.Scope, Program: c.Program, Commission: c.ID, Actor: actor, At: at, Note: event.Note, Move: commission.MoveReject,
	}
	if event.Status == fraud.EventConfirmed {
		code := attribution.RejectedForFraud
		t.Code = &code
	} else {
		if !slices.Contains(c.ReviewReasons, attribution.ReviewFraud) {
			return nil
		}
		t.Move, t.ReviewReasons = commission.MoveClearReview, []string{attribution.ReviewFraud}
	}
	change, err := c.Move(t)
	var refusal *affiliate.Error
	if errors.As(err, &refusal) {
		return nil
	} else if err != nil {
		return err
	}
	return payouts.ApplyCommissionChanges(ctx, tx, change)
}
