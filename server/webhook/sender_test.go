package webhook_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tributary-hq/tributary/affiliate"
	rules "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/cmd/stores"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhookpg "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// queueWorld has a database with endpoints, HTTP servers that receive their requests, and
// senders whose clock can be moved forward.
type queueWorld struct {
	*pgtest.Fixture
	t          *testing.T
	scope      affiliate.Scope
	queue      webhook.Queue
	seal       *seal.Keys
	offset     atomic.Int64 // of the senders' clock, in nanoseconds
	roots      *x509.CertPool
	eventCount int
}

func newQueueWorld(t *testing.T) *queueWorld {
	t.Helper()
	w := &queueWorld{t: t, roots: x509.NewCertPool()}
	w.Fixture = pgtest.Open(t, w.now)
	w.queue = stores.WebhookQueue(webhookpg.NewStore(w.Store.DB))
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest}
	var err error
	if w.seal, err = seal.New("a:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="); err != nil {
		t.Fatal(err)
	}
	w.Exec(`select ensure_event_partitions((now() - interval '1 day')::date, (now() + interval '40 days')::date)`)
	return w
}

func (w *queueWorld) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

// advance moves the senders' clock forward.
func (w *queueWorld) advance(d time.Duration) { w.offset.Add(int64(d)) }

// subscriber is the server of an endpoint. It records all requests. status returns the
// status of a response.
type subscriber struct {
	w      *queueWorld
	id     affiliate.EndpointID
	secret rules.Secret
	status func(*http.Request) int

	mu           sync.Mutex
	requests     []*http.Request
	bodies       []string
	current, max int // requests that are being served
}

// newSubscriber starts a server and stores its endpoint.
func (w *queueWorld) newSubscriber(status func(*http.Request) int) *subscriber {
	w.t.Helper()
	r := &subscriber{w: w, status: status, secret: rules.NewSecret(), id: affiliate.NewID[affiliate.Endpoint](w.now())}
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a stopped sender drops connections
	server.StartTLS()
	w.t.Cleanup(server.Close)
	w.roots.AddCert(server.Certificate())
	w.Exec(`insert into webhook_endpoints (workspace_id, id, mode, url, subscriptions, active, secret, created_at, updated_at, version)
		values ($1, $2, $3, $4, '{*}', true, $5, $6, $6, 1)`,
		w.scope.Workspace, r.id, w.scope.Mode, server.URL, w.seal.Seal(r.secret, r.id.UUID[:]), w.now())
	return r
}

// newFailingSubscriber starts a subscriber that responds with status 500 while the returned
// value is true.
func (w *queueWorld) newFailingSubscriber() (*subscriber, *atomic.Bool) {
	w.t.Helper()
	failing := &atomic.Bool{}
	failing.Store(true)
	return w.newSubscriber(func(*http.Request) int {
		if failing.Load() {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}), failing
}

func ok() int { return http.StatusOK }

func respondStatus(code int) func(*http.Request) int { return func(*http.Request) int { return code } }

func (r *subscriber) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	body, _ := io.ReadAll(in.Body)
	r.mu.Lock()
	r.requests, r.bodies = append(r.requests, in), append(r.bodies, string(body))
	r.current++
	r.max = max(r.max, r.current)
	r.mu.Unlock()
	code := r.status(in)
	r.mu.Lock()
	r.current--
	r.mu.Unlock()
	out.WriteHeader(code)
}

// blockingSubscriber is a subscriber that can block its requests.
type blockingSubscriber struct {
	*subscriber
	block   atomic.Bool
	blocked chan struct{} // has one value for each blocked request
	release func()        // ends the blocking of these and all later requests
}

// newBlockingSubscriber starts a blockingSubscriber. code returns the status of the
// responses to blocked requests.
func (w *queueWorld) newBlockingSubscriber(code func() int) *blockingSubscriber {
	w.t.Helper()
	released := make(chan struct{})
	h := &blockingSubscriber{blocked: make(chan struct{}, 1000), release: sync.OnceFunc(func() { close(released) })}
	h.subscriber = w.newSubscriber(func(*http.Request) int {
		if h.block.Load() {
			h.blocked <- struct{}{}
			<-released
			return code()
		}
		return http.StatusOK
	})
	w.t.Cleanup(h.release)
	return h
}

