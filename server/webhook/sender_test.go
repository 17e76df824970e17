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

// queueWorld is a database with endpoints, whose receivers are real ones, and
// senders whose clock can be put forward.
type queueWorld struct {
	*pgtest.Fixture
	t     *testing.T
	scope affiliate.Scope
	queue webhook.Queue
	seal  *seal.Keys
	ahead atomic.Int64 // of the clock, in nanoseconds
	roots *x509.CertPool
	made  int
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

func (w *queueWorld) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// forward puts the clock forward.
func (w *queueWorld) forward(by time.Duration) { w.ahead.Add(int64(by)) }

// subscriber answers as its handler says, and keeps what came.
type subscriber struct {
	w      *queueWorld
	id     affiliate.EndpointID
	secret rules.Secret
	answer func(*http.Request) int

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	now, max int // at the same time
}

// newSubscriber starts a server and registers it.
func (w *queueWorld) newSubscriber(answer func(*http.Request) int) *subscriber {
	w.t.Helper()
	r := &subscriber{w: w, answer: answer, secret: rules.NewSecret(), id: affiliate.NewID[affiliate.Endpoint](w.now())}
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that a stopped sender drops
	server.StartTLS()
	w.t.Cleanup(server.Close)
	w.roots.AddCert(server.Certificate())
	w.Exec(`insert into webhook_endpoints (workspace_id, id, mode, url, subscriptions, active, secret, created_at, updated_at, version)
		values ($1, $2, $3, $4, '{*}', true, $5, $6, $6, 1)`,
		w.scope.Workspace, r.id, w.scope.Mode, server.URL, w.seal.Seal(r.secret, r.id.UUID[:]), w.now())
	return r
}

// newRefuser refuses until it is told otherwise.
func (w *queueWorld) newRefuser() (*subscriber, *atomic.Bool) {
	w.t.Helper()
	refuse := &atomic.Bool{}
	refuse.Store(true)
	return w.newSubscriber(func(*http.Request) int {
		if refuse.Load() {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}), refuse
}

func ok() int { return http.StatusOK }

func saying(code int) func(*http.Request) int { return func(*http.Request) int { return code } }

func (r *subscriber) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	body, _ := io.ReadAll(in.Body)
	r.mu.Lock()
	r.requests, r.bodies = append(r.requests, in), append(r.bodies, string(body))
	r.now++
	r.max = max(r.max, r.now)
	r.mu.Unlock()
	code := r.answer(in)
	r.mu.Lock()
	r.now--
	r.mu.Unlock()
	out.WriteHeader(code)
}

// holder is a subscriber that can hold its requests.
type holder struct {
	*subscriber
	hold  atomic.Bool
	begun chan struct{} // a value for each request that is held
	free  func()        // lets them, and all that follow, be answered
}

// newHolder starts one that answers code.
func (w *queueWorld) newHolder(code func() int) *holder {
	w.t.Helper()
	freed := make(chan struct{})
	h := &holder{begun: make(chan struct{}, 1000), free: sync.OnceFunc(func() { close(freed) })}
	h.subscriber = w.newSubscriber(func(*http.Request) int {
		if h.hold.Load() {
			h.begun <- struct{}{}
			<-freed
			return code()
		}
		return http.StatusOK
	})
	w.t.Cleanup(h.free)
	return h
}

// known lets a first event succeed at each of the subscribers, which then get as many
// attempts at a time as an endpoint may have.
func (w *queueWorld) known(sender *webhook.Sender, of ...*subscriber) {
	w.t.Helper()
	w.events(1)
	sender.Wake(w.keys(of...))
	for _, r := range of {
		w.eventually("the first", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 1 })
	}
}

// ids are the webhook-ids that came, repetitions included.
func (r *subscriber) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, len(r.requests))
	for i, request := range r.requests {
		ids[i] = request.Header.Get("webhook-id")
	}
	return ids
}

