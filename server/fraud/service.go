// Package fraud serves a programme's fraud policy and what the fraud rules found.
//
//	conversion ─▶ rules (affiliate/fraud) ─▶ score ≥ 50 ─▶ event, open ──confirmed──▶ its commission is rejected
//	                                                            └──────dismissed──▶ its commission loses the flag
//
// It guarantees that an event is resolved once, whoever else tries at the same
// time, and that what a resolution does with a commission commits with it. A
// policy holds for conversions that are decided after it was put; it touches none
// that were.
//
// It does not promise that a resolution moves a commission: one that has ended or
// is paid meanwhile stays as it is, and blocked conversions have none.
package fraud

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.FraudService.
type Service struct {
	affiliatev1.UnimplementedFraudServiceServer

	store Store
	now   func() time.Time
}

// New makes the service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// at is the instant of a change: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// GetFraudPolicy reads a programme's policy.
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
		Program: program, Policy: affiliate.FraudPolicy(server.Word(req.GetPolicy())), Settings: settingsOf(req), UpdatedAt: s.at(),
	}, server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return policyToProto(policy), nil
}

// ListFraudEvents pages through what the rules found, newest first.
func (s *Service) ListFraudEvents(ctx context.Context, req *affiliatev1.ListFraudEventsRequest) (*affiliatev1.ListFraudEventsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	filter := affiliate.FraudEventFilter{Created: created, Status: affiliate.FraudEventStatus(server.Word(req.GetStatus()))}
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
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// ResolveFraudEvent ends an open event. Errors: FRAUD_EVENT_RESOLVED.
func (s *Service) ResolveFraudEvent(ctx context.Context, req *affiliatev1.ResolveFraudEventRequest) (*affiliatev1.FraudEvent, error) {
	id, err := server.PathID[affiliate.FraudEvent](req.GetEventId())
	if err != nil {
		return nil, err
	}
	event, err := s.store.ResolveFraudEvent(ctx, affiliate.FraudResolution{
		Scope: server.PrincipalFrom(ctx).Scope(), Event: id,
		Outcome: affiliate.FraudEventStatus(server.Word(req.GetOutcome())), Note: req.Note,
		By: server.ActorFrom(ctx), At: s.at(),
	})
	if err != nil {
		return nil, err
	}
	return eventToProto(event), nil
}
