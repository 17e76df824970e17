// Package attribution serves the attribution decisions about conversions. A decision
// explains why a conversion was or was not attributed to a participant, and how its
// commission was calculated. The newest decision about a conversion is in force.
//
//	conversion ── newest decision (in force) ── older decision ── older decision …
//
//	each decision contains: inputs, programme, candidates, steps, rules,
//	                        calculation, fraud signals
//
// The service can also simulate the report of a conversion: it returns the decision that
// would be made, and stores nothing.
//
// The package guarantees that a stored decision is returned unchanged, even if the
// programme or its rules have changed later. A simulation makes its decision with the
// same code as a report, from the data that is stored at the time of the simulation.
// Reads and simulations change no data and take no locks. Responses contain only data of
// the caller's workspace and mode, and no data that identifies a visitor or a buyer.
//
// The package does not guarantee that a report results in the decision that an earlier
// simulation returned. The data may have changed in the meantime. A report also waits for
// a click that is not stored yet, and a simulation does not wait.
package attribution

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// Reports is the part of the conversion service that simulations use.
type Reports interface {
	// Check validates a report.
	Check(req proto.Message) affiliate.Violations
	// Prepare converts a valid report to a conversion and to the inputs of a decision
	// about the conversion, including the click. It stores nothing. Errors:
	// NO_ATTRIBUTION_SIGNAL if the report names neither a click nor a promo code nor a customer.
	Prepare(ctx context.Context, scope affiliate.Scope, req *affiliatev1.ReportConversionRequest) (conversion.Conversion, attribution.Inputs, error)
}

// Service implements affiliate.v1.AttributionService.
type Service struct {
	affiliatev1.UnimplementedAttributionServiceServer

	db      *postgres.DB
	reports Reports
}

// New returns the service. reports is the service to which merchants report conversions.
func New(db *postgres.DB, reports Reports) *Service { return &Service{db: db, reports: reports} }

// Check implements server.Checker. A simulation is validated like a report.
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

// GetDecision returns the decision in force about a conversion.
func (s *Service) GetDecision(ctx context.Context, req *affiliatev1.GetDecisionRequest) (*affiliatev1.Decision, error) {
	return s.decision(ctx, req.GetConversionId())
}

// GetConversionAttribution returns the same as GetDecision. The dashboard calls it.
func (s *Service) GetConversionAttribution(ctx context.Context, req *affiliatev1.GetConversionAttributionRequest) (*affiliatev1.Decision, error) {
	return s.decision(ctx, req.GetConversionId())
}

func (s *Service) decision(ctx context.Context, conversion string) (*affiliatev1.Decision, error) {
	id := server.PathID[affiliate.ConversionID](conversion)
	d, err := conversions.GetDecision(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return toProto(d)
}

// FindDecision returns the decision in force about the conversion with an external id.
// The external id is the merchant's id of the transaction.
func (s *Service) FindDecision(ctx context.Context, req *affiliatev1.FindDecisionRequest) (*affiliatev1.Decision, error) {
	d, err := conversions.GetDecisionByExternalID(ctx, s.db, server.PrincipalFrom(ctx).Scope(), req.GetExternalTransactionId())
	if err != nil {
		return nil, err
	}
	return toProto(d)
}

// ListDecisions returns one page of decisions, newest first.
func (s *Service) ListDecisions(ctx context.Context, req *affiliatev1.ListDecisionsRequest) (*affiliatev1.ListDecisionsResponse, error) {
	filter, wrong := filterOf(req)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return s.list(ctx, filter, server.PageOf(req))
}

// ListConversionDecisions returns one page of the decisions about a conversion, newest first.
func (s *Service) ListConversionDecisions(
	ctx context.Context, req *affiliatev1.ListConversionDecisionsRequest,
) (*affiliatev1.ListDecisionsResponse, error) {
	id := server.PathID[affiliate.ConversionID](req.GetConversionId())
	list, err := s.list(ctx, attribution.DecisionFilter{Conversion: &id}, server.PageOf(req))
	if err == nil && list.GetTotal() == 0 { // a conversion has at least one decision
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return list, err
}

func (s *Service) list(ctx context.Context, filter attribution.DecisionFilter, page affiliate.Page) (*affiliatev1.ListDecisionsResponse, error) {
	decisions, total, err := conversions.ListDecisions(ctx, s.db, server.PrincipalFrom(ctx).Scope(), filter, page)
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
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

// GetAttributedClick returns a click and the conversions that were reported with its id.
func (s *Service) GetAttributedClick(ctx context.Context, req *affiliatev1.GetAttributedClickRequest) (*affiliatev1.AttributedClick, error) {
	id := server.PathID[affiliate.ClickID](req.GetClickId())
	click, err := conversions.GetClick(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return clickToProto(click), nil
}

// SimulateAttribution returns the decision that ReportConversion would make, and stores
// nothing. Errors, in the order of their checks: NO_ATTRIBUTION_SIGNAL, MODE_MISMATCH.
func (s *Service) SimulateAttribution(ctx context.Context, req *affiliatev1.SimulateAttributionRequest) (*affiliatev1.Decision, error) {
	c, in, err := s.reports.Prepare(ctx, server.PrincipalFrom(ctx).Scope(), reportOf(req))
	if err != nil {
		return nil, err
	}
	if in, err = conversions.ReadSignals(ctx, s.db, c, in); err != nil {
		return nil, err
	}
	switch {
	case in.HasNoSignal():
		return nil, affiliate.Refuse(affiliate.ReasonNoAttributionSignal)
	case in.HasSignalOfOtherMode():
		return nil, affiliate.Refuse(affiliate.ReasonModeMismatch)
	}
	d := attribution.Attribute(in)
	d.DecidedAt = c.CreatedAt
	record, err := attribution.SimulatedRecord(d)
	if err != nil {
		return nil, err
	}
	record.CustomerRef = c.CustomerRef
	if err := conversions.NameDecision(ctx, s.db, c.Scope, &record); err != nil {
		return nil, err
	}
	return toProto(record)
}
