package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stripe/stripe-go/v85"
	stripewebhook "github.com/stripe/stripe-go/v85/webhook"

	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// examplesFile contains the examples of the API reference. tools/openapi adds the
// examples to the OpenAPI document.
const examplesFile = "../../tools/openapi/examples.json"

var updateExamples = flag.Bool("update-examples", false, "write "+examplesFile)

// TestReferenceExamples calls every operation of the running service and compares the
// requests and responses with the examples of the API reference. If a response has
// changed, run this test with -update-examples, and then make generate.
func TestReferenceExamples(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_MAIL_WEBHOOK_SECRET": providerSecret().Text()}})
	sys.recordMails(t)
	r := newRecorder(t, sys)
	c := &referenceCalls{recorder: r, sys: sys}
	c.accounts(t)
	c.workspace()
	c.programs()
	c.participants()
	c.linksAndPromoCodes()
	c.conversions(t)
	c.commissions(t)
	c.partnerData()
	c.analytics()
	c.payouts()
	c.webhooks(t)
	c.notifications()
	c.processor()
	c.mails(t)
	c.buyerErasure()
	c.exports()
	c.commissionsWithoutProgram()
	c.lastCalls()
	c.identity(t)
	c.serviceTokens()
	c.books()
	c.secondFactors(t)
	c.merchantPartners(t)
	c.testData(t)
	c.erasures(t)

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
			t.Fatalf("%s differs from the responses of the service at line %d, which should be %s. Run go test ./test/e2e -run TestReferenceExamples -update-examples, and then make generate.", examplesFile, i+1, line)
		}
	}
}

// referenceCalls calls every operation once and records the calls. The examples are about
// a coffee shop.
type referenceCalls struct {
	*recorder
	sys *system

	anonymous, merchant, server, partner apiClient
	program, participant                 string
	otherParticipant                     string // the id of a second participant
	promo                                string
	click, conversion                    string
}

const (
	ownerEmail   = "mia@northwind.example"
	partnerEmail = "ada@blog.example"
)

// accounts registers, logs in and out, and renews sessions.
func (c *referenceCalls) accounts(t *testing.T) {
	t.Helper()
	c.anonymous = c.sys.client()
	registered := c.call(c.anonymous, "POST", "/api/v1/auth/merchant/register", object{
		"email": ownerEmail, "password": "correct horse battery", "name": "Mia Berg", "workspaceName": "Northwind Coffee",
	})
	c.call(c.anonymous, "POST", "/api/v1/auth/merchant/refresh", object{"refreshToken": registered.text("refreshToken")})
	login := c.call(c.anonymous, "POST", "/api/v1/auth/merchant/login", object{"email": ownerEmail, "password": "correct horse battery"})
	renewed := c.call(c.anonymous, "POST", "/api/v1/auth/refresh", object{"refreshToken": login.text("refreshToken")})
	c.call(c.anonymous, "POST", "/api/v1/auth/merchant/logout", object{"refreshToken": renewed.text("refreshToken")})
	again := c.anonymous.post(t, "/api/v1/auth/merchant/login", object{"email": ownerEmail, "password": "correct horse battery"})
	c.merchant = c.anonymous.withCredential(again.text("accessToken")).inMode("test")

	joined := c.call(c.anonymous, "POST", "/api/v1/auth/partner/register", object{
		"email": partnerEmail, "password": "a long password of Ada", "name": "Ada Lindqvist", "country": "SE",
	})
	c.call(c.anonymous, "POST", "/api/v1/auth/partner/refresh", object{"refreshToken": joined.text("refreshToken")})
	session := c.call(c.anonymous, "POST", "/api/v1/auth/partner/login", object{"email": partnerEmail, "password": "a long password of Ada"})
	c.call(c.anonymous, "POST", "/api/v1/auth/partner/logout", object{"refreshToken": session.text("refreshToken")})
	partner := c.anonymous.post(t, "/api/v1/auth/partner/login", object{"email": partnerEmail, "password": "a long password of Ada"})
	c.partner = c.anonymous.withCredential(partner.text("accessToken")).inMode("test")
}

