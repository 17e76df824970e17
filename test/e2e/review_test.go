package e2e_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// manualApprovalRules returns commission rules with a rate of 20 percent, no hold period
// and no automatic approval.
func manualApprovalRules() object { return rules(object{"holdPeriodDays": 0, "autoApproval": false}) }

// reportSale reports a sale after a click. The fields in changes replace the defaults.
func (f fixture) reportSale(t testing.TB, click string, changes object) response {
	t.Helper()
	sale := purchase(click)
	for field, value := range changes {
		sale[field] = value
	}
	return f.report(t, sale).wantStatus(http.StatusCreated)
}

// testReviewOfCommissions tests the actions with which a merchant reviews commissions.
func testReviewOfCommissions(t *testing.T, sys *system) {
	withHold := sys.newFixture(t, "test", rules(nil))
	withoutHold := sys.newFixtureFor(t, withHold.merchant, withHold.partner, manualApprovalRules())
	earnFlaggedCommission := func(t *testing.T, f fixture) string {
		t.Helper()
		return f.reportSale(t, f.click(t), object{"currency": "EUR"}).text("commission.id")
	}

	t.Run("a merchant can approve during the hold with a reason that the partner cannot see", func(t *testing.T) {
		id := withHold.earnCommission(t)
		path := withHold.commissionPath(id) + "/approve-override"
		for _, reason := range []any{nil, "", "   ", strings.Repeat("ü", 501)} {
			withHold.merchant.patch(t, path, object{"reason": reason}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
		}
		withHold.merchant.patch(t, path, object{"reason": " An old friend. "}).wantStatus(http.StatusOK).wantFields(object{
			"status": "approved", "overrideReason": "An old friend.", "overrideBy": withHold.merchant.id, "holdActive": true,
			"history.1.reason": "An old friend.", "history.1.actor": withHold.merchant.id,
		})
		if shown := withHold.partner.get(t, "/api/v1/partner/commissions").wantStatus(http.StatusOK).body; strings.Contains(shown, "old friend") {
			t.Errorf("the partner's list of commissions contains the reason: %s", shown)
		}
		withHold.merchant.patch(t, path, object{"reason": "Again"}).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
	})
	t.Run("an approval during the hold with several errors gets the error with the highest precedence", func(t *testing.T) {
		override := func(f fixture, id string) response {
			return f.merchant.patch(t, f.commissionPath(id)+"/approve-override", object{"reason": "Because"})
		}
		// An override is an approval during the hold period. It fails if the commission
		// is not pending, is flagged for review, or has no hold. The first commission is
		// rejected, flagged and without a hold. The second commission is flagged and
		// without a hold. The third commission has no hold. The fourth commission has a
		// hold and is flagged.
		rejected := earnFlaggedCommission(t, withoutHold)
		withoutHold.merchant.patch(t, withoutHold.commissionPath(rejected)+"/reject", nil).wantStatus(http.StatusOK)
		override(withoutHold, rejected).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
		override(withoutHold, earnFlaggedCommission(t, withoutHold)).wantError(http.StatusConflict, "COMMISSION_NEEDS_REVIEW")
		override(withoutHold, withoutHold.earnCommission(t)).wantError(http.StatusConflict, "COMMISSION_HOLD_NOT_ACTIVE")
		override(withHold, earnFlaggedCommission(t, withHold)).wantError(http.StatusConflict, "COMMISSION_NEEDS_REVIEW")
	})
	t.Run("a review flag is cleared with a note", func(t *testing.T) {
		id := earnFlaggedCommission(t, withoutHold)
		path := withoutHold.commissionPath(id) + "/clear-review"
		withoutHold.merchant.patch(t, path, object{"note": "Looked at it."}).wantStatus(http.StatusOK).wantFields(object{
			"status": "pending", "needsReview": false, "reviewReasons": []any{},
			"history.1.from": "pending", "history.1.to": "pending", "history.1.reason": "Looked at it.",
		})
		withoutHold.merchant.patch(t, path, nil).wantError(http.StatusConflict, "COMMISSION_NOT_FLAGGED")
	})
	t.Run("bulk actions handle each commission separately", func(t *testing.T) {
		first, second, waiting := withoutHold.earnCommission(t), withoutHold.earnCommission(t), withHold.earnCommission(t)
		bulk := func(f fixture, verb string, ids ...string) response {
			return f.merchant.patch(t, f.programPath()+"/commissions/bulk-"+verb, object{"commissionIds": ids})
		}
		bulk(withoutHold, "approve", second, first, second).wantStatus(http.StatusOK).wantFields(object{
			"summary": object{"total": 2, "succeeded": 2, "failed": 0}, "results.0.commissionId": second, "results.1.commissionId": first,
			"results.0.success": true, "results.0.statusCode": 200, "results.0.status": "approved", "results.0.code": nil, "results.0.message": nil,
		})
		third := withoutHold.earnCommission(t)
		bulk(withoutHold, "approve", first, third, unknownID, waiting).wantStatus(http.StatusMultiStatus).wantFields(object{
			"summary":              object{"total": 4, "succeeded": 1, "failed": 3},
			"results.0.statusCode": 409, "results.0.code": "COMMISSION_NOT_PENDING", "results.0.status": "approved",
			"results.1.statusCode": 200, "results.2.statusCode": 404, "results.2.code": "NOT_FOUND", "results.2.status": nil,
			// A commission of another programme is reported as unknown.
			"results.3.statusCode": 404, "results.3.code": "NOT_FOUND",
		})
		// A bulk approval never overrides a hold.
		bulk(withHold, "approve", waiting).wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED").wantFields(object{
			"summary": object{"total": 1, "succeeded": 0, "failed": 1}, "results.0.code": "COMMISSION_HOLD_ACTIVE", "results.0.status": "pending",
		})
		withHold.merchant.patch(t, withHold.programPath()+"/commissions/bulk-reject", object{
			"commissionIds": []string{waiting}, "reason": "A test order", "code": "test_order",
		}).wantStatus(http.StatusOK).wantFields(object{"results.0.status": "rejected"})
		withHold.merchant.get(t, withHold.commissionPath(waiting)).wantFields(object{"rejectionReason": "A test order", "rejectionCode": "test_order"})

		// Without a programme, the commissions can be of any programme of the mode.
		fourth, elsewhere := withoutHold.earnCommission(t), withHold.earnCommission(t)
		withoutHold.merchant.patch(t, "/api/v1/commissions/bulk-approve", object{"commissionIds": []string{fourth, elsewhere}}).wantStatus(http.StatusMultiStatus).wantFields(object{
			"results.0.status": "approved", "results.1.code": "COMMISSION_HOLD_ACTIVE",
		})
		withoutHold.merchant.patch(t, "/api/v1/commissions/bulk-reject", object{"commissionIds": []string{fourth, elsewhere}}).wantStatus(http.StatusOK).wantFields(object{
			"results.0.status": "rejected", "results.1.status": "rejected",
		})

		for name, ids := range map[string]any{
			"an empty list": []string{}, "not a UUID": []string{"1"}, "not a list": first, "null": nil,
			"too many": slices.Repeat([]string{first}, 101),
		} {
			t.Run(name, func(t *testing.T) {
				withoutHold.merchant.patch(t, withoutHold.programPath()+"/commissions/bulk-approve", object{"commissionIds": ids}).wantOutcome(invalid)
			})
		}
	})
	t.Run("concurrent approvals and rejections change the status once or twice", func(t *testing.T) {
		id := withoutHold.earnCommission(t)
		responses := concurrently(40, func(i int) response {
			verb := "/approve"
			if i%2 == 1 {
				verb = "/reject"
			}
			return withoutHold.merchant.patch(t, withoutHold.commissionPath(id)+verb, nil)
		})
		got := withoutHold.merchant.get(t, withoutHold.commissionPath(id)).wantStatus(http.StatusOK)
		counts := countStatuses(responses)
		// Either one rejection succeeds, or first one approval and then one rejection,
		// because an approved commission can still be rejected.
		changes := got.length("history") - 1
		if counts["200"] != changes || changes < 1 || changes > 2 || counts["200"]+counts["409 COMMISSION_NOT_PENDING"]+counts["409 COMMISSION_TERMINAL"] != 40 {
			t.Errorf("40 concurrent requests got %v, want one or two times 200, one history entry for each of them, and 409 for the other requests; commission %s", counts, got.body)
		}
	})
}

