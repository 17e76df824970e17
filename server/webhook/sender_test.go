package webhook_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

func TestSender_SendsEachDeliveryOnceAndSigned(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newSubscriber(http.StatusNoContent)
	sender := f.startSender()
	var want []string
	for _, event := range f.publish(300) {
		want = append(want, event.WireID())
	}
	sender.wake(r)
	r.awaitDelivered(len(want))
	got := r.webhookIDs()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the receiver got %d requests, want one for each of the %d events", len(got), len(want))
	}
	verifier, err := standardwebhooks.NewWebhook(r.secret.Text())
	if err != nil {
		t.Fatal(err)
	}
	requests, maxInProgress := r.requests()
	for i, request := range requests {
		if err := verifier.Verify(request.body, request.header); err != nil {
			t.Errorf("the signature of request %d is not valid: %v", i, err)
		}
	}
	if maxInProgress > domain.InFlight {
		t.Errorf("%d requests were in flight at the same time, want at most %d", maxInProgress, domain.InFlight)
	}
	for _, d := range r.deliveries() {
		if d.AttemptCount != 1 || d.NextAttemptAt != nil || d.CompletedAt == nil || optional(d.HTTPStatusCode) != "204" || d.ErrorMessage != nil {
			t.Fatalf("delivery: attempts %d, next attempt %s, completed %s, HTTP status %s, error %s; want 1 attempt, no next attempt, completed, status 204, no error",
				d.AttemptCount, optional(d.NextAttemptAt), optional(d.CompletedAt), optional(d.HTTPStatusCode), optional(d.ErrorMessage))
		}
	}
	if n := f.Count(`select count(*) from webhook_deliveries where jsonb_array_length(attempts) = 1`); n != len(want) {
		t.Errorf("%d of %d deliveries have one stored attempt", n, len(want))
	}
}

func TestSender_RepeatsFailedAttemptsBySchedule(t *testing.T) {
	f := newSenderFixture(t)
	r, failing := f.newFailingSubscriber()
	sender := f.startSender()
	id := f.publish(1)[0].WireID()
	sender.wake(r)
	r.await(1, domain.DeliveryFailed)
	d := r.onlyDelivery()
	if delay := d.NextAttemptAt.Sub(d.Attempts[0].StartedAt); delay < 4*time.Second || delay > 6500*time.Millisecond {
		t.Errorf("the second attempt is %v after the first one, want 5 s ± 20 %%", delay)
	}
	f.clock.Advance(7 * time.Second)
	pgtest.Eventually(t, "the second attempt has failed", func() bool {
		d := r.onlyDelivery()
		return d.Status == domain.DeliveryFailed && d.AttemptCount == 2
	})
	failing.Store(false)
	f.clock.Advance(7 * time.Minute)
	r.awaitDelivered(1)
	if got := r.webhookIDs(); !slices.Equal(got, []string{id, id, id}) {
		t.Errorf("the requests have the ids %v, want three times %s", got, id)
	}
	requests, _ := r.requests()
	for i, request := range requests {
		if n := request.header.Get("webhook-attempt"); n != strconv.Itoa(i+1) {
			t.Errorf("request %d has the header webhook-attempt: %s, want %d", i+1, n, i+1)
		}
	}
}

