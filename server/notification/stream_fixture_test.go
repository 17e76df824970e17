package notification_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/storage/feedsignal"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// waitTimeout is the maximum time to wait for an event. It is long because the machine may
// be busy.
const waitTimeout = 20 * time.Second

// node is what one process runs for streams: a fixture with its own connections and its own
// service. All nodes of a test use the same database.
type node struct {
	*fixture
	hub     *notificationservice.Hub
	metrics *prometheus.Registry
	calls   sync.WaitGroup // the calls of open streams
	// stop stops the node. Its streams then end.
	stop func()
}

// newNode starts a node that is connected to a Redis. It runs until the test ends.
func (f *fixture) newNode(redisURL string) *node {
	f.Helper()
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		f.Fatal(err)
	}
	client := redis.NewClient(options)
	db, err := postgres.Open(f.Context(), postgres.Config{URL: f.URL})
	if err != nil {
		f.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	hub := notificationservice.NewHub(db, feedsignal.New(client), log, f.Now)
	distributor := notificationservice.NewDistributor(db, hub.Changed, log, f.Now)
	db.OnNotifications(distributor.Wake)

	registry := prometheus.NewRegistry()
	shop, base := *f.Shop, *f.Fixture
	base.DB, shop.Fixture = db, &base
	n := &node{fixture: &fixture{&shop, notificationservice.New(notificationservice.Config{
		DB: db, Hub: hub, Log: log, Apps: notification.Apps{Console: "https://app.example"}, HashKeys: hashKeys, Now: f.Now,
		Metrics: notificationservice.NewMetrics(registry, distributor.Undistributed),
	}), f.clock}, hub: hub, metrics: registry}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	var running sync.WaitGroup
	running.Go(func() { hub.Run(ctx) })
	running.Go(func() { distributor.Run(ctx) })
	n.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	f.Cleanup(func() {
		n.stop()
		n.calls.Wait()
		db.Close()
		_ = client.Close()
	})
	return n
}

// inSession adds a session of the caller, to which the streams of the caller belong.
func (f *fixture) inSession(ctx context.Context) context.Context {
	f.Helper()
	p := server.PrincipalFrom(ctx)
	p.Session, p.ExpiresAt = affiliate.NewID[affiliate.SessionID](f.Now()), f.Now().Add(account.AccessTokenLife)
	f.Insert("sessions", map[string]any{
		"id": p.Session, "user_id": p.User, "created_at": f.Now(),
		"idle_expires_at": f.Now().AddDate(0, 1, 0), "expires_at": f.Now().AddDate(0, 3, 0),
	})
	return server.WithPrincipal(ctx, p)
}

// event is an event of a stream.
type event struct {
	text     string // as it was sent, without the empty line that follows
	id, name string
	data     struct {
		Type         string
		Notification struct{ ID string }
		UnreadCount  *int64
	}
}

// seq returns the sequence number in the id of the event, or -1.
func (e event) seq() int64 {
	seq, err := strconv.ParseInt(e.id, 10, 64)
	if err != nil {
		return -1
	}
	return seq
}

// stream is an open stream. It is also the client, which receives one event after another:
// while the test does not take an event from events, the server cannot send.
type stream struct {
	grpc.ServerStreamingServer[httpbody.HttpBody] // nil; the service uses the methods below
	*fixture
	ctx    context.Context
	header metadata.MD
	events chan event
	close  context.CancelFunc
	ended  chan error // the result of the call
}

func (s *stream) Context() context.Context       { return s.ctx }
func (s *stream) SetHeader(md metadata.MD) error { s.header = metadata.Join(s.header, md); return nil }

func (s *stream) Send(body *httpbody.HttpBody) error {
	if body.ContentType != "text/event-stream" {
		s.Errorf("a part of the stream has the content type %q", body.ContentType)
	}
	rest := string(body.Data)
	for rest != "" {
		text, after, complete := strings.Cut(rest, "\n\n")
		if !complete {
			s.Errorf("an event does not end with an empty line: %q", rest)
		}
		select {
		case s.events <- parseEvent(text):
		case <-s.ctx.Done():
			return status.FromContextError(s.ctx.Err()).Err()
		}
		rest = after
	}
	return nil
}

func parseEvent(text string) event {
	e := event{text: text}
	for line := range strings.SplitSeq(text, "\n") {
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			_ = json.Unmarshal([]byte(value), &e.data)
		}
	}
	return e
}

// closeAndWait closes the stream as the client, and returns the result of the call.
func (s *stream) closeAndWait() error {
	s.close()
	return <-s.ended
}

