package webhook_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	rules "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server/webhook"
)

// slowQueue is a database that is slow to read from, or that fails to store.
type slowQueue struct {
	webhook.Queue
	reading time.Duration
	refuse  atomic.Int64 // outcomes that are stored, with an answer that is lost
}

func (q *slowQueue) Due(ctx context.Context, sender affiliate.SenderID, wanted []rules.Read, now time.Time) ([]rules.Target, []rules.DueDelivery, error) {
	targets, due, err := q.Queue.Due(ctx, sender, wanted, now)
	time.Sleep(q.reading)
	return targets, due, err
}

func (q *slowQueue) InTx(ctx context.Context, fn func(tx webhook.QueueTx) error) error {
	err := q.Queue.InTx(ctx, fn)
	if err == nil && q.refuse.Add(-1) >= 0 {
		return context.DeadlineExceeded
	}
	return err
}

func TestSlowReadingsStopNothing(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(saying(http.StatusOK))
	sender, _ := w.send(&slowQueue{Queue: w.queue, reading: 1200 * time.Millisecond})
	w.events(20)
	sender.Wake(w.keys(r))
	w.eventually("all delivered", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 20 })
	if n := len(r.ids()); n != 20 {
		t.Errorf("%d requests for 20 events", n)
	}
}

func TestOutcomeWhoseAnswerIsLostCountsOnce(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(saying(http.StatusForbidden))
	queue := &slowQueue{Queue: w.queue}
	queue.refuse.Store(2)
	sender, _ := w.send(queue)
	w.events(4)
	w.Exec(`update webhook_deliveries set tier = 9, status = 'failed'`)
	sender.Wake(w.keys(r))
	w.eventually("given up", func() bool { return w.in(r, affiliate.DeliveryDeadLettered) == 4 })
	w.eventually("the answers", func() bool { return queue.refuse.Load() < 0 })
	if n := w.Count(`select count(*) from webhook_endpoints where consecutive_failures = 4 and dead_letters = 4`); n != 1 {
		t.Error("the endpoint counts other failures than there were")
	}
	if n := len(r.ids()); n != 4 {
		t.Errorf("%d requests for 4 events", n)
	}
}

func TestLockedEndpointHoldsUpNoOther(t *testing.T) {
	w := newQueueWorld(t)
	locked, free := w.newSubscriber(saying(http.StatusOK)), w.newSubscriber(saying(http.StatusOK))
	sender, _ := w.send(w.queue)
	w.events(1)
	sender.Wake(w.keys(locked, free))
	w.eventually("both are served", func() bool {
		return w.in(locked, affiliate.DeliveryDelivered)+w.in(free, affiliate.DeliveryDelivered) == 2
	})
	tx, err := w.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock := sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	t.Cleanup(unlock)
	if _, err := tx.Exec(t.Context(), `select from webhook_endpoints where id = $1 for update`, locked.id); err != nil {
		t.Fatal(err)
	}
	w.events(30)
	sender.Wake(w.keys(locked, free))
	w.eventually("all of the other", func() bool { return w.in(free, affiliate.DeliveryDelivered) == 31 })
	w.forward(11 * time.Second) // the leases are prolonged
	w.events(1)
	sender.Wake(w.keys(free))
	w.eventually("what came later", func() bool { return w.in(free, affiliate.DeliveryDelivered) == 32 })
	unlock()
	w.eventually("all of the locked one", func() bool { return w.in(locked, affiliate.DeliveryDelivered) == 32 })
}

// heldQueue holds a reading back until other endpoints are asked for, and finds
// nothing that nobody serves.
type heldQueue struct {
	webhook.Queue
	hold     atomic.Bool
	held     chan struct{} // a reading,
	released chan struct{} // by an endpoint that is asked for
}

func (q *heldQueue) Due(ctx context.Context, sender affiliate.SenderID, wanted []rules.Read, now time.Time) ([]rules.Target, []rules.DueDelivery, error) {
	hold := q.hold.CompareAndSwap(true, false)
	targets, due, err := q.Queue.Due(ctx, sender, wanted, now)
	if hold {
		q.held <- struct{}{}
		select {
		case <-q.released:
		case <-ctx.Done():
		}
	}
	return targets, due, err
}

func (q *heldQueue) Claim(
	ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey, now, until time.Time,
) ([]affiliate.EndpointKey, error) {
	select {
	case q.released <- struct{}{}:
	default:
	}
	return q.Queue.Claim(ctx, sender, endpoints, now, until)
}

func (*heldQueue) Unclaimed(context.Context, time.Time, int) ([]affiliate.EndpointKey, error) {
	return nil, nil
}

func TestEndpointThatIsWokenWhileItIsFoundOffIsServed(t *testing.T) {
	w := newQueueWorld(t)
	r, other := w.newSubscriber(saying(http.StatusOK)), w.newSubscriber(saying(http.StatusOK))
	queue := &heldQueue{Queue: w.queue, held: make(chan struct{}), released: make(chan struct{})}
	sender, _ := w.send(queue)
	w.events(1)
	sender.Wake(w.keys(r))
	w.eventually("the first", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 1 })
	w.Exec(`update webhook_endpoints set active = false, epoch = epoch + 1`)
	queue.hold.Store(true)
	<-queue.held
	w.Exec(`update webhook_endpoints set active = true`)
	w.events(1)
	sender.Wake(w.keys(r, other)) // both at once: who asks for the other has heard of it
	w.eventually("the second", func() bool { return w.in(r, affiliate.DeliveryDelivered) == 2 })
}

