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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server/seal"
	webhookservice "github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// senderFixture is a shop whose endpoints are HTTP servers of the test. Its clock is also
// the clock of the senders that it starts.
type senderFixture struct {
	*pgtest.Shop
	clock *pgtest.Clock
	keys  *seal.Keys
	roots *x509.CertPool // of the senders
}

func newSenderFixture(t *testing.T) *senderFixture {
	t.Helper()
	clock := pgtest.NewRunningClock()
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest)
	if _, err := postgres.EnsureWeekPartitions(t.Context(), shop.DB, clock.Now().AddDate(0, 0, -1), clock.Now().AddDate(0, 0, 40)); err != nil {
		t.Fatal(err)
	}
	return &senderFixture{shop, clock, newKeys(t, "a", 0), x509.NewCertPool()}
}

// inNewWorkspace returns a fixture whose shop is in a new workspace. The fixture
// shares all other fields with f.
func (f *senderFixture) inNewWorkspace() *senderFixture {
	f.Helper()
	other := *f
	other.Shop = f.NewShop(f.Scope.Mode)
	return &other
}

// subscriber is the server of an endpoint. It records all requests.
type subscriber struct {
	f       *senderFixture
	id      affiliate.EndpointID
	secret  domain.Secret
	respond func() (status int)

	mu            sync.Mutex
	recorded      []recordedRequest
	inProgress    int // number of requests that are being served
	maxInProgress int // the maximum of inProgress until now
}

type recordedRequest struct {
	header http.Header
	body   []byte
}

// newSubscriber starts a server that responds with the status, and stores its endpoint.
func (f *senderFixture) newSubscriber(status int) *subscriber {
	f.Helper()
	return f.newRespondingSubscriber(func() int { return status })
}

// newRespondingSubscriber starts a server that calls respond for each request, and stores
// its endpoint.
func (f *senderFixture) newRespondingSubscriber(respond func() (status int)) *subscriber {
	f.Helper()
	r := &subscriber{f: f, respond: respond, secret: domain.NewSecret(), id: affiliate.NewID[affiliate.EndpointID](f.Now())}
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a stopped sender drops connections
	server.StartTLS()
	f.Cleanup(server.Close)
	f.roots.AddCert(server.Certificate())
	f.inTx(func(tx *postgres.Tx) error {
		return webhooks.InsertEndpoint(f.Context(), tx, domain.Endpoint{
			ID: r.id, Scope: f.Scope, URL: server.URL, Subscriptions: []string{"*"}, Active: true, Epoch: 1,
			CreatedAt: f.Now(), UpdatedAt: f.Now(), Version: 1,
		}, f.keys.Seal(r.secret, r.id.UUID[:]))
	})
	return r
}

// newFailingSubscriber starts a subscriber that responds with status 500 while the
// returned value is true.
func (f *senderFixture) newFailingSubscriber() (*subscriber, *atomic.Bool) {
	f.Helper()
	failing := &atomic.Bool{}
	failing.Store(true)
	return f.newRespondingSubscriber(func() int {
		if failing.Load() {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}), failing
}

func (r *subscriber) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	body, _ := io.ReadAll(in.Body)
	r.mu.Lock()
	r.recorded = append(r.recorded, recordedRequest{in.Header, body})
	r.inProgress++
	r.maxInProgress = max(r.maxInProgress, r.inProgress)
	r.mu.Unlock()
	status := r.respond()
	r.mu.Lock()
	r.inProgress--
	r.mu.Unlock()
	out.WriteHeader(status)
}

// requests returns all requests until now, and the maximum number of requests that were
// served at the same time.
func (r *subscriber) requests() (recorded []recordedRequest, maxInProgress int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recorded[:len(r.recorded):len(r.recorded)], r.maxInProgress
}

func (r *subscriber) countRequests() int {
	recorded, _ := r.requests()
	return len(recorded)
}

// webhookIDs returns the header webhook-id of all requests, with repetitions.
func (r *subscriber) webhookIDs() []string {
	recorded, _ := r.requests()
	ids := make([]string, len(recorded))
	for i, request := range recorded {
		ids[i] = request.header.Get("webhook-id")
	}
	return ids
}

func (r *subscriber) key() domain.EndpointKey {
	return domain.EndpointKey{Workspace: r.f.Scope.Workspace, ID: r.id}
}

func keysOf(subscribers ...*subscriber) []domain.EndpointKey {
	keys := make([]domain.EndpointKey, len(subscribers))
	for i, r := range subscribers {
		keys[i] = r.key()
	}
	return keys
}

func (r *subscriber) endpoint() domain.Endpoint {
	r.f.Helper()
	e, err := webhooks.Endpoint(r.f.Context(), r.f.DB, r.f.Scope, r.id)
	if err != nil {
		r.f.Fatal(err)
	}
	return e
}