// deliverFirst delivers one event to each of the subscribers. After that the sender uses
// the maximum number of attempts in flight for their endpoints.
func (w *queueWorld) deliverFirst(sender *webhook.Sender, subscribers ...*subscriber) {
	w.t.Helper()
	w.addEvents(1)
	sender.Wake(w.keys(subscribers...))
	for _, r := range subscribers {
		w.eventually("the first is delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 1 })
	}
}

// ids returns the webhook-ids of all requests, with repetitions.
func (r *subscriber) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, len(r.requests))
	for i, request := range r.requests {
		ids[i] = request.Header.Get("webhook-id")
	}
	return ids
}

// addEvents stores n events and their deliveries to all active endpoints of the workspace.
// It returns the ids of the events in the form that receivers see.
func (w *queueWorld) addEvents(n int) []string {
	w.t.Helper()
	ids, days, wire := make([]uuid.UUID, n), make([]time.Time, n), make([]string, n)
	bodies := make([][]byte, n)
	now := w.now()
	for i := range n {
		id := affiliate.NewID[affiliate.Event](now)
		w.eventCount++
		ids[i], days[i], wire[i] = id.UUID, now, affiliate.WireID(id)
		bodies[i] = fmt.Appendf(nil, `{"id":%q,"n":%d}`, wire[i], w.eventCount)
	}
	w.Exec(`
		with inserted as (
			insert into events (workspace_id, id, day, mode, type, body, created_at)
			select $1, e.id, e.day, $2, 'program.updated', e.body, $6
			from unnest($3::uuid[], $4::date[], $5::bytea[]) as e (id, day, body) returning *
		)
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, due_at, created_at)
		select w.workspace_id, e.id, delivery_id(w.id, e.id), w.day, w.mode, w.id, w.type, e.epoch, w.created_at, w.created_at
		from inserted w join webhook_endpoints e on e.workspace_id = w.workspace_id and e.active`,
		w.scope.Workspace, w.scope.Mode, ids, days, bodies, now)
	return wire
}

// keys returns the keys of the subscribers' endpoints, in the current workspace.
func (w *queueWorld) keys(subscribers ...*subscriber) []affiliate.EndpointKey {
	keys := make([]affiliate.EndpointKey, len(subscribers))
	for i, r := range subscribers {
		keys[i] = affiliate.EndpointKey{Workspace: w.scope.Workspace, ID: r.id}
	}
	return keys
}

// startSender runs a sender until the test ends or stop is called.
func (w *queueWorld) startSender(queue webhook.Queue) (sender *webhook.Sender, stop func()) {
	w.t.Helper()
	return w.startSenderWithLimit(queue, 1000)
}

// startSenderWithLimit is startSender with a maximum number of attempts in flight.
func (w *queueWorld) startSenderWithLimit(queue webhook.Queue, maxInFlight int) (sender *webhook.Sender, stop func()) {
	w.t.Helper()
	client := webhook.NewClient(webhook.ClientConfig{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: w.roots, Version: "test"})
	client.SetTimeouts(time.Minute, time.Minute, time.Second) // long, so that a busy machine causes no failures
	sender = webhook.NewSender(webhook.SenderConfig{
		Queue: queue, Client: client, Seal: w.seal, Now: w.now,
		Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)), Metrics: webhook.NewMetrics(prometheus.NewRegistry()),
	})
	sender.SetAttemptTimeout(5 * time.Minute)
	sender.SetMaxInFlight(maxInFlight)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); sender.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done; client.Close() })
	w.t.Cleanup(stop)
	return sender, stop
}

// eventually waits until condition is true and fails the test after a minute.
func (w *queueWorld) eventually(description string, condition func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("did not happen within a minute: %s", description)
		}
	}
}

// countStatus counts the deliveries of an endpoint with a status.
func (w *queueWorld) countStatus(r *subscriber, status affiliate.DeliveryStatus) int {
	return w.Count(`select count(*) from webhook_deliveries where endpoint_id = $1 and status = $2`, r.id, status)
}