// identity verifies and changes an address and resets a password, for each kind of account.
func (c *referenceCalls) identity(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"merchant", "partner"} {
		email, path := "lena-"+kind+"@mail.example", "/api/v1/auth/"+kind
		body := object{"email": email, "password": "a long password", "name": "Lena Roth"}
		if kind == "merchant" {
			body["workspaceName"] = "Roth"
		}
		session := c.anonymous.post(t, path+"/register", body).wantStatus(http.StatusCreated)
		client := c.anonymous.withCredential(session.text("accessToken"))
		c.call(client, "POST", path+"/email/resend-verification", nil)
		if kind == "merchant" {
			c.call(c.anonymous, "POST", "/api/v1/auth/email/verify", object{"token": c.sys.takeToken(t, notification.MailVerification, email)})
		}
		c.call(client, "POST", path+"/email/change", object{"newEmail": "lena@mail.example", "password": "a long password"})
		firefox := c.anonymous.withHeader("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
		firefox.post(t, path+"/login", object{"email": email, "password": "a long password"}).wantStatus(http.StatusOK)
		sessions := c.call(client, "GET", path+"/sessions", nil)
		c.call(client, "DELETE", path+"/sessions/"+sessions.text("data.0.id"), nil)
		c.call(client, "DELETE", path+"/sessions", nil)
		if kind == "merchant" {
			c.call(client, "PATCH", path+"/account", object{"name": "Lena Roth-Berg", "locale": "de"})
		}
		c.call(client, "POST", path+"/password/change", object{"currentPassword": "a long password", "newPassword": "a longer password"})
		c.call(c.anonymous, "POST", "/api/v1/auth/"+kind+"/forgot-password", object{"email": email})
		token := c.sys.takeToken(t, notification.MailPasswordReset, email)
		c.call(c.anonymous, "POST", path+"/reset-password", object{"token": token, "password": "another long password"})
	}
}

// testData deletes the test data of a workspace with one programme and its partner.
func (c *referenceCalls) testData(t *testing.T) {
	t.Helper()
	f := c.sys.newFixture(t, "test", nil)
	// Jobs create the mails, so the number of mails is not complete at once.
	eventually(t, waitTimeout, "the mails of the workspace exist", func() error {
		if n := c.sys.count(t, `select count(*) from mails where workspace_id = $1`, f.merchant.workspace); n < 4 {
			return fmt.Errorf("%d of 4 mails exist", n)
		}
		return nil
	})
	c.sys.settle(t, f.merchant.workspace)
	c.call(c.anonymous.withCredential(f.merchant.access), "DELETE", testDataPath, nil)
}

// workspace changes settings, members and keys.
func (c *referenceCalls) workspace() {
	c.call(c.merchant, "PATCH", "/api/v1/workspace", object{
		"currency": "USD", "timezone": "Europe/Berlin", "allowedOrigins": []string{"https://shop.example", "https://*.shop.example"},
	})
	c.call(c.merchant, "GET", "/api/v1/workspace", nil)
	c.call(c.merchant, "PUT", "/api/v1/workspace/branding", object{
		"portalName": "Northwind Partners", "slug": "northwind", "accentColor": "#ffb000", "supportEmail": "partners@northwind.example",
		"websiteUrl": "https://northwind.example", "privacyUrl": "https://northwind.example/privacy", "locale": "en",
	})
	branding := c.call(c.merchant.withHeader("Content-Type", "image/png"), "PUT", "/api/v1/workspace/branding/logo", strings.NewReader(pngFile(c.t, 40, 20)))
	c.call(c.merchant, "GET", "/api/v1/workspace/branding", nil)
	_, logo, _ := strings.Cut(branding.text("logoUrl"), "/api/v1/")
	c.call(c.anonymous, "GET", "/api/v1/"+logo, nil)
	c.call(c.merchant, "DELETE", "/api/v1/workspace/branding/logo", nil)
	invite := c.call(c.merchant, "POST", "/api/v1/workspace/invites", object{"email": "finn@northwind.example", "role": "finance"})
	c.call(c.merchant, "GET", "/api/v1/workspace/invites?pageSize=20", nil)
	c.call(c.anonymous, "POST", "/api/v1/auth/merchant/accept-invite", object{
		"token": invite.text("token"), "name": "Finn Weber", "password": "a long password of Finn",
	})
	other := c.merchant.post(c.t, "/api/v1/workspace/invites", object{"email": "vera@northwind.example", "role": "viewer"})
	c.call(c.merchant, "DELETE", "/api/v1/workspace/invites/"+other.text("id"), nil)
	c.call(c.merchant, "GET", "/api/v1/workspace/members", nil)
	c.call(c.merchant, "PATCH", "/api/v1/workspace/members/"+c.member("Finn Weber"), object{"role": "admin"})

	key := c.call(c.merchant, "POST", "/api/v1/api-keys", object{"name": "Shop server"})
	rolled := c.call(c.merchant, "POST", "/api/v1/api-keys/"+key.text("id")+"/roll", object{"graceHours": 24})
	c.call(c.merchant, "GET", "/api/v1/api-keys", nil)
	c.server = c.anonymous.withCredential(rolled.text("secretKey"))
	c.call(c.merchant, "DELETE", "/api/v1/api-keys/"+key.text("id"), nil)
}

