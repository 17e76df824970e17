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

// webhook creates an endpoint that subscribes to changes of programmes, with changed
// fields.
func (a account) webhook(t testing.TB, url string, changes object) response {
	t.Helper()
	body := object{"url": url, "subscriptions": []string{"program.updated"}}
	for name, value := range changes {
		body[name] = value
	}
	return a.post(t, webhooksPath, body)
}

// hook is an endpoint together with the receiver that gets its requests.
type hook struct {
	*receiver
	path   string
	id     string
	secret string
}

func (a account) hook(t *testing.T, changes object) hook {
	t.Helper()
	r := startReceiver(t)
	made := a.webhook(t, r.url, changes).want(http.StatusCreated)
	return hook{r, webhooksPath + "/" + made.text("id"), made.text("id"), made.text("signingSecret")}
}

// TestWebhooks creates, reads, changes and deletes endpoints.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.merchant(t).in("test")
	made := merchant.webhook(t, "HTTPS://127.0.0.1/hooks?key=v%2Falue", object{
		"subscriptions": []string{"payout.*", "commission.created", "payout.*", "*"}, "description": "  Billing ",
	}).want(http.StatusCreated).wantFields(object{
		"url": "https://127.0.0.1/hooks?key=v%2Falue", "subscriptions": []string{"payout.*", "commission.created", "*"}, "description": "Billing",
		"active": true, "mode": "test", "status": "healthy", "disabledReason": nil, "consecutiveFailures": 0, "lastDeliveryAt": nil,
	})
	secret := made.text("signingSecret")
	if key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err != nil || len(key) != 32 || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret is %q", secret)
	}
	if !made.instant("createdAt").Equal(made.instant("updatedAt")) {
		t.Errorf("createdAt and updatedAt differ: %s", made.body)
	}
	path := webhooksPath + "/" + made.text("id")
	sys.clock.advance(time.Minute)
	second := merchant.webhook(t, "https://127.0.0.1/", object{"subscriptions": nil, "events": []string{"link.*"}, "active": false}).want(http.StatusCreated)
	second.wantFields(object{"subscriptions": []string{"link.*"}, "active": false, "status": "disabled", "disabledReason": "manual", "description": nil})

	merchant.get(t, path).want(http.StatusOK).wantFields(object{"id": made.text("id"), "description": "Billing"})
	merchant.get(t, webhooksPath).want(http.StatusOK).wantFields(object{
		"total": 2, "page": 1, "limit": 20, "data.0.id": second.text("id"), "data.1.id": made.text("id"),
	})
	merchant.get(t, webhooksPath+"?limit=1&page=2").want(http.StatusOK).wantFields(object{"total": 2, "limit": 1, "data.0.id": made.text("id")})
	merchant.in("live").get(t, webhooksPath).want(http.StatusOK).wantFields(object{"total": 0, "data": []any{}})
	merchant.get(t, path+"/deliveries").want(http.StatusOK).wantFields(object{"data": []any{}, "total": 0, "page": 1, "limit": 20})

	t.Run("an endpoint is changed", func(t *testing.T) {
		patch := func(body any) response { return merchant.patch(t, path, body) }
		patch(object{}).want(http.StatusOK).wantFields(object{"description": "Billing", "updatedAt": made.text("updatedAt")})
		patch(object{"description": "Books"}).want(http.StatusOK).wantFields(object{"description": "Books", "active": true})
		patch(object{"description": nil}).want(http.StatusOK).wantFields(object{"description": nil})
		patch(object{"subscriptions": []string{"*", "*"}}).want(http.StatusOK).wantFields(object{"subscriptions": []string{"*"}, "active": true})
		patch(object{"active": false}).want(http.StatusOK).wantFields(object{"active": false, "status": "disabled", "disabledReason": "manual"})
		patch(object{"active": true}).want(http.StatusOK).wantFields(object{"active": true, "status": "healthy", "disabledReason": nil})
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
		rotated := merchant.post(t, path+"/rotate-secret", nil).want(http.StatusOK).wantFields(object{"id": made.text("id")}).text("signingSecret")
		again := merchant.post(t, path+"/rotate-secret", object{"expireImmediately": true}).want(http.StatusOK).text("signingSecret")
		if rotated == secret || again == rotated {
			t.Error("two secrets are equal")
		}
		shown := merchant.get(t, path).body + merchant.get(t, webhooksPath).body + merchant.patch(t, path, object{"description": "Now"}).body +
			merchant.get(t, "/api/v1/workspace/audit-log?pageSize=100").want(http.StatusOK).body + sys.logs.String()
		for _, one := range []string{secret, rotated, again} {
			if strings.Contains(shown, one) || strings.Contains(shown, strings.TrimPrefix(one, "whsec_")) {
				t.Error("a response or the log contains a secret")
			}
		}
		if strings.Contains(shown, "signingSecret") {
			t.Error("a response has the field signingSecret")
		}
		merchant.post(t, path+"/rotate-secret", object{"expireImmediately": 1}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "expireImmediately")
	})
	t.Run("an endpoint is deleted", func(t *testing.T) {
		merchant.do(t, http.MethodDelete, path, nil).want(http.StatusNoContent)
		for _, gone := range []response{
			merchant.get(t, path), merchant.patch(t, path, object{"active": true}), merchant.post(t, path+"/rotate-secret", nil),
			merchant.post(t, path+"/test-ping", nil), merchant.do(t, http.MethodDelete, path, nil), merchant.get(t, path+"/deliveries"),
		} {
			gone.wantOutcome(noWebhook)
		}
		merchant.get(t, webhooksPath).want(http.StatusOK).wantFields(object{"total": 1, "data.0.id": second.text("id")})
	})
	t.Run("the audit log has all actions", func(t *testing.T) {
		log := merchant.get(t, "/api/v1/workspace/audit-log?action=webhook.*&pageSize=100").want(http.StatusOK)
		if !containsAll(log.body, "webhook.create", "webhook.update", "webhook.rotate_secret", "webhook.delete") {
			t.Error(log.body)
		}
	})
}

