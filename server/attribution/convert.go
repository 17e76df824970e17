package attribution

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// filterOf returns the filter of a list request and the violations in its parameters.
func filterOf(req *affiliatev1.ListDecisionsRequest) (attribution.DecisionFilter, affiliate.Violations) {
	from, fromName, duplicates := aliasedValue(req.DateFrom, "date_from", req.From, "from", nil)
	to, toName, duplicates := aliasedValue(req.DateTo, "date_to", req.To, "to", duplicates)
	period, wrong := affiliate.ParsePeriod(from, to, req.GetTimezone())
	for i := range wrong {
		// ParsePeriod names its parameters date_from and date_to.
		switch wrong[i].Field {
		case "date_from":
			wrong[i].Field = fromName
		case "date_to":
			wrong[i].Field = toName
		}
		wrong[i].Message = strings.ReplaceAll(wrong[i].Message, "{date_from}", "{"+fromName+"}")
	}
	wrong = append(duplicates, wrong...)
	filter := attribution.DecisionFilter{
		Attributed: req.Attributed,
		Reason:     attribution.Reason(req.GetReasonCode()),
		Decided:    period,
	}
	if filter.Reason != "" && !filter.Reason.IsDecisionReason() {
		wrong.Add("reason_code", "must be a reason code of a decision")
	}
	if text := req.GetProgramId(); text != "" {
		id, ok := affiliate.ParseID[affiliate.ProgramID](text)
		if !ok {
			wrong.Add("program_id", affiliate.MustBeUUID)
		}
		filter.Program = &id
	}
	return filter, wrong
}

// aliasedValue returns the value of a parameter that has two names, and the name that the
// request uses. value and aliasValue are the values under the two names. If the request
// uses both names, aliasedValue appends a violation to found.
func aliasedValue(value *string, name string, aliasValue *string, alias string, found affiliate.Violations) (string, string, affiliate.Violations) {
	switch {
	case aliasValue == nil:
		return stringOrEmpty(value), name, found
	case value == nil:
		return *aliasValue, alias, found
	}
	found.Add(alias, affiliate.MustNotBeWith(name)+", which is the same parameter")
	return *value, name, found
}

func stringOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// reportOf converts a simulation request to the request that would report the conversion.
// The two messages have the same fields with the same numbers. A test checks this.
func reportOf(req *affiliatev1.SimulateAttributionRequest) *affiliatev1.ReportConversionRequest {
	report := &affiliatev1.ReportConversionRequest{}
	to := report.ProtoReflect()
	req.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(to.Descriptor().Fields().ByNumber(field.Number()), value)
		return true
	})
	return report
}

func toProto(d attribution.DecisionRecord) (*affiliatev1.Decision, error) {
	out := &affiliatev1.Decision{
		Attributed:    d.Attributed,
		Method:        text(d.Method),
		ReasonCode:    string(d.Reason),
		Explanation:   d.Explanation,
		EngineVersion: d.EngineVersion,
		DecidedAt:     server.Timestamp(d.DecidedAt),
		Inputs: &affiliatev1.DecisionInputs{
			Mode:          server.EnumValue[affiliatev1.Mode](d.Trace.Inputs.Mode),
			EventType:     server.EnumValue[affiliatev1.EventType](d.Trace.Inputs.EventType),
			OccurredAt:    server.Timestamp(d.Trace.Inputs.OccurredAt),
			AmountCents:   d.Trace.Inputs.AmountCents,
			Currency:      d.Trace.Inputs.Currency,
			TaxCents:      d.Trace.Inputs.TaxCents,
			ShippingCents: d.Trace.Inputs.ShippingCents,
			FeeCents:      d.Trace.Inputs.FeeCents,
			ClickId:       server.OptionalID(d.Trace.Inputs.Click),
			PromoCode:     d.Trace.Inputs.PromoCode,
		},
		Candidates:   make([]*affiliatev1.DecisionCandidate, len(d.Trace.Candidates)),
		Steps:        make([]*affiliatev1.DecisionStep, len(d.Trace.Steps)),
		Calculation:  server.Calculation(d.Trace.Calculation),
		Fraud:        make([]*affiliatev1.FraudSignal, len(d.Trace.Fraud)),
		Supersedes:   server.OptionalID(d.Supersedes),
		SupersededBy: server.OptionalID(d.SupersededBy),
	}
	if !d.ID.IsZero() {
		out.DecisionId, out.ConversionId = server.OptionalID(&d.ID), server.OptionalID(&d.Conversion)
	}
	if p := d.Trace.Program; p != nil {
		out.Program = &affiliatev1.DecisionProgram{
			Id:         p.ID.String(),
			WindowDays: int32(p.WindowDays), // #nosec G115 -- at most 365
			Model:      server.EnumValue[affiliatev1.AttributionModel](p.Model),
			Precedence: server.EnumValue[affiliatev1.SignalPrecedence](p.Precedence),
			Name:       d.ProgramName,
		}
	}
	for i, c := range d.Trace.Candidates {
		out.Candidates[i] = &affiliatev1.DecisionCandidate{
			Type:            string(c.Type),
			ClickId:         server.OptionalID(c.Click),
			PromoCode:       c.PromoCode,
			ParticipantId:   server.OptionalID(c.Participant),
			At:              server.OptionalTimestamp(c.At),
			ExpiresAt:       server.OptionalTimestamp(c.ExpiresAt),
			Eligible:        c.Eligible,
			RejectedBecause: text(c.RejectedBecause),
		}
		if c.Participant != nil {
			out.Candidates[i].PartnerName = d.PartnerNames[c.Participant.String()]
		}
		if c.Type == attribution.ByCustomer {
			out.Candidates[i].CustomerId = d.CustomerRef
		}
	}
	for i, step := range d.Trace.Steps {
		out.Steps[i] = &affiliatev1.DecisionStep{
			Order: int32(step.Order), Check: step.Check, Outcome: string(step.Outcome), Detail: step.Detail, // #nosec G115 -- a decision has few steps
		}
	}
	for i, signal := range d.Trace.Fraud {
		out.Fraud[i] = &affiliatev1.FraudSignal{
			Rule: signal.Rule, Score: int32(signal.Score), Evidence: signal.Evidence, // #nosec G115 -- a score is at most 100
		}
	}
	if d.RuleJSON != nil {
		out.Rule = &structpb.Struct{}
		if err := protojson.Unmarshal(d.RuleJSON, out.Rule); err != nil {
			return nil, fmt.Errorf("rule of decision %s: %w", d.ID, err)
		}
	}
	return out, nil
}