// deliveries returns up to 1,000 deliveries to the endpoint, newest first, without their
// attempts.
func (r *subscriber) deliveries() []domain.Delivery {
	r.f.Helper()
	list, _, err := webhooks.Deliveries(r.f.Context(), r.f.DB, r.f.Scope, r.id, time.Time{}, domain.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 1000})
	if err != nil {
		r.f.Fatal(err)
	}
	return list
}

// onlyDelivery returns the delivery of an endpoint that has one delivery.
func (r *subscriber) onlyDelivery() domain.Delivery {
	r.f.Helper()
	list := r.deliveries()
	if len(list) != 1 {
		r.f.Fatalf("the endpoint has %d deliveries, want 1", len(list))
	}
	d, err := webhooks.Delivery(r.f.Context(), r.f.DB, r.endpoint(), list[0].ID)
	if err != nil {
		r.f.Fatal(err)
	}
	return d
}

// count returns the number of deliveries with the status.
func (r *subscriber) count(status domain.DeliveryStatus) int {
	r.f.Helper()
	_, total, err := webhooks.Deliveries(r.f.Context(), r.f.DB, r.f.Scope, r.id, time.Time{}, domain.DeliveryFilter{Status: &status}, affiliate.Page{Number: 1, Size: 1000})
	if err != nil {
		r.f.Fatal(err)
	}
	return int(total)
}

// await waits until n deliveries have the status.
func (r *subscriber) await(n int, status domain.DeliveryStatus) {
	r.f.Helper()
	pgtest.Eventually(r.f, fmt.Sprintf("%d deliveries are %s", n, status), func() bool { return r.count(status) == n })
}

// awaitDelivered waits until n events are delivered.
func (r *subscriber) awaitDelivered(n int) {
	r.f.Helper()
	r.await(n, domain.DeliveryDelivered)
}

// blockingSubscriber is a subscriber that can block its requests.
type blockingSubscriber struct {
	*subscriber
	block   atomic.Bool  // new requests are blocked
	blocked atomic.Int64 // number of requests that were blocked
	release func()       // lets the blocked requests and all later requests continue
}

// newBlockingSubscriber starts a blockingSubscriber. The response to requests that were
// blocked has the status, the response to others is 200.
func (f *senderFixture) newBlockingSubscriber(status int) *blockingSubscriber {
	f.Helper()
	released := make(chan struct{})
	h := &blockingSubscriber{release: sync.OnceFunc(func() { close(released) })}
	h.subscriber = f.newRespondingSubscriber(func() int {
		if h.block.Load() {
			h.blocked.Add(1)
			<-released
			return status
		}
		return http.StatusOK
	})
	f.Cleanup(h.release)
	return h
}

// awaitBlocked waits until n requests are blocked.
func (h *blockingSubscriber) awaitBlocked(n int64) {
	h.f.Helper()
	pgtest.Eventually(h.f, fmt.Sprintf("%d requests are blocked", n), func() bool { return h.blocked.Load() >= n })
}

// subscribersOf returns blocking subscribers as subscribers.
func subscribersOf(blocking []*blockingSubscriber) []*subscriber {
	list := make([]*subscriber, len(blocking))
	for i, h := range blocking {
		list[i] = h.subscriber
	}
	return list
}

// publish stores n events of the current time, and their deliveries to all active
// endpoints of the shop.
func (f *senderFixture) publish(n int) []affiliate.Event {
	f.Helper()
	return f.publishAt(f.Now(), n)
}

func (f *senderFixture) publishAt(at time.Time, n int) []affiliate.Event {
	f.Helper()
	times := make([]time.Time, n)
	for i := range times {
		times[i] = at
	}
	return publish(f.Shop, times...)
}

// notificationTypes returns the types of the notifications of the workspace about its
// webhook endpoints.
func (f *senderFixture) notificationTypes() []string {
	f.Helper()
	return f.Texts(`select type from notifications where feed_id = $1 and category = 'webhook_health'`, f.Scope.Workspace)
}

func (f *senderFixture) inTx(fn func(tx *postgres.Tx) error) {
	f.Helper()
	if err := f.DB.InTx(f.Context(), fn); err != nil {
		f.Fatal(err)
	}
}

// setActive disables or enables the endpoint, as a user does.
func (r *subscriber) setActive(active bool) {
	r.f.Helper()
	r.f.inTx(func(tx *postgres.Tx) error {
		before, err := webhooks.LockEndpoint(r.f.Context(), tx, r.f.Scope, r.id)
		if err != nil {
			return err
		}
		after, _, err := before.Update(domain.EndpointChange{Active: affiliate.Set(active)}, r.f.Now())
		if err != nil {
			return err
		}
		return webhooks.UpdateEndpoint(r.f.Context(), tx, after)
	})
}

