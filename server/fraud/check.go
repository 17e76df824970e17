package fraud

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.PutFraudPolicyRequest:
		server.CheckEnum("policy", req.GetPolicy(), &found)
		for i, rule := range req.GetDisabledRules() {
			if !fraud.RuleExists(rule) {
				found.Add(fmt.Sprintf("disabled_rules[%d]", i), "must be the name of a fraud rule")
			}
		}
		for i, site := range req.GetCouponSites() {
			if domain, ok := affiliate.ParseDomain(strings.TrimSpace(site)); !ok || !strings.Contains(domain, ".") {
				found.Add(fmt.Sprintf("coupon_sites[%d]", i), "must be a domain")
			}
		}
		for i, term := range req.GetBrandTerms() {
			if strings.TrimSpace(term) == "" {
				found.Add(fmt.Sprintf("brand_terms[%d]", i), affiliate.MustNotBeEmpty)
			}
		}
	case *affiliatev1.ListFraudEventsRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
		server.CheckEnum("status", req.GetStatus(), &found)
	}
	return found
}