// testCommissionStats checks that the statistics match the list of commissions for every
// filter.
func testCommissionStats(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", manualApprovalRules())
	other := sys.newFixtureFor(t, f.merchant, sys.newPartner(t).inMode("live"), manualApprovalRules())
	empty := object{"count": 0, "amountCents": 0}
	f.merchant.get(t, "/api/v1/commissions/stats").wantStatus(http.StatusOK).wantFields(object{
		"totalCount": 0, "totalAmountCents": 0, "currency": "USD", "averageAmountCents": 0, "needsReviewCount": 0, "byCurrency": []any{},
		"byStatus": object{"pending": empty, "approved": empty, "rejected": empty, "paid": empty, "refunded": empty},
	})
	click := f.click(t)
	approved := f.reportSale(t, click, object{"amount_cents": 1005}).text("commission.id")
	f.reportSale(t, click, object{"amount_cents": 9000})
	f.reportSale(t, click, object{"amount_cents": 5000, "currency": "EUR"})
	otherSale := other.reportSale(t, other.click(t), object{"amount_cents": 4000})
	f.merchant.patch(t, f.commissionPath(approved)+"/approve", nil).wantStatus(http.StatusOK)

	all := object{
		"totalCount": 4, "totalAmountCents": 201 + 1800 + 800, "averageAmountCents": 934, "needsReviewCount": 1,
		"byStatus.approved": object{"count": 1, "amountCents": 201}, "byStatus.pending": object{"count": 3, "amountCents": 2600},
		"byCurrency": []any{object{"currency": "EUR", "count": 1, "amountCents": 1000}, object{"currency": "USD", "count": 3, "amountCents": 2801}},
	}
	today := sys.clock.now().UTC().Format(time.DateOnly)
	for _, query := range []string{"", "?dateFrom=" + today, "?dateTo=" + today + "&timezone=UTC", "?dateFrom=2020-01-15T12:00:00Z"} {
		f.merchant.get(t, "/api/v1/commissions/stats"+query).wantStatus(http.StatusOK).wantFields(all)
	}
	for _, path := range []string{f.programPath() + "/commissions/stats?", "/api/v1/commissions/stats?programId=" + f.program + "&"} {
		for query, count := range map[string]int{
			"": 3, "status=approved": 1, "status=pending": 2, "status=paid": 0, "needsReview=true": 1, "needsReview=false": 2,
			"dateTo=2020-01-01": 0, "search=" + otherSale.text("external_transaction_id"): 0, "search=order-": 3, "status=pending&needsReview=true&dateFrom=" + today: 1,
		} {
			stats := f.merchant.get(t, path+query).wantStatus(http.StatusOK).wantFields(object{"totalCount": count})
			list := strings.Replace(path, "/stats", "", 1) + query
			if total := f.merchant.get(t, list).wantStatus(http.StatusOK).number("total"); total != int64(count) {
				t.Errorf("with the query %q the list has %d commissions, want %d as in the statistics %s", query, total, count, stats.body)
			}
		}
	}
	for _, query := range []string{"page=1", "sortBy=createdAt", "status=lost", "dateFrom=yesterday", "timezone=Mars/Olympus", "needsReview=maybe", "programId=1", "dateFrom=2026-02-01&dateTo=2026-01-01"} {
		f.merchant.get(t, "/api/v1/commissions/stats?"+query).wantOutcome(invalid)
	}
	f.merchant.get(t, "/api/v1/commissions/stats?programId="+unknownID).wantOutcome(notFound)
	f.merchant.get(t, "/api/v1/commissions/export?programId="+unknownID).wantOutcome(notFound)
	sys.newMerchant(t).get(t, "/api/v1/commissions/stats?programId="+f.program).wantOutcome(forbidden)
	sys.newMerchant(t).get(t, "/api/v1/commissions/export?programId="+f.program).wantOutcome(forbidden)
}