// TestWebhookLimit checks that ten of twenty concurrent requests succeed.
func TestWebhookLimit(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.merchant(t).in("test")
	ask := func(mode, url string) response { return merchant.in(mode).webhook(t, url, nil) }
	got := countStatuses(concurrently(20, func(int) response { return ask("test", "https://127.0.0.1/") }))
	if got["201"] != 10 || got["422 WEBHOOK_ENDPOINT_LIMIT_EXCEEDED"] != 10 {
		t.Errorf("%v", got)
	}
	// The URL is checked before the limit.
	ask("test", "https://10.0.0.1/").wantError(http.StatusUnprocessableEntity, "WEBHOOK_URL_PRIVATE_IP")
	ask("test", "https://127.0.0.1/").wantError(http.StatusUnprocessableEntity, "WEBHOOK_ENDPOINT_LIMIT_EXCEEDED")
	ask("live", "https://127.0.0.1/").want(http.StatusCreated)
	one := merchant.get(t, webhooksPath).want(http.StatusOK).wantFields(object{"total": 10}).text("data.0.id")
	// A disabled endpoint counts, a deleted one does not.
	merchant.patch(t, webhooksPath+"/"+one, object{"active": false}).want(http.StatusOK)
	ask("test", "https://127.0.0.1/").wantError(http.StatusUnprocessableEntity, "WEBHOOK_ENDPOINT_LIMIT_EXCEEDED")
	merchant.do(t, http.MethodDelete, webhooksPath+"/"+one, nil).want(http.StatusNoContent)
	ask("test", "https://127.0.0.1/").want(http.StatusCreated)
}

func TestEventTypes(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.merchant(t).in("test")
	list := merchant.get(t, webhooksPath+"/event-types").want(http.StatusOK).wantFields(object{"total": 31, "page": 1})
	names := []string{}
	for _, one := range list.value("data").([]any) {
		kind := one.(object)
		if names = append(names, kind["name"].(string)); kind["description"] == "" {
			t.Errorf("%s has no description", kind["name"])
		}
	}
	for _, name := range []string{"conversion.created", "commission.refunded", "gdpr.buyer_erasure_completed"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not listed", name)
		}
	}
	if slices.Contains(names, "webhook.ping") {
		t.Error("the list contains webhook.ping, which has no subscription")
	}
	merchant.webhook(t, "https://127.0.0.1/", object{"subscriptions": names}).want(http.StatusCreated).wantFields(object{"subscriptions": names})
	merchant.get(t, webhooksPath+"/event-types?page=1").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "page")
}