// processor connects an account at Stripe and receives a sale.
func (c *referenceCalls) processor() {
	const path = "/api/v1/integrations/stripe"
	connection := c.call(c.merchant, "POST", path, object{"restrictedKey": "rk_test_51Q2b3cNorthwind"}).text("id")
	c.call(c.merchant, "PATCH", path, object{"includeOutOfBand": true})
	stripeStandIn().Put(stripeserver.NewSession("cs_test_a1Northwind", object{
		"payment_intent": "pi_3Q2bNorthwind", "amount_total": 4900, "currency": "usd", "created": c.sys.clock.now().Unix(),
	}))
	body := stripeStandIn().Event("checkout.session.completed", "cs_test_a1Northwind", stripeserver.EventID("evt_1Q2bNorthwind"))
	var secret string
	for _, endpoint := range stripeStandIn().Endpoints() {
		if strings.HasSuffix(endpoint.URL, connection) {
			secret = endpoint.Secret
		}
	}
	signed := stripewebhook.GenerateTestSignedPayload(&stripewebhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: c.sys.clock.now()})
	c.callRaw(c.anonymous.withHeader("Stripe-Signature", signed.Header), "/webhooks/stripe/"+connection, body, object{
		"id": "evt_1Q2bNorthwind", "object": "event", "type": "checkout.session.completed", "api_version": stripe.APIVersion, "livemode": false,
		"created": 1772443800, "data": object{"object": object{"id": "cs_test_a1Northwind", "object": "checkout.session", "mode": "payment"}},
	})
	eventually(c.t, waitTimeout, "the event is applied", func() error {
		if got := c.merchant.get(c.t, path+"/events"); !strings.Contains(got.body, `"applied"`) {
			return fmt.Errorf("events: %s", got.body)
		}
		return nil
	})
	c.call(c.merchant, "GET", path+"/events?pageSize=20", nil)
	c.call(c.merchant, "GET", path, nil)
	c.call(c.merchant, "POST", path+"/resync", object{"since": c.sys.clock.now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)})
	c.call(c.merchant, "DELETE", path, nil)
}

// buyerErasure erases a buyer who has bought nothing, so that the other examples do not change.
func (c *referenceCalls) buyerErasure() {
	requested := c.call(c.merchant.withHeader("Idempotency-Key", "erasure-2026-03-02"), "POST", buyerErasurePath, object{
		"confirmation": "DELETE", "buyer": object{"email": "sam.lee@mail.example"},
	})
	path := buyerErasurePath + "/" + requested.text("operationId")
	eventually(c.t, waitTimeout, "the erasure is done", func() error {
		if got := c.merchant.get(c.t, path); got.text("status") != "done" {
			return errors.New(got.body)
		}
		return nil
	})
	c.call(c.merchant, "GET", path, nil)
	c.call(c.merchant, "GET", buyerErasurePath, nil)
}

// mails reads the notification log and sends a message of the mail provider.
func (c *referenceCalls) mails(t *testing.T) {
	t.Helper()
	account := c.sys.account("merchant", ownerEmail, c.anonymous.post(t, "/api/v1/auth/merchant/login", object{"email": ownerEmail, "password": "correct horse battery"}))
	entry := c.sys.createLogEntry(t, account)
	c.call(c.merchant, "GET", "/api/v1/workspace/notification-log?status=redirected&recipient=mia@", nil)
	c.call(c.merchant, "GET", "/api/v1/workspace/notification-log/"+entry, nil)
	event := object{"type": "email.bounced", "data": object{"to": []string{"gone@example.com"}, "bounce": object{"type": "Permanent"}}}
	c.call(c.sys.provider(t, event, message{}).apiClient, "POST", "/webhooks/resend", event)

	link := unsubscribePath + unsubscribeToken(account, notification.CategoryPayouts)
	c.call(c.anonymous.withHeader("Content-Type", "application/x-www-form-urlencoded"), "POST", link, oneClickForm)
}