// open opens a stream that continues after an event. If lastEventID is empty, it is a new
// stream. It ends with the test.
func (n *node) open(ctx context.Context, lastEventID string) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{fixture: n.fixture, ctx: ctx, events: make(chan event), close: cancel, ended: make(chan error, 1)}
	call := n.service.StreamNotifications
	if server.PrincipalFrom(ctx).Kind == server.PartnerToken {
		call = n.service.StreamPartnerNotifications
	}
	n.calls.Go(func() { s.ended <- call(&affiliatev1.StreamNotificationsRequest{LastEventId: &lastEventID}, s) })
	n.Cleanup(cancel)
	return s
}

// openReady opens a stream and receives the event ready.
func (n *node) openReady(ctx context.Context, lastEventID string) (*stream, event) {
	n.Helper()
	s := n.open(ctx, lastEventID)
	return s, s.next("ready")
}

// next returns the next event, which must have the given name. It skips events that have
// one of the other names.
func (s *stream) next(name string, skipped ...string) event {
	s.Helper()
	for {
		select {
		case got := <-s.events:
			if got.name == name {
				return got
			}
			if !slices.Contains(skipped, got.name) {
				s.Fatalf("the stream sent\n%s\nwant the event %s", got.text, name)
			}
		case err := <-s.ended:
			s.Fatalf("the stream has ended with the error %v, want the event %s", err, name)
		case <-time.After(waitTimeout):
			s.Fatalf("no event %s", name)
		}
	}
}

// nextNotification returns the next notification. It skips unread counts, because a stream
// may count a notification shortly before it sends it.
func (s *stream) nextNotification() event {
	s.Helper()
	return s.next("notification", "unread_count")
}

// wantNotifications receives notifications and checks their ids. The sequence numbers must
// increase and be higher than after. It returns the last event.
func (s *stream) wantNotifications(after int64, ids ...string) (last event) {
	s.Helper()
	for i, id := range ids {
		last = s.nextNotification()
		if last.data.Notification.ID != id || last.seq() <= after {
			s.Fatalf("notification %d of %d is %s with the number %d, want %s with a number above %d",
				i+1, len(ids), last.data.Notification.ID, last.seq(), id, after)
		}
		after = last.seq()
	}
	return last
}

// wantUnreadCount receives the event unread_count. It skips events that have one of the
// other names.
func (s *stream) wantUnreadCount(want int64, skipped ...string) {
	s.Helper()
	if got := s.next("unread_count", skipped...); got.data.UnreadCount == nil || *got.data.UnreadCount != want || got.id != "" {
		s.Fatalf("the stream sent\n%s\nwant the unread count %d and no id", got.text, want)
	}
}

// wantEnd waits until the stream has ended without a further event.
func (s *stream) wantEnd() {
	s.Helper()
	select {
	case got := <-s.events:
		s.Fatalf("the stream sent\n%s\nwant its end", got.text)
	case err := <-s.ended:
		if err != nil {
			s.Fatalf("the stream has ended with the error %v", err)
		}
	case <-time.After(waitTimeout):
		s.Fatal("the stream has not ended")
	}
}

// storeMany stores notifications for the workspace in one transaction and returns their
// ids. Several goroutines may call it.
func (f *fixture) storeMany(count int) (ids []string, err error) {
	list := make([]notification.Notification, count)
	for i := range list {
		f.clock.Advance(time.Millisecond)
		list[i] = notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(f.Scope.Workspace), "commission.created", &f.Scope.Mode, f.Now())
		list[i].Workspace, list[i].Facts = &f.Scope.Workspace, map[string]string{"amount": "10.00 EUR"}
		ids = append(ids, list[i].ID.String())
	}
	return ids, f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return tx.Notify(f.Context(), list...) })
}

// notifyMany is storeMany for the goroutine of the test.
func (f *fixture) notifyMany(count int) []string {
	f.Helper()
	ids, err := f.storeMany(count)
	if err != nil {
		f.Fatal(err)
	}
	return ids
}

// inTicket returns the context of a call with a ticket instead of an access token.
func inTicket(ctx context.Context, ticket string) context.Context {
	p := server.PrincipalFrom(ctx)
	p.Ticket = notification.DigestStreamTicket(ticket)
	return server.WithPrincipal(ctx, p)
}

// wantMetric waits until a metric has a value. The value of a histogram is the number of
// its observations.
func (n *node) wantMetric(name string, want float64) {
	n.Helper()
	pgtest.Eventually(n, fmt.Sprintf("the metric %s is %v", name, want), func() bool {
		families, err := n.metrics.Gather()
		if err != nil {
			n.Fatal(err)
		}
		for _, family := range families {
			if m := family.Metric[0]; family.GetName() == "tributary_notification_"+name {
				return want == m.GetCounter().GetValue()+m.GetGauge().GetValue()+float64(m.GetHistogram().GetSampleCount())
			}
		}
		return false
	})
}
