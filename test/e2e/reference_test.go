package e2e_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// examplesFile has the examples of the API reference. tools/openapi adds them to the
// OpenAPI document.
const examplesFile = "../../tools/openapi/examples.json"

var updateExamples = flag.Bool("update-examples", false, "write "+examplesFile)

// The examples of the API reference are requests to the running service and its
// responses. Every operation has one. If a response changes, run this test with
// -update-examples and make generate.
func TestReferenceExamples(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	r := newRecorder(t, sys)
	w := &referenceWalk{recorder: r, sys: sys}
	w.accounts(t)
	w.workspace()
	w.programs()
	w.participants()
	w.linksAndPromoCodes()
	w.conversions(t)
	w.commissions(t)
	w.partnerViews()
	w.payouts()
	w.webhooks(t)
	w.endings()

	for _, list := range operations() {
		for _, operation := range list {
			if _, ok := r.examples[operation.id]; !ok && operation.id != "getOpenAPI" {
				t.Errorf("%s has no example", operation.id)
			}
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r.examples); err != nil {
		t.Fatal(err)
	}
	if *updateExamples {
		if err := os.WriteFile(examplesFile, text.Bytes(), 0o644); err != nil { //nolint:gosec // a source file
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(examplesFile)
	if err != nil {
		t.Fatal(err)
	}
	wantLines := strings.Split(string(want), "\n")
	for i, line := range strings.Split(text.String(), "\n") {
		if i >= len(wantLines) || line != wantLines[i] {
			t.Fatalf("%s differs from the service at line %d: the service has %s. Run go test ./test/e2e -run TestReferenceExamples -update-examples, and make generate.", examplesFile, i+1, line)
		}
	}
}

// referenceWalk calls every operation once, with the data of a coffee roaster.
type referenceWalk struct {
	*recorder
	sys *system

	anonymous, merchant, server, partner caller
	program, participant                 string
	applied                              string // a second partner's participation
	promo                                string
	click, conversion                    string
}

const (
	ownerEmail   = "mia@northwind.example"
	partnerEmail = "ada@blog.example"
)

// accounts registers, logs in and out, and renews sessions.
func (w *referenceWalk) accounts(t *testing.T) {
	t.Helper()
	w.anonymous = w.sys.caller()
	registered := w.call(w.anonymous, "POST", "/api/v1/auth/merchant/register", object{
		"email": ownerEmail, "password": "correct horse battery", "name": "Mia Berg", "workspaceName": "Northwind Coffee",
	})
	w.call(w.anonymous, "POST", "/api/v1/auth/merchant/refresh", object{"refreshToken": registered.text("refreshToken")})
	login := w.call(w.anonymous, "POST", "/api/v1/auth/merchant/login", object{"email": ownerEmail, "password": "correct horse battery"})
	renewed := w.call(w.anonymous, "POST", "/api/v1/auth/refresh", object{"refreshToken": login.text("refreshToken")})
	w.call(w.anonymous, "POST", "/api/v1/auth/merchant/logout", object{"refreshToken": renewed.text("refreshToken")})
	again := w.anonymous.post(t, "/api/v1/auth/merchant/login", object{"email": ownerEmail, "password": "correct horse battery"})
	w.merchant = w.anonymous.as(again.text("accessToken")).in("test")

	joined := w.call(w.anonymous, "POST", "/api/v1/auth/partner/register", object{
		"email": partnerEmail, "password": "a long password of Ada", "name": "Ada Lindqvist", "country": "SE",
	})
	w.call(w.anonymous, "POST", "/api/v1/auth/partner/refresh", object{"refreshToken": joined.text("refreshToken")})
	session := w.call(w.anonymous, "POST", "/api/v1/auth/partner/login", object{"email": partnerEmail, "password": "a long password of Ada"})
	w.call(w.anonymous, "POST", "/api/v1/auth/partner/logout", object{"refreshToken": session.text("refreshToken")})
	partner := w.anonymous.post(t, "/api/v1/auth/partner/login", object{"email": partnerEmail, "password": "a long password of Ada"})
	w.partner = w.anonymous.as(partner.text("accessToken")).in("test")
}

// workspace changes settings, members and keys.
func (w *referenceWalk) workspace() {
	w.call(w.merchant, "PATCH", "/api/v1/workspace", object{
		"currency": "USD", "timezone": "Europe/Berlin", "allowedOrigins": []string{"https://shop.example", "https://*.shop.example"},
	})
	w.call(w.merchant, "GET", "/api/v1/workspace", nil)
	invite := w.call(w.merchant, "POST", "/api/v1/workspace/invites", object{"email": "finn@northwind.example", "role": "finance"})
	w.call(w.merchant, "GET", "/api/v1/workspace/invites?pageSize=20", nil)
	w.call(w.anonymous, "POST", "/api/v1/auth/merchant/accept-invite", object{
		"token": invite.text("token"), "name": "Finn Weber", "password": "a long password of Finn",
	})
	other := w.merchant.post(w.t, "/api/v1/workspace/invites", object{"email": "vera@northwind.example", "role": "viewer"})
	w.call(w.merchant, "DELETE", "/api/v1/workspace/invites/"+other.text("id"), nil)
	w.call(w.merchant, "GET", "/api/v1/workspace/members", nil)
	w.call(w.merchant, "PATCH", "/api/v1/workspace/members/"+w.member("Finn Weber"), object{"role": "admin"})

	key := w.call(w.merchant, "POST", "/api/v1/api-keys", object{"name": "Shop server"})
	rolled := w.call(w.merchant, "POST", "/api/v1/api-keys/"+key.text("id")+"/roll", object{"graceHours": 24})
	w.call(w.merchant, "GET", "/api/v1/api-keys", nil)
	w.server = w.anonymous.as(rolled.text("secretKey"))
	w.call(w.merchant, "DELETE", "/api/v1/api-keys/"+key.text("id"), nil)
}

// member returns the id of the workspace's member with a name.
func (w *referenceWalk) member(name string) string {
	w.t.Helper()
	var list struct {
		Data []struct{ ID, Name string }
	}
	got := w.merchant.get(w.t, "/api/v1/workspace/members").want(http.StatusOK)
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		w.t.Fatal(err)
	}
	for _, member := range list.Data {
		if member.Name == name {
			return member.ID
		}
	}
	w.t.Fatalf("no member is named %s: %s", name, got.body)
	return ""
}

// programs creates a programme with its rules, groups and fraud policy.
func (w *referenceWalk) programs() {
	program := w.call(w.merchant, "POST", "/api/v1/programs", object{
		"name": "Coffee friends", "websiteUrl": "https://shop.example", "allowedDomains": []string{"shop.example", "*.shop.example"},
		"isPublic": true, "attributionWindowDays": 30,
		"commissionRules": object{
			"percentage": 20, "holdPeriodDays": 14, "autoApproval": false, "minOrderCents": 500, "capCents": 20000,
			"laterPercentage": 10, "recurring": object{"maxMonths": 12}, "tiers": []object{{"minConversions": 10, "percentage": 25}},
		},
	})
	w.program = "/api/v1/programs/" + program.text("id")
	w.call(w.merchant, "POST", w.program+"/activate", nil)
	w.call(w.merchant, "PATCH", w.program, object{"description": "Earn 20 percent on fresh beans.", "commissionRules": object{"percentage": 22.5}})
	w.call(w.merchant, "GET", w.program, nil)
	w.call(w.merchant, "GET", "/api/v1/programs?status=active", nil)
	w.call(w.merchant, "GET", w.program+"/rules", nil)
	group := w.call(w.merchant, "POST", w.program+"/groups", object{"name": "Ambassadors", "percentage": 30})
	w.call(w.merchant, "PATCH", w.program+"/groups/"+group.text("id"), object{"percentage": 32.5})
	w.call(w.merchant, "GET", w.program+"/groups", nil)
	w.call(w.merchant, "DELETE", w.program+"/groups/"+group.text("id"), nil)
	w.call(w.merchant, "PUT", w.program+"/fraud-policy", object{
		"policy": "flag", "disabledRules": []string{"click_to_convert"}, "couponSites": []string{"coupons.example"},
	})
	w.call(w.merchant, "GET", w.program+"/fraud-policy", nil)
}

// participants invites and reviews partners.
func (w *referenceWalk) participants() {
	invite := w.call(w.merchant, "POST", w.program+"/partners/invite", object{"email": partnerEmail, "referralCode": "ada"})
	w.call(w.merchant, "GET", w.program+"/partners/invites", nil)
	joined := w.call(w.partner, "POST", "/api/v1/partner/invites/accept", object{"token": invite.text("token")})
	w.participant = joined.text("id")
	other := w.merchant.post(w.t, w.program+"/partners/invite", object{"email": "ben@blog.example"})
	w.call(w.merchant, "DELETE", w.program+"/partners/invites/"+other.text("id"), nil)

	partners := w.program + "/partners"
	applicant := func(name string) caller {
		email := strings.ToLower(name) + "@partner.example"
		session := w.anonymous.post(w.t, "/api/v1/auth/partner/register", object{"email": email, "password": "a long password", "name": name})
		return w.anonymous.as(session.text("accessToken")).in("test")
	}
	apply := "/api/v1/partner" + strings.TrimPrefix(w.program, "/api/v1") + "/apply"
	w.applied = w.call(applicant("Ben"), "POST", apply, object{"referralCode": "ben", "answers": object{"audience": "Readers of a coffee blog"}}).text("id")
	w.call(w.merchant, "PATCH", partners+"/"+w.applied+"/approve", nil)
	w.call(w.merchant, "PATCH", partners+"/"+w.applied+"/suspend", object{"reason": "Advertises on coupon sites."})
	w.call(w.merchant, "PATCH", partners+"/"+w.applied+"/reinstate", nil)
	rejected := applicant("Cleo").post(w.t, apply, nil).text("id")
	w.call(w.merchant, "PATCH", partners+"/"+rejected+"/reject", object{"reason": "The site is not about coffee."})
	one, two := applicant("Dan").post(w.t, apply, nil).text("id"), applicant("Eva").post(w.t, apply, nil).text("id")
	w.call(w.merchant, "PATCH", partners+"/bulk-approve", object{"participantIds": []string{one}})
	w.call(w.merchant, "PATCH", partners+"/bulk-reject", object{"participantIds": []string{two}, "reason": "No answer to our questions."})
	w.call(w.merchant, "PATCH", partners+"/"+w.participant, object{
		"note": "Met at the coffee fair", "tags": []string{"press"}, "commissionOverride": object{"percentage": 25},
	})
	w.call(w.merchant, "GET", partners+"/"+w.participant, nil)
	w.call(w.merchant, "GET", partners+"?status=approved&sortBy=partnerName&pageSize=2", nil)
}

// linksAndPromoCodes manages links and promo codes of the merchant and the partner.
func (w *referenceWalk) linksAndPromoCodes() {
	beans := object{"participantId": w.participant, "code": "ada-beans", "destinationUrl": "https://shop.example/beans", "utm": object{"source": "ada", "medium": "blog"}}
	link := w.call(w.merchant, "POST", w.program+"/links", beans).text("id")
	w.call(w.merchant, "PATCH", w.program+"/links/"+link, object{"subId": "spring"})
	w.call(w.merchant, "GET", w.program+"/links/"+link, nil)
	w.call(w.merchant, "GET", w.program+"/links?participantId="+w.participant, nil)
	w.call(w.merchant, "DELETE", w.program+"/links/"+link, nil)

	programID := strings.TrimPrefix(w.program, "/api/v1/programs/")
	own := w.call(w.partner, "POST", "/api/v1/partner/links", object{"programId": programID, "destinationUrl": "https://shop.example/grinders", "code": "ada-grinders", "subId": "newsletter-7"})
	w.call(w.partner, "PATCH", "/api/v1/partner/links/"+own.text("id"), object{"subId": "newsletter-8"})
	w.call(w.partner, "GET", "/api/v1/partner/links?programId="+programID, nil)
	w.call(w.partner, "DELETE", "/api/v1/partner/links/"+own.text("id"), nil)

	promo := w.call(w.merchant, "POST", w.program+"/promo-codes", object{
		"participantId": w.participant, "code": "ADA10", "discountType": "percentage", "discountValue": 10, "maxRedemptions": 100,
	})
	codes := w.program + "/promo-codes"
	w.call(w.merchant, "PATCH", codes+"/"+promo.text("id"), object{"maxRedemptions": 200})
	w.call(w.merchant, "GET", codes+"/"+promo.text("id"), nil)
	w.call(w.merchant, "GET", codes+"?participantId="+w.participant, nil)
	w.call(w.partner, "GET", "/api/v1/partner/promo-codes", nil)
	spare := w.merchant.post(w.t, codes, object{"participantId": w.participant, "code": "SPARE", "discountType": "percentage", "discountValue": 5})
	w.call(w.merchant, "DELETE", codes+"/"+spare.text("id"), nil)
	w.promo = "ADA10"
}

// conversions reports sales and refunds and reads how they were attributed.
func (w *referenceWalk) conversions(t *testing.T) {
	t.Helper()
	public := w.anonymous.as(w.merchant.get(t, "/api/v1/api-keys").text("publicKey")).with("User-Agent", browserUserAgent)
	eventually(t, waitTimeout, "the collector accepts the code", func() error {
		if got := public.send(t, "POST", w.sys.edge+"/v1/clicks", object{"referral_code": "ben"}); got.status != http.StatusCreated {
			return fmt.Errorf("%s: %s", got.request, got.body)
		}
		return nil
	})
	w.click = w.call(public, "POST", "/v1/clicks", object{
		"referral_code": "ada", "url": "https://shop.example/beans", "referrer": "https://blog.example/espresso", "consent": "granted", "language": "en",
	}).text("click_id")
	sale := w.call(w.server.with("Idempotency-Key", "order-1001"), "POST", "/api/v1/conversions", object{
		"event_type": "purchase", "external_transaction_id": "order-1001", "amount_cents": 4900, "currency": "USD",
		"click_id": w.click, "customer_id": "customer-77", "tax_cents": 400,
	})
	w.conversion = sale.text("id")
	w.call(w.server.with("Idempotency-Key", "import-2026-03-02"), "POST", "/api/v1/conversions/batch", object{"conversions": []object{
		{"event_type": "purchase", "external_transaction_id": "order-1002", "amount_cents": 9900, "currency": "USD", "promo_code": w.promo},
		{"event_type": "renewal", "external_transaction_id": "order-1003", "amount_cents": 4900, "currency": "USD", "promo_code": w.promo, "customer_id": "customer-77"},
	}})
	w.call(w.server, "POST", "/api/v1/conversions/refunds", object{
		"external_transaction_id": "order-1002", "external_refund_id": "refund-1", "amount_cents": 3300, "reason": "One of three returned",
	})
	w.call(w.server, "GET", "/api/v1/conversions?external_transaction_id=order-1001", nil)
	w.call(w.server, "GET", "/api/v1/conversions/"+w.conversion, nil)
	w.call(w.merchant, "GET", "/api/v1/conversions/"+w.conversion+"/attribution", nil)
	w.call(w.server, "GET", "/api/v1/attribution/clicks/"+w.click, nil)
	w.call(w.server, "GET", "/api/v1/attribution/conversions?external_transaction_id=order-1001", nil)
	w.call(w.server, "GET", "/api/v1/attribution/conversions/"+w.conversion, nil)
	w.call(w.server, "GET", "/api/v1/attribution/decisions?reason_code=CLICK_MATCHED", nil)
	w.call(w.server, "POST", "/api/v1/attribution/simulate", object{"event_type": "purchase", "amount_cents": 12000, "currency": "USD", "promo_code": w.promo})
	moved := w.report("order-1004", nil)
	w.call(w.merchant, "POST", "/api/v1/conversions/"+moved.text("id")+"/reattribute", object{"participant_id": w.applied, "reason": "The buyer named Ben's blog."})
}

// report reports a sale that is not an example.
func (w *referenceWalk) report(order string, more object) response {
	w.t.Helper()
	body := object{"event_type": "purchase", "external_transaction_id": order, "amount_cents": 2500, "currency": "USD", "click_id": w.click}
	for name, value := range more {
		body[name] = value
	}
	return w.server.post(w.t, "/api/v1/conversions", body).want(http.StatusCreated)
}

// commissions reviews commissions and what the fraud rules found.
func (w *referenceWalk) commissions(t *testing.T) {
	t.Helper()
	suspicious := w.report("order-1005", object{"customer_email": strings.Replace(partnerEmail, "@", "+shop@", 1)})
	list := w.program + "/commissions"
	w.call(w.merchant, "GET", list+"?needsReview=true", nil)
	w.call(w.merchant, "PATCH", list+"/"+suspicious.text("commission.id")+"/clear-review", object{"note": "Known customer."})
	w.report("order-1006", object{"customer_email": strings.Replace(partnerEmail, "@", "+again@", 1)})
	found := w.call(w.merchant, "GET", "/api/v1/fraud/events?status=open&pageSize=1", nil)
	w.call(w.merchant, "POST", "/api/v1/fraud/events/"+found.text("data.0.id")+"/resolve", object{"outcome": "dismissed", "note": "A colleague bought it."})

	early := w.report("order-1007", nil).text("commission.id")
	w.call(w.merchant, "PATCH", list+"/"+early+"/approve-override", object{"reason": "Agreed with the partner."})
	rejected := w.report("order-1008", nil).text("commission.id")
	w.call(w.merchant, "PATCH", list+"/"+rejected+"/reject", object{"reason": "The order was a test.", "code": "test_order"})
	many := []string{w.report("order-1009", nil).text("commission.id"), w.report("order-1010", nil).text("commission.id")}
	w.call(w.merchant, "PATCH", list+"/bulk-reject", object{"commissionIds": many[:1], "code": "order_canceled"})

	w.sys.clock.advance(14*24*time.Hour + time.Minute) // the hold period ends
	w.merchant = w.login(t, "merchant", ownerEmail, "correct horse battery")
	w.partner = w.login(t, "partner", partnerEmail, "a long password of Ada")
	first := w.merchant.get(t, list+"?search=order-1001").text("data.0.id")
	w.call(w.merchant, "PATCH", list+"/"+first+"/approve", nil)
	w.call(w.merchant, "PATCH", list+"/bulk-approve", object{"commissionIds": many[1:]})
	w.call(w.merchant, "GET", list+"/"+first, nil)
	w.call(w.merchant, "GET", list+"/stats?status=approved", nil)
	w.call(w.merchant, "GET", list+"/export?search=order-1001", nil)
	w.call(w.merchant, "GET", "/api/v1/commissions?search=order-1001", nil)
	w.call(w.merchant, "GET", "/api/v1/commissions/stats?search=order-1001", nil)
	w.call(w.merchant, "GET", "/api/v1/commissions/export?search=order-1001", nil)
}

func (w *referenceWalk) login(t *testing.T, kind, email, secret string) caller {
	t.Helper()
	session := w.anonymous.post(t, "/api/v1/auth/"+kind+"/login", object{"email": email, "password": secret}).want(http.StatusOK)
	return w.anonymous.as(session.text("accessToken")).in("test")
}

// partnerViews shows what the partner reads.
func (w *referenceWalk) partnerViews() {
	w.call(w.partner, "PATCH", "/api/v1/partner/profile", object{"companyName": "Lindqvist Media", "websiteUrl": "https://blog.example"})
	w.call(w.partner, "PATCH", "/api/v1/partner/payout-method", object{"method": "paypal", "account": partnerEmail})
	w.call(w.partner, "GET", "/api/v1/partner/profile", nil)
	w.call(w.partner, "GET", "/api/v1/partner/programs?scope=mine", nil)
	w.call(w.partner, "GET", "/api/v1/partner"+strings.TrimPrefix(w.program, "/api/v1"), nil)
	w.call(w.partner, "GET", "/api/v1/partner/commissions?status=approved&pageSize=2&sortBy=amountCents", nil)
	w.call(w.partner, "GET", "/api/v1/partner/balances", nil)
	w.call(w.partner, "GET", "/api/v1/partner/analytics/summary", nil)
}

// payouts pays the partner.
func (w *referenceWalk) payouts() {
	programs := []string{strings.TrimPrefix(w.program, "/api/v1/programs/")}
	ledger := w.program + "/partners/" + w.participant + "/ledger"
	w.call(w.merchant, "POST", ledger, object{"type": "bonus", "amountCents": 2500, "reason": "For the first ten customers"})
	w.call(w.merchant, "GET", ledger+"?pageSize=2", nil)
	w.call(w.partner, "GET", "/api/v1/partner/ledger?pageSize=2", nil)
	w.call(w.merchant, "POST", "/api/v1/payouts/preview", object{"programIds": programs})
	dropped := w.merchant.with("Idempotency-Key", "payouts-test").post(w.t, "/api/v1/payouts/batches", object{"programIds": programs})
	w.call(w.merchant, "POST", "/api/v1/payouts/batches/"+dropped.text("id")+"/cancel", nil)
	batch := w.call(w.merchant.with("Idempotency-Key", "payouts-2026-03"), "POST", "/api/v1/payouts/batches", object{"programIds": programs})
	id := batch.text("id")
	w.call(w.merchant, "POST", "/api/v1/payouts/batches/"+id+"/confirm", nil)
	w.call(w.merchant, "GET", "/api/v1/payouts/batches/"+id+"/export?format=paypal", nil)
	w.call(w.merchant, "GET", "/api/v1/payouts/batches/"+id, nil)
	w.call(w.merchant, "GET", "/api/v1/payouts/batches?pageSize=1", nil)
	list := w.call(w.merchant, "GET", "/api/v1/payouts?batchId="+id, nil)
	payout := "/api/v1/payouts/" + list.text("data.0.id")
	w.call(w.merchant, "PATCH", payout+"/mark-failed", object{"reason": "The account does not exist."})
	w.call(w.merchant, "PATCH", payout+"/retry", nil)
	w.call(w.merchant, "PATCH", payout+"/mark-paid", object{"reference": "transfer-42"})
	w.call(w.merchant, "GET", payout, nil)
	w.call(w.partner, "GET", "/api/v1/partner/payouts", nil)

	w.merchant.post(w.t, ledger, object{"type": "bonus", "amountCents": 1000, "reason": "Photo competition"}).want(http.StatusCreated)
	second := w.merchant.with("Idempotency-Key", "payouts-2026-04").post(w.t, "/api/v1/payouts/batches", object{"programIds": programs}).text("id")
	open := w.merchant.get(w.t, "/api/v1/payouts?batchId="+second).text("data.0.id")
	w.call(w.merchant, "PATCH", "/api/v1/payouts/"+open+"/cancel", nil)
}

// webhooks registers an endpoint and looks at its deliveries.
func (w *referenceWalk) webhooks(t *testing.T) {
	t.Helper()
	hook := startReceiver(t)
	w.call(w.merchant, "GET", "/api/v1/webhooks/event-types", nil)
	created := w.call(w.merchant, "POST", "/api/v1/webhooks", object{"url": hook.url, "subscriptions": []string{"commission.*", "program.updated"}, "description": "Bookkeeping"})
	endpoint := "/api/v1/webhooks/" + created.text("id")
	w.call(w.merchant, "POST", endpoint+"/test-ping", nil)
	w.call(w.merchant, "PATCH", endpoint, object{"subscriptions": []string{"*"}})
	w.call(w.merchant, "POST", endpoint+"/rotate-secret", object{"expireImmediately": false})
	w.merchant.patch(t, w.program, object{"description": "Earn 22.5 percent on fresh beans."}).want(http.StatusOK)
	hook.await(t, 2)
	eventually(t, waitTimeout, "the delivery is stored", func() error {
		got := w.merchant.get(t, endpoint+"/deliveries?status=delivered")
		if got.value("total") != json.Number("1") {
			return fmt.Errorf("%s: %s", got.request, got.body)
		}
		return nil
	})
	deliveries := w.call(w.merchant, "GET", endpoint+"/deliveries?status=delivered", nil)
	delivery := endpoint + "/deliveries/" + deliveries.text("data.0.id")
	w.call(w.merchant, "GET", delivery, nil)
	w.call(w.merchant, "POST", delivery+"/retry", nil)
	hook.await(t, 3)
	w.call(w.merchant, "GET", endpoint, nil)
	w.call(w.merchant, "GET", "/api/v1/webhooks", nil)
	w.call(w.merchant, "POST", endpoint+"/recover", object{"since": w.sys.clock.now().Add(-time.Hour).UTC().Format(time.RFC3339), "statuses": []string{"failed", "dead_lettered"}})
	w.call(w.merchant, "DELETE", endpoint, nil)
}

// endings pauses and archives, and reads the audit log.
func (w *referenceWalk) endings() {
	w.call(w.merchant, "POST", w.program+"/pause", nil)
	w.call(w.merchant, "POST", w.program+"/archive", nil)
	w.call(w.merchant, "GET", "/api/v1/workspace/audit-log?action=program.*&pageSize=2", nil)
	w.call(w.merchant, "GET", "/api/v1/workspace/audit-log/export?action=program.pause", nil)
	extra := w.merchant.post(w.t, "/api/v1/workspace/invites", object{"email": "gia@northwind.example", "role": "viewer"})
	w.anonymous.post(w.t, "/api/v1/auth/merchant/accept-invite", object{"token": extra.text("token"), "name": "Gia Rossi", "password": "a long password of Gia"}).want(http.StatusCreated)
	w.call(w.merchant, "DELETE", "/api/v1/workspace/members/"+w.member("Gia Rossi"), nil)
	w.call(w.merchant, "POST", "/api/v1/workspace/transfer-ownership", object{"memberId": w.member("Finn Weber")})
	last := w.anonymous.post(w.t, "/api/v1/auth/merchant/login", object{"email": ownerEmail, "password": "correct horse battery"})
	w.call(w.anonymous, "POST", "/api/v1/auth/logout", object{"refreshToken": last.text("refreshToken")})
	w.call(w.anonymous, "GET", "/api/v1/health", nil)
	w.call(w.anonymous, "GET", "/api/v1/health/ready", nil)
}
