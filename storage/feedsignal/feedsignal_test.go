package feedsignal_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/feedsignal"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const (
	waitTimeout  = 20 * time.Second
	pollInterval = 10 * time.Millisecond
)

// newClient returns a client of a new Redis, because channels and CLIENT KILL are not
// separate for the databases of a shared server.
func newClient(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(redistest.Start(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// listener collects what one process receives.
type listener struct {
	mu    sync.Mutex
	calls [][]notification.FeedID
}

// listen starts a listener, which ends with the test.
func listen(t *testing.T, signal *feedsignal.Signal) *listener {
	t.Helper()
	l := &listener{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		signal.Listen(ctx, func(feeds []notification.FeedID) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.calls = append(l.calls, feeds)
		})
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return l
}

func (l *listener) received() [][]notification.FeedID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

func newFeed() notification.FeedID { return affiliate.NewID[notification.FeedID](time.Now()) }

func publish(t *testing.T, signal *feedsignal.Signal, feeds ...notification.FeedID) {
	t.Helper()
	if err := signal.Publish(t.Context(), feeds); err != nil {
		t.Fatal(err)
	}
}

// await sends signals about a new feed until all listeners have received one of them.
func await(t *testing.T, signal *feedsignal.Signal, listeners ...*listener) {
	t.Helper()
	feed := newFeed()
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatal("not all listeners receive signals")
		}
		publish(t, signal, feed)
		if !slices.ContainsFunc(listeners, func(l *listener) bool {
			return !slices.ContainsFunc(l.received(), func(got []notification.FeedID) bool { return slices.Equal(got, []notification.FeedID{feed}) })
		}) {
			return
		}
	}
}

func TestListen_ReceivesFeedsOfEachSignal(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	signal := feedsignal.New(client)
	first, second := listen(t, signal), listen(t, feedsignal.New(client))
	await(t, signal, first, second)

	want := [][]notification.FeedID{{newFeed()}, {newFeed(), newFeed(), newFeed()}}
	for _, feeds := range want {
		publish(t, signal, feeds...)
	}
	// Signals that are not complete contain no feeds, or only the complete ones.
	for _, payload := range []string{"", "short", string(want[0][0].UUID[:]) + "rest"} {
		if err := client.Publish(t.Context(), "notifications", payload).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, nil, nil, want[0])
	await(t, signal, first, second)
	for name, l := range map[string]*listener{"first": first, "second": second} {
		received := l.received()
		from := slices.IndexFunc(received, func(got []notification.FeedID) bool { return slices.Equal(got, want[0]) })
		if from < 0 || len(received) < from+len(want) {
			t.Fatalf("the %s listener has received %v, want %v", name, received, want)
		}
		for i, feeds := range want {
			if got := received[from+i]; !slices.Equal(got, feeds) {
				t.Errorf("the %s listener has received %v as signal %d, want %v", name, got, i, feeds)
			}
		}
	}
}

func TestListen_SubscribesAgainAfterLostConnection(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	signal := feedsignal.New(client)
	l := listen(t, signal)
	for range 2 {
		await(t, signal, l)
		killed, err := client.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
		if err != nil || killed != 1 {
			t.Fatalf("%d subscriptions were killed, %v, want 1", killed, err)
		}
	}
	await(t, signal, l)
}

func TestPublish_FailsWithoutRedis(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := feedsignal.New(client).Publish(t.Context(), []notification.FeedID{newFeed()}); err == nil {
		t.Error("Publish without a connection returns no error")
	}
}
