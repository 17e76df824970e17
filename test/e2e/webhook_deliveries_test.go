package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// updateProgram changes the programme, so that the service publishes the event
// program.updated.
func (f fixture) updateProgram(t *testing.T) {
	t.Helper()
	f.merchant.patch(t, f.programPath(), object{"name": uniqueName("Programme")}).wantStatus(http.StatusOK)
}

// awaitDelivery waits until the newest delivery of the endpoint has the given status. It
// returns the list of deliveries.
func (h webhookEndpoint) awaitDelivery(t *testing.T, merchant caller, status string) response {
	t.Helper()
	var list response
	eventually(t, waitTimeout, "a delivery is "+status, func() error {
		list = merchant.get(t, h.path+"/deliveries").wantStatus(http.StatusOK)
		if list.number("total") == 0 || list.text("data.0.status") != status {
			return fmt.Errorf("the deliveries are %s", list.body)
		}
		return nil
	})
	return list
}

// createDelivery creates an endpoint with one successful delivery.
func (f fixture) createDelivery(t *testing.T) (endpoint, delivery string) {
	t.Helper()
	h := f.merchant.startEndpoint(t, nil)
	f.updateProgram(t)
	return h.id, h.awaitDelivery(t, f.merchant, "delivered").text("data.0.id")
}

func testDeliveries(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	h := f.merchant.startEndpoint(t, nil)
	others := []webhookEndpoint{f.merchant.inMode("live").startEndpoint(t, nil), f.merchant.startEndpoint(t, object{"subscriptions": []string{"link.*"}}), sys.newMerchant(t).inMode("test").startEndpoint(t, nil)}
	overlapping := f.merchant.startEndpoint(t, object{"subscriptions": []string{"*", "program.*", "program.updated"}})
	f.updateProgram(t)

	first := h.awaitRequests(t, 1)[0]
	first.verify(t, h.secret).wantFields(object{
		"type": "program.updated", "api_version": "v1", "mode": "test", "workspace_id": f.merchant.workspace, "data.object.id": f.program,
	})
	if again := overlapping.awaitRequests(t, 1)[0]; again.id() != first.id() || string(again.body) != string(first.body) || again.isSignedWith(t, h.secret) {
		t.Errorf("two endpoints got different events, or the same signature:\n%s\n%s", first.body, again.body)
	}
	list := h.awaitDelivery(t, f.merchant, "delivered").wantFields(object{
		"total": 1, "page": 1, "limit": 20, "data.0.eventId": first.id(), "data.0.eventType": "program.updated", "data.0.attemptCount": 1,
		"data.0.httpStatusCode": 204, "data.0.errorMessage": nil, "data.0.nextAttemptAt": nil,
	})
	if list.instant("data.0.completedAt").Before(list.instant("data.0.createdAt")) {
		t.Errorf("completedAt is before createdAt: %s", list.body)
	}
	path := h.path + "/deliveries/" + list.text("data.0.id")
	f.merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{
		"id": list.text("data.0.id"), "eventId": first.id(), "status": "delivered", "requestUrl": h.url,
		"attempts.0.number": 1, "attempts.0.httpStatusCode": 204, "attempts.0.errorMessage": nil,
	}).instant("attempts.0.startedAt")
	f.merchant.get(t, h.path).wantStatus(http.StatusOK).wantFields(object{"status": "healthy"}).instant("lastDeliveryAt")
	for query, total := range map[string]int{
		"status=delivered": 1, "status=pending": 0, "eventId=" + first.id(): 1,
		"status=delivered&eventId=" + first.id(): 1, "page=2": 1, "status=&eventId=": 1,
	} {
		f.merchant.get(t, h.path+"/deliveries?"+query).wantStatus(http.StatusOK).wantFields(object{"total": total})
	}
	f.merchant.get(t, h.path+"/deliveries?eventId=evt_"+fmt.Sprintf("%032d", 0)).wantOutcome(notFound)
	for query, field := range map[string]string{
		"status=gone": "status", "eventId=" + list.text("data.0.id"): "eventId", "eventId=evt_X": "eventId", "limit=101": "limit", "type=x": "type",
	} {
		f.merchant.get(t, h.path+"/deliveries?"+query).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}

	t.Run("endpoints of the other mode or with other subscriptions get no delivery", func(t *testing.T) {
		for _, other := range others {
			if got := other.requests(); len(got) > 0 {
				t.Errorf("another endpoint got the event %s", got[0].body)
			}
		}
		f.merchant.get(t, overlapping.path+"/deliveries/"+list.text("data.0.id")).wantOutcome(noWebhook)
		f.merchant.get(t, h.path+"/deliveries/"+unknownID).wantOutcome(noWebhook)
	})
	t.Run("a delivery is repeated on request", func(t *testing.T) {
		f.merchant.post(t, path+"/retry", nil).wantStatus(http.StatusAccepted).wantFields(object{"status": "delivered", "eventId": first.id()})
		again := h.awaitRequests(t, 2)[1]
		again.verify(t, h.secret)
		if again.id() != first.id() || string(again.body) != string(first.body) || again.header.Get("Webhook-Attempt") != "2" {
			t.Errorf("the repeated delivery has the headers %v and the body %s, want the same event with Webhook-Attempt 2", again.header, again.body)
		}
		eventually(t, waitTimeout, "the attempt is stored", func() error {
			if got := f.merchant.get(t, path).wantStatus(http.StatusOK); got.length("attempts") != 2 {
				return fmt.Errorf("the delivery is %s", got.body)
			}
			return nil
		})
		f.merchant.get(t, path).wantFields(object{"status": "delivered", "attemptCount": 2, "attempts.1.number": 2})
	})
	t.Run("a disabled endpoint gets no deliveries", func(t *testing.T) {
		f.merchant.patch(t, h.path, object{"active": false}).wantStatus(http.StatusOK)
		f.merchant.post(t, path+"/retry", nil).wantError(http.StatusConflict, "WEBHOOK_DISABLED")
		f.merchant.post(t, h.path+"/recover", object{"since": sys.timestampAgo(time.Hour)}).wantError(http.StatusConflict, "WEBHOOK_DISABLED")
		f.updateProgram(t)
		f.merchant.get(t, h.path+"/deliveries").wantStatus(http.StatusOK).wantFields(object{"total": 1})
	})
}

