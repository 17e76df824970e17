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

// Check reports what is wrong with a request by itself.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.PutFraudPolicyRequest:
		// A number without a name, which only gRPC can carry.
		if policy := req.GetPolicy(); policy != 0 && server.Word(policy) == "" {
			found.Add("policy", "has no such value")
		}
		for i, rule := range req.GetDisabledRules() {
			if !fraud.Known(rule) {
				found.Add(fmt.Sprintf("disabled_rules[%d]", i), "is no fraud rule")
			}
		}
		for i, site := range req.GetCouponSites() {
			if domain, ok := affiliate.ParseDomain(strings.TrimSpace(site)); !ok || !strings.Contains(domain, ".") {
				found.Add(fmt.Sprintf("coupon_sites[%d]", i), "must be a domain")
			}
		}
		for i, term := range req.GetBrandTerms() {
			if strings.TrimSpace(term) == "" {
				found.Add(fmt.Sprintf("brand_terms[%d]", i), "must not be empty")
			}
		}
	case *affiliatev1.ListFraudEventsRequest:
		if status := req.GetStatus(); status != 0 && server.Word(status) == "" {
			found.Add("status", "has no such value")
		}
	}
	return found
}