// member returns the id of the workspace's member with the given name.
func (c *referenceCalls) member(name string) string {
	c.t.Helper()
	var list struct {
		Data []struct{ ID, Name string }
	}
	got := c.merchant.get(c.t, "/api/v1/workspace/members").wantStatus(http.StatusOK)
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		c.t.Fatal(err)
	}
	for _, member := range list.Data {
		if member.Name == name {
			return member.ID
		}
	}
	c.t.Fatalf("no member is named %s: %s", name, got.body)
	return ""
}

// programs creates a programme with its rules, groups and fraud policy.
func (c *referenceCalls) programs() {
	program := c.call(c.merchant, "POST", "/api/v1/programs", object{
		"name": "Coffee friends", "websiteUrl": "https://shop.example", "allowedDomains": []string{"shop.example", "*.shop.example"},
		"isPublic": true, "attributionWindowDays": 30,
		"commissionRules": object{
			"percentage": 20, "holdPeriodDays": 14, "autoApproval": false, "minOrderCents": 500, "capCents": 20000,
			"laterPercentage": 10, "recurring": object{"maxMonths": 12}, "tiers": []object{{"minConversions": 10, "percentage": 25}},
		},
	})
	c.program = "/api/v1/programs/" + program.text("id")
	c.call(c.merchant, "POST", c.program+"/activate", nil)
	c.call(c.merchant, "PATCH", c.program, object{
		"description": "Earn 20 percent on fresh beans.", "publicText": "We roast each week.\n\nTell your readers about it.",
		"applicationQuestions": []object{{"key": "audience", "label": "Who reads you?", "type": "long_text"}}, "commissionRules": object{"percentage": 22.5},
	})
	c.call(c.merchant, "GET", c.program, nil)
	c.call(c.merchant, "GET", "/api/v1/programs?status=active", nil)
	c.call(c.merchant, "GET", c.program+"/rules", nil)
	c.call(c.merchant, "POST", c.program+"/rules/preview", object{
		"commissionRules": object{"laterPercentage": 10}, "example": object{"amountCents": 4990, "taxCents": 800, "paymentNumber": 2},
	})
	group := c.call(c.merchant, "POST", c.program+"/groups", object{"name": "Ambassadors", "percentage": 30})
	c.call(c.merchant, "PATCH", c.program+"/groups/"+group.text("id"), object{"percentage": 32.5})
	c.call(c.merchant, "GET", c.program+"/groups", nil)
	c.call(c.merchant, "DELETE", c.program+"/groups/"+group.text("id"), nil)
	c.call(c.merchant, "PUT", c.program+"/fraud-policy", object{
		"policy": "flag", "disabledRules": []string{"click_to_convert"}, "couponSites": []string{"coupons.example"},
	})
	c.call(c.merchant, "GET", c.program+"/fraud-policy", nil)
	c.call(c.anonymous, "GET", "/api/v1/portal/programs/northwind/"+program.text("slug")+"?mode=test", nil)
}

