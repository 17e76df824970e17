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

// manualApprovalRules returns rules with 20 percent, without a hold period and without
// automatic approval.
func manualApprovalRules() object { return rules(object{"holdPeriodDays": 0, "autoApproval": false}) }

// sell reports a sale for a click, with changed fields.
func (w world) sell(t testing.TB, click string, changes object) response {
	t.Helper()
	sale := purchase(click)
	for field, value := range changes {
		sale[field] = value
	}
	return w.report(t, sale).want(http.StatusCreated)
}

// TestReviewOfCommissions tests all actions of a merchant on commissions.
func TestReviewOfCommissions(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	held := sys.world(t, "test", rules(nil))
	free := sys.worldOf(t, held.merchant, held.partner, manualApprovalRules())
	flagged := func(t *testing.T, w world) string {
		t.Helper()
		return w.sell(t, w.click(t), object{"currency": "EUR"}).text("commission.id")
	}

	t.Run("a hold is overridden with a reason that the partner cannot see", func(t *testing.T) {
		id := held.earn(t)
		path := held.commissionPath(id) + "/approve-override"
		for _, reason := range []any{nil, "", "   ", strings.Repeat("ü", 501)} {
			held.merchant.patch(t, path, object{"reason": reason}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
		}
		held.merchant.patch(t, path, object{"reason": " An old friend. "}).want(http.StatusOK).wantFields(object{
			"status": "approved", "overrideReason": "An old friend.", "overrideBy": held.merchant.id, "holdActive": true,
			"history.1.reason": "An old friend.", "history.1.actor": held.merchant.id,
		})
		if shown := held.partner.get(t, "/api/v1/partner/commissions").want(http.StatusOK).body; strings.Contains(shown, "old friend") {
			t.Errorf("the partner sees the reason: %s", shown)
		}
		held.merchant.patch(t, path, object{"reason": "Again"}).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
	})
	t.Run("the errors of an override have a fixed order", func(t *testing.T) {
		override := func(w world, id string) response {
			return w.merchant.patch(t, w.commissionPath(id)+"/approve-override", object{"reason": "Because"})
		}
		// The commissions have several problems: rejected, flagged and without a hold;
		// then flagged and without a hold; then only without a hold.
		rejected := flagged(t, free)
		free.merchant.patch(t, free.commissionPath(rejected)+"/reject", nil).want(http.StatusOK)
		override(free, rejected).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
		override(free, flagged(t, free)).wantError(http.StatusConflict, "COMMISSION_NEEDS_REVIEW")
		override(free, free.earn(t)).wantError(http.StatusConflict, "COMMISSION_HOLD_NOT_ACTIVE")
		override(held, flagged(t, held)).wantError(http.StatusConflict, "COMMISSION_NEEDS_REVIEW")
	})
	t.Run("a review flag is cleared with a note", func(t *testing.T) {
		id := flagged(t, free)
		path := free.commissionPath(id) + "/clear-review"
		free.merchant.patch(t, path, object{"note": "Looked at it."}).want(http.StatusOK).wantFields(object{
			"status": "pending", "needsReview": false, "reviewReasons": []any{},
			"history.1.from": "pending", "history.1.to": "pending", "history.1.reason": "Looked at it.",
		})
		free.merchant.patch(t, path, nil).wantError(http.StatusConflict, "COMMISSION_NOT_FLAGGED")
	})
	t.Run("bulk actions handle each commission separately", func(t *testing.T) {
		first, second, waiting := free.earn(t), free.earn(t), held.earn(t)
		bulk := func(w world, verb string, ids ...string) response {
			return w.merchant.patch(t, w.programPath()+"/commissions/bulk-"+verb, object{"commissionIds": ids})
		}
		bulk(free, "approve", second, first, second).want(http.StatusOK).wantFields(object{
			"summary": object{"total": 2, "succeeded": 2, "failed": 0}, "results.0.commissionId": second, "results.1.commissionId": first,
			"results.0.success": true, "results.0.statusCode": 200, "results.0.status": "approved", "results.0.code": nil, "results.0.message": nil,
		})
		third := free.earn(t)
		bulk(free, "approve", first, third, unknownID, waiting).want(http.StatusMultiStatus).wantFields(object{
			"summary":              object{"total": 4, "succeeded": 1, "failed": 3},
			"results.0.statusCode": 409, "results.0.code": "COMMISSION_NOT_PENDING", "results.0.status": "approved",
			"results.1.statusCode": 200, "results.2.statusCode": 404, "results.2.code": "NOT_FOUND", "results.2.status": nil,
			// A commission of another programme is reported as unknown.
			"results.3.statusCode": 404, "results.3.code": "NOT_FOUND",
		})
		// A bulk approval never overrides a hold.
		bulk(held, "approve", waiting).wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED").wantFields(object{
			"summary": object{"total": 1, "succeeded": 0, "failed": 1}, "results.0.code": "COMMISSION_HOLD_ACTIVE", "results.0.status": "pending",
		})
		held.merchant.patch(t, held.programPath()+"/commissions/bulk-reject", object{
			"commissionIds": []string{waiting}, "reason": "A test order", "code": "test_order",
		}).want(http.StatusOK).wantFields(object{"results.0.status": "rejected"})
		held.merchant.get(t, held.commissionPath(waiting)).wantFields(object{"rejectionReason": "A test order", "rejectionCode": "test_order"})

		for name, ids := range map[string]any{
			"an empty list": []string{}, "not a UUID": []string{"1"}, "not a list": first, "null": nil,
			"too many": slices.Repeat([]string{first}, 101),
		} {
			t.Run(name, func(t *testing.T) {
				free.merchant.patch(t, free.programPath()+"/commissions/bulk-approve", object{"commissionIds": ids}).wantOutcome(invalid)
			})
		}
	})
	t.Run("one of many concurrent approvals and rejections succeeds", func(t *testing.T) {
		id := free.earn(t)
		responses := concurrently(40, func(i int) response {
			verb := "/approve"
			if i%2 == 1 {
				verb = "/reject"
			}
			return free.merchant.patch(t, free.commissionPath(id)+verb, nil)
		})
		got := free.merchant.get(t, free.commissionPath(id)).want(http.StatusOK)
		counts := countStatuses(responses)
		// One rejection may follow the approval.
		moves := got.length("history") - 1
		if counts["200"] != moves || moves < 1 || moves > 2 || counts["200"]+counts["409 COMMISSION_NOT_PENDING"]+counts["409 COMMISSION_TERMINAL"] != 40 {
			t.Errorf("%v; %s", counts, got.body)
		}
	})
}

