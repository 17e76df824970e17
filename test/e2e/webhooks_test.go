package e2e_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const webhooksPath = "/api/v1/webhooks"

// createEndpoint creates an endpoint that is subscribed to program.updated. The fields in
// changes replace the defaults.
func (a caller) createEndpoint(t testing.TB, url string, changes object) response {
	t.Helper()
	body := object{"url": url, "subscriptions": []string{"program.updated"}}
	for name, value := range changes {
		body[name] = value
	}
	return a.post(t, webhooksPath, body)
}

// webhookEndpoint is an endpoint and the receiver that gets its requests.
type webhookEndpoint struct {
	*receiver
	path   string
	id     string
	secret string
}

// startEndpoint starts a receiver and creates an endpoint with its URL.
func (a caller) startEndpoint(t *testing.T, changes object) webhookEndpoint {
	t.Helper()
	r := startReceiver(t)
	created := a.createEndpoint(t, r.url, changes).wantStatus(http.StatusCreated)
	return webhookEndpoint{r, webhooksPath + "/" + created.text("id"), created.text("id"), created.text("signingSecret")}
}

// TestWebhooks creates, reads, changes and deletes endpoints.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.newMerchant(t).inMode("test")
	created := merchant.createEndpoint(t, "HTTPS://127.0.0.1/hooks?key=v%2Falue", object{
		"subscriptions": []string{"payout.*", "commission.created", "payout.*", "*"}, "description": "  Billing ",
	}).wantStatus(http.StatusCreated).wantFields(object{
		"url": "https://127.0.0.1/hooks?key=v%2Falue", "subscriptions": []string{"payout.*", "commission.created", "*"}, "description": "Billing",
		"active": true, "mode": "test", "status": "healthy", "disabledReason": nil, "consecutiveFailures": 0, "lastDeliveryAt": nil,
	})
	secret := created.text("signingSecret")
	if key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err != nil || len(key) != 32 || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the signing secret is %q, want whsec_ and 32 bytes in base64", secret)
	}
	if !created.instant("createdAt").Equal(created.instant("updatedAt")) {
		t.Errorf("createdAt and updatedAt differ: %s", created.body)
	}
	path := webhooksPath + "/" + created.text("id")
	sys.clock.advance(time.Minute)
	second := merchant.createEndpoint(t, "https://127.0.0.1/", object{"subscriptions": nil, "events": []string{"link.*"}, "active": false}).wantStatus(http.StatusCreated)
	second.wantFields(object{"subscriptions": []string{"link.*"}, "active": false, "status": "disabled", "disabledReason": "manual", "description": nil})

	merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{"id": created.text("id"), "description": "Billing"})
	merchant.get(t, webhooksPath).wantStatus(http.StatusOK).wantFields(object{
		"total": 2, "page": 1, "limit": 20, "data.0.id": second.text("id"), "data.1.id": created.text("id"),
	})
	merchant.get(t, webhooksPath+"?limit=1&page=2").wantStatus(http.StatusOK).wantFields(object{"total": 2, "limit": 1, "data.0.id": created.text("id")})
	merchant.inMode("live").get(t, webhooksPath).wantStatus(http.StatusOK).wantFields(object{"total": 0, "data": []any{}})
	merchant.get(t, path+"/deliveries").wantStatus(http.StatusOK).wantFields(object{"data": []any{}, "total": 0, "page": 1, "limit": 20})

	t.Run("an endpoint is changed", func(t *testing.T) {
		patch := func(body any) response { return merchant.patch(t, path, body) }
		patch(object{}).wantStatus(http.StatusOK).wantFields(object{"description": "Billing", "updatedAt": created.text("updatedAt")})
		patch(object{"description": "Books"}).wantStatus(http.StatusOK).wantFields(object{"description": "Books", "active": true})
		patch(object{"description": nil}).wantStatus(http.StatusOK).wantFields(object{"description": nil})
		patch(object{"subscriptions": []string{"*", "*"}}).wantStatus(http.StatusOK).wantFields(object{"subscriptions": []string{"*"}, "active": true})
		patch(object{"active": false}).wantStatus(http.StatusOK).wantFields(object{"active": false, "status": "disabled", "disabledReason": "manual"})
		patch(object{"active": true}).wantStatus(http.StatusOK).wantFields(object{"active": true, "status": "healthy", "disabledReason": nil})
		for body, field := range map[string]string{
			`{"url":"https://127.0.0.1/"}`: "url", `{"mode":"live"}`: "mode", `{"signingSecret":"x"}`: "signingSecret", `{"events":["*"]}`: "events",
			`{"status":"healthy"}`: "status", `{"webhookId":"x"}`: "webhookId",
			`{"subscriptions":[]}`: "subscriptions", `{"subscriptions":null}`: "subscriptions", `{"subscriptions":["*","x"]}`: "subscriptions[1]",
			`{"active":null}`: "active", `{"active":"true"}`: "active", `{"description":"` + strings.Repeat("é", 201) + `"}`: "description",
		} {
			patch(body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
		}
	})
	t.Run("a secret is returned only when it is created", func(t *testing.T) {
		rotated := merchant.post(t, path+"/rotate-secret", nil).wantStatus(http.StatusOK).wantFields(object{"id": created.text("id")}).text("signingSecret")
		again := merchant.post(t, path+"/rotate-secret", object{"expireImmediately": true}).wantStatus(http.StatusOK).text("signingSecret")
		if rotated == secret || again == rotated {
			t.Error("a rotation has returned an old secret")
		}
		shown := merchant.get(t, path).body + merchant.get(t, webhooksPath).body + merchant.patch(t, path, object{"description": "Now"}).body +
			merchant.get(t, "/api/v1/workspace/audit-log?pageSize=100").wantStatus(http.StatusOK).body + sys.logs.String()
		for _, hidden := range []string{secret, rotated, again} {
			if strings.Contains(shown, hidden) || strings.Contains(shown, strings.TrimPrefix(hidden, "whsec_")) {
				t.Error("a response or the log contains a secret")
			}
		}
		if strings.Contains(shown, "signingSecret") {
			t.Error("a response has the field signingSecret")
		}
		merchant.post(t, path+"/rotate-secret", object{"expireImmediately": 1}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "expireImmediately")
	})
	t.Run("an endpoint is deleted", func(t *testing.T) {
		merchant.do(t, http.MethodDelete, path, nil).wantStatus(http.StatusNoContent)
		for _, gone := range []response{
			merchant.get(t, path), merchant.patch(t, path, object{"active": true}), merchant.post(t, path+"/rotate-secret", nil),
			merchant.post(t, path+"/test-ping", nil), merchant.do(t, http.MethodDelete, path, nil), merchant.get(t, path+"/deliveries"),
		} {
			gone.wantOutcome(noWebhook)
		}
		merchant.get(t, webhooksPath).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.id": second.text("id")})
	})
	t.Run("the audit log has all actions", func(t *testing.T) {
		log := merchant.get(t, "/api/v1/workspace/audit-log?action=webhook.*&pageSize=100").wantStatus(http.StatusOK)
		if !containsAll(log.body, "webhook.create", "webhook.update", "webhook.rotate_secret", "webhook.delete") {
			t.Errorf("the audit log does not contain all actions on endpoints: %s", log.body)
		}
	})
}

