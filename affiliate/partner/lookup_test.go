package partner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/partner"
)

func TestRelatedSale_Answer(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	end := at.AddDate(0, 0, 30)
	rejected := func(why attribution.Reason) []attribution.Candidate {
		return []attribution.Candidate{{Eligible: true}, {Type: attribution.ByClick, At: &at, ExpiresAt: &end, RejectedBecause: &why}}
	}
	customer, click := attribution.ByCustomer, attribution.ByClick
	id := affiliate.NewID[affiliate.CommissionID](at)
	for name, tc := range map[string]struct {
		sale        partner.RelatedSale
		result      partner.SaleResult
		reason      partner.SaleReason
		explanation string // a part of it
	}{
		"commission":        {partner.RelatedSale{Credited: true, Commission: &id, Explanation: "Yours."}, partner.SaleCredited, "", "Yours."},
		"no commission":     {partner.RelatedSale{Credited: true, Explanation: "No."}, partner.SaleNoCommission, "", "No."},
		"expired click":     {partner.RelatedSale{Candidates: rejected(attribution.WhyClickExpired)}, partner.SaleNotCredited, partner.SaleClickExpired, "ended on 31 March 2026 at 12:00 UTC"},
		"later click":       {partner.RelatedSale{Candidates: rejected(attribution.WhyClickAfterConversion)}, partner.SaleNotCredited, partner.SaleClickLater, "later"},
		"inactive code":     {partner.RelatedSale{Candidates: rejected(attribution.WhyPromoCodeInactive)}, partner.SaleNotCredited, partner.SalePromoCodeInactive, "promo code"},
		"paused programme":  {partner.RelatedSale{Candidates: rejected(attribution.WhyProgramInactive)}, partner.SaleNotCredited, partner.SaleProgramInactive, "not active"},
		"another signal":    {partner.RelatedSale{Method: &click, Candidates: rejected("OUTRANKED")}, partner.SaleNotCredited, partner.SaleOutranked, "comes before yours"},
		"known customer":    {partner.RelatedSale{Method: &customer, Candidates: rejected("OUTRANKED")}, partner.SaleNotCredited, partner.SaleCustomerKnown, "already brought"},
		"assigned by hand":  {partner.RelatedSale{Commission: &id, Explanation: "internal"}, partner.SaleNotCredited, partner.SaleReassigned, "another partner"},
		"eligible, but not": {partner.RelatedSale{Candidates: []attribution.Candidate{{Eligible: true}}}, partner.SaleNotCredited, partner.SaleReassigned, "another partner"},
	} {
		result, reason, explanation := tc.sale.Answer()
		if result != tc.result || reason != tc.reason || !strings.Contains(explanation, tc.explanation) {
			t.Errorf("%s: Answer() = %q, %q, %q, want %q, %q, %q", name, result, reason, explanation, tc.result, tc.reason, tc.explanation)
		}
	}
}