func TestSender_TenthFailureIsADeadLetter(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newSubscriber(http.StatusBadRequest)
	sender := f.startSender()
	f.publish(1)
	sender.wake(r)
	for n := 1; n <= domain.MaxAttempts; n++ {
		pgtest.Eventually(t, fmt.Sprintf("attempt %d is stored", n), func() bool { return r.onlyDelivery().AttemptCount == n })
		f.clock.Advance(30 * time.Hour)
	}
	d := r.onlyDelivery()
	if d.Status != domain.DeliveryDeadLettered || d.NextAttemptAt != nil || d.CompletedAt == nil {
		t.Errorf("the delivery is %s, has the next attempt at %s and was completed at %s, want a completed dead letter", d.Status, optional(d.NextAttemptAt), optional(d.CompletedAt))
	}
	if optional(d.ErrorMessage) != "http_400" || len(d.Attempts) != domain.MaxAttempts {
		t.Errorf("the delivery has the error %s and %d stored attempts, want http_400 and %d", optional(d.ErrorMessage), len(d.Attempts), domain.MaxAttempts)
	}
	e := r.endpoint()
	if !e.Active || e.DeadLetters != 1 || e.ConsecutiveFailures != domain.MaxAttempts {
		t.Errorf("endpoint: active %v, %d dead letters, %d failures; want active true, 1 dead letter, %d failures", e.Active, e.DeadLetters, e.ConsecutiveFailures, domain.MaxAttempts)
	}
	if got := f.notificationTypes(); !slices.Equal(got, []string{string(notification.NotifyEndpointDeadLetter)}) {
		t.Errorf("the workspace has the notifications %q, want only the one about the first dead letter", got)
	}
}

func TestSender_GoneDisablesTheEndpoint(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newSubscriber(http.StatusGone)
	sender := f.startSender()
	f.publish(30)
	sender.wake(r)
	pgtest.Eventually(t, "the endpoint is disabled", func() bool { return !r.endpoint().Active })
	if n := r.countRequests(); n > domain.InFlight {
		t.Errorf("%d requests were sent before the endpoint was disabled, want at most %d", n, domain.InFlight)
	}
	if e := r.endpoint(); *e.DisabledReason != domain.DisabledGone || e.Epoch != 2 {
		t.Errorf("the endpoint has the reason %s and epoch %d, want %s and 2", *e.DisabledReason, e.Epoch, domain.DisabledGone)
	}
	pgtest.Eventually(t, "the outcomes are stored", func() bool { return r.count(domain.DeliveryDeadLettered) == r.countRequests() })
	if n := f.CountJobs(domain.CancelDeliveries{}.Kind()); n != 1 {
		t.Errorf("there are %d cancel jobs, want 1", n)
	}
	if got := f.AuditActions("webhook", r.id.String()); !slices.Equal(got, []string{"webhook.disable"}) {
		t.Errorf("the audit log has the actions %v, want webhook.disable", got)
	}
}

func TestSender_FailingForFiveDaysDisablesTheEndpoint(t *testing.T) {
	for _, tc := range []struct {
		name           string
		failingFor     time.Duration
		deadLetters    int // before the attempt
		wantDisabled   bool
		wantDead       int
		wantCancelJobs int
	}{
		{"five days and twenty dead letters", 5*24*time.Hour + time.Minute, 19, true, 20, 1},
		{"five days and nineteen dead letters", 5*24*time.Hour + time.Minute, 18, false, 19, 0},
		{"less than five days", 5*24*time.Hour - time.Minute, 40, false, 41, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newSenderFixture(t)
			r := f.newSubscriber(http.StatusForbidden)
			f.publish(1)
			r.leaveOnlyLastAttempt()
			f.setHealth(domain.Health{FailingSince: new(f.Now().Add(-tc.failingFor)), DeadLetters: tc.deadLetters}, r)
			f.startSender().wake(r)
			r.await(1, domain.DeliveryDeadLettered)
			e := r.endpoint()
			if disabled := optional(e.DisabledReason) == string(domain.DisabledFailing); disabled != tc.wantDisabled || e.Active == tc.wantDisabled {
				t.Errorf("endpoint: active %v, reason %s; want active %v", e.Active, optional(e.DisabledReason), !tc.wantDisabled)
			}
			if e.DeadLetters != tc.wantDead {
				t.Errorf("the endpoint has %d dead letters, want %d", e.DeadLetters, tc.wantDead)
			}
			if n := f.CountJobs(domain.CancelDeliveries{}.Kind()); n != tc.wantCancelJobs {
				t.Errorf("there are %d cancel jobs, want %d", n, tc.wantCancelJobs)
			}
			if disabled := slices.Contains(f.notificationTypes(), string(notification.NotifyEndpointDisabled)); disabled != tc.wantDisabled {
				t.Errorf("there is a notification that the endpoint was disabled: %t, want %t", disabled, tc.wantDisabled)
			}
		})
	}
}

