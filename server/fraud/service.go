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
// A resolution does not always change a commission. A commission that is already paid,
// refunded or rejected does not change. A conversion that the fraud rules blocked has no
// commission.
package fraud

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	frauds "github.com/tributary-hq/tributary/storage/postgres/fraud"
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
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	policy, err := frauds.Policy(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program)
	if err != nil {
		return nil, err
	}
	return policyToProto(policy), nil
}

// PutFraudPolicy replaces the fraud policy of a programme.
func (s *Service) PutFraudPolicy(ctx context.Context, req *affiliatev1.PutFraudPolicyRequest) (*affiliatev1.ProgramFraudPolicy, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	policy, err := frauds.PutPolicy(ctx, s.db, server.PrincipalFrom(ctx).Scope(), fraud.ProgramFraudPolicy{
		Program: program, Policy: fraud.Policy(server.EnumName(req.GetPolicy())), Settings: settingsOf(req), UpdatedAt: s.currentTime(),
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
	filter := fraud.EventFilter{
		Program:     server.ParseOptionalID[affiliate.ProgramID](req.ProgramId),
		Participant: server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId),
		Status:      fraud.EventStatus(server.EnumName(req.GetStatus())),
		Created:     created,
	}
	page := server.PageOf(req)
	events, total, err := frauds.ListEvents(ctx, s.db, server.PrincipalFrom(ctx).Scope(), filter, page)
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
	id, err := server.PathID[fraud.EventID](req.GetEventId())
	if err != nil {
		return nil, err
	}
	event, err := frauds.ResolveEvent(ctx, s.db, fraud.Resolution{
		Scope: server.PrincipalFrom(ctx).Scope(), Event: id,
		Outcome: fraud.EventStatus(server.EnumName(req.GetOutcome())), Note: req.Note,
		By: server.ActorFrom(ctx), At: s.currentTime(),
	})
	if err != nil {
		return nil, err
	}
	return eventToProto(event), nil
}