// timestampAgo returns the timestamp for the given duration before the current time of
// the system's clock.
func (sys *system) timestampAgo(age time.Duration) string {
	return sys.clock.now().Add(-age).UTC().Format("2006-01-02T15:04:05.000Z")
}

// TestRecovery checks that deliveries that were canceled because their endpoint was
// disabled can be sent after the endpoint is enabled again.
func TestRecovery(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	h := f.merchant.startEndpoint(t, nil)
	sys.clock.stop() // so that no retry becomes due
	h.respondWith(http.StatusInternalServerError)
	f.updateProgram(t)
	failed := h.awaitDelivery(t, f.merchant, "failed").wantFields(object{
		"data.0.attemptCount": 1, "data.0.httpStatusCode": 500, "data.0.errorMessage": "http_500", "data.0.completedAt": nil,
	})
	if wait := failed.instant("data.0.nextAttemptAt").Sub(sys.clock.now()); wait < 3*time.Second || wait > 7*time.Second {
		t.Errorf("the next attempt is in %v, want 3 s to 7 s", wait)
	}
	f.merchant.get(t, h.path).wantStatus(http.StatusOK).wantFields(object{"status": "failing", "consecutiveFailures": 1})
	recoverDeliveries := func(body object) response {
		return f.merchant.post(t, h.path+"/recover", body).wantStatus(http.StatusAccepted)
	}
	recoverDeliveries(object{"since": sys.timestampAgo(time.Hour)}).wantFields(object{"queued": 0})

	f.merchant.patch(t, h.path, object{"active": false}).wantStatus(http.StatusOK)
	h.awaitDelivery(t, f.merchant, "canceled").wantFields(object{"data.0.nextAttemptAt": nil})
	// If another sender still has the endpoint, a sender waits for a second and tries
	// again. The wait ends only if the clock of the test runs.
	sys.clock.resume()
	h.respondWith(http.StatusOK)
	sys.clock.advance(time.Minute)
	f.merchant.patch(t, h.path, object{"active": true}).wantStatus(http.StatusOK).wantFields(object{"status": "healthy", "consecutiveFailures": 0})
	recoverDeliveries(object{"since": sys.timestampAgo(time.Hour), "until": sys.timestampAgo(30 * time.Minute)}).wantFields(object{"queued": 0})
	recoverDeliveries(object{"since": sys.timestampAgo(30 * 24 * time.Hour), "statuses": []string{"dead_lettered", "canceled"}}).wantFields(object{"queued": 1})
	all := h.awaitRequests(t, 2)
	all[1].verify(t, h.secret)
	if all[0].id() != all[1].id() {
		t.Errorf("the recovered delivery has the event id %s, want %s", all[1].id(), all[0].id())
	}
	h.awaitDelivery(t, f.merchant, "delivered").wantFields(object{"total": 1, "data.0.attemptCount": 2, "data.0.httpStatusCode": 200})
	sys.clock.advance(time.Minute)
	recoverDeliveries(object{"since": sys.timestampAgo(time.Hour)}).wantFields(object{"queued": 0})
	recoverDeliveries(object{"since": sys.timestampAgo(time.Hour), "statuses": []string{"delivered"}}).wantFields(object{"queued": 1})
	h.awaitRequests(t, 3)

	hourAgo := sys.timestampAgo(time.Hour)
	for name, c := range map[string]struct {
		body  object
		field string
	}{
		"an empty body":            {object{}, "since"},
		"since is not a timestamp": {object{"since": "yesterday"}, "since"},
		"since is too long ago":    {object{"since": sys.timestampAgo(31 * 24 * time.Hour)}, "since"},
		"since is in the future":   {object{"since": sys.timestampAgo(-time.Hour)}, "since"},
		"until before since":       {object{"since": sys.timestampAgo(time.Hour), "until": sys.timestampAgo(2 * time.Hour)}, "since"},
		"until equal to since":     {object{"since": hourAgo, "until": hourAgo}, "since"},
		"until in the future":      {object{"since": sys.timestampAgo(time.Hour), "until": sys.timestampAgo(-time.Hour)}, "until"},
		"the status is pending":    {object{"since": sys.timestampAgo(time.Hour), "statuses": []string{"canceled", "pending"}}, "statuses[1]"},
		"an unknown status":        {object{"since": sys.timestampAgo(time.Hour), "statuses": []string{"gone"}}, "statuses[0]"},
		"a status that is null":    {object{"since": sys.timestampAgo(time.Hour), "statuses": []any{nil}}, "statuses[0]"},
		"an unknown field":         {object{"since": sys.timestampAgo(time.Hour), "status": "canceled"}, "status"},
		"until is not a timestamp": {object{"since": sys.timestampAgo(time.Hour), "until": 5}, "until"},
	} {
		t.Run(name, func(t *testing.T) {
			f.merchant.post(t, h.path+"/recover", c.body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", c.field)
		})
	}
}