// testWebhookLimit checks that a mode has at most ten endpoints, even if they are created
// concurrently.
func testWebhookLimit(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t).inMode("test")
	create := func(mode, url string) response { return merchant.inMode(mode).createEndpoint(t, url, nil) }
	got := countStatuses(concurrently(20, func(int) response { return create("test", "https://127.0.0.1/") }))
	if got["201"] != 10 || got["422 WEBHOOK_ENDPOINT_LIMIT_EXCEEDED"] != 10 {
		t.Errorf("20 concurrent requests got %v, want ten 201 and ten WEBHOOK_ENDPOINT_LIMIT_EXCEEDED", got)
	}
	// The URL is checked before the limit.
	create("test", "https://10.0.0.1/").wantError(http.StatusUnprocessableEntity, "WEBHOOK_URL_PRIVATE_IP")
	create("test", "https://127.0.0.1/").wantError(http.StatusUnprocessableEntity, "WEBHOOK_ENDPOINT_LIMIT_EXCEEDED")
	create("live", "https://127.0.0.1/").wantStatus(http.StatusCreated)
	endpoint := merchant.get(t, webhooksPath).wantStatus(http.StatusOK).wantFields(object{"total": 10}).text("data.0.id")
	// Disabled endpoints count towards the limit. Deleted endpoints do not.
	merchant.patch(t, webhooksPath+"/"+endpoint, object{"active": false}).wantStatus(http.StatusOK)
	create("test", "https://127.0.0.1/").wantError(http.StatusUnprocessableEntity, "WEBHOOK_ENDPOINT_LIMIT_EXCEEDED")
	merchant.do(t, http.MethodDelete, webhooksPath+"/"+endpoint, nil).wantStatus(http.StatusNoContent)
	create("test", "https://127.0.0.1/").wantStatus(http.StatusCreated)
}

func testEventTypes(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t).inMode("test")
	list := merchant.get(t, webhooksPath+"/event-types").wantStatus(http.StatusOK).wantFields(object{"total": 31, "page": 1})
	names := []string{}
	for _, item := range list.value("data").([]any) {
		eventType := item.(object)
		if names = append(names, eventType["name"].(string)); eventType["description"] == "" {
			t.Errorf("the event type %s has no description", eventType["name"])
		}
	}
	for _, name := range []string{"conversion.created", "commission.refunded", "gdpr.buyer_erasure_completed"} {
		if !slices.Contains(names, name) {
			t.Errorf("the list does not contain %s", name)
		}
	}
	if slices.Contains(names, "webhook.ping") {
		t.Error("the list contains webhook.ping, which endpoints cannot subscribe to")
	}
	merchant.createEndpoint(t, "https://127.0.0.1/", object{"subscriptions": names}).wantStatus(http.StatusCreated).wantFields(object{"subscriptions": names})
	merchant.get(t, webhooksPath+"/event-types?page=1").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "page")
}