// testCommissionExport checks that the CSV file has the same data and order as the list.
// It also checks that a spreadsheet program does not read any cell as a formula.
func testCommissionExport(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", manualApprovalRules())
	click := f.click(t)
	for _, id := range []string{"=HYPERLINK(\"http://evil\")", " +1", "\"@x", "a,\"b\"\nc"} {
		f.reportSale(t, click, object{"external_transaction_id": id})
	}
	id := f.reportSale(t, click, object{"amount_cents": 777}).text("commission.id")
	f.merchant.patch(t, f.commissionPath(id)+"/approve", nil).wantStatus(http.StatusOK)

	got := f.merchant.get(t, "/api/v1/commissions/export?sortBy=amountCents&sortOrder=asc").wantStatus(http.StatusOK)
	name := fmt.Sprintf("commissions-test-%s.csv", sys.clock.now().UTC().Format(time.DateOnly))
	if got.header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(got.header.Get("Content-Disposition"), name) {
		t.Errorf("the export has the headers %v, want CSV with the file name %s", got.header, name)
	}
	rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
	if err != nil || len(rows) != 6 {
		t.Fatalf("the export has %d rows (error %v), want 6: %s", len(rows), err, got.body)
	}
	want := "id,createdAt,status,commissionType,programName,partnerName,amountCents,currency,saleAmountCents,saleCurrency," +
		"externalTransactionId,promoCode,needsReview,holdUntil,approvedAt,rejectedAt,paidAt,refundedAt,payoutId"
	if header := strings.Join(rows[0], ","); header != want {
		t.Errorf("the columns are %s, want %s", header, want)
	}
	list := f.merchant.get(t, "/api/v1/commissions?sortBy=amountCents&sortOrder=asc").wantStatus(http.StatusOK)
	for i, row := range rows[1:] {
		listed := func(field string) string { return list.text(fmt.Sprintf("data.%d.%s", i, field)) }
		if row[0] != listed("id") || row[1] != listed("createdAt") || row[2] != listed("status") || row[6] != strconv.FormatInt(list.number(fmt.Sprintf("data.%d.amountCents", i)), 10) || row[7] != "USD" {
			t.Errorf("row %d: %q differs from commission %s", i, row, listed("id"))
		}
		external := listed("externalTransactionId")
		if strings.TrimPrefix(row[10], "'") != external || (strings.TrimLeft(external, " \"")[0] != 'a' && strings.TrimLeft(external, " \"")[0] != 'o') != strings.HasPrefix(row[10], "'") {
			t.Errorf("the transaction id %q is exported as %q, want a quote before it only if it could be a formula", external, row[10])
		}
	}
	filtered, err := csv.NewReader(strings.NewReader(f.merchant.get(t, f.programPath()+"/commissions/export?status=approved").wantStatus(http.StatusOK).body)).ReadAll()
	if err != nil || len(filtered) != 2 || filtered[1][0] != id || filtered[1][14] == "" {
		t.Errorf("the filtered export is %q (error %v), want the approved commission %s", filtered, err, id)
	}
	f.merchant.get(t, "/api/v1/commissions/export?page=1").wantOutcome(invalid)
}