// participants invites and reviews partners.
func (c *referenceCalls) participants() {
	invite := c.call(c.merchant, "POST", c.program+"/partners/invite", object{"email": partnerEmail, "referralCode": "ada"})
	c.call(c.merchant, "GET", c.program+"/partners/invites", nil)
	c.call(c.anonymous, "POST", "/api/v1/portal/invites/lookup", object{"token": invite.text("token")})
	joined := c.call(c.partner, "POST", "/api/v1/partner/invites/accept", object{"token": invite.text("token")})
	c.participant = joined.text("id")
	other := c.merchant.post(c.t, c.program+"/partners/invite", object{"email": "ben@blog.example"})
	c.call(c.merchant, "DELETE", c.program+"/partners/invites/"+other.text("id"), nil)

	partners := c.program + "/partners"
	applicant := func(name string) apiClient {
		email := strings.ToLower(name) + "@partner.example"
		session := c.anonymous.post(c.t, "/api/v1/auth/partner/register", object{"email": email, "password": "a long password", "name": name})
		return c.anonymous.withCredential(session.text("accessToken")).inMode("test")
	}
	apply := "/api/v1/partner" + strings.TrimPrefix(c.program, "/api/v1") + "/apply"
	c.otherParticipant = c.call(applicant("Ben"), "POST", apply, object{"referralCode": "ben", "answers": object{"audience": "Readers of a coffee blog"}}).text("id")
	c.call(c.merchant, "PATCH", partners+"/"+c.otherParticipant+"/approve", nil)
	c.call(c.merchant, "PATCH", partners+"/"+c.otherParticipant+"/suspend", object{"reason": "Advertises on coupon sites."})
	c.call(c.merchant, "PATCH", partners+"/"+c.otherParticipant+"/reinstate", nil)
	rejected := applicant("Cleo").post(c.t, apply, nil).text("id")
	c.call(c.merchant, "PATCH", partners+"/"+rejected+"/reject", object{"reason": "The site is not about coffee."})
	one, two := applicant("Dan").post(c.t, apply, nil).text("id"), applicant("Eva").post(c.t, apply, nil).text("id")
	c.call(c.merchant, "PATCH", partners+"/bulk-approve", object{"participantIds": []string{one}})
	c.call(c.merchant, "PATCH", partners+"/bulk-update", object{"participantIds": []string{one}, "groupId": nil, "addTags": []string{"coffee"}})
	c.call(c.merchant, "POST", partners+"/bulk-invite", object{"invites": []object{{"email": "fay@partner.example", "name": "Fay"}, {"email": "gus@partner.example"}}})
	c.call(c.merchant, "GET", "/api/v1/partners?status=approved&sortBy=partnerName&pageSize=1", nil)
	c.call(c.merchant, "GET", "/api/v1/partners/export?status=approved", nil)
	c.call(c.merchant, "GET", "/api/v1/search?q=ada", nil)
	c.call(c.merchant, "PATCH", partners+"/bulk-reject", object{"participantIds": []string{two}, "reason": "No answer to our questions."})
	c.call(c.merchant, "PATCH", partners+"/"+c.participant, object{
		"note": "Met at the coffee fair", "tags": []string{"press"}, "commissionOverride": object{"percentage": 25},
	})
	c.call(c.merchant, "GET", partners+"/"+c.participant, nil)
	c.call(c.merchant, "GET", partners+"?status=approved&sortBy=partnerName&pageSize=2", nil)
}

// linksAndPromoCodes manages links and promo codes of the merchant and the partner.
func (c *referenceCalls) linksAndPromoCodes() {
	beans := object{"participantId": c.participant, "code": "ada-beans", "destinationUrl": "https://shop.example/beans", "utm": object{"source": "ada", "medium": "blog"}}
	link := c.call(c.merchant, "POST", c.program+"/links", beans).text("id")
	c.call(c.merchant, "PATCH", c.program+"/links/"+link, object{"subId": "spring"})
	c.call(c.merchant, "GET", c.program+"/links/"+link, nil)
	c.call(c.merchant, "GET", c.program+"/links?participantId="+c.participant, nil)
	c.call(c.merchant, "DELETE", c.program+"/links/"+link, nil)

	programID := strings.TrimPrefix(c.program, "/api/v1/programs/")
	own := c.call(c.partner, "POST", "/api/v1/partner/links", object{"programId": programID, "destinationUrl": "https://shop.example/grinders", "code": "ada-grinders", "subId": "newsletter-7"})
	c.call(c.partner, "PATCH", "/api/v1/partner/links/"+own.text("id"), object{"subId": "newsletter-8"})
	c.call(c.partner, "GET", "/api/v1/partner/links?programId="+programID, nil)
	c.call(c.partner, "DELETE", "/api/v1/partner/links/"+own.text("id"), nil)

	promo := c.call(c.merchant, "POST", c.program+"/promo-codes", object{
		"participantId": c.participant, "code": "ADA10", "discountType": "percentage", "discountValue": 10, "maxRedemptions": 100,
	})
	codes := c.program + "/promo-codes"
	c.call(c.merchant, "PATCH", codes+"/"+promo.text("id"), object{"maxRedemptions": 200})
	c.call(c.merchant, "GET", codes+"/"+promo.text("id"), nil)
	c.call(c.merchant, "GET", codes+"?participantId="+c.participant, nil)
	c.call(c.partner, "GET", "/api/v1/partner/promo-codes", nil)
	spare := c.merchant.post(c.t, codes, object{"participantId": c.participant, "code": "SPARE", "discountType": "percentage", "discountValue": 5})
	c.call(c.merchant, "DELETE", codes+"/"+spare.text("id"), nil)
	c.promo = "ADA10"
}

func (c *referenceCalls) login(t *testing.T, kind, email, secret string) apiClient {
	t.Helper()
	session := c.anonymous.post(t, "/api/v1/auth/"+kind+"/login", object{"email": email, "password": secret}).wantStatus(http.StatusOK)
	return c.anonymous.withCredential(session.text("accessToken")).inMode("test")
}

