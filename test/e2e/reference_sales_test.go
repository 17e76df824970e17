package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// conversions reports sales and refunds and reads their attribution decisions.
func (c *referenceCalls) conversions(t *testing.T) {
	t.Helper()
	public := c.anonymous.withCredential(c.merchant.get(t, "/api/v1/api-keys").text("publicKey")).withHeader("User-Agent", browserUserAgent)
	// Under load, the directory of the collector may get the last change of Ada's promo
	// codes some time after the response.
	bot := public.withHeader("User-Agent", "curl/8.5.0")
	eventually(t, waitTimeout, "the collector returns Ada's discount", func() error {
		if got := bot.send(t, "POST", c.sys.edge+"/v1/clicks", object{"referral_code": "ada"}); !strings.Contains(got.body, `"promo_code":"ada10"`) {
			return fmt.Errorf("%s: %s", got.request, got.body)
		}
		return nil
	})
	c.click = c.call(public, "POST", "/v1/clicks", object{
		"referral_code": "ada", "url": "https://shop.example/beans", "referrer": "https://blog.example/espresso", "consent": "granted", "language": "en",
	}).text("click_id")
	sale := c.call(c.server.withHeader("Idempotency-Key", "order-1001"), "POST", "/api/v1/conversions", object{
		"event_type": "purchase", "external_transaction_id": "order-1001", "amount_cents": 4900, "currency": "USD",
		"click_id": c.click, "customer_id": "customer-77", "tax_cents": 400,
	})
	c.conversion = sale.text("id")
	c.call(c.server.withHeader("Idempotency-Key", "import-2026-03-02"), "POST", "/api/v1/conversions/batch", object{"conversions": []object{
		{"event_type": "purchase", "external_transaction_id": "order-1002", "amount_cents": 9900, "currency": "USD", "promo_code": c.promo},
		{"event_type": "renewal", "external_transaction_id": "order-1003", "amount_cents": 4900, "currency": "USD", "promo_code": c.promo, "customer_id": "customer-77"},
	}})
	c.call(c.server, "POST", "/api/v1/conversions/refunds", object{
		"external_transaction_id": "order-1002", "external_refund_id": "refund-1", "amount_cents": 3300, "reason": "One of three returned",
	})
	c.report("order-2001", nil)
	c.call(c.server, "POST", "/api/v1/conversions/disputes", object{
		"external_transaction_id": "order-2001", "external_dispute_id": "dispute-1", "status": "open", "amount_cents": 2500,
	})
	c.call(c.server, "PATCH", "/api/v1/customers/customer-77", object{"label": "Grace's Coffee Club"})
	c.call(c.server, "GET", "/api/v1/conversions?external_transaction_id=order-1001", nil)
	c.call(c.server, "GET", "/api/v1/conversions/"+c.conversion, nil)
	c.call(c.merchant, "GET", "/api/v1/conversions/"+c.conversion+"/attribution", nil)
	c.call(c.server, "GET", "/api/v1/attribution/clicks/"+c.click, nil)
	c.call(c.server, "GET", "/api/v1/attribution/conversions?external_transaction_id=order-1001", nil)
	c.call(c.server, "GET", "/api/v1/attribution/conversions/"+c.conversion, nil)
	c.call(c.server, "GET", "/api/v1/attribution/decisions?reason_code=CLICK_MATCHED", nil)
	c.call(c.server, "POST", "/api/v1/attribution/simulate", object{"event_type": "purchase", "amount_cents": 12000, "currency": "USD", "promo_code": c.promo})
	moved := c.report("order-1004", nil)
	c.call(c.merchant, "POST", "/api/v1/conversions/"+moved.text("id")+"/reattribute", object{"participant_id": c.otherParticipant, "reason": "The buyer named Ben's blog."})
	c.call(c.merchant, "GET", "/api/v1/conversions/"+moved.text("id")+"/attribution/decisions", nil)
}

// report reports a sale with the given order id and with extraFields. It does not record
// the call as an example.
func (c *referenceCalls) report(order string, extraFields object) response {
	c.t.Helper()
	body := object{"event_type": "purchase", "external_transaction_id": order, "amount_cents": 2500, "currency": "USD", "click_id": c.click}
	for name, value := range extraFields {
		body[name] = value
	}
	return c.server.post(c.t, "/api/v1/conversions", body).wantStatus(http.StatusCreated)
}