// events makes events of now that all endpoints follow which are there, and returns
// their ids as receivers see them.
func (w *queueWorld) events(n int) []string {
	w.t.Helper()
	ids, days, wire := make([]uuid.UUID, n), make([]time.Time, n), make([]string, n)
	bodies := make([][]byte, n)
	now := w.now()
	for i := range n {
		id := affiliate.NewID[affiliate.Event](now)
		w.made++
		ids[i], days[i], wire[i] = id.UUID, now, affiliate.WireID(id)
		bodies[i] = fmt.Appendf(nil, `{"id":%q,"n":%d}`, wire[i], w.made)
	}
	w.Exec(`
		with written as (
			insert into events (workspace_id, id, day, mode, type, body, created_at)
			select $1, e.id, e.day, $2, 'program.updated', e.body, $6
			from unnest($3::uuid[], $4::date[], $5::bytea[]) as e (id, day, body) returning *
		)
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, due_at, created_at)
		select w.workspace_id, e.id, delivery_id(w.id, e.id), w.day, w.mode, w.id, w.type, e.epoch, w.created_at, w.created_at
		from written w join webhook_endpoints e on e.workspace_id = w.workspace_id and e.active`,
		w.scope.Workspace, w.scope.Mode, ids, days, bodies, now)
	return wire
}

// keys are those of all endpoints.
func (w *queueWorld) keys(of ...*subscriber) []affiliate.EndpointKey {
	keys := make([]affiliate.EndpointKey, len(of))
	for i, r := range of {
		keys[i] = affiliate.EndpointKey{Workspace: w.scope.Workspace, ID: r.id}
	}
	return keys
}

// send runs a sender on a queue until the test ends, or until it is stopped.
func (w *queueWorld) send(queue webhook.Queue) (sender *webhook.Sender, stop func()) {
	w.t.Helper()
	return w.sendWith(queue, 1000)
}

// sendWith is send with room for so many attempts at the same time.
func (w *queueWorld) sendWith(queue webhook.Queue, room int) (sender *webhook.Sender, stop func()) {
	w.t.Helper()
	client := webhook.NewClient(webhook.ClientConfig{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: w.roots, Version: "test"})
	client.Bound(time.Minute, time.Minute, time.Second) // a busy machine is no failure
	sender = webhook.NewSender(webhook.SenderConfig{
		Queue: queue, Client: client, Seal: w.seal, Now: w.now,
		Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)), Metrics: webhook.NewMetrics(prometheus.NewRegistry()),
	})
	sender.Wait(5 * time.Minute)
	sender.Room(room)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); sender.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done; client.Close() })
	w.t.Cleanup(stop)
	return sender, stop
}

// eventually waits for what real servers take their time for.
func (w *queueWorld) eventually(what string, holds func() bool) {
	w.t.Helper()
	for until := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// in counts the deliveries of an endpoint that are in a state.
func (w *queueWorld) in(r *subscriber, status affiliate.DeliveryStatus) int {
	return w.Count(`select count(*) from webhook_deliveries where endpoint_id = $1 and status = $2`, r.id, status)
}

func TestSendsWhatIsCommittedOnceAndSigned(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(saying(http.StatusNoContent))
	sender, _ := w.send(w.queue)
	want := w.events(300)
	sender.Wake(w.keys(r))
	w.eventually("all delivered", func() bool { return w.in(r, affiliate.DeliveryDelivered) == len(want) })
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
		t.Errorf("%d at the same time", r.max)
	}
	if n := w.Count(`select count(*) from webhook_deliveries where attempt_count <> 1 or due_at is not null or completed_at is null
		or http_status_code <> 204 or error_message is not null or jsonb_array_length(attempts) <> 1`); n != 0 {
		t.Errorf("%d deliveries do not tell what happened", n)
	}
}

func TestFailsAreRepeatedBySchedule(t *testing.T) {
	w := newQueueWorld(t)
	r, refuse := w.newRefuser()
	sender, _ := w.send(w.queue)
	id := w.events(1)[0]
	sender.Wake(w.keys(r))
	w.eventually("a failure", func() bool { return w.in(r, affiliate.DeliveryFailed) == 1 })
	var delay float64
	if err := w.SQL.QueryRow(t.Context(), `select extract(epoch from due_at - (attempts->0->>'startedAt')::timestamptz)::float8 from webhook_deliveries`).Scan(&delay); err != nil {
		t.Fatal(err)
	}
	if delay < 4 || delay > 6.5 {
		t.Errorf("tried again after %v s, want 5 ± 20 %%", delay)
	}
	w.forward(7 * time.Second)
	w.eventually("a second failure", func() bool {
		return w.Count(`select attempt_count from webhook_deliveries where status = 'failed'`) == 2
	})
	refuse.Store(false)
	w.forward(7 * time.Minute)
	w.eventually("the delivery", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 1 })
	if got := r.ids(); !slices.Equal(got, []string{id, id, id}) {
		t.Errorf("ids %v, want three times %s", got, id)
	}
	for i, request := range r.requests {
		if n := request.Header.Get("webhook-attempt"); n != strconv.Itoa(i+1) {
			t.Errorf("attempt %d is told as %s", i+1, n)
		}
	}
}

