package program

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// PreviewProgramRules returns the commission of an example under the programme's rules and under
// changed rules. It assigns the example to the participant, so that the decision depends only on
// the rules. Errors: NOT_FOUND.
func (s *Service) PreviewProgramRules(ctx context.Context, req *affiliatev1.PreviewProgramRulesRequest) (*affiliatev1.ProgramRulesPreview, error) {
	id, scope := server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PrincipalFrom(ctx).Scope()
	p, err := programs.Get(ctx, s.db, scope, id)
	if err != nil {
		return nil, err
	}
	rules, wrong := p.Rules.Patch(rulesPatchOf(req.GetCommissionRules(), req.GetUpdateMask().GetPaths()))
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	in := s.inputsOfExample(req.GetExample(), p)
	in, err = conversions.ReadExample(ctx, s.db, scope, in, server.ParseOptionalID[affiliate.ParticipantID](req.GetExample().ParticipantId))
	if err != nil {
		return nil, err
	}
	counts, err := participants.CountRates(ctx, s.db, scope, id)
	if err != nil {
		return nil, err
	}
	counts, more := counts.Capped()
	if more {
		server.MarkCapped(ctx)
	}
	preview := &affiliatev1.ProgramRulesPreview{
		CommissionRules: server.Rules(rules),
		Participants:    &affiliatev1.ParticipantRates{ProgramRate: counts.OfProgram, GroupRate: counts.OfGroup, OwnRate: counts.Own},
	}
	in.Assigned.Rule.Rules = p.Rules
	if preview.Current, err = previewedCommission(in); err != nil {
		return nil, err
	}
	in.Assigned.Rule.Rules = rules
	preview.Changed, err = previewedCommission(in)
	return preview, err
}

// inputsOfExample converts an example to the inputs of a decision, with an approved participant.
func (s *Service) inputsOfExample(example *affiliatev1.ExampleConversion, p program.Program) attribution.Inputs {
	now := s.currentTime()
	in := attribution.Inputs{
		Mode: p.Mode, EventType: eventOfExample(example), OccurredAt: now,
		Assigned: &attribution.Earner{Program: p.ID, ProgramName: p.Name, Currency: p.Currency, ParticipantStatus: participant.Approved},
		LineItems: server.ConvertAll(example.GetLineItems(), func(item *affiliatev1.ExampleLineItem) attribution.LineItem {
			line := attribution.LineItem{ProductID: item.GetProductId(), Quantity: 1, AmountCents: item.GetAmountCents()}
			if item.Quantity != nil {
				line.Quantity = item.GetQuantity()
			}
			return line
		}),
	}
	if example.AmountCents != nil { // an event without an amount has no currency either
		in.Sale = attribution.Sale{
			Money:    affiliate.Money{Cents: example.GetAmountCents(), Currency: p.Currency},
			TaxCents: example.GetTaxCents(), ShippingCents: example.GetShippingCents(), FeeCents: example.GetFeeCents(),
		}
		if currency, ok := affiliate.ParseCurrency(example.GetCurrency()); ok {
			in.Sale.Currency = currency
		}
	}
	earlier := max(1, int(example.GetPaymentNumber())) - 1
	in.Customer = &attribution.FoundCustomer{Payments: map[affiliate.ProgramID]attribution.CustomerPayments{
		p.ID: {Count: earlier, FirstAt: now.AddDate(0, -earlier, 0)},
	}}
	return in
}

func eventOfExample(example *affiliatev1.ExampleConversion) affiliate.EventType {
	if example.GetEventType() == affiliatev1.EventType_EVENT_TYPE_UNSPECIFIED {
		return affiliate.Purchase
	}
	return affiliate.EventType(server.EnumName(example.GetEventType()))
}

// previewedCommission decides about an example. PreviewedCalculation has the fields of
// DecisionCalculation with the same numbers, so it is read from the same bytes.
func previewedCommission(in attribution.Inputs) (*affiliatev1.PreviewedCommission, error) {
	d := attribution.Attribute(in)
	if d.Earning == nil {
		reason, last := string(d.Reason), d.Trace.Steps[len(d.Trace.Steps)-1]
		return &affiliatev1.PreviewedCommission{ReasonCode: &reason, Detail: &last.Detail}, nil
	}
	encoded, err := proto.Marshal(server.Calculation(&d.Earning.Calculation))
	if err != nil {
		return nil, err
	}
	out := &affiliatev1.PreviewedCommission{Earns: true, Calculation: &affiliatev1.PreviewedCalculation{}}
	return out, proto.Unmarshal(encoded, out.Calculation)
}

// checkPreview validates the rules like those of UpdateProgram, and the example like a report.
func checkPreview(req *affiliatev1.PreviewProgramRulesRequest, found *affiliate.Violations) {
	server.CheckMask(req, found)
	checkRateFields(req.GetCommissionRules(), found)
	patch := presentFieldsPatch(req.GetCommissionRules(), found)
	*found = append(*found, patch.Check()...)
	example := req.GetExample()
	if example == nil { // the rules of the field reject it
		return
	}
	if event := eventOfExample(example); example.AmountCents == nil && event.Priced() {
		found.Add("example.amount_cents", "is required when {example.event_type} is "+string(event))
	}
	if currency := example.GetCurrency(); currency != "" {
		if _, ok := affiliate.ParseCurrency(currency); !ok {
			found.Add("example.currency", affiliate.MustBeCurrency)
		}
	}
}
