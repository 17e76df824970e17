package partner

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// shortPath is the path prefix of short links on the link host.
const shortPath = "/r/"

func (s *Service) programToProto(p partner.Program) *affiliatev1.PartnerProgram {
	return &affiliatev1.PartnerProgram{
		Id:                    p.ID.String(),
		Name:                  p.Name,
		MerchantName:          p.MerchantName,
		Description:           p.Description,
		Status:                server.EnumValue[affiliatev1.ProgramStatus](p.Status),
		Mode:                  server.EnumValue[affiliatev1.Mode](p.Scope.Mode),
		WebsiteUrl:            p.WebsiteURL,
		LandingUrl:            p.LandingURL,
		Currency:              p.Currency,
		AttributionWindowDays: int32(p.WindowDays), // at most 365
		CommissionRules:       server.Rules(p.Rules),
		MinPayoutCents:        p.MinPayoutCents,
		PayoutTermDays:        int32(p.PayoutTermDays), // at most 365
		TermsUrl:              p.TermsURL,
		IsPublic:              p.IsPublic,
		Participation:         s.participationToProto(p.Participation),
		CreatedAt:             server.Timestamp(p.CreatedAt),
	}
}

func (s *Service) participationToProto(p *partner.Participation) *affiliatev1.Participation {
	if p == nil {
		return nil
	}
	out := &affiliatev1.Participation{
		ParticipantId:   p.Participant.String(),
		Status:          server.EnumValue[affiliatev1.ParticipantStatus](p.Status),
		PartnerConsent:  server.EnumValue[affiliatev1.PartnerConsent](p.Consent),
		ReferralCode:    p.Link.Code,
		Url:             p.Link.URL(),
		CommissionRate:  server.Rate(p.Rate),
		Clicks:          p.Stats.Clicks,
		Conversions:     p.Stats.Conversions,
		CommissionCents: p.Stats.CommissionCents,
		BalanceCents:    p.Stats.BalanceCents,
		AppliedAt:       server.Timestamp(p.AppliedAt),
		ApprovedAt:      server.OptionalTimestamp(p.ApprovedAt),
		RejectedAt:      server.OptionalTimestamp(p.RejectedAt),
		SuspendedAt:     server.OptionalTimestamp(p.SuspendedAt),
	}
	if s.linkHost != "" {
		short := s.linkHost + shortPath + p.Link.ShortKey
		out.ShortUrl = &short
	}
	return out
}

// commissionToProto converts a commission to the message for the partner. The field
// HoldActive says whether the hold period has not ended at the given time.
func commissionToProto(c partner.Commission, now time.Time) *affiliatev1.PartnerCommission {
	out := &affiliatev1.PartnerCommission{
		Id:                  c.ID.String(),
		ProgramId:           c.Program.String(),
		ProgramName:         c.ProgramName,
		ParticipantId:       c.Participant.String(),
		Mode:                server.EnumValue[affiliatev1.Mode](c.Mode),
		Status:              server.EnumValue[affiliatev1.CommissionStatus](c.Status),
		CommissionType:      server.EnumValue[affiliatev1.CommissionType](c.Type),
		EventType:           server.EnumValue[affiliatev1.EventType](c.EventType),
		RateBps:             toInt32(c.RateBps),
		FlatAmountCents:     c.FlatCents,
		AmountCents:         c.AmountCents,
		OriginalAmountCents: c.OriginalAmountCents,
		ReversedAmountCents: c.ReversedCents(),
		Currency:            c.Currency,
		SaleAmountCents:     c.SaleAmountCents,
		BaseAmountCents:     c.BaseAmountCents,
		LinkId:              server.OptionalID(c.Link),
		SubId:               c.SubID,
		SaleCurrency:        c.SaleCurrency,
		RecurringIndex:      toInt32(c.RecurringIndex),
		PromoCode:           c.PromoCode,
		HoldUntil:           server.OptionalTimestamp(c.HoldUntil),
		HoldActive:          c.HoldActive(now),
		ApprovedAt:          server.OptionalTimestamp(c.ApprovedAt),
		RejectedAt:          server.OptionalTimestamp(c.RejectedAt),
		PaidAt:              server.OptionalTimestamp(c.PaidAt),
		RefundedAt:          server.OptionalTimestamp(c.RefundedAt),
		CreatedAt:           server.Timestamp(c.CreatedAt),
	}
	if c.RejectionCode != nil {
		out.RejectionCode = server.EnumValue[affiliatev1.RejectionCode](*c.RejectionCode)
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

func profileToProto(p partner.Profile) *affiliatev1.PartnerProfile {
	return &affiliatev1.PartnerProfile{
		Id:           p.ID.String(),
		Email:        p.Email,
		Name:         p.Name,
		Country:      p.Country,
		CompanyName:  p.CompanyName,
		WebsiteUrl:   p.WebsiteURL,
		PayoutMethod: payoutMethodToProto(p.Payout),
		CreatedAt:    server.Timestamp(p.CreatedAt),
	}
}

func payoutMethodToProto(d *payout.Details) *affiliatev1.PayoutMethodDetails {
	if d == nil {
		return nil
	}
	return &affiliatev1.PayoutMethodDetails{
		Method:      server.EnumValue[affiliatev1.PayoutMethod](d.Method),
		AccountHint: d.Hint,
		UpdatedAt:   server.Timestamp(d.UpdatedAt),
		HeldUntil:   server.OptionalTimestamp(d.HeldUntil),
	}
}