// replaceSecret stores an encrypted secret. The previous secret also signs until
// previousUntil, or not at all if previousUntil is nil.
func (r *subscriber) replaceSecret(sealed []byte, previousUntil *time.Time) {
	r.f.Helper()
	r.f.inTx(func(tx *postgres.Tx) error {
		e, err := webhooks.LockEndpoint(r.f.Context(), tx, r.f.Scope, r.id)
		if err != nil {
			return err
		}
		return webhooks.ReplaceSecret(r.f.Context(), tx, e.RotateSecret(r.f.Now()), sealed, previousUntil)
	})
}

// setHealth stores the health of endpoints, as earlier attempts would have left it.
func (f *senderFixture) setHealth(health domain.Health, subscribers ...*subscriber) {
	f.Helper()
	f.inTx(func(tx *postgres.Tx) error {
		endpoints, err := webhooks.LockEndpoints(f.Context(), tx, keysOf(subscribers...))
		for i := range endpoints {
			endpoints[i].Health = health
		}
		if err != nil {
			return err
		}
		return webhooks.UpdateEndpoints(f.Context(), tx, endpoints)
	})
}

// changeDeliveries stores a change of all deliveries to the endpoint.
func (r *subscriber) changeDeliveries(change func(d domain.LockedDelivery) domain.LockedDelivery) {
	r.f.Helper()
	list := r.deliveries()
	r.f.inTx(func(tx *postgres.Tx) error {
		for _, d := range list {
			locked, err := webhooks.LockDelivery(r.f.Context(), tx, r.f.Scope, r.id, d.ID)
			if err != nil {
				return err
			}
			if err := webhooks.UpdateDelivery(r.f.Context(), tx, r.f.Scope, r.id, change(locked)); err != nil {
				return err
			}
		}
		return nil
	})
}

// leaveOnlyLastAttempt changes all deliveries to the endpoint so that the next attempt of each
// delivery is its last attempt.
func (r *subscriber) leaveOnlyLastAttempt() {
	r.f.Helper()
	r.changeDeliveries(func(d domain.LockedDelivery) domain.LockedDelivery {
		d.State = domain.State{Status: domain.DeliveryFailed, ScheduledAttempts: domain.MaxAttempts - 1}
		return d
	})
}

// runningSender is a sender that runs until stop is called or the test ends.
type runningSender struct {
	*webhookservice.Sender
	beginStop func()
	stop      func() // waits until the sender has stopped
}

// startSender starts a sender with the fixture's database.
func (f *senderFixture) startSender() *runningSender {
	f.Helper()
	return f.startSenderWith(f.DB, 1000)
}

// startSenderWith starts a sender with a handle of the database and a maximum number of
// attempts in flight.
func (f *senderFixture) startSenderWith(db *postgres.DB, maxInFlight int) *runningSender {
	f.Helper()
	client := webhookservice.NewClient(webhookservice.ClientConfig{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: func() *x509.CertPool { return f.roots }, Version: "test"})
	client.SetTimeouts(time.Minute, time.Minute, time.Second) // long, so that a busy machine causes no failures
	sender := webhookservice.NewSender(webhookservice.SenderConfig{
		DB: db, Client: client, Seal: f.keys, Now: f.clock.Now,
		Log: slog.New(slog.NewTextHandler(f.Output(), nil)), Metrics: webhookservice.NewMetrics(prometheus.NewRegistry()),
	})
	sender.SetAttemptTimeout(5 * time.Minute)
	sender.SetMaxInFlight(maxInFlight)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); sender.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-done; client.Close() })
	f.Cleanup(stop)
	return &runningSender{sender, cancel, stop}
}

// isClaim, isSearch and isRead report whether a statement of a sender claims endpoints,
// searches for endpoints without a sender, or reads endpoints with due deliveries. The read
// also contains a statement that returns these deliveries.
func isClaim(sql string) bool { return strings.Contains(sql, "for no key update of e skip locked") }

func isSearch(sql string) bool {
	return strings.Contains(sql, "e.sender is null or e.sender_until <= $1")
}
func isRead(sql string) bool { return strings.Contains(sql, "as next_due") }

// wake tells the sender that the subscribers have new deliveries.
func (s *runningSender) wake(subscribers ...*subscriber) { s.Wake(keysOf(subscribers...)) }

// deliverFirst delivers one event to each of the subscribers. The sender makes only few
// attempts at the same time to an endpoint without a known outcome. After deliverFirst,
// the sender makes up to domain.InFlight attempts at the same time to each subscriber.
func (f *senderFixture) deliverFirst(sender *runningSender, subscribers ...*subscriber) {
	f.Helper()
	f.publish(1)
	sender.wake(subscribers...)
	for _, r := range subscribers {
		r.awaitDelivered(1)
	}
}