func TestSender_SendsEachDeliveryOnceAndSigned(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(respondStatus(http.StatusNoContent))
	sender, _ := w.startSender(w.queue)
	want := w.addEvents(300)
	sender.Wake(w.keys(r))
	w.eventually("all are delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == len(want) })
	got := r.ids()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d requests for %d events", len(got), len(want))
	}
	verifier, err := standardwebhooks.NewWebhook(r.secret.Text())
	if err != nil {
		t.Fatal(err)
	}
	for i, request := range r.requests {
		if err := verifier.Verify([]byte(r.bodies[i]), request.Header); err != nil {
			t.Errorf("delivery %d: %v", i, err)
		}
	}
	if r.max > rules.InFlight {
		t.Errorf("%d requests at the same time", r.max)
	}
	if n := w.Count(`select count(*) from webhook_deliveries where attempt_count <> 1 or due_at is not null or completed_at is null
		or http_status_code <> 204 or error_message is not null or jsonb_array_length(attempts) <> 1`); n != 0 {
		t.Errorf("%d rows do not describe the attempt correctly", n)
	}
}

func TestSender_RepeatsFailedAttemptsBySchedule(t *testing.T) {
	w := newQueueWorld(t)
	r, failing := w.newFailingSubscriber()
	sender, _ := w.startSender(w.queue)
	id := w.addEvents(1)[0]
	sender.Wake(w.keys(r))
	w.eventually("an attempt failed", func() bool { return w.countStatus(r, affiliate.DeliveryFailed) == 1 })
	var delay float64
	if err := w.SQL.QueryRow(t.Context(), `select extract(epoch from due_at - (attempts->0->>'startedAt')::timestamptz)::float8 from webhook_deliveries`).Scan(&delay); err != nil {
		t.Fatal(err)
	}
	if delay < 4 || delay > 6.5 {
		t.Errorf("the second attempt is after %v s, want 5 ± 20 %%", delay)
	}
	w.advance(7 * time.Second)
	w.eventually("a second attempt failed", func() bool {
		return w.Count(`select attempt_count from webhook_deliveries where status = 'failed'`) == 2
	})
	failing.Store(false)
	w.advance(7 * time.Minute)
	w.eventually("the event is delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 1 })
	if got := r.ids(); !slices.Equal(got, []string{id, id, id}) {
		t.Errorf("ids %v, want three times %s", got, id)
	}
	for i, request := range r.requests {
		if n := request.Header.Get("webhook-attempt"); n != strconv.Itoa(i+1) {
			t.Errorf("attempt %d has the header webhook-attempt: %s", i+1, n)
		}
	}
}

func TestSender_TenthFailureIsADeadLetter(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(respondStatus(http.StatusBadRequest))
	sender, _ := w.startSender(w.queue)
	w.addEvents(1)
	sender.Wake(w.keys(r))
	for n := 1; n <= rules.MaxAttempts; n++ {
		w.eventually(fmt.Sprintf("attempt %d", n), func() bool {
			return w.Count(`select attempt_count from webhook_deliveries`) == n
		})
		w.advance(30 * time.Hour)
	}
	if n := w.Count(`select count(*) from webhook_deliveries where status = 'dead_lettered' and due_at is null
		and completed_at is not null and error_message = 'http_400' and jsonb_array_length(attempts) = 10`); n != 1 {
		t.Error("the delivery is not dead-lettered")
	}
	if n := w.Count(`select consecutive_failures from webhook_endpoints where dead_letters = 1 and active`); n != rules.MaxAttempts {
		t.Errorf("the endpoint has %d consecutive failures", n)
	}
}

func TestSender_GoneDisablesTheEndpoint(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(respondStatus(http.StatusGone))
	sender, _ := w.startSender(w.queue)
	w.addEvents(30)
	sender.Wake(w.keys(r))
	w.eventually("the endpoint is disabled", func() bool {
		return w.Count(`select count(*) from webhook_endpoints where not active and disabled_reason = 'gone' and epoch = 2`) == 1
	})
	requests := len(r.ids())
	if requests > rules.InFlight {
		t.Errorf("%d requests before the endpoint was disabled", requests)
	}
	w.eventually("the outcomes are stored", func() bool { return w.countStatus(r, affiliate.DeliveryDeadLettered) == len(r.ids()) })
	if n := w.CountJobs(affiliate.CancelDeliveries{}.Kind()); n != 1 {
		t.Errorf("%d cancel jobs", n)
	}
	if got := w.AuditActions("webhook", r.id.String()); !slices.Equal(got, []string{"webhook.disable"}) {
		t.Errorf("audit log: %v", got)
	}
}

func TestSender_FailingForFiveDaysDisablesTheEndpoint(t *testing.T) {
	for _, test := range []struct {
		name          string
		since         time.Duration
		before        int
		disabled      bool
		wantDead      int
		wantCancelJob int
	}{
		{"five days and twenty dead letters", 5*24*time.Hour + time.Minute, 19, true, 20, 1},
		{"five days and nineteen", 5*24*time.Hour + time.Minute, 18, false, 19, 0},
		{"less than five days", 5*24*time.Hour - time.Minute, 40, false, 41, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newQueueWorld(t)
			r := w.newSubscriber(respondStatus(http.StatusForbidden))
			w.addEvents(1)
			w.Exec(`update webhook_deliveries set tier = 9, status = 'failed'`)
			w.Exec(`update webhook_endpoints set failing_since = $1, dead_letters = $2`, w.now().Add(-test.since), test.before)
			sender, _ := w.startSender(w.queue)
			sender.Wake(w.keys(r))
			w.eventually("the delivery is dead-lettered", func() bool { return w.countStatus(r, affiliate.DeliveryDeadLettered) == 1 })
			if disabled := w.Count(`select count(*) from webhook_endpoints where not active and disabled_reason = 'failing'`) == 1; disabled != test.disabled {
				t.Errorf("disabled %v, want %v", disabled, test.disabled)
			}
			if n := w.Count(`select dead_letters from webhook_endpoints`); n != test.wantDead {
				t.Errorf("%d dead letters, want %d", n, test.wantDead)
			}
			if n := w.CountJobs(affiliate.CancelDeliveries{}.Kind()); n != test.wantCancelJob {
				t.Errorf("%d cancel jobs, want %d", n, test.wantCancelJob)
			}
		})
	}
}

