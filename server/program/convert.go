package program

import (
	"cmp"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func toProto(p program.Program) *affiliatev1.Program {
	return &affiliatev1.Program{
		Id:                    p.ID.String(),
		Name:                  p.Name,
		Slug:                  p.Slug,
		Description:           p.Description,
		Status:                server.EnumValue[affiliatev1.ProgramStatus](p.Status),
		Mode:                  server.EnumValue[affiliatev1.Mode](p.Mode),
		WebsiteUrl:            p.WebsiteURL,
		AllowedDomains:        p.LinkHosts(),
		LandingUrl:            p.LandingURL,
		Currency:              p.Currency,
		AttributionWindowDays: int32(p.WindowDays), //nolint:gosec // at most 365
		AttributionModel:      server.EnumValue[affiliatev1.AttributionModel](p.Model),
		LinkParam:             p.LinkParam,
		AutoApprovePartners:   p.AutoApprovePartners,
		IsPublic:              p.IsPublic,
		CommissionRules:       server.Rules(p.Rules),
		RulesVersion:          int32(p.RulesVersion), //nolint:gosec // users create the versions one by one, so the number is small
		PublicText:            p.PublicText,
		ApplicationQuestions:  server.Questions(p.Questions),
		TermsUrl:              p.TermsURL,
		TermsText:             p.TermsText,
		TermsVersion:          int32(p.TermsVersion), //nolint:gosec // users create the versions one by one, so the number is small
		SignalPrecedence:      server.EnumValue[affiliatev1.SignalPrecedence](p.Precedence),
		MinPayoutCents:        p.MinPayoutCents,
		PayoutTermDays:        int32(p.PayoutTermDays), //nolint:gosec // at most 365
		FraudPolicy:           server.EnumValue[affiliatev1.FraudPolicy](p.FraudPolicy),
		CreatedAt:             server.Timestamp(p.CreatedAt),
		UpdatedAt:             server.Timestamp(p.UpdatedAt),
	}
}

// toListItem converts a programme to an item of a list, which has no long texts.
func toListItem(p program.Program) *affiliatev1.Program {
	p.PublicText, p.Questions, p.TermsText = nil, nil, nil
	return toProto(p)
}

// newProgram converts a create request to a draft programme. Fields that are absent in
// the request have their default values. The currency and the slug stay empty if they are
// absent.
func newProgram(req *affiliatev1.CreateProgramRequest) (program.Program, error) {
	var wrong affiliate.Violations
	rules := initialRules(req.GetCommissionRules(), &wrong)
	if err := wrong.Err(); err != nil {
		return program.Program{}, err
	}
	currency, _ := affiliate.ParseCurrency(req.GetCurrency())
	p := program.Program{
		Name:                req.GetName(),
		Slug:                req.GetSlug(),
		Description:         req.Description,
		Status:              program.Draft,
		WebsiteURL:          req.WebsiteUrl,
		AllowedDomains:      foldDomains(req.GetAllowedDomains()),
		LandingURL:          req.LandingUrl,
		Currency:            currency,
		WindowDays:          program.DefaultWindowDays,
		Model:               cmp.Or(program.AttributionModel(server.EnumName(req.GetAttributionModel())), program.DefaultModel),
		Precedence:          cmp.Or(program.SignalPrecedence(server.EnumName(req.GetSignalPrecedence())), program.DefaultPrecedence),
		LinkParam:           program.DefaultLinkParam,
		AutoApprovePartners: req.GetAutoApprovePartners(),
		IsPublic:            req.GetIsPublic(),
		Rules:               rules,
		RulesVersion:        1,
		MinPayoutCents:      req.GetMinPayoutCents(),
		PayoutTermDays:      int(req.GetPayoutTermDays()),
		FraudPolicy:         cmp.Or(fraud.Policy(server.EnumName(req.GetFraudPolicy())), program.DefaultFraudPolicy),
		PublicText:          req.PublicText,
		Questions:           questionsOf(req),
		TermsURL:            req.TermsUrl,
		TermsText:           req.TermsText,
	}
	if p.HasTerms() {
		p.TermsVersion = 1
	}
	if req.AttributionWindowDays != nil {
		p.WindowDays = int(req.GetAttributionWindowDays())
	}
	if req.LinkParam != nil {
		p.LinkParam = req.GetLinkParam()
	}
	return p, nil
}

// patchOf returns the changes of the fields that the request's mask names. Check has
// validated the mask.
func patchOf(req *affiliatev1.UpdateProgramRequest) program.Patch {
	var patch program.Patch
	paths := req.GetUpdateMask().GetPaths()
	for _, path := range paths {
		switch path {
		case "name":
			patch.Name = affiliate.Set(req.GetName())
		case "slug":
			patch.Slug = setOrClear(req.Slug)
		case "description":
			patch.Description = setOrClear(req.Description)
		case "website_url":
			patch.WebsiteURL = setOrClear(req.WebsiteUrl)
		case "allowed_domains":
			patch.AllowedDomains = affiliate.Set(foldDomains(req.GetAllowedDomains()))
		case "landing_url":
			patch.LandingURL = setOrClear(req.LandingUrl)
		case "attribution_window_days":
			patch.WindowDays = setOrClearInt(req.AttributionWindowDays)
		case "attribution_model":
			patch.Model = setOrClearEnum[program.AttributionModel](server.EnumName(req.GetAttributionModel()))
		case "link_param":
			patch.LinkParam = setOrClear(req.LinkParam)
		case "auto_approve_partners":
			patch.AutoApprovePartners = setOrClear(req.AutoApprovePartners)
		case "is_public":
			patch.IsPublic = setOrClear(req.IsPublic)
		case "terms_url":
			patch.TermsURL = setOrClear(req.TermsUrl)
		case "terms_text":
			patch.TermsText = setOrClear(req.TermsText)
		case "public_text":
			patch.PublicText = setOrClear(req.PublicText)
		case "application_questions":
			patch.Questions = affiliate.Set(questionsOf(req))
		case "currency":
			currency, _ := affiliate.ParseCurrency(req.GetCurrency())
			patch.Currency = affiliate.Set(currency)
		case "signal_precedence":
			patch.Precedence = setOrClearEnum[program.SignalPrecedence](server.EnumName(req.GetSignalPrecedence()))
		case "min_payout_cents":
			patch.MinPayoutCents = setOrClear(req.MinPayoutCents)
		case "payout_term_days":
			patch.PayoutTermDays = setOrClearInt(req.PayoutTermDays)
		case "fraud_policy":
			patch.FraudPolicy = setOrClearEnum[fraud.Policy](server.EnumName(req.GetFraudPolicy()))
		}
	}
	patch.Rules = rulesPatchOf(req.GetCommissionRules(), paths)
	return patch
}

// questionsOf returns the questions of a request.
func questionsOf(req interface {
	GetApplicationQuestions() []*affiliatev1.ApplicationQuestion
},
) []program.Question {
	return server.ConvertAll(req.GetApplicationQuestions(), func(q *affiliatev1.ApplicationQuestion) program.Question {
		return program.Question{
			Key: q.GetKey(), Label: q.GetLabel(), Type: program.QuestionType(server.EnumName(q.GetType())),
			Required: q.GetRequired(), Options: q.GetOptions(),
		}
	})
}

// setOrClear returns a change that sets a field to value. If value is nil, the change
// clears the field.
func setOrClear[T any](value *T) affiliate.Change[T] {
	return affiliate.Change[T]{Given: true, Value: value}
}

// setOrClearInt is setOrClear for the API's int32.
func setOrClearInt(value *int32) affiliate.Change[int] {
	if value == nil {
		return affiliate.Clear[int]()
	}
	return affiliate.Set(int(*value))
}

// setOrClearEnum is setOrClear for the name of an enum value. An empty name means that
// the field is absent.
func setOrClearEnum[W ~string](text string) affiliate.Change[W] {
	if text == "" {
		return affiliate.Clear[W]()
	}
	return affiliate.Set(W(text))
}

// foldDomains returns the domains in lower case and without duplicates, in their original
// order. Check has rejected invalid domains.
func foldDomains(domains []string) []string {
	folded := make([]string, 0, len(domains))
	for _, domain := range domains {
		if domain, ok := affiliate.ParseAllowedDomain(domain); ok && !slices.Contains(folded, domain) {
			folded = append(folded, domain)
		}
	}
	return folded
}