func TestTenthFailureIsADeadLetter(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(saying(http.StatusBadRequest))
	sender, _ := w.send(w.queue)
	w.events(1)
	sender.Wake(w.keys(r))
	for n := 1; n <= rules.MaxAttempts; n++ {
		w.eventually(fmt.Sprintf("attempt %d", n), func() bool {
			return w.Count(`select attempt_count from webhook_deliveries`) == n
		})
		w.forward(30 * time.Hour)
	}
	if n := w.Count(`select count(*) from webhook_deliveries where status = 'dead_lettered' and due_at is null
		and completed_at is not null and error_message = 'http_400' and jsonb_array_length(attempts) = 10`); n != 1 {
		t.Error("the delivery is not given up")
	}
	if n := w.Count(`select consecutive_failures from webhook_endpoints where dead_letters = 1 and active`); n != rules.MaxAttempts {
		t.Errorf("the endpoint counts %d failures", n)
	}
}

func TestGoneTurnsTheEndpointOff(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(saying(http.StatusGone))
	sender, _ := w.send(w.queue)
	w.events(30)
	sender.Wake(w.keys(r))
	w.eventually("off", func() bool {
		return w.Count(`select count(*) from webhook_endpoints where not active and disabled_reason = 'gone' and epoch = 2`) == 1
	})
	came := len(r.ids())
	if came > rules.InFlight {
		t.Errorf("%d requests before it was left alone", came)
	}
	w.eventually("their outcomes", func() bool { return w.in(r, affiliate.DeliveryDeadLettered) == len(r.ids()) })
	if n := w.CountJobs(affiliate.CancelDeliveries{}.Kind()); n != 1 {
		t.Errorf("%d jobs cancel what waits", n)
	}
	if got := w.AuditActions("webhook", r.id.String()); !slices.Equal(got, []string{"webhook.disable"}) {
		t.Errorf("audit log: %v", got)
	}
}

func TestFailingForFiveDaysTurnsTheEndpointOff(t *testing.T) {
	for _, test := range []struct {
		name          string
		since         time.Duration
		before        int
		off           bool
		wantDead      int
		wantCancelJob int
	}{
		{"five days and twenty dead letters", 5*24*time.Hour + time.Minute, 19, true, 20, 1},
		{"five days and nineteen", 5*24*time.Hour + time.Minute, 18, false, 19, 0},
		{"less than five days", 5*24*time.Hour - time.Minute, 40, false, 41, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newQueueWorld(t)
			r := w.newSubscriber(saying(http.StatusForbidden))
			w.events(1)
			w.Exec(`update webhook_deliveries set tier = 9, status = 'failed'`)
			w.Exec(`update webhook_endpoints set failing_since = $1, dead_letters = $2`, w.now().Add(-test.since), test.before)
			sender, _ := w.send(w.queue)
			sender.Wake(w.keys(r))
			w.eventually("given up", func() bool { return w.in(r, affiliate.DeliveryDeadLettered) == 1 })
			if off := w.Count(`select count(*) from webhook_endpoints where not active and disabled_reason = 'failing'`) == 1; off != test.off {
				t.Errorf("off %v, want %v", off, test.off)
			}
			if n := w.Count(`select dead_letters from webhook_endpoints`); n != test.wantDead {
				t.Errorf("%d dead letters, want %d", n, test.wantDead)
			}
			if n := w.CountJobs(affiliate.CancelDeliveries{}.Kind()); n != test.wantCancelJob {
				t.Errorf("%d jobs", n)
			}
		})
	}
}