func TestSender_CircuitBreakerPausesAFailingEndpoint(t *testing.T) {
	w := newQueueWorld(t)
	r, failing := w.newFailingSubscriber()
	sender, _ := w.startSender(w.queue)
	w.addEvents(100)
	sender.Wake(w.keys(r))
	w.eventually("ten attempts failed", func() bool {
		return w.Count(`select consecutive_failures from webhook_endpoints`) >= rules.BreakerFailures
	})
	w.eventually("all outcomes are stored", func() bool { return w.countStatus(r, affiliate.DeliveryFailed) == len(r.ids()) })
	requests := len(r.ids())
	if requests > 2*rules.InFlight {
		t.Errorf("%d attempts before the pause", requests)
	}
	// After the pause there is one probe, and then another pause.
	w.advance(rules.BreakerPause + time.Second)
	w.eventually("a probe is sent", func() bool { return w.countStatus(r, affiliate.DeliveryFailed) > 0 && len(r.ids()) == requests+1 })
	w.eventually("its outcome is stored", func() bool {
		return w.Count(`select consecutive_failures from webhook_endpoints`) == requests+1
	})
	if n := len(r.ids()); n != requests+1 {
		t.Errorf("%d probes", n-requests)
	}
	// The receiver works again and gets all deliveries that are due.
	failing.Store(false)
	w.advance(rules.BreakerPause + time.Second)
	w.eventually("all due deliveries are sent", func() bool {
		return w.Count(`select count(*) from webhook_deliveries where due_at <= $1`, w.now()) == 0
	})
}