// TestCommissionStats checks that counts and sums match the list under every filter.
func TestCommissionStats(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "live", manualApprovalRules())
	other := sys.worldOf(t, w.merchant, sys.partner(t).in("live"), manualApprovalRules())
	empty := object{"count": 0, "amountCents": 0}
	w.merchant.get(t, "/api/v1/commissions/stats").want(http.StatusOK).wantFields(object{
		"totalCount": 0, "totalAmountCents": 0, "currency": "USD", "averageAmountCents": 0, "needsReviewCount": 0, "byCurrency": []any{},
		"byStatus": object{"pending": empty, "approved": empty, "rejected": empty, "paid": empty, "refunded": empty},
	})
	click := w.click(t)
	approved := w.sell(t, click, object{"amount_cents": 1005}).text("commission.id")
	w.sell(t, click, object{"amount_cents": 9000})
	w.sell(t, click, object{"amount_cents": 5000, "currency": "EUR"})
	elsewhere := other.sell(t, other.click(t), object{"amount_cents": 4000})
	w.merchant.patch(t, w.commissionPath(approved)+"/approve", nil).want(http.StatusOK)

	all := object{
		"totalCount": 4, "totalAmountCents": 201 + 1800 + 800, "averageAmountCents": 934, "needsReviewCount": 1,
		"byStatus.approved": object{"count": 1, "amountCents": 201}, "byStatus.pending": object{"count": 3, "amountCents": 2600},
		"byCurrency": []any{object{"currency": "EUR", "count": 1, "amountCents": 1000}, object{"currency": "USD", "count": 3, "amountCents": 2801}},
	}
	today := sys.clock.now().UTC().Format(time.DateOnly)
	for _, query := range []string{"", "?dateFrom=" + today, "?dateTo=" + today + "&timezone=UTC", "?dateFrom=2020-01-15T12:00:00Z"} {
		w.merchant.get(t, "/api/v1/commissions/stats"+query).want(http.StatusOK).wantFields(all)
	}
	for _, path := range []string{w.programPath() + "/commissions/stats?", "/api/v1/commissions/stats?programId=" + w.program + "&"} {
		for query, count := range map[string]int{
			"": 3, "status=approved": 1, "status=pending": 2, "status=paid": 0, "needsReview=true": 1, "needsReview=false": 2,
			"dateTo=2020-01-01": 0, "search=" + elsewhere.text("external_transaction_id"): 0, "search=order-": 3, "status=pending&needsReview=true&dateFrom=" + today: 1,
		} {
			stats := w.merchant.get(t, path+query).want(http.StatusOK).wantFields(object{"totalCount": count})
			list := strings.Replace(path, "/stats", "", 1) + query
			if total := w.merchant.get(t, list).want(http.StatusOK).number("total"); total != int64(count) {
				t.Errorf("%s: %d in the list, %s", query, total, stats.body)
			}
		}
	}
	for _, query := range []string{"page=1", "sortBy=createdAt", "status=lost", "dateFrom=yesterday", "timezone=Mars/Olympus", "needsReview=maybe", "programId=1", "dateFrom=2026-02-01&dateTo=2026-01-01"} {
		w.merchant.get(t, "/api/v1/commissions/stats?"+query).wantOutcome(invalid)
	}
	w.merchant.get(t, "/api/v1/commissions/stats?programId="+unknownID).wantOutcome(notFound)
	w.merchant.get(t, "/api/v1/commissions/export?programId="+unknownID).wantOutcome(notFound)
	sys.merchant(t).get(t, "/api/v1/commissions/stats?programId="+w.program).wantOutcome(forbidden)
	sys.merchant(t).get(t, "/api/v1/commissions/export?programId="+w.program).wantOutcome(forbidden)
}