func TestPing(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.newMerchant(t).inMode("test")
	h := merchant.startEndpoint(t, object{"description": "Shop"})
	ping := func() response { return merchant.post(t, h.path+"/test-ping", nil).wantStatus(http.StatusOK) }

	ping().wantFields(object{"success": true, "httpStatusCode": 204, "errorMessage": nil})
	got := h.requests()[0]
	event := got.verify(t, h.secret).wantFields(object{
		"type": "webhook.ping", "api_version": "v1", "mode": "test", "workspace_id": merchant.workspace,
		"data.object.webhook_id": h.id, "data.object.description": "Shop",
	})
	event.instant("timestamp")
	verifier, err := standardwebhooks.NewWebhook(h.secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(got.body, got.header); err != nil {
		t.Errorf("the ping cannot be verified: %v", err)
	}
	if agent := got.header.Get("User-Agent"); got.path != "/hook" || !strings.HasPrefix(got.id(), "evt_") || !strings.HasPrefix(agent, "Tributary") || got.signatureCount() != 1 ||
		got.header.Get("Content-Type") != "application/json" || got.header.Get("Webhook-Attempt") != "1" {
		t.Errorf("the ping was sent to %s with the headers %v, want /hook, one signature and attempt 1", got.path, got.header)
	}

	t.Run("errorMessage contains an error code for the receiver's status", func(t *testing.T) {
		for status, code := range map[int]string{500: "http_500", 410: "http_410", 301: "redirect", 404: "http_404"} {
			h.respondWith(status)
			before := len(h.requests())
			ping().wantFields(object{"success": false, "httpStatusCode": status, "errorMessage": code})
			if after := len(h.requests()); after != before+1 {
				t.Errorf("a ping with the response status %d sent %d requests, want 1", status, after-before)
			}
		}
		h.respondWith(200)
	})
	t.Run("after a rotation, webhooks are signed with the old and the new secret for a day", func(t *testing.T) {
		// wantSignatures pings the endpoint. The request must have exactly one signature for
		// each of the secrets.
		wantSignatures := func(occasion string, secrets ...string) {
			t.Helper()
			ping()
			all := h.requests()
			got := all[len(all)-1]
			if n := got.signatureCount(); n != len(secrets) {
				t.Errorf("%s: the ping has %d signatures, want %d; header %v", occasion, n, len(secrets), got.header)
			}
			for n, secret := range secrets {
				if !got.isSignedWith(t, secret) {
					t.Errorf("%s: the ping is not signed with secret %d of %d; header %v", occasion, n+1, len(secrets), got.header)
				}
			}
		}
		second := merchant.post(t, h.path+"/rotate-secret", nil).wantStatus(http.StatusOK).text("signingSecret")
		wantSignatures("after a rotation", h.secret, second)
		third := merchant.post(t, h.path+"/rotate-secret", object{"expireImmediately": true}).wantStatus(http.StatusOK).text("signingSecret")
		wantSignatures("after a rotation that expires the old secret", third)
		fourth := merchant.post(t, h.path+"/rotate-secret", object{}).wantStatus(http.StatusOK).text("signingSecret")
		wantSignatures("after another rotation", third, fourth)
		sys.clock.advance(24*time.Hour + time.Minute)
		merchant = merchant.login(t)
		wantSignatures("a day after the rotation", fourth)
	})
	t.Run("a disabled endpoint can be pinged, and a ping does not change the endpoint", func(t *testing.T) {
		merchant.patch(t, h.path, object{"active": false}).wantStatus(http.StatusOK)
		before := merchant.get(t, h.path).body
		ping().wantFields(object{"success": true})
		h.respondWith(500)
		ping().wantFields(object{"success": false})
		merchant.get(t, h.path+"/deliveries").wantStatus(http.StatusOK).wantFields(object{"total": 0})
		if after := merchant.get(t, h.path).wantStatus(http.StatusOK).wantFields(object{"consecutiveFailures": 0, "lastDeliveryAt": nil}).body; after != before {
			t.Errorf("the endpoint has changed:\nbefore %s\nafter  %s", before, after)
		}
	})
	t.Run("a ping to an address without a server", func(t *testing.T) {
		unused := listen(t)
		_ = unused.Close()
		closed := merchant.createEndpoint(t, "https://"+unused.Addr().String()+"/", nil).wantStatus(http.StatusCreated).text("id")
		merchant.post(t, webhooksPath+"/"+closed+"/test-ping", nil).wantStatus(http.StatusOK).
			wantFields(object{"success": false, "httpStatusCode": nil, "errorMessage": "connection_refused"})
	})
	t.Run("a ping to a server whose certificate is not trusted", func(t *testing.T) {
		stranger := merchant.createEndpoint(t, startUntrustedReceiver(t), nil).wantStatus(http.StatusCreated).text("id")
		merchant.post(t, webhooksPath+"/"+stranger+"/test-ping", nil).wantStatus(http.StatusOK).
			wantFields(object{"success": false, "httpStatusCode": nil, "errorMessage": "tls_error"})
	})
}