func TestSender_HangingEndpointsDoNotDelayAHealthyOne(t *testing.T) {
	w := newQueueWorld(t)
	var hanging []*subscriber
	var blocking []*blockingSubscriber
	for range 10 {
		h := w.newBlockingSubscriber(ok)
		blocking, hanging = append(blocking, h), append(hanging, h.subscriber)
	}
	healthy := w.newSubscriber(respondStatus(http.StatusOK))
	sender, _ := w.startSender(w.queue)
	w.deliverFirst(sender, append(hanging, healthy)...)
	for _, h := range blocking {
		h.block.Store(true)
	}
	w.addEvents(60)
	sender.Wake(w.keys(hanging...))
	for _, h := range blocking {
		for range rules.InFlight {
			<-h.blocked
		}
	}
	w.addEvents(60)
	sender.Wake(w.keys(append(hanging, healthy)...))
	w.eventually("all events of the healthy endpoint are delivered", func() bool { return w.countStatus(healthy, affiliate.DeliveryDelivered) == 121 })
	for _, r := range hanging {
		if n := len(r.ids()); n != 1+rules.InFlight {
			t.Errorf("%d requests to a hanging endpoint", n)
		}
	}
	for _, h := range blocking {
		h.release()
	}
	w.eventually("the others are delivered", func() bool {
		return w.Count(`select count(*) from webhook_deliveries where status <> 'delivered'`) == 0
	})
}

