package e2e_test

import (
	"encoding/csv"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	balancesPath     = "/api/v1/ledger/balances"
	ledgerExportPath = "/api/v1/ledger/export"
)

// testBooks closes a period as finance does: it states the liability, exports the entries
// that lead to it, and closes the books. After that, nothing is dated into the period.
func testBooks(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0}))
	f.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
	click := f.click(t)
	f.reportSale(t, click, nil) // Pia earns 20.00 USD
	f.merchant.post(t, f.participantPath()+"/ledger", object{"type": "adjustment", "amountCents": -300, "currency": "EUR", "reason": "=1+1"}).wantStatus(http.StatusCreated)
	other := sys.newFixtureFor(t, f.merchant, sys.newPartner(t).inMode("live"), nil)
	other.merchant.post(t, other.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 500, "currency": "EUR", "reason": "Welcome"}).wantStatus(http.StatusCreated)
	total := func(currency string, to, by, count int64) object {
		return object{"currency": currency, "owedToPartnersCents": to, "owedByPartnersCents": by, "balanceCents": to - by, "participantCount": count}
	}
	now := time.Now().UTC()
	all := object{
		"total": 3, "page": 1, "limit": 20, "totals": []any{total("EUR", 500, 300, 2), total("USD", 2000, 0, 1)},
		"data.0.currency": "EUR", "data.0.balanceCents": 500, "data.0.participantId": other.participant, "data.0.programId": other.program,
		"data.1.balanceCents": -300, "data.2.balanceCents": 2000, "data.2.participantId": f.participant,
	}

	t.Run("the liability of a day", func(t *testing.T) {
		f.merchant.get(t, balancesPath).wantStatus(http.StatusOK).wantFields(all)
		f.merchant.get(t, balancesPath+"?asOf="+now.AddDate(0, 0, 2).Format(time.DateOnly)).wantStatus(http.StatusOK).wantFields(all)
		f.merchant.get(t, balancesPath+"?asOf="+now.AddDate(0, 0, -2).Format(time.DateOnly)).wantStatus(http.StatusOK).
			wantFields(object{"total": 0, "data": []any{}, "totals": []any{}, "asOf": now.AddDate(0, 0, -2).Format(time.DateOnly) + "T23:59:59.999Z"})
		f.merchant.get(t, balancesPath+"?pageSize=1&page=2&programId="+f.program).wantStatus(http.StatusOK).
			wantFields(object{"total": 2, "data.0.balanceCents": 2000, "totals": []any{total("EUR", 0, 300, 1), total("USD", 2000, 0, 1)}})
		f.merchant.inMode("test").get(t, balancesPath).wantStatus(http.StatusOK).wantFields(object{"total": 0})
		f.merchant.get(t, balancesPath+"?asOf=31.12.2026").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "asOf")
		f.merchant.get(t, balancesPath+"?programId="+sys.newFixture(t, "live", nil).program).wantError(http.StatusNotFound, "NOT_FOUND")
	})
	t.Run("the entries that lead to it", func(t *testing.T) {
		file := f.merchant.get(t, ledgerExportPath+"?programId="+f.program).wantStatus(http.StatusOK)
		rows, err := csv.NewReader(strings.NewReader(file.body)).ReadAll()
		if err != nil {
			t.Fatalf("%v: %s", err, file.body)
		}
		var got []string
		for _, row := range rows[1:] {
			got = append(got, strings.Join(row[6:10], " ")+" "+row[12])
		}
		want := []string{
			"opening_balance  EUR 0 ", "opening_balance  USD 0 ",
			"commission_approved 2000 USD 2000 ", "adjustment -300 EUR -300 '=1+1",
			"closing_balance  EUR -300 ", "closing_balance  USD 2000 ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the export has the rows\n%q\nwant\n%q", got, want)
		}
		f.merchant.get(t, ledgerExportPath+"?dateFrom=2026-02-02&dateTo=2026-02-01").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "dateTo")
		f.merchant.get(t, ledgerExportPath+"?programId="+unknownID).wantError(http.StatusNotFound, "NOT_FOUND")
		f.merchant.get(t, "/api/v1/workspace/audit-log?action=ledger.export").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.after.program_id": f.program})
	})
	t.Run("closing the books", func(t *testing.T) {
		yesterday := now.AddDate(0, 0, -1).Format(time.DateOnly)
		today := now.Format(time.DateOnly) + "T00:00:00.000Z"
		f.merchant.get(t, workspacePath).wantStatus(http.StatusOK).wantFields(object{"booksClosedUntil": nil, "retainPayeeYears": 0})
		f.merchant.patch(t, workspacePath, object{"booksClosedUntil": yesterday}).wantStatus(http.StatusOK).wantFields(object{"booksClosedUntil": today})
		f.merchant.patch(t, workspacePath, object{"booksClosedUntil": "2026-01-31"}).wantError(http.StatusConflict, "PERIOD_CLOSED").
			wantFields(object{"context": object{"booksClosedUntil": today}})
		f.merchant.patch(t, workspacePath, object{"booksClosedUntil": nil}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "booksClosedUntil")
		f.merchant.patch(t, workspacePath, object{"booksClosedUntil": now.AddDate(0, 0, 1).Format(time.RFC3339)}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "booksClosedUntil")
		f.merchant.get(t, "/api/v1/workspace/audit-log?action=workspace.update").wantStatus(http.StatusOK).
			wantFields(object{"total": 1, "data.0.before.books_closed_until": nil, "data.0.after.books_closed_until": today})
	})
	t.Run("the retention of names", func(t *testing.T) {
		f.merchant.patch(t, workspacePath, object{"retainPayeeYears": 31}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "retainPayeeYears")
		f.merchant.patch(t, workspacePath, object{"retainPayeeYears": 10}).wantStatus(http.StatusOK).wantFields(object{"retainPayeeYears": 10})
		f.merchant.patch(t, workspacePath, object{"retainPayeeYears": nil}).wantStatus(http.StatusOK).wantFields(object{"retainPayeeYears": 0})
	})
	t.Run("the date of a payment", func(t *testing.T) {
		batch := f.createBatch(t, object{}).wantStatus(http.StatusCreated).text("id")
		f.merchant.post(t, batchesPath+"/"+batch+"/confirm", nil).wantStatus(http.StatusOK)
		payout := "/api/v1/payouts/" + f.merchant.get(t, "/api/v1/payouts?batchId="+batch).text("data.0.id")
		pay := func(paidAt time.Time) response {
			return f.merchant.patch(t, payout+"/mark-paid", object{"reference": "tx-1", "paidAt": paidAt.UTC().Format(time.RFC3339Nano)})
		}
		pay(time.Now().Add(time.Hour)).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "paidAt")
		pay(now.AddDate(0, 0, -91)).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "paidAt")
		pay(now.Add(-time.Minute)).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "paidAt") // before it was confirmed
		sys.exec(t, `update payouts set initiated_at = initiated_at - interval '5 days' where workspace_id = $1`, f.merchant.workspace)
		pay(now.AddDate(0, 0, -2)).wantError(http.StatusConflict, "PERIOD_CLOSED")
		paid := time.Now().Add(-time.Second)
		paidAt := paid.UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
		pay(paid).wantStatus(http.StatusOK).wantFields(object{"status": "paid", "paidAt": paidAt})
		f.merchant.get(t, f.participantPath()+"/ledger?type=payout").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.occurredAt": paidAt})
		f.merchant.get(t, balancesPath).wantStatus(http.StatusOK).wantFields(object{"total": 2})
	})
	t.Run("an erased partner stays in the books without a name", func(t *testing.T) {
		before := f.merchant.get(t, balancesPath).wantStatus(http.StatusOK)
		f.merchant.post(t, other.participantPath()+"/erase", confirmed).wantStatus(http.StatusOK)
		after := f.merchant.get(t, balancesPath).wantStatus(http.StatusOK).wantFields(object{
			"total": 2, "totals": before.value("totals"), "data.0.participantId": other.participant, "data.0.balanceCents": 500,
		})
		if name := after.text("data.0.partnerName"); name == before.text("data.0.partnerName") || !strings.HasPrefix(name, "erased-") {
			t.Errorf("the statement shows the name %q of the erased partner, want the pseudonym", name)
		}
	})
}