// TestCommissionExport checks that the CSV has the same data and order as the list, and
// that no cell is a formula when a spreadsheet opens it.
func TestCommissionExport(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", manualApprovalRules())
	click := w.click(t)
	for _, id := range []string{"=HYPERLINK(\"http://evil\")", " +1", "\"@x", "a,\"b\"\nc"} {
		w.sell(t, click, object{"external_transaction_id": id})
	}
	id := w.sell(t, click, object{"amount_cents": 777}).text("commission.id")
	w.merchant.patch(t, w.commissionPath(id)+"/approve", nil).want(http.StatusOK)

	got := w.merchant.get(t, "/api/v1/commissions/export?sortBy=amountCents&sortOrder=asc").want(http.StatusOK)
	name := fmt.Sprintf("commissions-test-%s.csv", sys.clock.now().UTC().Format(time.DateOnly))
	if got.header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(got.header.Get("Content-Disposition"), name) {
		t.Errorf("%v", got.header)
	}
	rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
	if err != nil || len(rows) != 6 {
		t.Fatalf("%d rows, %v: %s", len(rows), err, got.body)
	}
	want := "id,createdAt,status,commissionType,programName,partnerName,amountCents,currency,saleAmountCents,saleCurrency," +
		"externalTransactionId,promoCode,needsReview,holdUntil,approvedAt,rejectedAt,paidAt,refundedAt,payoutId"
	if header := strings.Join(rows[0], ","); header != want {
		t.Errorf("header %s", header)
	}
	list := w.merchant.get(t, "/api/v1/commissions?sortBy=amountCents&sortOrder=asc").want(http.StatusOK)
	for i, row := range rows[1:] {
		at := func(field string) string { return list.text(fmt.Sprintf("data.%d.%s", i, field)) }
		if row[0] != at("id") || row[1] != at("createdAt") || row[2] != at("status") || row[6] != strconv.FormatInt(list.number(fmt.Sprintf("data.%d.amountCents", i)), 10) || row[7] != "USD" {
			t.Errorf("row %d: %q differs from commission %s", i, row, at("id"))
		}
		external := at("externalTransactionId")
		if strings.TrimPrefix(row[10], "'") != external || (strings.TrimLeft(external, " \"")[0] != 'a' && strings.TrimLeft(external, " \"")[0] != 'o') != strings.HasPrefix(row[10], "'") {
			t.Errorf("%q is exported as %q", external, row[10])
		}
	}
	filtered, err := csv.NewReader(strings.NewReader(w.merchant.get(t, w.programPath()+"/commissions/export?status=approved").want(http.StatusOK).body)).ReadAll()
	if err != nil || len(filtered) != 2 || filtered[1][0] != id || filtered[1][14] == "" {
		t.Errorf("%q, %v", filtered, err)
	}
	w.merchant.get(t, "/api/v1/commissions/export?page=1").wantOutcome(invalid)
}