func TestSender_TwoProcessesSendEachDeliveryOnce(t *testing.T) {
	w := newQueueWorld(t)
	other, err := postgres.Open(t.Context(), postgres.Config{URL: w.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	var receivers []*subscriber
	for range 4 {
		receivers = append(receivers, w.newSubscriber(func(*http.Request) int { time.Sleep(time.Millisecond); return http.StatusOK }))
	}
	first, stopFirst := w.startSender(w.queue)
	second, _ := w.startSender(stores.WebhookQueue(webhookpg.NewStore(other.DB)))
	want := 0
	for range 20 {
		want += len(w.addEvents(20))
		// The endpoints that a process wakes can be served by the other process.
		first.Wake(w.keys(receivers[:2]...))
		second.Wake(w.keys(receivers[1:]...))
	}
	// The first process shuts down, and the second one takes over its endpoints.
	stopFirst()
	for _, r := range receivers {
		w.eventually("all are delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == want })
		ids := r.ids()
		slices.Sort(ids)
		if n := len(slices.Compact(slices.Clone(ids))); n != want || len(ids) != want {
			t.Errorf("%d requests for %d of %d events", len(ids), n, want)
		}
		if r.max > rules.InFlight {
			t.Errorf("%d requests at the same time", r.max)
		}
	}
}

func TestSender_TakesOverEndpointsOfACrashedProcess(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(respondStatus(http.StatusOK))
	w.addEvents(5)
	// A crashed process has the lease for another 30 seconds.
	w.Exec(`update webhook_endpoints set sender = gen_random_uuid(), sender_until = $1`, w.now().Add(30*time.Second))
	sender, _ := w.startSender(w.queue)
	sender.Wake(w.keys(r))
	time.Sleep(300 * time.Millisecond)
	if n := len(r.ids()); n != 0 {
		t.Fatalf("%d requests for an endpoint of another process", n)
	}
	w.advance(45 * time.Second) // without a wakeup, the search must find the endpoint
	w.eventually("all are delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 5 })
}

func TestRun_StopStoresAllOutcomes(t *testing.T) {
	w := newQueueWorld(t)
	received := make(chan struct{}, 100)
	r := w.newSubscriber(func(*http.Request) int {
		received <- struct{}{}
		time.Sleep(300 * time.Millisecond)
		return http.StatusOK
	})
	sender, stop := w.startSender(w.queue)
	w.addEvents(40)
	sender.Wake(w.keys(r))
	for range 2 + rules.InFlight {
		<-received
	}
	stop()
	sent := len(r.ids())
	if n := w.countStatus(r, affiliate.DeliveryDelivered); n != sent || n == 40 {
		t.Errorf("%d stored of %d sent", n, sent)
	}
	if n := w.Count(`select count(*) from webhook_endpoints where sender is not null`); n != 0 {
		t.Error("the lease was not released")
	}
	again, _ := w.startSender(w.queue)
	again.Wake(w.keys(r))
	w.eventually("the others are delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 40 })
	if n := len(r.ids()); n != 40 {
		t.Errorf("%d requests for 40 events", n)
	}
}

func TestSender_FindsDeliveriesOfLateCommits(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(respondStatus(http.StatusOK))
	sender, _ := w.startSender(w.queue)
	w.addEvents(10)
	sender.Wake(w.keys(r))
	w.eventually("the first are delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 10 })
	// These deliveries have been due for an hour but are committed now, without a wakeup.
	w.addEvents(3)
	w.Exec(`update webhook_deliveries set due_at = due_at - interval '1 hour' where status = 'pending'`)
	w.advance(11 * time.Second)
	w.eventually("the late deliveries are sent", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 13 })
}

func TestSender_SignsWithBothSecretsForADayAfterRotation(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(respondStatus(http.StatusOK))
	sender, _ := w.startSender(w.queue)
	fresh := rules.NewSecret()
	w.Exec(`update webhook_endpoints set previous_secret = secret, previous_until = $1, secret = $2`,
		w.now().Add(24*time.Hour), w.seal.Seal(fresh, r.id.UUID[:]))
	verified := func(secret rules.Secret) bool {
		verifier, err := standardwebhooks.NewWebhook(secret.Text())
		if err != nil {
			t.Fatal(err)
		}
		last := len(r.requests) - 1
		return verifier.VerifyIgnoringTimestamp([]byte(r.bodies[last]), r.requests[last].Header) == nil
	}
	w.addEvents(1)
	sender.Wake(w.keys(r))
	w.eventually("the first is delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 1 })
	if !verified(fresh) || !verified(r.secret) {
		t.Error("the request is not signed with both secrets")
	}
	w.advance(24*time.Hour + time.Second)
	w.addEvents(1)
	sender.Wake(w.keys(r))
	w.eventually("the second is delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 2 })
	if !verified(fresh) || verified(r.secret) {
		t.Error("the request is not signed with the new secret only")
	}
}

func TestSender_RetryDuringAnAttemptIsAnAdditionalAttempt(t *testing.T) {
	w := newQueueWorld(t)
	received, respond := make(chan struct{}, 10), make(chan struct{})
	r := w.newSubscriber(func(*http.Request) int { received <- struct{}{}; <-respond; return http.StatusOK })
	t.Cleanup(sync.OnceFunc(func() { close(respond) }))
	sender, _ := w.startSender(w.queue)
	w.addEvents(1)
	sender.Wake(w.keys(r))
	<-received
	w.Exec(`update webhook_deliveries set extra = extra + 2, due_at = $1`, w.now())
	for range 3 {
		respond <- struct{}{}
	}
	w.eventually("there are three attempts", func() bool {
		return w.Count(`select count(*) from webhook_deliveries where attempt_count = 3 and extra = 0 and due_at is null and status = 'delivered'`) == 1
	})
}

func TestSender_StopsSendingToADisabledEndpoint(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newBlockingSubscriber(ok)
	sender, _ := w.startSender(w.queue)
	w.deliverFirst(sender, r.subscriber)
	r.block.Store(true)
	w.addEvents(50)
	sender.Wake(w.keys(r.subscriber))
	for range rules.InFlight {
		<-r.blocked
	}
	w.Exec(`update webhook_endpoints set active = false, epoch = epoch + 1, disabled_reason = 'manual'`)
	// The deliveries that were read before are now outdated. The next read returns nothing,
	// because the endpoint is not active.
	w.advance(2 * time.Second)
	r.release()
	w.eventually("the attempts in flight are stored", func() bool { return w.countStatus(r.subscriber, affiliate.DeliveryDelivered) == 1+rules.InFlight })
	w.Exec(`update webhook_endpoints set active = true, disabled_reason = null`)
	w.addEvents(1)
	sender.Wake(w.keys(r.subscriber))
	w.eventually("the later event is delivered", func() bool { return w.countStatus(r.subscriber, affiliate.DeliveryDelivered) == 2+rules.InFlight })
	if n := len(r.ids()); n != 2+rules.InFlight {
		t.Errorf("%d requests", n)
	}
}