func TestBreakerLeavesADeadEndpointAlone(t *testing.T) {
	w := newQueueWorld(t)
	r, refuse := w.newRefuser()
	sender, _ := w.send(w.queue)
	w.events(100)
	sender.Wake(w.keys(r))
	w.eventually("ten failures", func() bool {
		return w.Count(`select consecutive_failures from webhook_endpoints`) >= rules.BreakerFailures
	})
	w.eventually("rest", func() bool { return w.in(r, affiliate.DeliveryFailed) == len(r.ids()) })
	came := len(r.ids())
	if came > 2*rules.InFlight {
		t.Errorf("%d attempts before it was left alone", came)
	}
	// The pause ends: one probe, and another pause.
	w.forward(rules.BreakerPause + time.Second)
	w.eventually("a probe", func() bool { return w.in(r, affiliate.DeliveryFailed) > 0 && len(r.ids()) == came+1 })
	w.eventually("its outcome", func() bool {
		return w.Count(`select consecutive_failures from webhook_endpoints`) == came+1
	})
	if n := len(r.ids()); n != came+1 {
		t.Errorf("%d probes", n-came)
	}
	// It is back, and gets all that waited for it and is due.
	refuse.Store(false)
	w.forward(rules.BreakerPause + time.Second)
	w.eventually("what is due", func() bool {
		return w.Count(`select count(*) from webhook_deliveries where due_at <= $1`, w.now()) == 0
	})
}

func TestDeadEndpointsDoNotDelayAHealthyOne(t *testing.T) {
	w := newQueueWorld(t)
	var dead []*subscriber
	var holders []*holder
	for range 10 {
		h := w.newHolder(ok)
		holders, dead = append(holders, h), append(dead, h.subscriber)
	}
	healthy := w.newSubscriber(saying(http.StatusOK))
	sender, _ := w.send(w.queue)
	w.known(sender, append(dead, healthy)...)
	for _, h := range holders {
		h.hold.Store(true)
	}
	w.events(60)
	sender.Wake(w.keys(dead...))
	for _, h := range holders {
		for range rules.InFlight {
			<-h.begun
		}
	}
	w.events(60)
	sender.Wake(w.keys(append(dead, healthy)...))
	w.eventually("everything of the healthy one", func() bool { return w.in(healthy, affiliate.DeliveryDelivered) == 121 })
	for _, r := range dead {
		if n := len(r.ids()); n != 1+rules.InFlight {
			t.Errorf("%d requests to one that does not answer", n)
		}
	}
	for _, h := range holders {
		h.free()
	}
	w.eventually("the rest", func() bool {
		return w.Count(`select count(*) from webhook_deliveries where status <> 'delivered'`) == 0
	})
}

func TestTwoProcessesSendEachDeliveryOnce(t *testing.T) {
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
	first, stopFirst := w.send(w.queue)
	second, _ := w.send(stores.WebhookQueue(webhookpg.NewStore(other.DB)))
	want := 0
	for range 20 {
		want += len(w.events(20))
		// Whoever committed is told, and only the other may serve the endpoint.
		first.Wake(w.keys(receivers[:2]...))
		second.Wake(w.keys(receivers[1:]...))
	}
	// One ends properly while it serves: the other takes over.
	stopFirst()
	for _, r := range receivers {
		w.eventually("all delivered", func() bool { return w.in(r, affiliate.DeliveryDelivered) == want })
		ids := r.ids()
		slices.Sort(ids)
		if n := len(slices.Compact(slices.Clone(ids))); n != want || len(ids) != want {
			t.Errorf("%d requests, %d events of %d", len(ids), n, want)
		}
		if r.max > rules.InFlight {
			t.Errorf("%d at the same time", r.max)
		}
	}
}

func TestEndpointOfADeadProcessIsTakenOver(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(saying(http.StatusOK))
	w.events(5)
	// A process that died has it for another while.
	w.Exec(`update webhook_endpoints set sender = gen_random_uuid(), sender_until = $1`, w.now().Add(30*time.Second))
	sender, _ := w.send(w.queue)
	sender.Wake(w.keys(r))
	time.Sleep(300 * time.Millisecond)
	if n := len(r.ids()); n != 0 {
		t.Fatalf("%d requests for an endpoint of another process", n)
	}
	w.forward(45 * time.Second) // nobody tells: the sweep finds it
	w.eventually("all delivered", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 5 })
}