func TestPing(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.merchant(t).in("test")
	h := merchant.hook(t, object{"description": "Shop"})
	ping := func() response { return merchant.post(t, h.path+"/test-ping", nil).want(http.StatusOK) }

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
		t.Error(err)
	}
	if agent := got.header.Get("User-Agent"); got.path != "/hook" || !strings.HasPrefix(got.id(), "evt_") || !strings.HasPrefix(agent, "Tributary") || got.signatures() != 1 ||
		got.header.Get("Content-Type") != "application/json" || got.header.Get("Webhook-Attempt") != "1" {
		t.Errorf("%s with %v", got.path, got.header)
	}

	t.Run("errorMessage has an error code for each status", func(t *testing.T) {
		for status, word := range map[int]string{500: "http_500", 410: "http_410", 301: "redirect", 404: "http_404"} {
			h.respondWith(status)
			before := len(h.requests())
			ping().wantFields(object{"success": false, "httpStatusCode": status, "errorMessage": word})
			if after := len(h.requests()); after != before+1 {
				t.Errorf("%d requests for a ping that got the status %d", after-before, status)
			}
		}
		h.respondWith(200)
	})
	t.Run("both secrets sign after a rotation", func(t *testing.T) {
		last := func() webhookRequest { ping(); all := h.requests(); return all[len(all)-1] }
		second := merchant.post(t, h.path+"/rotate-secret", nil).want(http.StatusOK).text("signingSecret")
		if got := last(); got.signatures() != 2 || !got.signedWith(t, h.secret) || !got.signedWith(t, second) {
			t.Errorf("%v", got.header)
		}
		third := merchant.post(t, h.path+"/rotate-secret", object{"expireImmediately": true}).want(http.StatusOK).text("signingSecret")
		if got := last(); got.signatures() != 1 || got.signedWith(t, second) || !got.signedWith(t, third) {
			t.Errorf("%v", got.header)
		}
		fourth := merchant.post(t, h.path+"/rotate-secret", object{}).want(http.StatusOK).text("signingSecret")
		if got := last(); got.signatures() != 2 || !got.signedWith(t, third) || !got.signedWith(t, fourth) {
			t.Errorf("%v", got.header)
		}
		sys.clock.advance(24*time.Hour + time.Minute)
		merchant = merchant.login(t)
		if got := last(); got.signatures() != 1 || !got.signedWith(t, fourth) {
			t.Errorf("%v", got.header)
		}
	})
	t.Run("a disabled endpoint can be pinged, and a ping changes nothing", func(t *testing.T) {
		merchant.patch(t, h.path, object{"active": false}).want(http.StatusOK)
		before := merchant.get(t, h.path).body
		ping().wantFields(object{"success": true})
		h.respondWith(500)
		ping().wantFields(object{"success": false})
		merchant.get(t, h.path+"/deliveries").want(http.StatusOK).wantFields(object{"total": 0})
		if after := merchant.get(t, h.path).want(http.StatusOK).wantFields(object{"consecutiveFailures": 0, "lastDeliveryAt": nil}).body; after != before {
			t.Errorf("the endpoint has changed:\nbefore %s\nafter  %s", before, after)
		}
	})
	t.Run("no server at the address", func(t *testing.T) {
		free := listen(t)
		_ = free.Close()
		closed := merchant.webhook(t, "https://"+free.Addr().String()+"/", nil).want(http.StatusCreated).text("id")
		merchant.post(t, webhooksPath+"/"+closed+"/test-ping", nil).want(http.StatusOK).
			wantFields(object{"success": false, "httpStatusCode": nil, "errorMessage": "connection_refused"})
	})
	t.Run("a certificate that is not trusted", func(t *testing.T) {
		stranger := merchant.webhook(t, startUntrustedReceiver(t), nil).want(http.StatusCreated).text("id")
		merchant.post(t, webhooksPath+"/"+stranger+"/test-ping", nil).want(http.StatusOK).
			wantFields(object{"success": false, "httpStatusCode": nil, "errorMessage": "tls_error"})
	})
}
