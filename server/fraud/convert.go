package fraud

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func settingsOf(req *affiliatev1.PutFraudPolicyRequest) fraud.Settings {
	return fraud.Settings{
		DisabledRules:    distinct(req.GetDisabledRules()),
		BlockedCountries: distinct(req.GetBlockedCountries()),
		CouponSites:      distinct(toLower(req.GetCouponSites())),
		BrandTerms:       distinct(toLower(req.GetBrandTerms())),
	}
}

// toLower returns the texts in lower case and without leading and trailing spaces.
func toLower(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = strings.ToLower(strings.TrimSpace(text))
	}
	return out
}

// distinct returns the texts without duplicates, in their original order.
func distinct(texts []string) []string {
	unique := make([]string, 0, len(texts))
	for _, text := range texts {
		if !slices.Contains(unique, text) {
			unique = append(unique, text)
		}
	}
	return unique
}

func policyToProto(p fraud.ProgramFraudPolicy) *affiliatev1.ProgramFraudPolicy {
	out := &affiliatev1.ProgramFraudPolicy{
		ProgramId:        p.Program.String(),
		Policy:           server.EnumValue[affiliatev1.FraudPolicy](p.Policy),
		DisabledRules:    p.Settings.DisabledRules,
		BlockedCountries: p.Settings.BlockedCountries,
		CouponSites:      p.Settings.CouponSites,
		BrandTerms:       p.Settings.BrandTerms,
		UpdatedAt:        server.Timestamp(p.UpdatedAt),
	}
	for _, rule := range fraud.Rules() {
		out.Rules = append(out.Rules, &affiliatev1.FraudRule{
			Name: rule.Name, Score: int32(rule.Score), Description: rule.Description, // #nosec G115 -- a score is at most 100
			Enabled: !slices.Contains(p.Settings.DisabledRules, rule.Name),
		})
	}
	return out
}

func eventToProto(e fraud.Event) *affiliatev1.FraudEvent {
	out := &affiliatev1.FraudEvent{
		Id:                    e.ID.String(),
		Mode:                  server.EnumValue[affiliatev1.Mode](e.Mode),
		ProgramId:             e.Program.String(),
		ProgramName:           e.ProgramName,
		ParticipantId:         e.Participant.String(),
		PartnerName:           e.PartnerName,
		ConversionId:          e.Conversion.String(),
		ExternalTransactionId: e.ExternalTransactionID,
		CommissionId:          server.OptionalID(e.Commission),
		Score:                 int32(e.Score), // #nosec G115 -- at most 100
		Action:                server.EnumValue[affiliatev1.FraudAction](e.Action),
		Status:                server.EnumValue[affiliatev1.FraudEventStatus](e.Status),
		Note:                  e.Note,
		ResolvedBy:            server.OptionalID(e.ResolvedBy),
		ResolvedByName:        e.ResolvedByName,
		ResolvedAt:            server.OptionalTimestamp(e.ResolvedAt),
		CreatedAt:             server.Timestamp(e.CreatedAt),
	}
	for _, signal := range e.Signals {
		out.Signals = append(out.Signals, &affiliatev1.FraudEventSignal{
			Rule: signal.Rule, Score: int32(signal.Score), Evidence: signal.Evidence, // #nosec G115 -- at most 100
		})
	}
	return out
}

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
