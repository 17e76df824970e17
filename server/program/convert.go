package program

import (
	"net/url"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func toProto(p affiliate.Program) *affiliatev1.Program {
	return &affiliatev1.Program{
		Id:                    p.ID.String(),
		Name:                  p.Name,
		Slug:                  p.Slug,
		Description:           p.Description,
		Status:                server.FromWord[affiliatev1.ProgramStatus](p.Status),
		Mode:                  server.FromWord[affiliatev1.Mode](p.Scope.Mode),
		WebsiteUrl:            p.WebsiteURL,
		AllowedDomains:        p.AllowedDomains,
		LandingUrl:            p.LandingURL,
		Currency:              p.Currency,
		AttributionWindowDays: int32(p.WindowDays), //nolint:gosec // at most 365
		AttributionModel:      server.FromWord[affiliatev1.AttributionModel](p.Model),
		LinkParam:             p.LinkParam,
		AutoApprovePartners:   p.AutoApprovePartners,
		IsPublic:              p.IsPublic,
		CommissionRules:       server.Rules(p.Rules),
		RulesVersion:          int32(p.RulesVersion), //nolint:gosec // counts what people change by hand
		TermsUrl:              p.TermsURL,
		CreatedAt:             server.Timestamp(p.CreatedAt),
		UpdatedAt:             server.Timestamp(p.UpdatedAt),
	}
}

// newProgram is a draft with its defaults; currency and slug may be left to the
// store.
func newProgram(req *affiliatev1.CreateProgramRequest) (affiliate.Program, error) {
	rules, wrong := firstRules(req.GetCommissionRules())
	if err := wrong.Err(); err != nil {
		return affiliate.Program{}, err
	}
	currency, _ := affiliate.ParseCurrency(req.GetCurrency())
	p := affiliate.Program{
		Name:                req.GetName(),
		Slug:                req.GetSlug(),
		Description:         req.Description,
		Status:              affiliate.ProgramDraft,
		WebsiteURL:          req.WebsiteUrl,
		AllowedDomains:      foldDomains(req.GetAllowedDomains()),
		LandingURL:          req.LandingUrl,
		Currency:            currency,
		WindowDays:          affiliate.DefaultWindowDays,
		Model:               affiliate.DefaultModel,
		LinkParam:           affiliate.DefaultLinkParam,
		AutoApprovePartners: req.GetAutoApprovePartners(),
		IsPublic:            req.IsPublic == nil || req.GetIsPublic(),
		Rules:               rules,
		RulesVersion:        1,
		TermsURL:            req.TermsUrl,
	}
	if req.AttributionWindowDays != nil {
		p.WindowDays = int(req.GetAttributionWindowDays())
	}
	if model := server.Word(req.GetAttributionModel()); model != "" {
		p.Model = affiliate.AttributionModel(model)
	}
	if req.LinkParam != nil {
		p.LinkParam = req.GetLinkParam()
	}
	if len(p.AllowedDomains) == 0 && p.WebsiteURL != nil {
		if website, err := url.Parse(*p.WebsiteURL); err == nil {
			p.AllowedDomains = foldDomains([]string{website.Hostname()})
		}
	}
	return p, nil
}

// firstRules are the defaults with what the request says instead. The amount
// that is given tells the type; a type that is given demands its amount, since
// nobody who chose one by name wants a number of ours.
func firstRules(req *affiliatev1.CommissionRules) (affiliate.Rules, affiliate.Violations) {
	if req == nil {
		return affiliate.DefaultRules(), nil
	}
	patch := rulesChanges(req, func(path string) bool { return given(req, path) })
	if !patch.Type.Given && patch.FlatCents.Given && !patch.RateBps.Given {
		patch.Type = affiliate.Set(affiliate.Flat)
	}
	rules, wrong := affiliate.DefaultRules().Patch(patch)
	if patch.Type.Given && rules.Type == affiliate.Percentage && !patch.RateBps.Given {
		wrong.Add("commission_rules.percentage", "is required when commission_type is percentage")
	}
	return rules, wrong
}

// given reports whether a message holds a field, where the unspecified value of
// an enum counts as absent.
func given(req *affiliatev1.CommissionRules, name string) bool {
	m := req.ProtoReflect()
	for field := range m.Range {
		if string(field.Name()) == name {
			return true
		}
	}
	return false
}

// rulesChanges makes changes of the fields that named reports; a named field
// that the message does not hold is cleared.
func rulesChanges(req *affiliatev1.CommissionRules, named func(field string) bool) affiliate.RulesPatch {
	var patch affiliate.RulesPatch
	if req == nil {
		req = &affiliatev1.CommissionRules{}
	}
	if named("commission_type") {
		patch.Type = word[affiliate.CommissionType](server.Word(req.GetCommissionType()))
	}
	if named("percentage") {
		patch.RateBps.Given = true
		if req.Percentage != nil {
			bps, _ := basisPoints(req.GetPercentage())
			patch.RateBps = affiliate.Set(bps)
		}
	}
	if named("flat_amount_cents") {
		patch.FlatCents = optional(req.FlatAmountCents)
	}
	if named("hold_period_days") {
		patch.HoldDays = number(req.HoldPeriodDays)
	}
	if named("auto_approval") {
		patch.AutoApproval = optional(req.AutoApproval)
	}
	if named("net_basis") {
		patch.NetBasis = word[affiliate.NetBasis](server.Word(req.GetNetBasis()))
	}
	return patch
}

// patchOf is the update as its mask words it. The mask has been checked.
func patchOf(req *affiliatev1.UpdateProgramRequest) affiliate.ProgramPatch {
	var patch affiliate.ProgramPatch
	paths := req.GetUpdateMask().GetPaths()
	for _, path := range paths {
		switch path {
		case "name":
			patch.Name = affiliate.Set(req.GetName())
		case "slug":
			patch.Slug = optional(req.Slug)
		case "description":
			patch.Description = optional(req.Description)
		case "website_url":
			patch.WebsiteURL = optional(req.WebsiteUrl)
		case "allowed_domains":
			patch.AllowedDomains = affiliate.Set(foldDomains(req.GetAllowedDomains()))
		case "landing_url":
			patch.LandingURL = optional(req.LandingUrl)
		case "attribution_window_days":
			patch.WindowDays = number(req.AttributionWindowDays)
		case "attribution_model":
			patch.Model = word[affiliate.AttributionModel](server.Word(req.GetAttributionModel()))
		case "link_param":
			patch.LinkParam = optional(req.LinkParam)
		case "auto_approve_partners":
			patch.AutoApprovePartners = optional(req.AutoApprovePartners)
		case "is_public":
			patch.IsPublic = optional(req.IsPublic)
		case "terms_url":
			patch.TermsURL = optional(req.TermsUrl)
		}
	}
	patch.Rules = rulesPatchOf(req.GetCommissionRules(), paths)
	return patch
}

// rulesPatchOf reads the part of the mask about commission_rules. The path of
// the whole object merges what the object holds, or, without an object, goes
// back to the defaults.
func rulesPatchOf(rules *affiliatev1.CommissionRules, paths []string) affiliate.RulesPatch {
	whole := slices.Contains(paths, rulesField)
	patch := rulesChanges(rules, func(field string) bool {
		return slices.Contains(paths, rulesField+"."+field) || whole && rules != nil && given(rules, field)
	})
	patch.Reset = whole && rules == nil
	return patch
}

// optional sets what is there and clears what is not.
func optional[T any](value *T) affiliate.Change[T] {
	return affiliate.Change[T]{Given: true, Value: value}
}

func number(value *int32) affiliate.Change[int] {
	if value == nil {
		return affiliate.Clear[int]()
	}
	return affiliate.Set(int(*value))
}

func word[W ~string](text string) affiliate.Change[W] {
	if text == "" {
		return affiliate.Clear[W]()
	}
	return affiliate.Set(W(text))
}

// foldDomains gives each host once, in lower case, in the order given. What is
// no host name has been refused before.
func foldDomains(domains []string) []string {
	folded := make([]string, 0, len(domains))
	for _, domain := range domains {
		if host, ok := affiliate.ParseDomain(domain); ok && !slices.Contains(folded, host) {
			folded = append(folded, host)
		}
	}
	return folded
}
