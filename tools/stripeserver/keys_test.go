package stripeserver

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v85"
)

func TestAuthorize_ChecksKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.RejectKey("rk_test_0123456789deleted")
	for name, test := range map[string]struct {
		header  string
		status  int
		message string
	}{
		"no key":               {"", 401, "You did not provide an API key."},
		"other scheme":         {"Digest x", 401, "You did not provide an API key."},
		"rejected":             {"Bearer rk_test_0123456789deleted", 401, "Invalid API Key provided: rk_test_*************eted"},
		"publishable key":      {"Bearer pk_test_0123456789", 401, "Invalid API Key provided: **************6789"},
		"text without a form":  {"Bearer abc", 401, "Invalid API Key provided: **c"},
		"restricted test key":  {"Bearer rk_test_a", 200, ""},
		"restricted live key":  {"Bearer rk_live_a", 200, ""},
		"secret live key":      {"bearer sk_live_a_b", 200, ""},
		"Basic, key as a name": {"Basic c2tfdGVzdF9hOg==", 200, ""}, // sk_test_a:
	} {
		got := s.do(t, http.MethodGet, "/v1/charges", nil, "Authorization", test.header)
		if got.status != test.status || !strings.HasPrefix(got.errorField("message"), test.message) {
			t.Errorf("%s: got %d %v, want %d and the message %q", name, got.status, got.object, test.status, test.message)
		}
		if test.status == http.StatusUnauthorized && (got.errorField("type") != "invalid_request_error" || got.errorField("code") != "") {
			t.Errorf("%s: the error is %v, want the type invalid_request_error and no code", name, got.object)
		}
	}
}

func TestAccount_BelongsToKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.SetAccount("rk_test_shop", "acct_shop")
	s.SetAccount("rk_live_shop", "acct_shop")
	accounts := map[string]string{}
	for _, key := range []string{"rk_test_shop", "rk_live_shop", "rk_test_a", "rk_test_b"} {
		account, err := s.client(key, 0).V1Accounts.Retrieve(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		accounts[key] = account.ID
	}
	if accounts["rk_test_shop"] != "acct_shop" || accounts["rk_live_shop"] != "acct_shop" {
		t.Errorf("the accounts are %v, want acct_shop for both keys of the shop", accounts)
	}
	form := regexp.MustCompile(`^acct_test[0-9a-f]{12}$`)
	if a, b := accounts["rk_test_a"], accounts["rk_test_b"]; a == b || !form.MatchString(a) || !form.MatchString(b) {
		t.Errorf("the accounts are %v, want different accounts for keys that were not set", accounts)
	}
}

func TestDeny_NamesMissingPermission(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ method, path, denied, named string }{
		"account":                 {http.MethodGet, "/v1/account", "rak_accounts_kyc_basic_read", "rak_accounts_kyc_basic_read"},
		"account, other name":     {http.MethodGet, "/v1/account", "rak_connected_account_read", "rak_accounts_kyc_basic_read"},
		"sessions":                {http.MethodGet, "/v1/checkout/sessions?limit=1", "rak_checkout_session_read", "rak_checkout_session_read"},
		"one session":             {http.MethodGet, "/v1/checkout/sessions/cs_1", "rak_checkout_session_read", "rak_checkout_session_read"},
		"line items of a session": {http.MethodGet, "/v1/checkout/sessions/cs_1/line_items", "rak_checkout_session_read", "rak_checkout_session_read"},
		"invoices":                {http.MethodGet, "/v1/invoices", "rak_invoice_read", "rak_invoice_read"},
		"invoice payments":        {http.MethodGet, "/v1/invoice_payments", "rak_invoice_read", "rak_invoice_read"},
		"charges":                 {http.MethodGet, "/v1/charges", "rak_charge_read", "rak_charge_read"},
		"refunds":                 {http.MethodGet, "/v1/refunds", "rak_charge_read", "rak_charge_read"},
		"payment intents":         {http.MethodGet, "/v1/payment_intents", "rak_payment_intent_read", "rak_payment_intent_read"},
		"disputes":                {http.MethodGet, "/v1/disputes", "rak_dispute_read", "rak_dispute_read"},
		"events":                  {http.MethodGet, "/v1/events", "rak_event_read", "rak_event_read"},
		"balance transactions":    {http.MethodGet, "/v1/balance_transactions", "rak_balance_transaction_source_read", "rak_balance_transaction_source_read"},
		"promotion codes":         {http.MethodGet, "/v1/promotion_codes", "rak_promotion_code_read", "rak_promotion_code_read"},
		"coupons":                 {http.MethodGet, "/v1/coupons", "rak_coupon_read", "rak_coupon_read"},
		"endpoints":               {http.MethodGet, "/v1/webhook_endpoints", "rak_webhook_read", "rak_webhook_read"},
		"create an endpoint":      {http.MethodPost, "/v1/webhook_endpoints", "rak_webhook_write", "rak_webhook_write"},
		"delete an endpoint":      {http.MethodDelete, "/v1/webhook_endpoints/we_1", "rak_webhook_write", "rak_webhook_write"},
		"create a coupon":         {http.MethodPost, "/v1/coupons", "rak_coupon_write", "rak_coupon_write"},
		"create a promotion code": {http.MethodPost, "/v1/promotion_codes", "rak_promotion_code_write", "rak_promotion_code_write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.SetAccount(testKey, "acct_1")
			s.Deny(testKey, "rak_customer_read", test.denied)
			// A writing request has no parameters, which are checked after the permission.
			var form url.Values
			if test.method == http.MethodPost {
				form = url.Values{}
			}
			got := s.do(t, test.method, test.path, form)
			want := "The provided key 'rk_test_************cdef' does not have the required permissions for this endpoint on account 'acct_1'. " +
				"Having the '" + test.named + "' permission would allow this request to continue."
			if got.status != http.StatusForbidden || got.errorField("message") != want ||
				got.errorField("type") != "invalid_request_error" || got.errorField("code") != "" {
				t.Errorf("got %d %v, want 403 with the message %q", got.status, got.object, want)
			}
			other := s.do(t, test.method, test.path, form, "Authorization", "Bearer rk_test_other")
			if other.status == http.StatusForbidden {
				t.Errorf("another key got 403: %v", other.object)
			}
		})
	}
}

func TestDeny_ExpandNeedsNoPermission(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(NewPaymentIntent("pi_a", nil))
	s.Put(NewCharge("ch_a", nil))
	s.Deny(testKey, "rak_charge_read")
	params := &stripe.PaymentIntentRetrieveParams{}
	params.AddExpand("latest_charge")
	intent, err := s.client(testKey, 0).V1PaymentIntents.Retrieve(t.Context(), "pi_a", params)
	if err != nil || intent.LatestCharge.Amount != defaultAmount {
		t.Errorf("the payment intent is %v and the error is %v, want the expanded charge", intent, err)
	}
}
