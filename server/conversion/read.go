package conversion

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// ListConversions returns one page of the caller's conversions, newest first.
func (s *Service) ListConversions(ctx context.Context, req *affiliatev1.ListConversionsRequest) (*affiliatev1.ListConversionsResponse, error) {
	filter, err := filterOf(req)
	if err != nil {
		return nil, err
	}
	page, scope := server.PageOf(req), server.PrincipalFrom(ctx).Scope()
	if filter.CustomerRef, err = s.customerRef(ctx, scope, req.GetCustomerId()); err != nil {
		return nil, err
	}
	items, total, err := conversions.List(ctx, s.db, scope, filter, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListConversionsResponse{
		Data: server.ConvertAll(items, itemOf), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetConversion reads one conversion with its refunds.
func (s *Service) GetConversion(ctx context.Context, req *affiliatev1.GetConversionRequest) (*affiliatev1.Conversion, error) {
	id := server.PathID[affiliate.ConversionID](req.GetConversionId())
	detail, err := conversions.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return detailOf(detail)
}

func filterOf(req *affiliatev1.ListConversionsRequest) (conversion.Filter, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	filter := conversion.Filter{
		Created: created, Attributed: req.Attributed, EventType: affiliate.EventType(server.EnumName(req.GetEventType())),
		ExternalTransactionID: req.GetExternalTransactionId(),
		Program:               server.ParseOptionalID[affiliate.ProgramID](req.ProgramId),
		Participant:           server.ParseOptionalID[affiliate.ParticipantID](req.ParticipantId),
		Status:                conversion.Status(server.EnumName(req.GetStatus())), Flagged: req.Flagged,
		Link:      server.ParseOptionalID[affiliate.LinkID](req.LinkId),
		PromoCode: conversion.FoldPromoCode(req.GetPromoCode()),
		Partner:   server.ParseOptionalID[affiliate.UserID](req.PartnerAccountId),
	}
	return filter, wrong.Err()
}

// itemOf converts a conversion to a list item. Many fields of the item are also fields of
// the response to a report. itemOf calls responseOf to compute these fields.
func itemOf(item conversion.Item) *affiliatev1.ConversionListItem {
	c, d := item.Conversion, item.Decision
	reported := responseOf(conversion.OutcomeOf(c, d, item.Commission))
	out := &affiliatev1.ConversionListItem{
		Id:                    reported.GetId(),
		WorkspaceId:           c.Workspace.String(),
		Mode:                  reported.GetMode(),
		EventType:             reported.GetEventType(),
		ExternalTransactionId: reported.GetExternalTransactionId(),
		AmountCents:           reported.GetAmountCents(),
		Currency:              reported.Currency,
		TaxCents:              c.TaxCents,
		ShippingCents:         c.ShippingCents,
		FeeCents:              c.FeeCents,
		DiscountCents:         c.DiscountCents,
		RefundedAmountCents:   c.RefundedAmountCents,
		Status:                server.EnumValue[affiliatev1.ConversionStatus](c.Status),
		Source:                server.EnumValue[affiliatev1.ConversionSource](c.Source),
		OccurredAt:            reported.GetOccurredAt(),
		CreatedAt:             reported.GetCreatedAt(),
		Attributed:            reported.GetAttributed(),
		Attribution:           reported.GetAttribution(),
		Commission:            reported.GetCommission(),
		Fraud:                 reported.GetFraud(),
		FraudScore:            int32(item.FraudScore), // #nosec G115 -- at most 100
		ProgramId:             server.OptionalID(d.Program),
		ProgramName:           item.ProgramName,
		ParticipantId:         server.OptionalID(d.Participant),
		PartnerName:           item.PartnerName,
		LinkId:                server.OptionalID(d.Link),
		ClickId:               server.OptionalID(c.Click),
		PromoCode:             c.PromoCode,
		CustomerRef:           conversion.CustomerName(c.CustomerRef, c.CustomerLabel),
		SubscriptionId:        c.SubscriptionID,
		IsRecurring:           c.IsRecurring,
		SubId:                 c.SubID,
	}
	if ids := c.Processor; ids != nil {
		out.Processor = &affiliatev1.ConversionProcessor{
			Name: string(ids.Name), SessionId: server.OptionalString(ids.Session), PaymentIntentId: server.OptionalString(ids.PaymentIntent),
			ChargeId: server.OptionalString(ids.Charge), InvoiceId: server.OptionalString(ids.Invoice),
			SubscriptionId: server.OptionalString(ids.Subscription), CustomerId: server.OptionalString(ids.Customer),
		}
	}
	if d.RecurringIndex != nil {
		index := int32(*d.RecurringIndex) // #nosec G115 -- counts payments of one customer
		out.RecurringIndex = &index
	}
	return out
}

// detailOf converts a conversion to the message with all fields.
func detailOf(detail conversion.Detail) (*affiliatev1.Conversion, error) {
	c := detail.Conversion
	full := &affiliatev1.Conversion{
		ProductIds: c.ProductIDs,
		LineItems:  make([]*affiliatev1.LineItem, len(c.LineItems)),
		Refunds:    make([]*affiliatev1.ConversionRefund, len(detail.Refunds)),
	}
	for i, line := range c.LineItems {
		full.LineItems[i] = &affiliatev1.LineItem{ProductId: line.ProductID, Quantity: &line.Quantity, AmountCents: line.AmountCents}
	}
	for i, refund := range detail.Refunds {
		full.Refunds[i] = &affiliatev1.ConversionRefund{
			Id: refund.ID.String(), ExternalRefundId: refund.ExternalRefundID, AmountCents: *refund.AmountCents,
			Reason: refund.Reason, CreatedAt: server.Timestamp(refund.CreatedAt),
		}
	}
	if c.Metadata != nil {
		var fields map[string]any
		if err := json.Unmarshal(c.Metadata, &fields); err != nil {
			return nil, fmt.Errorf("metadata of conversion %s: %w", c.ID, err)
		}
		metadata, err := structpb.NewStruct(fields)
		if err != nil {
			return nil, fmt.Errorf("metadata of conversion %s: %w", c.ID, err)
		}
		full.Metadata = metadata
	}
	server.CopyShared(full.ProtoReflect(), itemOf(detail.Item).ProtoReflect())
	return full, nil
}

// Prepare converts a valid report to a conversion and to the inputs of a decision about
// the conversion. It stores nothing. It looks up the click once, without waiting. Errors:
// NO_ATTRIBUTION_SIGNAL.
func (s *Service) Prepare(
	ctx context.Context, scope affiliate.Scope, req *affiliatev1.ReportConversionRequest,
) (conversion.Conversion, attribution.Inputs, error) {
	c, err := s.conversionOf(ctx, scope, req, s.now())
	if err != nil {
		return c, attribution.Inputs{}, err
	}
	in := inputsOf(c)
	if namesNoSignal(c) {
		return c, in, affiliate.Refuse(affiliate.ReasonNoAttributionSignal)
	}
	if c.Click == nil {
		return c, in, nil
	}
	in.FoundClick, err = s.lookup.findNow(ctx, scope.Workspace, *c.Click)
	return c, in, err
}

// findNow looks up a click once, in Postgres and in the click stream, without waiting.
func (l lookup) findNow(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*attribution.FoundClick, error) {
	if !l.plausibleID(id) {
		return nil, nil
	}
	found, err := l.clicks.Find(ctx, workspace, id)
	if err != nil || found != nil {
		return found, err
	}
	return l.findInTail(ctx, workspace, id)
}