func TestStoppingStoresWhatWasSent(t *testing.T) {
	w := newQueueWorld(t)
	begun := make(chan struct{}, 100)
	r := w.newSubscriber(func(*http.Request) int {
		begun <- struct{}{}
		time.Sleep(300 * time.Millisecond)
		return http.StatusOK
	})
	sender, stop := w.send(w.queue)
	w.events(40)
	sender.Wake(w.keys(r))
	for range 2 + rules.InFlight {
		<-begun
	}
	stop()
	sent := len(r.ids())
	if n := w.in(r, affiliate.DeliveryDelivered); n != sent || n == 40 {
		t.Errorf("%d stored of %d sent", n, sent)
	}
	if n := w.Count(`select count(*) from webhook_endpoints where sender is not null`); n != 0 {
		t.Error("the endpoint was not given back")
	}
	again, _ := w.send(w.queue)
	again.Wake(w.keys(r))
	w.eventually("the rest", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 40 })
	if n := len(r.ids()); n != 40 {
		t.Errorf("%d requests for 40 events", n)
	}
}

func TestLateCommitIsFound(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(saying(http.StatusOK))
	sender, _ := w.send(w.queue)
	w.events(10)
	sender.Wake(w.keys(r))
	w.eventually("the first", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 10 })
	// Due for long, committed now, and nobody tells.
	w.events(3)
	w.Exec(`update webhook_deliveries set due_at = due_at - interval '1 hour' where status = 'pending'`)
	w.forward(11 * time.Second)
	w.eventually("the late ones", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 13 })
}

func TestRotatedSecretsBothSignForADay(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(saying(http.StatusOK))
	sender, _ := w.send(w.queue)
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
	w.events(1)
	sender.Wake(w.keys(r))
	w.eventually("delivered", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 1 })
	if !verified(fresh) || !verified(r.secret) {
		t.Error("not signed with both")
	}
	w.forward(24*time.Hour + time.Second)
	w.events(1)
	sender.Wake(w.keys(r))
	w.eventually("delivered", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 2 })
	if !verified(fresh) || verified(r.secret) {
		t.Error("not signed with the new one alone")
	}
}

func TestRetryDuringAnAttemptIsOneMore(t *testing.T) {
	w := newQueueWorld(t)
	begun, hold := make(chan struct{}, 10), make(chan struct{})
	r := w.newSubscriber(func(*http.Request) int { begun <- struct{}{}; <-hold; return http.StatusOK })
	t.Cleanup(sync.OnceFunc(func() { close(hold) }))
	sender, _ := w.send(w.queue)
	w.events(1)
	sender.Wake(w.keys(r))
	<-begun
	w.Exec(`update webhook_deliveries set extra = extra + 2, due_at = $1`, w.now())
	for range 3 {
		hold <- struct{}{}
	}
	w.eventually("three attempts", func() bool {
		return w.Count(`select count(*) from webhook_deliveries where attempt_count = 3 and extra = 0 and due_at is null and status = 'delivered'`) == 1
	})
}

func TestDisabledEndpointGetsNothingMore(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newHolder(ok)
	sender, _ := w.send(w.queue)
	w.known(sender, r.subscriber)
	r.hold.Store(true)
	w.events(50)
	sender.Wake(w.keys(r.subscriber))
	for range rules.InFlight {
		<-r.begun
	}
	w.Exec(`update webhook_endpoints set active = false, epoch = epoch + 1, disabled_reason = 'manual'`)
	// What was read before is too old now, and what is read from now on is not active.
	w.forward(2 * time.Second)
	r.free()
	w.eventually("what was in flight", func() bool { return w.in(r.subscriber, affiliate.DeliveryDelivered) == 1+rules.InFlight })
	w.Exec(`update webhook_endpoints set active = true, disabled_reason = null`)
	w.events(1)
	sender.Wake(w.keys(r.subscriber))
	w.eventually("what came later", func() bool { return w.in(r.subscriber, affiliate.DeliveryDelivered) == 2+rules.InFlight })
	if n := len(r.ids()); n != 2+rules.InFlight {
		t.Errorf("%d requests", n)
	}
}