// commissions reviews commissions and fraud events.
func (c *referenceCalls) commissions(t *testing.T) {
	t.Helper()
	suspicious := c.report("order-1005", object{"customer_email": strings.Replace(partnerEmail, "@", "+shop@", 1)})
	list := c.program + "/commissions"
	c.call(c.merchant, "GET", list+"?needsReview=true", nil)
	c.call(c.merchant, "PATCH", list+"/"+suspicious.text("commission.id")+"/clear-review", object{"note": "Known customer."})
	c.report("order-1006", object{"customer_email": strings.Replace(partnerEmail, "@", "+again@", 1)})
	found := c.call(c.merchant, "GET", "/api/v1/fraud/events?status=open&pageSize=1", nil)
	c.call(c.merchant, "GET", "/api/v1/fraud/events/"+found.text("data.0.id"), nil)
	c.call(c.merchant, "POST", "/api/v1/fraud/events/"+found.text("data.0.id")+"/resolve", object{"outcome": "dismissed", "note": "A colleague bought it."})

	another := c.report("order-1013", object{"customer_email": strings.Replace(partnerEmail, "@", "+more@", 1)})
	c.merchant.get(c.t, "/api/v1/fraud/events?status=open&pageSize=1").wantFields(object{"data.0.conversionId": another.text("id")})
	found = c.merchant.get(c.t, "/api/v1/fraud/events?status=open&pageSize=1")
	c.call(c.merchant, "POST", "/api/v1/fraud/events/bulk-resolve", object{"eventIds": []string{found.text("data.0.id")}, "outcome": "confirmed"})

	early := c.report("order-1007", nil).text("commission.id")
	c.call(c.merchant, "PATCH", list+"/"+early+"/approve-override", object{"reason": "Agreed with the partner."})
	rejected := c.report("order-1008", nil).text("commission.id")
	c.call(c.merchant, "PATCH", list+"/"+rejected+"/reject", object{"reason": "The order was a test.", "code": "test_order"})
	many := []string{c.report("order-1009", nil).text("commission.id"), c.report("order-1010", nil).text("commission.id")}
	c.call(c.merchant, "PATCH", list+"/bulk-reject", object{"commissionIds": many[:1], "code": "order_canceled"})

	c.sys.clock.advance(14*24*time.Hour + time.Minute) // the hold period ends
	c.merchant = c.login(t, "merchant", ownerEmail, "correct horse battery")
	c.partner = c.login(t, "partner", partnerEmail, "a long password of Ada")
	first := c.merchant.get(t, list+"?search=order-1001").text("data.0.id")
	c.call(c.merchant, "PATCH", list+"/"+first+"/approve", nil)
	c.call(c.merchant, "PATCH", list+"/bulk-approve", object{"commissionIds": many[1:]})
	c.call(c.merchant, "GET", list+"/"+first, nil)
	c.call(c.merchant, "GET", list+"/stats?status=approved", nil)
	c.call(c.merchant, "GET", list+"/export?search=order-1001", nil)
	c.call(c.merchant, "GET", "/api/v1/commissions?search=order-1001", nil)
	c.call(c.merchant, "GET", "/api/v1/commissions/stats?search=order-1001", nil)
	c.call(c.merchant, "GET", "/api/v1/commissions/export?search=order-1001", nil)
}

// commissionsWithoutProgram reviews commissions on the paths that do not name their
// programme.
func (c *referenceCalls) commissionsWithoutProgram() {
	const list = "/api/v1/commissions"
	pending := c.merchant.get(c.t, list+"?search=order-1003").text("data.0.id")
	c.call(c.merchant, "GET", list+"/"+pending, nil)
	c.call(c.merchant, "PATCH", list+"/"+pending+"/approve", nil)
	early := c.report("order-1101", nil).text("commission.id")
	c.call(c.merchant, "PATCH", list+"/"+early+"/approve-override", object{"reason": "Agreed with the partner."})
	c.call(c.merchant, "PATCH", list+"/"+early+"/reject", object{"reason": "The order was a test.", "code": "test_order"})
	suspicious := c.report("order-1102", object{"customer_email": strings.Replace(partnerEmail, "@", "+last@", 1)})
	c.call(c.merchant, "PATCH", list+"/"+suspicious.text("commission.id")+"/clear-review", object{"note": "Known customer."})
	c.call(c.merchant, "PATCH", list+"/bulk-approve", object{"commissionIds": []string{c.merchant.get(c.t, list+"?search=order-1002").text("data.0.id")}})
	c.call(c.merchant, "PATCH", list+"/bulk-reject", object{"commissionIds": []string{suspicious.text("commission.id")}, "code": "order_canceled"})
}

