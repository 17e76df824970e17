// Package fraud serves the fraud policy of a programme and its fraud events. A fraud
// event records that the fraud rules gave a conversion a high score.
//
//	conversion ─▶ rules (affiliate/fraud) ─▶ score ≥ 50 ─▶ open event ──confirmed──▶ commission is rejected
//	                                                           └──────dismissed──▶ commission loses its fraud flag
//
// It guarantees that an event is resolved only once, also when several users try at
// the same time. The resolution and the change of the commission commit in one
// transaction. A new policy applies to conversions that are attributed after the
// policy was stored. It does not change earlier ones.
//
// It does not promise that a resolution changes a commission. A commission that was
// paid, refunded or rejected before the resolution stays as it is. A blocked
// conversion has no commission.
package fraud

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service implements affiliate.v1.FraudService.
type Service struct {
	affiliatev1.UnimplementedFraudServiceServer

	store Store
	now   func() time.Time
}

// New returns a Service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// GetFraudPolicy returns a programme's policy.
func (s *Service) GetFraudPolicy(ctx context.Context, req *affiliatev1.GetFraudPolicyRequest) (*affiliatev1.ProgramFraudPolicy, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	policy, err := s.store.FraudPolicy(ctx, server.PrincipalFrom(ctx).Scope(), program)
	if err != nil {
		return nil, err
	}
	return policyToProto(policy), nil
}

// PutFraudPolicy replaces a programme's policy.
func (s *Service) PutFraudPolicy(ctx context.Context, req *affiliatev1.PutFraudPolicyRequest) (*affiliatev1.ProgramFraudPolicy, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	policy, err := s.store.PutFraudPolicy(ctx, server.PrincipalFrom(ctx).Scope(), affiliate.ProgramFraudPolicy{
		Program: program, Policy: affiliate.FraudPolicy(server.EnumName(req.GetPolicy())), Settings: settingsOf(req), UpdatedAt: s.currentTime(),
	}, server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return policyToProto(policy), nil
}

// ListFraudEvents returns one page of fraud events, newest first.
func (s *Service) ListFraudEvents(ctx context.Context, req *affiliatev1.ListFraudEventsRequest) (*affiliatev1.ListFraudEventsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	filter := affiliate.FraudEventFilter{Created: created, Status: affiliate.FraudEventStatus(server.EnumName(req.GetStatus()))}
	if id, ok := affiliate.ParseID[affiliate.Program](req.GetProgramId()); ok {
		filter.Program = &id
	}
	if id, ok := affiliate.ParseID[affiliate.Participant](req.GetParticipantId()); ok {
		filter.Participant = &id
	}
	page := server.PageOf(req)
	events, total, err := s.store.FraudEvents(ctx, server.PrincipalFrom(ctx).Scope(), filter, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.FraudEvent, len(events))
	for i, event := range events {
		data[i] = eventToProto(event)
	}
	return &affiliatev1.ListFraudEventsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// ResolveFraudEvent confirms or dismisses an open event. Errors: FRAUD_EVENT_RESOLVED.
func (s *Service) ResolveFraudEvent(ctx context.Context, req *affiliatev1.ResolveFraudEventRequest) (*affiliatev1.FraudEvent, error) {
	id, err := server.PathID[affiliate.FraudEvent](req.GetEventId())
	if err != nil {
		return nil, err
	}
	event, err := s.store.ResolveFraudEvent(ctx, affiliate.FraudResolution{
		Scope: server.PrincipalFrom(ctx).Scope(), Event: id,
		Outcome: affiliate.FraudEventStatus(server.EnumName(req.GetOutcome())), Note: req.Note,
		By: server.ActorFrom(ctx), At: s.currentTime(),
	})
	if err != nil {
		return nil, err
	}
	return eventToProto(event), nil
}
