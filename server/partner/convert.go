package partner

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate/commission"
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
		Mode:                  server.EnumValue[affiliatev1.Mode](p.Mode),
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

// commissionToProto converts a commission to the message for the partner, which has only
// the fields that the partner may see. HoldActive is as in server.CommissionItem.
func commissionToProto(c partner.Commission, now time.Time) *affiliatev1.PartnerCommission {
	out := &affiliatev1.PartnerCommission{LinkId: server.OptionalID(c.Link), SubId: c.SubID}
	item := server.CommissionItem(commission.Item{Commission: c.Commission, ProgramName: c.ProgramName}, now)
	server.CopyShared(out.ProtoReflect(), item.ProtoReflect())
	return out
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
