package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

// testWebhookURLs checks which URLs an endpoint may have. If fields are invalid, the
// response lists all of them. The service resolves and checks the address of the URL only
// if all fields are valid.
func testWebhookURLs(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t).inMode("test")
	create := func(body any) response { return merchant.post(t, webhooksPath, body) }

	t.Run("invalid URLs", func(t *testing.T) {
		for _, url := range []string{
			"", "shop.example/hook", "ftp://shop.example/", "https://", "https:///hook", "https://user@shop.example/", "https://user:secret@shop.example/",
			"https://shop.example/#fragment", "https://[fe80::1%25eth0]/", "https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/",
			"https://shop.example./", "https://shop.example:0/", "https://shop.example:65536/", "https://shop .example/", "https://shop.example\\@127.0.0.1/",
			"https://shop.example/%zz", "https://shop.example/" + strings.Repeat("a", 2048), "https://shop.example/\x00",
		} {
			create(object{"url": url, "subscriptions": []string{"*"}}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "url")
		}
		// Port 22 is allowed only for addresses in TRIBUTARY_WEBHOOK_ALLOW_CIDRS.
		create(object{"url": "https://8.8.8.8:22/", "subscriptions": []string{"*"}}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "url")
	})
	t.Run("invalid bodies", func(t *testing.T) {
		many := make([]string, 51)
		for i := range many {
			many[i] = "*"
		}
		for name, c := range map[string]struct {
			changes object
			fields  []string
		}{
			"no subscriptions":                         {object{"subscriptions": []string{}}, []string{"subscriptions"}},
			"subscriptions are null":                   {object{"subscriptions": nil}, []string{"subscriptions"}},
			"subscriptions and events, its other name": {object{"events": []string{"*"}}, []string{"events"}},
			"unknown events":                           {object{"subscriptions": []string{"program.updated", "no.such", "noun.*", "", "program", "*.updated", "webhook.ping"}}, []string{"subscriptions[1]", "subscriptions[2]", "subscriptions[3]", "subscriptions[4]", "subscriptions[5]", "subscriptions[6]"}},
			"unknown events in the field events":       {object{"subscriptions": nil, "events": []string{"no.such"}}, []string{"events[0]"}},
			"too many subscriptions":                   {object{"subscriptions": many}, []string{"subscriptions"}},
			"too long a description":                   {object{"description": strings.Repeat("é", 201)}, []string{"description"}},
			"fields that only a response has":          {object{"status": "healthy", "id": unknownID, "mode": "live"}, []string{"status", "id", "mode"}},
			"all fields are invalid":                   {object{"url": "http://user@10.0.0.1:22/#x", "subscriptions": []string{"x"}, "description": strings.Repeat("a", 201)}, []string{"url", "subscriptions[0]", "description"}},
			"the address is checked last":              {object{"url": "https://10.0.0.1/", "subscriptions": []string{"x"}}, []string{"subscriptions[0]"}},
		} {
			t.Run(name, func(t *testing.T) {
				merchant.createEndpoint(t, "https://127.0.0.1/", c.changes).wantError(http.StatusBadRequest, "VALIDATION_ERROR", c.fields...)
			})
		}
	})
	for _, mode := range []string{"test", "live"} {
		for url, code := range map[string]string{
			"http://127.0.0.1/": "WEBHOOK_URL_NOT_HTTPS", "http://nobody.onion/": "WEBHOOK_URL_NOT_HTTPS", "http://10.0.0.1/": "WEBHOOK_URL_NOT_HTTPS",
			// Resolvers reject names under onion (RFC 7686), so this test needs no
			// network.
			"https://nobody.onion/": "WEBHOOK_URL_UNRESOLVABLE",
			"https://10.0.0.1/":     "WEBHOOK_URL_PRIVATE_IP", "https://[::1]/": "WEBHOOK_URL_PRIVATE_IP", "https://169.254.169.254/latest": "WEBHOOK_URL_PRIVATE_IP",
			"https://[::ffff:10.0.0.1]:8443/": "WEBHOOK_URL_PRIVATE_IP", "https://100.64.0.1/": "WEBHOOK_URL_PRIVATE_IP", "https://[fd00:ec2::254]/": "WEBHOOK_URL_PRIVATE_IP",
			"https://0.0.0.0/": "WEBHOOK_URL_PRIVATE_IP", "https://255.255.255.255/": "WEBHOOK_URL_PRIVATE_IP",
		} {
			merchant.inMode(mode).createEndpoint(t, url, nil).wantError(http.StatusUnprocessableEntity, code)
		}
	}
	merchant.get(t, webhooksPath).wantStatus(http.StatusOK).wantFields(object{"total": 0})
	// A public address is allowed with port 1024 or higher.
	merchant.createEndpoint(t, "https://8.8.8.8:8443/", object{"active": false}).wantStatus(http.StatusCreated)
	if logged := sys.logs.warnings(); !containsAll(logged, "TRIBUTARY_WEBHOOK_ALLOW_CIDRS", "127.0.0.0/8") {
		t.Errorf("the log has no warning about the allowed networks: %s", logged)
	}
}

// TestWebhookURLs_LoopbackIsPrivate checks that loopback addresses are rejected if the
// operator does not allow them. An endpoint that was created while loopback addresses
// were allowed gets no more requests.
func TestWebhookURLs_LoopbackIsPrivate(t *testing.T) {
	t.Parallel()
	allowed := start(t, setup{})
	merchant := allowed.newMerchant(t).inMode("test")
	h := merchant.startEndpoint(t, nil)
	merchant.post(t, h.path+"/test-ping", nil).wantStatus(http.StatusOK).wantFields(object{"success": true})

	sys := start(t, setup{database: allowed.database, env: map[string]string{"TRIBUTARY_WEBHOOK_ALLOW_CIDRS": ""}})
	merchant.sys = sys
	for _, url := range []string{"https://127.0.0.1/", h.url, "https://localhost/", "https://127.8.8.8:8443/"} {
		merchant.createEndpoint(t, url, nil).wantError(http.StatusUnprocessableEntity, "WEBHOOK_URL_PRIVATE_IP")
	}
	// Port 22 is not allowed now, because no network is allowed.
	merchant.createEndpoint(t, "http://127.0.0.1:22/", nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "url")
	merchant.post(t, h.path+"/test-ping", nil).wantStatus(http.StatusOK).
		wantFields(object{"success": false, "httpStatusCode": nil, "errorMessage": "blocked_address"})
	if got := len(h.requests()); got != 1 {
		t.Errorf("the receiver got %d requests, want 1", got)
	}
	if logged := sys.logs.String(); strings.Contains(logged, "TRIBUTARY_WEBHOOK_ALLOW_CIDRS") {
		t.Errorf("the log warns about allowed networks although there are none: %s", logged)
	}
}
