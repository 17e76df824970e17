package partner

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
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
		PublicText:            p.PublicText,
		ApplicationQuestions:  server.Questions(p.Questions),
		TermsUrl:              p.TermsURL,
		TermsText:             p.TermsText,
		TermsVersion:          int32(p.TermsVersion), // users create the versions one by one
		IsPublic:              p.IsPublic,
		Participation:         s.participationToProto(p.Participation),
		CreatedAt:             server.Timestamp(p.CreatedAt),
	}
}

// programToListItem converts a programme to an item of a list, which has no long texts.
func (s *Service) programToListItem(p partner.Program) *affiliatev1.PartnerProgram {
	p.PublicText, p.Questions, p.TermsText = nil, nil, nil
	return s.programToProto(p)
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
	out := &affiliatev1.PartnerCommission{LinkId: server.OptionalID(c.Link), LinkCode: c.LinkCode, SubId: c.SubID, Explanation: c.Explanation}
	item := server.CommissionItem(commission.Item{Commission: c.Commission, ProgramName: c.ProgramName}, now)
	server.CopyShared(out.ProtoReflect(), item.ProtoReflect())
	if c.PaidAt == nil {
		out.PayoutId = nil // the payout contains the commission, but has not paid it
	}
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
		Locale:       string(cmp.Or(p.Locale, account.English)),
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

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.ListPartnerCommissionsRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	case *affiliatev1.ExportPartnerCommissionsRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	case *affiliatev1.LookupPartnerConversionRequest:
		checkLookup(req, &found)
	case *affiliatev1.UpdatePartnerProfileRequest:
		checkProfile(req, &found)
	case *affiliatev1.SetPayoutMethodRequest:
		_, found = payoutAccount(req)
	}
	return found
}

func checkProfile(req *affiliatev1.UpdatePartnerProfileRequest, found *affiliate.Violations) {
	server.CheckMask(req, found, "name", "locale")
	server.CheckName("name", req.GetName(), found)
	if req.WebsiteUrl != nil {
		if _, ok := affiliate.ParseWebURL(req.GetWebsiteUrl()); !ok {
			found.Add("website_url", affiliate.MustBeWebURL)
		}
	}
}

// patchOf returns the changes of the fields that are listed in the request's mask. Check
// has validated the mask.
func patchOf(req *affiliatev1.UpdatePartnerProfileRequest) partner.ProfilePatch {
	var patch partner.ProfilePatch
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "name":
			patch.Name = affiliate.Set(req.GetName())
		case "country":
			patch.Country = setOrClear(req.Country)
		case "company_name":
			patch.CompanyName = setOrClear(req.CompanyName)
		case "website_url":
			patch.WebsiteURL = setOrClear(req.WebsiteUrl)
		case "locale":
			patch.Locale = affiliate.Set(account.Locale(req.GetLocale()))
		}
	}
	return patch
}

// setOrClear returns a change that sets a field to value. If value is nil or empty, the
// change clears the field.
func setOrClear(value *string) affiliate.Change[string] {
	if value == nil || *value == "" {
		return affiliate.Clear[string]()
	}
	return affiliate.Set(*value)
}

// payoutAccount returns the payout account in the request, and its violations.
func payoutAccount(req *affiliatev1.SetPayoutMethodRequest) (payout.Account, affiliate.Violations) {
	return payout.ParsePayoutAccount(payout.Method(server.EnumName(req.GetMethod())), req.Account, req.AccountHolder)
}