func clickToProto(c attribution.ClickDetail) *affiliatev1.AttributedClick {
	out := &affiliatev1.AttributedClick{
		Id:             c.ID.String(),
		WorkspaceId:    c.Workspace.String(),
		ProgramId:      c.Program.String(),
		ProgramName:    c.ProgramName,
		ParticipantId:  c.Participant.String(),
		PartnerName:    c.PartnerName,
		ReferralCode:   c.ReferralCode,
		Mode:           server.EnumValue[affiliatev1.Mode](c.Mode),
		LandingUrl:     server.OptionalString(c.LandingURL),
		ReferrerDomain: server.OptionalString(c.ReferrerDomain),
		UtmSource:      server.OptionalString(c.Source),
		UtmMedium:      server.OptionalString(c.Medium),
		UtmCampaign:    server.OptionalString(c.Campaign),
		UtmTerm:        server.OptionalString(c.Term),
		UtmContent:     server.OptionalString(c.Content),
		SubId:          server.OptionalString(c.SubID),
		Language:       server.OptionalString(c.Language),
		Country:        server.OptionalString(c.Country),
		Region:         server.OptionalString(c.Region),
		Device:         server.OptionalString(c.Device),
		Browser:        server.OptionalString(c.Browser),
		Os:             server.OptionalString(c.OS),
		IsBot:          c.IsBot,
		BotReason:      server.OptionalString(c.BotReason),
		IsUnique:       c.Unique,
		PaidPlatform:   server.OptionalString(c.PaidPlatform),
		Consent:        string(c.Consent),
		ReceivedAt:     server.Timestamp(c.ReceivedAt),
		CreatedAt:      server.Timestamp(c.CreatedAt),
		ExpiresAt:      server.Timestamp(c.ExpiresAt),
		ConvertedAt:    server.OptionalTimestamp(c.ConvertedAt),
		Conversions:    make([]*affiliatev1.ClickConversion, len(c.Conversions)),
	}
	out.LinkId = server.OptionalID(&c.Link)
	for i, conversion := range c.Conversions {
		out.Conversions[i] = &affiliatev1.ClickConversion{
			Id:                    conversion.ID.String(),
			ExternalTransactionId: conversion.ExternalTransactionID,
			Attributed:            conversion.Attributed,
			ReasonCode:            string(conversion.Reason),
			DecisionId:            conversion.Decision.String(),
			CreatedAt:             server.Timestamp(conversion.CreatedAt),
		}
	}
	return out
}

// text converts a pointer to a string type into a pointer to a string; nil stays nil.
func text[S ~string](value *S) *string {
	if value == nil {
		return nil
	}
	s := string(*value)
	return &s
}
