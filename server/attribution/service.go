// Package attribution shows why a conversion was, or was not, attributed and
// what it earned.
//
//	conversion ──in force──▶ decision ──supersedes──▶ decision ──supersedes──▶ …
//	                            │
//	                            └─ inputs, programme, candidates, steps, rules, calculation, fraud: as they were
//
// It guarantees that a decision is shown as it was made, whatever has changed
// since, that a simulation is decided by the code and the facts that would decide
// about a report, and that neither changes or holds up anything. What is shown
// belongs to the workspace and mode of the caller and identifies no visitor and
// no buyer.
//
// It does not promise that a report gets the decision that was simulated: facts
// change in between, and a report waits for a click that a simulation only looks
// for.
package attribution

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.AttributionService.
type Service struct {
	affiliatev1.UnimplementedAttributionServiceServer

	store   Store
	reports Reports
}

// New makes the service. reports is the service that takes reports of
// conversions.
func New(store Store, reports Reports) *Service { return &Service{store: store, reports: reports} }

// Check finds what the contract's annotations cannot say. A simulation is checked
// as the report that it could be.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	switch req := req.(type) {
	case *affiliatev1.ListDecisionsRequest:
		_, wrong := filterOf(req)
		return wrong
	case *affiliatev1.SimulateAttributionRequest:
		return s.reports.Check(reportOf(req))
	}
	return nil
}

// GetDecision reads the decision in force about a conversion.
func (s *Service) GetDecision(ctx context.Context, req *affiliatev1.GetDecisionRequest) (*affiliatev1.Decision, error) {
	return s.decision(ctx, req.GetConversionId())
}

// GetConversionAttribution is GetDecision for the dashboard.
func (s *Service) GetConversionAttribution(ctx context.Context, req *affiliatev1.GetConversionAttributionRequest) (*affiliatev1.Decision, error) {
	return s.decision(ctx, req.GetConversionId())
}

func (s *Service) decision(ctx context.Context, conversion string) (*affiliatev1.Decision, error) {
	id, err := server.PathID[affiliate.Conversion](conversion)
	if err != nil {
		return nil, err
	}
	d, err := s.store.Decision(ctx, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return toProto(d)
}

// FindDecision is GetDecision by the merchant's own id.
func (s *Service) FindDecision(ctx context.Context, req *affiliatev1.FindDecisionRequest) (*affiliatev1.Decision, error) {
	d, err := s.store.DecisionOfExternal(ctx, server.PrincipalFrom(ctx).Scope(), req.GetExternalTransactionId())
	if err != nil {
		return nil, err
	}
	return toProto(d)
}

// ListDecisions pages through decisions, newest first.
func (s *Service) ListDecisions(ctx context.Context, req *affiliatev1.ListDecisionsRequest) (*affiliatev1.ListDecisionsResponse, error) {
	filter, wrong := filterOf(req)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	decisions, total, err := s.store.Decisions(ctx, server.PrincipalFrom(ctx).Scope(), filter, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Decision, len(decisions))
	for i, d := range decisions {
		if data[i], err = toProto(d); err != nil {
			return nil, err
		}
	}
	return &affiliatev1.ListDecisionsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both came in as int32
	}, nil
}

// GetAttributedClick reads a click and the conversions that name it.
func (s *Service) GetAttributedClick(ctx context.Context, req *affiliatev1.GetAttributedClickRequest) (*affiliatev1.AttributedClick, error) {
	id, err := server.PathID[affiliate.Click](req.GetClickId())
	if err != nil {
		return nil, err
	}
	click, err := s.store.AttributedClick(ctx, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return clickToProto(click), nil
}

// SimulateAttribution decides as ReportConversion would and stores nothing.
// Refusals, in this order: NO_ATTRIBUTION_SIGNAL, MODE_MISMATCH.
func (s *Service) SimulateAttribution(ctx context.Context, req *affiliatev1.SimulateAttributionRequest) (*affiliatev1.Decision, error) {
	c, in, err := s.reports.Prepare(ctx, server.PrincipalFrom(ctx).Scope(), reportOf(req))
	if err != nil {
		return nil, err
	}
	if in, err = s.store.SeeSignals(ctx, c, in); err != nil {
		return nil, err
	}
	if in.HasSignalOfOtherMode() {
		return nil, affiliate.Refuse(affiliate.ReasonModeMismatch)
	}
	d := affiliate.Attribute(in)
	d.DecidedAt = c.CreatedAt
	record, err := affiliate.SimulatedRecord(d)
	if err != nil {
		return nil, err
	}
	record.CustomerRef = c.CustomerRef
	return toProto(record)
}
