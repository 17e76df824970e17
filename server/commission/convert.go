package commission

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// reader converts commissions to messages that contain only data which the caller may
// read.
type reader struct {
	// masked is true if the messages must contain masked e-mail addresses.
	masked bool
}

func readerOf(ctx context.Context) reader {
	return reader{masked: server.PrincipalFrom(ctx).Role == affiliate.RoleViewer}
}

// item converts a commission to a list item. The field HoldActive says whether the hold
// period has not ended at the given time.
func (r reader) item(c commission.Item, now time.Time) *affiliatev1.CommissionListItem {
	email := c.PartnerEmail
	if r.masked {
		email = affiliate.MaskEmail(email)
	}
	return &affiliatev1.CommissionListItem{
		Id:                    c.ID.String(),
		ProgramId:             c.Program.String(),
		ProgramName:           c.ProgramName,
		ParticipantId:         c.Participant.String(),
		PartnerId:             c.Partner.String(),
		PartnerName:           c.PartnerName,
		PartnerEmail:          email,
		ConversionId:          c.Conversion.String(),
		ExternalTransactionId: c.ExternalTransactionID,
		ClickId:               server.OptionalID(c.Click),
		PromoCode:             c.PromoCode,
		CustomerRef:           conversion.CustomerName(c.CustomerRef, c.CustomerLabel),
		Mode:                  server.EnumValue[affiliatev1.Mode](c.Scope.Mode),
		Status:                server.EnumValue[affiliatev1.CommissionStatus](c.Status),
		CommissionType:        server.EnumValue[affiliatev1.CommissionType](c.Type),
		EventType:             server.EnumValue[affiliatev1.EventType](c.EventType),
		RateBps:               toInt32(c.RateBps),
		FlatAmountCents:       c.FlatCents,
		AmountCents:           c.AmountCents,
		OriginalAmountCents:   c.OriginalAmountCents,
		ReversedAmountCents:   c.ReversedCents(),
		Currency:              c.Currency,
		BaseAmountCents:       c.BaseAmountCents,
		SaleAmountCents:       c.SaleAmountCents,
		SaleCurrency:          c.SaleCurrency,
		FxRate:                c.FXRate,
		FxDate:                date(c.FXDate),
		RecurringIndex:        toInt32(c.RecurringIndex),
		NeedsReview:           c.NeedsReview,
		ReviewReasons:         c.ReviewReasons,
		DisputeStatus:         server.EnumValue[affiliatev1.DisputeStatus](c.Dispute),
		HoldUntil:             server.OptionalTimestamp(c.HoldUntil),
		HoldActive:            c.HoldActive(now),
		RejectionReason:       c.RejectionReason,
		RejectionCode:         optionalEnum[affiliatev1.RejectionCode](c.RejectionCode),
		ApprovedAt:            server.OptionalTimestamp(c.ApprovedAt),
		ApprovedBy:            c.ApprovedBy,
		ApprovedByName:        c.ApprovedByName,
		RejectedAt:            server.OptionalTimestamp(c.RejectedAt),
		PaidAt:                server.OptionalTimestamp(c.PaidAt),
		RefundedAt:            server.OptionalTimestamp(c.RefundedAt),
		PayoutId:              server.OptionalID(c.Payout),
		CreatedAt:             server.Timestamp(c.CreatedAt),
		UpdatedAt:             server.Timestamp(c.UpdatedAt),
	}
}

// detail converts a commission to the message with all fields. The field HoldActive says
// whether the hold period has not ended at the given time.
func (r reader) detail(c commission.Detail, now time.Time) *affiliatev1.Commission {
	full := &affiliatev1.Commission{
		OverrideReason: c.OverrideReason,
		OverrideBy:     server.OptionalID(c.OverrideBy),
		OverrideByName: c.OverrideByName,
		RuleSnapshot:   ruleSnapshot(c.Rule),
		Attribution: &affiliatev1.CommissionAttribution{
			DecisionId:  c.Decision.String(),
			Method:      c.Attribution.Method,
			ReasonCode:  c.Attribution.ReasonCode,
			Explanation: c.Attribution.Explanation,
			ClickedAt:   server.OptionalTimestamp(c.Attribution.ClickedAt),
			ExpiresAt:   server.OptionalTimestamp(c.Attribution.ExpiresAt),
		},
		History: make([]*affiliatev1.CommissionHistoryEntry, len(c.History)),
	}
	for i, entry := range c.History {
		full.History[i] = &affiliatev1.CommissionHistoryEntry{
			At:        server.Timestamp(entry.At),
			Actor:     entry.Actor,
			ActorName: entry.Name,
			From:      optionalEnum[affiliatev1.CommissionStatus](entry.From),
			To:        server.EnumValue[affiliatev1.CommissionStatus](entry.To),
			Reason:    entry.Reason,
		}
	}
	server.CopyShared(full.ProtoReflect(), r.item(c.Item, now).ProtoReflect())
	return full
}

func ruleSnapshot(rule attribution.RuleSnapshot) *affiliatev1.RuleSnapshot {
	out := &affiliatev1.RuleSnapshot{
		Version:            int32(rule.Version), // the number of changes that users have made, which is small
		Rules:              server.Rules(rule.Rules),
		CommissionOverride: server.Rate(rule.Override),
		Source:             string(rule.Source),
	}
	if group := rule.Group; group != nil {
		out.GroupId, out.GroupName, out.GroupRate = server.OptionalID(&group.ID), &group.Name, server.Rate(&group.Rate)
	}
	return out
}

// toInt32 converts a count or a rate, which are small numbers, to the int32 of the API.
// It returns nil if n is nil.
func toInt32[N int | int64](n *N) *int32 {
	if n == nil {
		return nil
	}
	converted := int32(*n)
	return &converted
}

func date(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := t.UTC().Format(time.DateOnly)
	return &s
}

// optionalEnum returns the enum value with the given name. If name is nil, it returns the
// unspecified value, which is null in JSON responses.
func optionalEnum[E server.Enum, N ~string](name *N) E {
	if name == nil {
		var unspecified E
		return unspecified
	}
	return server.EnumValue[E](*name)
}