// partnerData changes the profile of the partner and reads the data that a partner sees.
func (c *referenceCalls) partnerData() {
	c.call(c.partner, "PATCH", "/api/v1/partner/profile", object{"companyName": "Lindqvist Media", "websiteUrl": "https://blog.example"})
	c.call(c.partner, "PATCH", "/api/v1/partner/payout-method", object{"method": "paypal", "account": partnerEmail, "password": "a long password of Ada"})
	proposal, proposals := c.program+"/partners/"+c.participant+"/payout-method-proposal", "/api/v1/partner/payout-method/proposals"
	proposed := c.call(c.merchant, "PUT", proposal, object{"method": "paypal", "account": partnerEmail})
	c.call(c.partner, "GET", proposals, nil)
	c.call(c.partner, "POST", proposals+"/"+proposed.text("id")+"/confirm", object{"password": "a long password of Ada"})
	declined := c.merchant.do(c.t, "PUT", proposal, object{"method": "manual"}).wantStatus(http.StatusOK)
	c.call(c.partner, "DELETE", proposals+"/"+declined.text("id"), nil)
	c.merchant.do(c.t, "PUT", proposal, object{"method": "manual"}).wantStatus(http.StatusOK)
	c.call(c.merchant, "DELETE", proposal, nil)
	c.call(c.partner, "GET", "/api/v1/partner/profile", nil)
	c.call(c.partner, "GET", "/api/v1/partner/programs?scope=mine", nil)
	c.call(c.partner, "GET", "/api/v1/partner"+strings.TrimPrefix(c.program, "/api/v1"), nil)
	approved := c.call(c.partner, "GET", "/api/v1/partner/commissions?status=approved&pageSize=2&sortBy=amountCents", nil)
	c.call(c.partner, "GET", "/api/v1/partner/commissions/"+approved.text("data.0.id"), nil)
	c.call(c.partner, "GET", "/api/v1/partner/commissions/export?status=approved", nil)
	c.call(c.partner, "GET", "/api/v1/partner/conversions/lookup?externalTransactionId=order-1001", nil)
	c.call(c.partner, "GET", "/api/v1/partner/balances", nil)
}

// analytics reads the reports on all surfaces.
func (c *referenceCalls) analytics() {
	day := c.normalizer.start.UTC().Format(time.DateOnly)
	for _, report := range []string{
		"summary?compare=previous", "timeseries?interval=day&dateFrom=" + day + "&dateTo=" + day, "breakdown?groupBy=participant&metric=revenueCents", "funnel",
		"cohorts?dateFrom=2026-03-01&dateTo=2026-03-31",
	} {

		c.call(c.merchant, "GET", "/api/v1/analytics/"+report, nil)
		c.call(c.merchant, "GET", c.program+"/analytics/"+report, nil)
		c.call(c.partner, "GET", "/api/v1/partner/analytics/"+report, nil)
	}
}

// secondFactors adds a second factor to an account of each kind, logs in with it and removes
// it.
func (c *referenceCalls) secondFactors(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"merchant", "partner"} {
		path, login := "/api/v1/auth/"+kind, object{"email": "noa-" + kind + "@mail.example", "password": "a long password"}
		body := object{"email": login["email"], "password": login["password"], "name": "Noa Lang"}
		if kind == "merchant" {
			body["workspaceName"] = "Lang"
		}
		client := c.anonymous.withCredential(c.anonymous.post(t, path+"/register", body).wantStatus(http.StatusCreated).text("accessToken"))
		secret := c.call(client, "POST", path+"/totp/enroll", object{"password": login["password"]}).text("secret")
		code, err := totp.GenerateCode(secret, c.sys.clock.now())
		if err != nil {
			t.Fatal(err)
		}
		recovery := c.call(client, "POST", path+"/totp/confirm", object{"code": code})
		challenge := c.anonymous.post(t, path+"/login", login).wantStatus(http.StatusUnauthorized).text("challenge")
		c.call(c.anonymous, "POST", path+"/login/second-factor", object{"challenge": challenge, "code": recovery.text("recoveryCodes.0")})
		c.call(client, "DELETE", path+"/totp", object{"code": recovery.text("recoveryCodes.1")})
	}
}