func TestEndpointThatIsEnabledAgainAfterGoneIsServed(t *testing.T) {
	w := newQueueWorld(t)
	var code atomic.Int64
	code.Store(http.StatusGone)
	r := w.newHolder(func() int { return int(code.Load()) })
	sender, _ := w.send(w.queue)
	w.known(sender, r.subscriber)
	r.hold.Store(true)
	w.events(50)
	sender.Wake(w.keys(r.subscriber))
	for range rules.InFlight {
		<-r.begun
	}
	// A user disables it before the receiver answers 410, and enables it again.
	w.Exec(`update webhook_endpoints set active = false, epoch = epoch + 1`)
	r.free()
	w.eventually("their outcomes", func() bool { return w.in(r.subscriber, affiliate.DeliveryDeadLettered) == rules.InFlight })
	code.Store(http.StatusOK)
	w.Exec(`update webhook_endpoints set active = true, consecutive_failures = 0`)
	w.events(1)
	sender.Wake(w.keys(r.subscriber))
	w.eventually("what came later", func() bool { return w.in(r.subscriber, affiliate.DeliveryDelivered) == 2 })
}

func TestSlowWorkspaceLeavesPlacesToOthers(t *testing.T) {
	w := newQueueWorld(t)
	var slow []*subscriber
	var holders []*holder
	for range 4 {
		h := w.newHolder(ok)
		holders, slow = append(holders, h), append(slow, h.subscriber)
	}
	sender, _ := w.sendWith(w.queue, 4*rules.InFlight)
	w.known(sender, slow...)
	for _, h := range holders {
		h.hold.Store(true)
	}
	w.events(40)
	sender.Wake(w.keys(slow...))
	taken := func() (n int) {
		for _, h := range holders {
			n += len(h.begun)
		}
		return n
	}
	w.eventually("half of the places", func() bool { return taken() >= 2*rules.InFlight })
	first := w.scope
	w.scope.Workspace = w.NewWorkspace()
	other := w.newSubscriber(saying(http.StatusOK))
	w.events(30)
	sender.Wake(w.keys(other))
	w.eventually("all of the other workspace", func() bool { return w.in(other, affiliate.DeliveryDelivered) == 30 })
	if n := taken(); n > 2*rules.InFlight {
		t.Errorf("%d of %d places are one workspace's", n, 4*rules.InFlight)
	}
	w.scope = first
	for _, h := range holders {
		h.free()
	}
	w.eventually("the rest", func() bool {
		return w.Count(`select count(*) from webhook_deliveries where status <> 'delivered'`) == 0
	})
}

// TestHangingEndpointsLeavePlacesToAHealthyOne: one hundred endpoints in eleven
// workspaces hang, first without and then with a known timeout. The first attempt to a
// healthy endpoint of another workspace begins while all of them still hang.
func TestHangingEndpointsLeavePlacesToAHealthyOne(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		each     int // the attempts of one that hangs
	}{
		"not known to hang": {0, 2},
		"known to hang":     {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newQueueWorld(t)
			const endpoints, workspaces, waiting = 100, 11, 12
			var hanging []*holder
			keys := map[affiliate.EndpointKey]bool{}
			for i := range endpoints {
				if i*workspaces/endpoints != (i-1)*workspaces/endpoints || i == 0 {
					w.scope.Workspace = w.NewWorkspace()
				}
				h := w.newHolder(ok)
				h.hold.Store(true)
				hanging = append(hanging, h)
				keys[w.keys(h.subscriber)[0]] = true
			}
			for _, row := range w.Texts(`select distinct workspace_id::text from webhook_endpoints`) {
				w.scope.Workspace, _ = affiliate.ParseID[affiliate.Workspace](row)
				w.events(waiting)
			}
			w.Exec(`update webhook_endpoints set consecutive_failures = $1`, test.failures)
			// As many places as the hanging endpoints would take with ten attempts each.
			sender, _ := w.sendWith(w.queue, endpoints*rules.InFlight)
			sender.Wake(slices.Collect(maps.Keys(keys)))
			for _, h := range hanging {
				for range test.each {
					<-h.begun
				}
			}
			w.scope.Workspace = w.NewWorkspace()
			healthy := w.newSubscriber(saying(http.StatusOK))
			w.events(1)
			sender.Wake(w.keys(healthy))
			w.eventually("the healthy one", func() bool { return w.in(healthy, affiliate.DeliveryDelivered) == 1 })
			for _, h := range hanging {
				if n := len(h.ids()); n != test.each {
					t.Fatalf("%d attempts at a time to an endpoint that hangs, want %d", n, test.each)
				}
			}
		})
	}
}

func TestEndpointWithoutItsKeyHoldsUpNoOther(t *testing.T) {
	w := newQueueWorld(t)
	sealed, open := w.newSubscriber(saying(http.StatusOK)), w.newSubscriber(saying(http.StatusOK))
	secret := w.seal.Seal(sealed.secret, sealed.id.UUID[:])
	w.Exec(`update webhook_endpoints set secret = 'b:another key' where id = $1`, sealed.id)
	sender, _ := w.send(w.queue)
	w.events(5)
	sender.Wake(w.keys(sealed, open))
	w.eventually("all of the other", func() bool { return w.in(open, affiliate.DeliveryDelivered) == 5 })
	if n := len(sealed.ids()); n != 0 {
		t.Errorf("%d requests without a signature", n)
	}
	w.Exec(`update webhook_endpoints set secret = $1 where id = $2`, secret, sealed.id)
	w.forward(2 * time.Minute)
	w.eventually("all when the key is there", func() bool { return w.in(sealed, affiliate.DeliveryDelivered) == 5 })
}
