package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// testAnalytics reads the reports of a merchant and of a partner after two clicks, a sale of
// 100.00 USD, a refund of a part of it and a sale that is not attributed.
func testAnalytics(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"percentage": 20, "holdPeriodDays": 0, "autoApproval": true}))
	click := sys.click(t, f.publicKey, object{"referral_code": f.code, "sub_id": "=spring", "utm": object{"source": "mail"}})
	for click.status != http.StatusCreated {
		f.click(t)
		click = sys.click(t, f.publicKey, object{"referral_code": f.code, "sub_id": "=spring", "utm": object{"source": "mail"}})
	}
	f.click(t)
	sale := purchase(click.text("click_id"))
	sale["customer_id"] = "ada"
	f.report(t, sale).wantStatus(http.StatusCreated)
	unknown := purchase("01936f2e-7c1a-7a3b-9d4e-5f6071829301")
	f.report(t, unknown).wantStatus(http.StatusCreated).wantFields(object{"attributed": false})
	sys.client().withCredential(f.secretKey).post(t, "/api/v1/conversions/refunds", object{
		"external_transaction_id": sale["external_transaction_id"], "external_refund_id": uniqueName("refund"), "amount_cents": 2500,
	}).wantStatus(http.StatusCreated)
	analytics := "/api/v1/analytics/"
	eventually(t, waitTimeout, "the clicks are counted", func() error {
		if got := f.merchant.get(t, analytics+"summary").number("metrics.clicks"); got < 2 {
			return fmt.Errorf("the summary has %v clicks", got)
		}
		return nil
	})
	clicks := f.merchant.get(t, analytics+"summary").number("metrics.clicks")

	// How is the business?
	f.merchant.get(t, analytics+"summary?compare=previous").wantStatus(http.StatusOK).wantFields(object{
		"currency": "USD", "timezone": "UTC", "metrics.conversions": 1, "metrics.newCustomers": 1, "metrics.revenueCents": 10_000,
		"metrics.refundedCents": 2500, "metrics.commissionCents": 1500, "metrics.netRevenueCents": 6000, "metrics.aovCents": 10_000,
		"metrics.returnOnCommission": 5, "previous.clicks": 0, "previous.conversionRate": nil,
		"byCurrency": []object{{"currency": "USD", "revenueCents": 10_000, "refundedCents": 2500, "commissionCents": 1500, "netRevenueCents": 6000}},
	})
	f.merchant.get(t, analytics+"summary?includeUnattributed=true").wantStatus(http.StatusOK).wantFields(object{"metrics.conversions": 2, "metrics.revenueCents": 20_000})
	// Which partner sells best?
	best := object{"total": 1, "groupBy": "participant", "rows.0.value": f.participant, "rows.0.conversions": 1, "other.clicks": 0}
	f.merchant.get(t, analytics+"breakdown?groupBy=participant&metric=revenueCents").wantStatus(http.StatusOK).wantFields(best)
	f.merchant.get(t, f.programPath()+"/analytics/breakdown?groupBy=participant").wantStatus(http.StatusOK).wantFields(best)
	// Where do they come from?
	f.merchant.get(t, analytics+"breakdown?groupBy=utm_source&metric=revenueCents").wantStatus(http.StatusOK).wantFields(object{
		"total": 2, "rows.0.value": "mail", "rows.0.label": "mail", "rows.0.clicks": 1, "rows.0.revenueCents": 10_000, "rows.1.value": nil, "rows.1.label": "(none)",
		"rows.1.clicks": clicks - 1,
	})
	table := f.merchant.get(t, analytics+"breakdown?groupBy=sub_id&metric=revenueCents&format=csv").wantStatus(http.StatusOK)
	if lines := strings.Split(table.body, "\r\n"); len(lines) != 4 || !strings.HasPrefix(lines[1], `"'=spring","'=spring",1,`) {
		t.Errorf("the CSV table is %q", table.body)
	}
	if name := table.header.Get("Content-Disposition"); !strings.HasPrefix(name, `attachment; filename="breakdown-test-`) {
		t.Errorf("the Content-Disposition is %q", name)
	}
	// When do they come?
	today := time.Now().UTC().Format(time.DateOnly)
	f.merchant.get(t, analytics+"timeseries?dateFrom="+today+"&dateTo="+today).wantStatus(http.StatusOK).wantFields(object{
		"interval": "day", "points.0.clicks": clicks, "points.0.conversions": 1,
	})
	if got := f.merchant.get(t, analytics+"timeseries?interval=day").length("points"); got != 30 {
		t.Errorf("the default period has %d days, want 30", got)
	}
	// How many clicks become sales, and do customers come back?
	f.merchant.get(t, analytics+"funnel").wantStatus(http.StatusOK).wantFields(object{
		"steps.0.name": "clicks", "steps.0.rate": nil, "steps.2.name": "conversions", "steps.2.count": 1, "steps.3.count": 1, "steps.3.rate": 1, "steps.4.count": 0,
	})
	f.merchant.get(t, analytics+"cohorts").wantStatus(http.StatusOK).wantFields(object{
		"cohorts.0.size": 0, "cohorts.23.size": 1, "cohorts.23.periods": []object{{"index": 0, "revenueCents": 10_000, "conversions": 1, "commissionCents": 1500, "active": 1}},
	})

	// Partners see their own numbers, without those that only concern the merchant.
	f.partner.get(t, "/api/v1/partner/analytics/summary").wantStatus(http.StatusOK).wantFields(object{
		"metrics.clicks": clicks, "metrics.commissionCents": 1500, "metrics.netRevenueCents": nil, "metrics.returnOnCommission": nil,
	})
	sys.newPartner(t).inMode("test").get(t, "/api/v1/partner/analytics/summary?programId="+f.program).wantOutcome(notFound)
	// The other mode has other numbers.
	f.merchant.inMode("live").get(t, analytics+"summary").wantStatus(http.StatusOK).wantFields(object{"metrics.clicks": 0, "metrics.conversions": 0})
	f.merchant.inMode("live").get(t, analytics+"summary?participantId="+f.participant).wantOutcome(notFound)
	sys.newMerchant(t).inMode("test").get(t, analytics+"summary?programId="+f.program).wantOutcome(notFound)

	for query, field := range map[string]string{
		"summary?dateFrom=2026-02-30":                                    "dateFrom",
		"summary?dateFrom=2026-02-02&dateTo=2026-02-01":                  "dateTo",
		"summary?dateFrom=2015-01-01":                                    "dateFrom",
		"summary?timezone=Mars/Olympus":                                  "timezone",
		"summary?compare=next":                                           "compare",
		"summary?programId=x":                                            "programId",
		"summary?period=week":                                            "period",
		"timeseries?interval=year":                                       "interval",
		"timeseries?interval=hour&dateFrom=2026-02-01&dateTo=2026-02-08": "interval",
		"timeseries?interval=day&dateFrom=2023-01-01&dateTo=2026-01-01":  "interval",
		"timeseries?format=xml":                                          "format",
		"breakdown?groupBy=colour":                                       "groupBy",
		"breakdown?groupBy=country&metric=price":                         "metric",
		"breakdown?groupBy=country&pageSize=101":                         "pageSize",
		"cohorts?dateFrom=2023-01-01&dateTo=2025-12-31":                  "dateFrom",
		"funnel?includeBots=perhaps":                                     "includeBots",
	} {
		got := f.merchant.get(t, analytics+query)
		got.wantOutcome(invalid)
		got.wantFields(object{"details.0.field": field})
	}
	f.merchant.get(t, analytics+"timeseries?interval=hour&dateFrom=2026-02-01&dateTo=2026-02-07").wantStatus(http.StatusOK)
}