// webhooks registers an endpoint and looks at its deliveries.
func (c *referenceCalls) webhooks(t *testing.T) {
	t.Helper()
	hook := startReceiver(t)
	c.call(c.merchant, "GET", "/api/v1/webhooks/event-types", nil)
	created := c.call(c.merchant, "POST", "/api/v1/webhooks", object{"url": hook.url, "subscriptions": []string{"commission.*", "program.updated"}, "description": "Bookkeeping"})
	endpoint := "/api/v1/webhooks/" + created.text("id")
	c.call(c.merchant, "POST", endpoint+"/test-ping", nil)
	c.call(c.merchant, "PATCH", endpoint, object{"subscriptions": []string{"*"}})
	c.call(c.merchant, "POST", endpoint+"/rotate-secret", object{"expireImmediately": false})
	c.merchant.patch(t, c.program, object{"description": "Earn 22.5 percent on fresh beans."}).wantStatus(http.StatusOK)
	hook.awaitRequests(t, 2)
	eventually(t, waitTimeout, "the delivery is stored", func() error {
		got := c.merchant.get(t, endpoint+"/deliveries?status=delivered")
		if got.value("total") != json.Number("1") {
			return fmt.Errorf("%s: %s", got.request, got.body)
		}
		return nil
	})
	deliveries := c.call(c.merchant, "GET", endpoint+"/deliveries?status=delivered", nil)
	delivery := endpoint + "/deliveries/" + deliveries.text("data.0.id")
	c.call(c.merchant, "GET", delivery, nil)
	c.call(c.merchant, "POST", delivery+"/retry", nil)
	hook.awaitRequests(t, 3)
	c.call(c.merchant, "GET", endpoint, nil)
	c.call(c.merchant, "GET", "/api/v1/webhooks", nil)
	c.call(c.merchant, "POST", endpoint+"/recover", object{"since": c.sys.clock.now().Add(-time.Hour).UTC().Format(time.RFC3339), "statuses": []string{"failed", "dead_lettered"}})
	c.call(c.merchant, "DELETE", endpoint, nil)
}

// notifications reads and changes the feeds of the merchant and the partner.
func (c *referenceCalls) notifications() {
	c.call(c.merchant, "POST", c.program+"/announcements", object{
		"title": "New roasts", "body": "Three beans from Ethiopia are in the shop.\nUse your link to recommend them.",
	})
	c.call(c.merchant, "GET", c.program+"/announcements", nil)
	c.call(c.merchant, "POST", "/api/v1/download-tickets", nil)
	for _, side := range []struct {
		client          apiClient
		feed            string
		category, noisy string
	}{
		{c.merchant, "/api/v1/notifications", "payouts", "conversions"},
		{c.partner, "/api/v1/partner/notifications", "payouts", "commissions"},
	} {
		list := c.call(side.client, "GET", side.feed+"?category="+side.category+"&unread=true&pageSize=2", nil)
		c.call(side.client, "GET", side.feed+"/unread-count", nil)
		c.call(side.client, "POST", side.feed+"/"+list.text("data.0.id")+"/read", nil)
		c.call(side.client, "POST", side.feed+"/"+list.text("data.0.id")+"/dismiss", nil)
		c.call(side.client, "POST", side.feed+"/read-all", object{"category": side.noisy})
		c.call(side.client, "POST", side.feed+"/dismiss-read", object{"before": c.sys.clock.now().Add(time.Minute).UTC().Format(time.RFC3339)})
		c.stream(side.client, side.feed+"/stream")
		c.call(side.client, "POST", side.feed+"/stream-ticket", nil)
		c.call(side.client, "GET", side.feed+"/preferences", nil)
		c.call(side.client, "PATCH", side.feed+"/preferences", object{"categories": []object{{"category": "payouts", "email": false}}})
	}
}

// erasures erases a participant, and the accounts of a partner and a merchant.
func (c *referenceCalls) erasures(t *testing.T) {
	t.Helper()
	f := c.sys.newFixture(t, "test", nil)
	c.call(f.merchant.apiClient, "POST", f.participantPath()+"/erase", confirmed)
	c.call(f.partner.apiClient, "POST", "/api/v1/partner/account/erase", confirmed)
	c.call(f.merchant.apiClient, "POST", "/api/v1/merchant/account/erase", confirmed)
}