func TestSender_CircuitBreakerPausesAFailingEndpoint(t *testing.T) {
	f := newSenderFixture(t)
	r, failing := f.newFailingSubscriber()
	sender := f.startSender()
	f.publish(100)
	sender.wake(r)
	pgtest.Eventually(t, "the circuit breaker is open", func() bool { return r.endpoint().ConsecutiveFailures >= domain.BreakerFailures })
	pgtest.Eventually(t, "all outcomes are stored", func() bool { return r.endpoint().ConsecutiveFailures == r.countRequests() })
	requests := r.countRequests()
	if requests > 2*domain.InFlight {
		t.Errorf("%d attempts were made before the pause, want at most %d", requests, 2*domain.InFlight)
	}
	// After the pause there is one probe, and then another pause.
	f.clock.Advance(domain.BreakerPause + time.Second)
	pgtest.Eventually(t, "the outcome of a probe is stored", func() bool { return r.endpoint().ConsecutiveFailures == requests+1 })
	if n := r.countRequests() - requests; n != 1 {
		t.Errorf("%d probes were sent, want 1", n)
	}
	// The receiver works again and gets all deliveries that are due.
	failing.Store(false)
	f.clock.Advance(domain.BreakerPause + time.Second)
	pgtest.Eventually(t, "all due deliveries are sent", func() bool {
		return !slices.ContainsFunc(r.deliveries(), func(d domain.Delivery) bool { return d.NextAttemptAt != nil && !d.NextAttemptAt.After(f.Now()) })
	})
}

func TestSender_HangingEndpointsDoNotDelayAHealthyOne(t *testing.T) {
	f := newSenderFixture(t)
	var hanging []*blockingSubscriber
	for range 10 {
		hanging = append(hanging, f.newBlockingSubscriber(http.StatusOK))
	}
	healthy := f.newSubscriber(http.StatusOK)
	all := append(subscribersOf(hanging), healthy)
	sender := f.startSender()
	f.deliverFirst(sender, all...)
	for _, h := range hanging {
		h.block.Store(true)
	}
	f.publish(60)
	sender.wake(subscribersOf(hanging)...)
	for _, h := range hanging {
		h.awaitBlocked(domain.InFlight)
	}
	f.publish(60)
	sender.wake(all...)
	healthy.awaitDelivered(121)
	for _, h := range hanging {
		if n := h.countRequests(); n != 1+domain.InFlight {
			t.Errorf("%d requests were sent to a hanging endpoint, want %d", n, 1+domain.InFlight)
		}
	}
	for _, h := range hanging {
		h.release()
	}
	for _, h := range hanging {
		h.awaitDelivered(121)
	}
}

