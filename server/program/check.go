package program

import (
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.CreateProgramRequest:
		server.CheckName("name", req.GetName(), &found)
		checkFields(req, &found)
		initialRules(req.GetCommissionRules(), &found)
	case *affiliatev1.UpdateProgramRequest:
		server.CheckMask(req, &found, "name", "currency")
		server.CheckName("name", req.GetName(), &found)
		checkFields(req, &found)
		checkRateFields(req.GetCommissionRules(), &found)
		patch := presentFieldsPatch(req.GetCommissionRules(), &found)
		found = append(found, patch.Check()...)
	case *affiliatev1.PreviewProgramRulesRequest:
		checkPreview(req, &found)
	case *affiliatev1.CreateGroupRequest:
		rate := server.RateFields(req.Percentage, req.FlatAmountCents, "", &found)
		rate.Check("", &found)
	case *affiliatev1.UpdateGroupRequest:
		server.CheckMask(req, &found, "name")
		patch := groupPatchOf(req, &found)
		found = append(found, patch.Check()...)
	}
	return found
}

// checkFields validates the fields that create and update requests have in common.
func checkFields(req interface {
	GetWebsiteUrl() string
	GetLandingUrl() string
	GetTermsUrl() string
	GetLinkParam() string
	GetAllowedDomains() []string
	GetCurrency() string
	GetTermsText() string
	GetApplicationQuestions() []*affiliatev1.ApplicationQuestion
	ProtoReflect() protoreflect.Message
}, found *affiliate.Violations,
) {
	checkURLs(req, found)
	if req.GetTermsUrl() != "" && req.GetTermsText() != "" {
		found.Add("terms_text", affiliate.MustNotBeWith("terms_url"))
	}
	*found = append(*found, program.CheckQuestions(questionsOf(req))...)
	if currency := req.GetCurrency(); currency != "" {
		if _, ok := affiliate.ParseCurrency(currency); !ok {
			found.Add("currency", affiliate.MustBeCurrency)
		}
	}
	if link.ReservedParam(req.GetLinkParam()) {
		found.Add("link_param", "must not be a parameter that links use for another purpose")
	}
	for i, domain := range req.GetAllowedDomains() {
		parsed, ok := affiliate.ParseAllowedDomain(domain)
		switch {
		case !ok:
			found.Add(fmt.Sprintf("allowed_domains[%d]", i), "must be a host name, for example shop.example.com or *.example.com")
		case isPublicSuffix(strings.TrimPrefix(parsed, "*.")):
			found.Add(fmt.Sprintf("allowed_domains[%d]", i), "must not be a public suffix such as com or co.uk, under which anybody can have a domain")
		}
	}
}

// isPublicSuffix reports whether the Public Suffix List contains the domain. The list of
// the package also has a default rule, by which every unknown top-level domain is a
// suffix. Private networks use such names, so they are allowed.
func isPublicSuffix(domain string) bool {
	suffix, icann := publicsuffix.PublicSuffix(domain)
	return suffix == domain && (icann || strings.Contains(suffix, "."))
}

func checkURLs(req interface {
	GetWebsiteUrl() string
	GetLandingUrl() string
	GetTermsUrl() string
	ProtoReflect() protoreflect.Message
}, found *affiliate.Violations,
) {
	m := req.ProtoReflect()
	fields := m.Descriptor().Fields()
	for _, name := range []protoreflect.Name{"website_url", "landing_url", "terms_url"} {
		field := fields.ByName(name)
		if !m.Has(field) {
			continue
		}
		if _, ok := affiliate.ParseWebURL(m.Get(field).String()); !ok {
			found.Add(string(name), affiliate.MustBeWebURL)
		}
	}
}

// checkRateFields adds a violation if a rate does not match the commission type in the
// request. If the request has no commission type, it must not have both rates, and the
// transaction compares the rate with the stored type.
func checkRateFields(rules *affiliatev1.CommissionRules, found *affiliate.Violations) {
	if rules == nil {
		return
	}
	switch kind := rules.GetCommissionType(); {
	case rules.Percentage != nil && rules.FlatAmountCents != nil && kind == 0:
		found.Add("commission_rules.flat_amount_cents", affiliate.MustNotBeWith("commission_rules.percentage"))
	case rules.FlatAmountCents != nil && kind == affiliatev1.CommissionType_COMMISSION_TYPE_PERCENTAGE:
		found.Add("commission_rules.flat_amount_cents", "must be absent when {commission_rules.commission_type} is percentage")
	case rules.Percentage != nil && kind == affiliatev1.CommissionType_COMMISSION_TYPE_FLAT:
		found.Add("commission_rules.percentage", "must be absent when {commission_rules.commission_type} is flat")
	}
}