// payouts creates, processes, exports and pays payouts.
func (c *referenceCalls) payouts() {
	programs := []string{strings.TrimPrefix(c.program, "/api/v1/programs/")}
	ledger := c.program + "/partners/" + c.participant + "/ledger"
	c.call(c.merchant, "POST", ledger, object{"type": "bonus", "amountCents": 2500, "reason": "For the first ten customers"})
	c.call(c.merchant, "GET", ledger+"?pageSize=2", nil)
	c.call(c.partner, "GET", "/api/v1/partner/ledger?pageSize=2", nil)
	c.call(c.merchant, "POST", "/api/v1/payouts/preview", object{"programIds": programs})
	dropped := c.merchant.withHeader("Idempotency-Key", "payouts-test").post(c.t, "/api/v1/payouts/batches", object{"programIds": programs})
	c.call(c.merchant, "POST", "/api/v1/payouts/batches/"+dropped.text("id")+"/cancel", nil)
	batch := c.call(c.merchant.withHeader("Idempotency-Key", "payouts-2026-03"), "POST", "/api/v1/payouts/batches", object{"programIds": programs})
	id := batch.text("id")
	c.call(c.merchant, "POST", "/api/v1/payouts/batches/"+id+"/confirm", nil)
	c.call(c.merchant, "POST", "/api/v1/payouts/batches/"+id+"/process", nil)
	c.call(c.merchant, "GET", "/api/v1/payouts/batches/"+id+"/export?format=paypal", nil)
	c.call(c.merchant, "GET", "/api/v1/payouts/batches/"+id, nil)
	c.call(c.merchant, "GET", "/api/v1/payouts/batches?pageSize=1", nil)
	list := c.call(c.merchant, "GET", "/api/v1/payouts?batchId="+id, nil)
	payout := "/api/v1/payouts/" + list.text("data.0.id")
	c.call(c.merchant, "PATCH", "/api/v1/payouts/bulk-mark-failed", object{"payouts": []object{{"payoutId": list.text("data.0.id"), "reason": "The bank does not answer."}}})
	c.merchant.patch(c.t, payout+"/retry", nil).wantStatus(http.StatusOK)
	c.call(c.merchant, "PATCH", payout+"/mark-failed", object{"reason": "The account does not exist."})
	c.call(c.merchant, "PATCH", payout+"/retry", nil)
	c.call(c.merchant, "PATCH", payout+"/mark-paid", object{"reference": "transfer-42"})
	c.call(c.merchant, "GET", payout, nil)
	c.call(c.partner, "GET", "/api/v1/partner/payouts", nil)
	c.call(c.partner, "GET", "/api/v1/partner/payouts/"+list.text("data.0.id"), nil)

	c.merchant.post(c.t, ledger, object{"type": "bonus", "amountCents": 1000, "reason": "Photo competition"}).wantStatus(http.StatusCreated)
	many := c.merchant.withHeader("Idempotency-Key", "payouts-bulk").post(c.t, "/api/v1/payouts/batches", object{"programIds": programs}).text("id")
	c.merchant.post(c.t, "/api/v1/payouts/batches/"+many+"/confirm", nil).wantStatus(http.StatusOK)
	inMany := c.merchant.get(c.t, "/api/v1/payouts?batchId="+many).text("data.0.id")
	c.call(c.merchant, "PATCH", "/api/v1/payouts/bulk-mark-paid", object{"payouts": []object{{"payoutId": inMany, "reference": "transfer-43"}}})
	c.merchant.post(c.t, ledger, object{"type": "bonus", "amountCents": 1000, "reason": "Film competition"}).wantStatus(http.StatusCreated)
	second := c.merchant.withHeader("Idempotency-Key", "payouts-2026-04").post(c.t, "/api/v1/payouts/batches", object{"programIds": programs}).text("id")
	open := c.merchant.get(c.t, "/api/v1/payouts?batchId="+second).text("data.0.id")
	c.call(c.merchant, "PATCH", "/api/v1/payouts/"+open+"/cancel", nil)
}

// books states the balances and exports the ledger.
func (c *referenceCalls) books() {
	c.call(c.merchant, "GET", "/api/v1/ledger/balances?pageSize=2", nil)
	c.call(c.merchant, "GET", "/api/v1/ledger/export", nil)
}