// exports exports the data of all kinds of subjects. The example of a download shows the first
// members of the bundle.
func (c *referenceCalls) exports() {
	c.call(c.partner, "POST", "/api/v1/partner/export", nil)
	exported := c.call(c.merchant, "POST", c.program+"/partners/"+c.participant+"/export", nil)
	c.call(c.merchant, "POST", "/api/v1/merchant/account/export", nil)
	path := strings.TrimPrefix(exported.text("download_url"), "https://api.example")
	var bundle struct {
		SchemaVersion  json.RawMessage `json:"schema_version"`
		GeneratedAt    json.RawMessage `json:"generated_at"`
		Subject        json.RawMessage `json:"subject"`
		Profile        json.RawMessage `json:"profile"`
		Sessions       json.RawMessage `json:"sessions"`
		Participations json.RawMessage `json:"participations"`
		Consents       json.RawMessage `json:"consents"`
	}
	downloaded := c.anonymous.get(c.t, path).wantStatus(http.StatusOK)
	if err := json.Unmarshal([]byte(downloaded.body), &bundle); err != nil {
		c.t.Fatal(err)
	}
	shown, err := json.Marshal(bundle)
	if err != nil {
		c.t.Fatal(err)
	}
	c.examples[findOperation("GET", path).id] = example{
		Method: "GET", URL: c.normalizer.text(path), Headers: map[string]string{"Accept-Encoding": "gzip"}, Status: downloaded.status,
		Response: c.json(string(shown)),
	}
}

// lastCalls archives the programme, reads the audit log, and removes a member.
func (c *referenceCalls) lastCalls() {
	c.call(c.merchant, "POST", c.program+"/pause", nil)
	c.call(c.merchant, "POST", c.program+"/archive", nil)
	c.call(c.merchant, "GET", "/api/v1/workspace/audit-log?action=program.*&pageSize=2", nil)
	c.call(c.merchant, "GET", "/api/v1/workspace/audit-log/export?action=program.pause", nil)
	extra := c.merchant.post(c.t, "/api/v1/workspace/invites", object{"email": "gia@northwind.example", "role": "viewer"})
	c.anonymous.post(c.t, "/api/v1/auth/merchant/accept-invite", object{"token": extra.text("token"), "name": "Gia Rossi", "password": "a long password of Gia"}).wantStatus(http.StatusCreated)
	c.call(c.merchant, "DELETE", "/api/v1/workspace/members/"+c.member("Gia Rossi"), nil)
	c.call(c.merchant, "POST", "/api/v1/workspace/transfer-ownership", object{"memberId": c.member("Finn Weber")})
	last := c.anonymous.post(c.t, "/api/v1/auth/merchant/login", object{"email": ownerEmail, "password": "correct horse battery"})
	c.call(c.anonymous, "POST", "/api/v1/auth/logout", object{"refreshToken": last.text("refreshToken")})
	c.call(c.anonymous, "GET", "/api/v1/health", nil)
	c.call(c.anonymous, "GET", "/api/v1/health/ready", nil)
	c.call(c.anonymous, "GET", "/api/v1/instance", nil)
}

// serviceTokens creates, rolls and revokes a service token.
func (c *referenceCalls) serviceTokens() {
	service := c.call(c.merchant, "POST", "/api/v1/service-tokens", object{"name": "Partner sync", "role": "manager", "mode": "test"})
	newer := c.call(c.merchant, "POST", "/api/v1/service-tokens/"+service.text("id")+"/roll", object{"graceHours": 24})
	c.call(c.merchant, "GET", "/api/v1/service-tokens", nil)
	c.call(c.merchant, "DELETE", "/api/v1/service-tokens/"+newer.text("id"), nil)
}

// merchantPartners adds partners from the merchant's server. Ada has an account, so she
// decides.
func (c *referenceCalls) merchantPartners(t *testing.T) {
	t.Helper()
	id := c.merchant.post(t, "/api/v1/programs", object{"name": "Tasting club", "websiteUrl": "https://shop.example"}).wantStatus(http.StatusCreated).text("id")
	path := "/api/v1/programs/" + id + "/partners"
	c.merchant.post(t, "/api/v1/programs/"+id+"/activate", nil).wantStatus(http.StatusOK)
	added := c.call(c.merchant, "POST", path, object{"email": "noor@app.example", "name": "Noor Haddad", "externalId": "user-4711"})
	c.call(c.merchant, "POST", path+"/"+added.text("id")+"/token", nil)
	c.merchant.post(t, path, object{"email": partnerEmail, "name": "Ada", "referralCode": "ada-tastes"}).wantStatus(http.StatusCreated)
	c.call(c.partner, "POST", "/api/v1/partner/programs/"+id+"/decline", object{})
	c.call(c.partner, "POST", "/api/v1/partner/programs/"+id+"/accept", object{})
}