func TestSender_TwoProcessesSendEachDeliveryOnce(t *testing.T) {
	f := newSenderFixture(t)
	other, err := postgres.Open(t.Context(), postgres.Config{URL: f.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	var receivers []*blockingSubscriber
	for range 4 {
		receivers = append(receivers, f.newBlockingSubscriber(http.StatusOK))
	}
	subscribers := subscribersOf(receivers)
	first := f.startSender()
	second := f.startSenderWith(other, 1000)
	f.deliverFirst(first, subscribers...)
	want := 1
	publishAndWake := func() {
		for range 10 {
			want += len(f.publish(20))
			// A process can be woken for endpoints that the other process serves.
			first.wake(subscribers[:2]...)
			second.wake(subscribers[1:]...)
		}
	}
	for _, h := range receivers {
		h.block.Store(true)
	}
	publishAndWake()
	for _, h := range receivers {
		h.awaitBlocked(domain.InFlight)
	}
	for _, h := range receivers {
		h.release()
	}
	publishAndWake()
	// The first process shuts down. The second process searches for endpoints without a
	// sender, and finds the endpoints of the first process.
	first.stop()
	f.clock.Advance(11 * time.Second)
	for _, r := range subscribers {
		r.awaitDelivered(want)
		ids := r.webhookIDs()
		slices.Sort(ids)
		if n := len(slices.Compact(slices.Clone(ids))); n != want || len(ids) != want {
			t.Errorf("a receiver got %d requests for %d events, want one for each of %d events", len(ids), n, want)
		}
		if _, maxInProgress := r.requests(); maxInProgress != domain.InFlight {
			t.Errorf("at most %d requests were in flight at the same time, want %d", maxInProgress, domain.InFlight)
		}
	}
}

// observedLeases counts the claims of a sender and its searches for endpoints without a
// sender.
type observedLeases struct {
	claims, searches atomic.Int64
	claimed, found   atomic.Int64 // endpoints that claims and searches returned
}

// observe opens a handle of the database that counts in leases.
func (f *senderFixture) observe(leases *observedLeases) *postgres.DB {
	f.Helper()
	return f.OpenHooked(func(string, []any) error { return nil }, func(sql string, rows int64) {
		switch {
		case isClaim(sql):
			leases.claimed.Add(rows)
			leases.claims.Add(1)
		case isSearch(sql):
			leases.found.Add(rows)
			leases.searches.Add(1)
		}
	})
}

func TestSender_TakesOverEndpointsOfACrashedProcess(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newSubscriber(http.StatusOK)
	f.publish(5)
	// A crashed process has the lease for another minute.
	crashed := affiliate.SenderID{UUID: uuid.New()}
	if _, err := webhooks.Claim(t.Context(), f.DB, crashed, keysOf(r), f.Now(), f.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var leases observedLeases
	f.startSenderWith(f.observe(&leases), 1000).wake(r)
	// After a wakeup, a sender tries twice to claim the endpoint. After that, only a
	// search can find the endpoint.
	pgtest.Eventually(t, "the sender has tried twice to claim the endpoint and has searched", func() bool {
		return leases.claims.Load() >= 2 && leases.searches.Load() >= 1
	})
	if claimed, found := leases.claimed.Load(), leases.found.Load(); claimed != 0 || found != 0 {
		t.Errorf("claims returned %d endpoints and searches %d, want none while another process has the lease", claimed, found)
	}
	if n := r.countRequests(); n != 0 {
		t.Errorf("%d requests were sent to an endpoint of another process, want none", n)
	}
	f.clock.Advance(2 * time.Minute)
	r.awaitDelivered(5)
	if found := leases.found.Load(); found == 0 {
		t.Error("after the lease has ended, no search has found the endpoint")
	}
}

func TestRun_StopStoresAllOutcomes(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newBlockingSubscriber(http.StatusOK)
	sender := f.startSender()
	f.deliverFirst(sender, r.subscriber)
	r.block.Store(true)
	f.publish(40)
	sender.wake(r.subscriber)
	r.awaitBlocked(domain.InFlight)
	sender.beginStop()
	r.release()
	sender.stop()
	if n, stored := r.countRequests(), r.count(domain.DeliveryDelivered); n != 1+domain.InFlight || stored != n {
		t.Errorf("when the sender has stopped, %d requests were sent and %d outcomes were stored, want %d", n, stored, 1+domain.InFlight)
	}
	if n := f.Count(`select count(*) from webhook_endpoints where sender is not null`); n != 0 {
		t.Errorf("the stopped sender did not release %d leases", n)
	}
	f.startSender().wake(r.subscriber)
	r.awaitDelivered(41)
	if n := r.countRequests(); n != 41 {
		t.Errorf("%d requests were sent for 41 events", n)
	}
}

// A transaction can commit late, after the sender has read deliveries with a later due
// time. Without a wakeup, the sender finds the deliveries of this transaction after at
// most ten seconds. After this time it reads all due deliveries again, from the oldest.
func TestSender_FindsDeliveriesOfLateCommits(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newSubscriber(http.StatusOK)
	var leases observedLeases
	sender := f.startSenderWith(f.observe(&leases), 1000)
	f.publish(10)
	sender.wake(r)
	r.awaitDelivered(10)
	// Another delivery keeps the endpoint busy. Otherwise, the sender would release the
	// endpoint.
	f.clock.Advance(9 * time.Second)
	f.publish(1)
	sender.wake(r)
	r.awaitDelivered(11)
	found := leases.found.Load()
	f.publishAt(f.Now().Add(-time.Hour), 3)
	f.clock.Advance(2 * time.Second)
	r.awaitDelivered(14)
	if n := leases.found.Load(); n != found {
		t.Errorf("searches returned %d endpoints, want %d, because the sender already has the endpoint", n, found)
	}
}

func TestSender_SignsWithBothSecretsForADayAfterRotation(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newSubscriber(http.StatusOK)
	sender := f.startSender()
	newSecret := domain.NewSecret()
	r.replaceSecret(f.keys.Seal(newSecret, r.id.UUID[:]), new(f.Now().Add(24*time.Hour)))
	checkNext := func(n int, wantPrevious bool) {
		t.Helper()
		f.publish(1)
		sender.wake(r)
		r.awaitDelivered(n)
		requests, _ := r.requests()
		for _, tc := range []struct {
			name   string
			secret domain.Secret
			want   bool
		}{{"new", newSecret, true}, {"previous", r.secret, wantPrevious}} {
			verifier, err := standardwebhooks.NewWebhook(tc.secret.Text())
			if err != nil {
				t.Fatal(err)
			}
			if err := verifier.VerifyIgnoringTimestamp(requests[n-1].body, requests[n-1].header); (err == nil) != tc.want {
				t.Errorf("request %d: the verification with the %s secret returned the error %v, want success: %v", n, tc.name, err, tc.want)
			}
		}
	}
	checkNext(1, true)
	f.clock.Advance(24*time.Hour + time.Second)
	checkNext(2, false)
}

func TestSender_RetryDuringAnAttemptIsAnAdditionalAttempt(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newBlockingSubscriber(http.StatusOK)
	r.block.Store(true)
	sender := f.startSender()
	f.publish(1)
	sender.wake(r.subscriber)
	r.awaitBlocked(1)
	e := r.endpoint()
	r.changeDeliveries(func(d domain.LockedDelivery) domain.LockedDelivery { return d.Retry(e, f.Now()).Retry(e, f.Now()) })
	r.release()
	pgtest.Eventually(t, "all attempts are stored", func() bool {
		d := r.onlyDelivery()
		return d.Status == domain.DeliveryDelivered && d.NextAttemptAt == nil
	})
	if n := r.onlyDelivery().AttemptCount; n != 3 {
		t.Errorf("%d attempts were made, want 3", n)
	}
}

func TestSender_StopsSendingToADisabledEndpoint(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newBlockingSubscriber(http.StatusOK)
	sender := f.startSender()
	f.deliverFirst(sender, r.subscriber)
	r.block.Store(true)
	f.publish(50)
	sender.wake(r.subscriber)
	r.awaitBlocked(domain.InFlight)
	r.setActive(false)
	// The sender discards deliveries that it read more than a second ago, and reads again.
	// This read returns nothing, because the endpoint is not active.
	f.clock.Advance(2 * time.Second)
	r.release()
	r.awaitDelivered(1 + domain.InFlight)
	r.setActive(true)
	f.publish(1)
	sender.wake(r.subscriber)
	r.awaitDelivered(2 + domain.InFlight)
	if n := r.countRequests(); n != 2+domain.InFlight {
		t.Errorf("%d requests were sent, want %d", n, 2+domain.InFlight)
	}
}
