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

// faultyQueue is a queue whose reads are slow or whose commits return an error.
type faultyQueue struct {
	webhook.Queue
	readDelay time.Duration
	failures  atomic.Int64 // transactions that commit but return an error
}

func (q *faultyQueue) Due(ctx context.Context, sender affiliate.SenderID, wanted []rules.Read, now time.Time) ([]rules.Target, []rules.DueDelivery, error) {
	targets, due, err := q.Queue.Due(ctx, sender, wanted, now)
	time.Sleep(q.readDelay)
	return targets, due, err
}

func (q *faultyQueue) InTx(ctx context.Context, fn func(tx webhook.QueueTx) error) error {
	err := q.Queue.InTx(ctx, fn)
	if err == nil && q.failures.Add(-1) >= 0 {
		return context.DeadlineExceeded
	}
	return err
}

func TestSender_DeliversWithSlowReads(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(respondStatus(http.StatusOK))
	sender, _ := w.startSender(&faultyQueue{Queue: w.queue, readDelay: 1200 * time.Millisecond})
	w.addEvents(20)
	sender.Wake(w.keys(r))
	w.eventually("all are delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 20 })
	if n := len(r.ids()); n != 20 {
		t.Errorf("%d requests for 20 events", n)
	}
}

func TestSender_CountsAnOutcomeOnceIfTheCommitReturnsAnError(t *testing.T) {
	w := newQueueWorld(t)
	r := w.newSubscriber(respondStatus(http.StatusForbidden))
	queue := &faultyQueue{Queue: w.queue}
	queue.failures.Store(2)
	sender, _ := w.startSender(queue)
	w.addEvents(4)
	w.Exec(`update webhook_deliveries set tier = 9, status = 'failed'`)
	sender.Wake(w.keys(r))
	w.eventually("all are dead-lettered", func() bool { return w.countStatus(r, affiliate.DeliveryDeadLettered) == 4 })
	w.eventually("the commits succeed", func() bool { return queue.failures.Load() < 0 })
	if n := w.Count(`select count(*) from webhook_endpoints where consecutive_failures = 4 and dead_letters = 4`); n != 1 {
		t.Error("the endpoint has a wrong number of failures")
	}
	if n := len(r.ids()); n != 4 {
		t.Errorf("%d requests for 4 events", n)
	}
}

func TestSender_LockedEndpointDoesNotDelayOthers(t *testing.T) {
	w := newQueueWorld(t)
	locked, free := w.newSubscriber(respondStatus(http.StatusOK)), w.newSubscriber(respondStatus(http.StatusOK))
	sender, _ := w.startSender(w.queue)
	w.addEvents(1)
	sender.Wake(w.keys(locked, free))
	w.eventually("both are served", func() bool {
		return w.countStatus(locked, affiliate.DeliveryDelivered)+w.countStatus(free, affiliate.DeliveryDelivered) == 2
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
	w.addEvents(30)
	sender.Wake(w.keys(locked, free))
	w.eventually("all of the other are delivered", func() bool { return w.countStatus(free, affiliate.DeliveryDelivered) == 31 })
	w.advance(11 * time.Second) // the leases must be renewed
	w.addEvents(1)
	sender.Wake(w.keys(free))
	w.eventually("the later event is delivered", func() bool { return w.countStatus(free, affiliate.DeliveryDelivered) == 32 })
	unlock()
	w.eventually("all of the locked endpoint are delivered", func() bool { return w.countStatus(locked, affiliate.DeliveryDelivered) == 32 })
}

// blockingQueue can block one read until the next claim. Its search finds no endpoints.
type blockingQueue struct {
	webhook.Queue
	block   atomic.Bool
	blocked chan struct{} // receives a value when a read is blocked
	release chan struct{} // receives a value at the next claim
}

func (q *blockingQueue) Due(ctx context.Context, sender affiliate.SenderID, wanted []rules.Read, now time.Time) ([]rules.Target, []rules.DueDelivery, error) {
	hold := q.block.CompareAndSwap(true, false)
	targets, due, err := q.Queue.Due(ctx, sender, wanted, now)
	if hold {
		q.blocked <- struct{}{}
		select {
		case <-q.release:
		case <-ctx.Done():
		}
	}
	return targets, due, err
}

func (q *blockingQueue) Claim(
	ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey, now, until time.Time,
) ([]affiliate.EndpointKey, error) {
	select {
	case q.release <- struct{}{}:
	default:
	}
	return q.Queue.Claim(ctx, sender, endpoints, now, until)
}

func (*blockingQueue) Unclaimed(context.Context, time.Time, int) ([]affiliate.EndpointKey, error) {
	return nil, nil
}

// The sender reads that an endpoint is disabled. Before it gets the result, the endpoint is
// enabled again and receives an event. The event must be delivered.
func TestSender_ServesEndpointThatIsWokenWhileItIsDropped(t *testing.T) {
	w := newQueueWorld(t)
	r, other := w.newSubscriber(respondStatus(http.StatusOK)), w.newSubscriber(respondStatus(http.StatusOK))
	queue := &blockingQueue{Queue: w.queue, blocked: make(chan struct{}), release: make(chan struct{})}
	sender, _ := w.startSender(queue)
	w.addEvents(1)
	sender.Wake(w.keys(r))
	w.eventually("the first is delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 1 })
	w.Exec(`update webhook_endpoints set active = false, epoch = epoch + 1`)
	queue.block.Store(true)
	<-queue.blocked
	w.Exec(`update webhook_endpoints set active = true`)
	w.addEvents(1)
	sender.Wake(w.keys(r, other)) // the claim of other shows that r was woken before
	w.eventually("the second is delivered", func() bool { return w.countStatus(r, affiliate.DeliveryDelivered) == 2 })
}

func TestSender_ServesEndpointThatIsEnabledAgainAfterGone(t *testing.T) {
	w := newQueueWorld(t)
	var code atomic.Int64
	code.Store(http.StatusGone)
	r := w.newBlockingSubscriber(func() int { return int(code.Load()) })
	sender, _ := w.startSender(w.queue)
	w.deliverFirst(sender, r.subscriber)
	r.block.Store(true)
	w.addEvents(50)
	sender.Wake(w.keys(r.subscriber))
	for range rules.InFlight {
		<-r.blocked
	}
	// A user disables it before the receiver answers 410, and enables it again.
	w.Exec(`update webhook_endpoints set active = false, epoch = epoch + 1`)
	r.release()
	w.eventually("their outcomes are stored", func() bool { return w.countStatus(r.subscriber, affiliate.DeliveryDeadLettered) == rules.InFlight })
	code.Store(http.StatusOK)
	w.Exec(`update webhook_endpoints set active = true, consecutive_failures = 0`)
	w.addEvents(1)
	sender.Wake(w.keys(r.subscriber))
	w.eventually("the later event is delivered", func() bool { return w.countStatus(r.subscriber, affiliate.DeliveryDelivered) == 2 })
}

func TestSender_SlowWorkspaceLeavesSlotsToOthers(t *testing.T) {
	w := newQueueWorld(t)
	var slow []*subscriber
	var blocking []*blockingSubscriber
	for range 4 {
		h := w.newBlockingSubscriber(ok)
		blocking, slow = append(blocking, h), append(slow, h.subscriber)
	}
	sender, _ := w.startSenderWithLimit(w.queue, 4*rules.InFlight)
	w.deliverFirst(sender, slow...)
	for _, h := range blocking {
		h.block.Store(true)
	}
	w.addEvents(40)
	sender.Wake(w.keys(slow...))
	inUse := func() (n int) {
		for _, h := range blocking {
			n += len(h.blocked)
		}
		return n
	}
	w.eventually("half of the slots are in use", func() bool { return inUse() >= 2*rules.InFlight })
	first := w.scope
	w.scope.Workspace = w.NewWorkspace()
	other := w.newSubscriber(respondStatus(http.StatusOK))
	w.addEvents(30)
	sender.Wake(w.keys(other))
	w.eventually("all of the other workspace are delivered", func() bool { return w.countStatus(other, affiliate.DeliveryDelivered) == 30 })
	if n := inUse(); n > 2*rules.InFlight {
		t.Errorf("one workspace uses %d of %d slots", n, 4*rules.InFlight)
	}
	w.scope = first
	for _, h := range blocking {
		h.release()
	}
	w.eventually("the others are delivered", func() bool {
		return w.Count(`select count(*) from webhook_deliveries where status <> 'delivered'`) == 0
	})
}

// One hundred endpoints in eleven workspaces hang, first without and then with an earlier
// timeout. The first attempt to a healthy endpoint of another workspace must start while
// all of them hang.
func TestSender_HangingEndpointsLeaveSlotsToAHealthyOne(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		attempts int // attempts in flight of each hanging endpoint
	}{
		"not known to hang": {0, 2},
		"known to hang":     {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newQueueWorld(t)
			const endpoints, workspaces, waiting = 100, 11, 12
			var hanging []*blockingSubscriber
			keys := map[affiliate.EndpointKey]bool{}
			for i := range endpoints {
				if i*workspaces/endpoints != (i-1)*workspaces/endpoints || i == 0 {
					w.scope.Workspace = w.NewWorkspace()
				}
				h := w.newBlockingSubscriber(ok)
				h.block.Store(true)
				hanging = append(hanging, h)
				keys[w.keys(h.subscriber)[0]] = true
			}
			for _, row := range w.Texts(`select distinct workspace_id::text from webhook_endpoints`) {
				w.scope.Workspace, _ = affiliate.ParseID[affiliate.Workspace](row)
				w.addEvents(waiting)
			}
			w.Exec(`update webhook_endpoints set consecutive_failures = $1`, test.failures)
			// There are only as many slots as the hanging endpoints would use with ten attempts
			// each.
			sender, _ := w.startSenderWithLimit(w.queue, endpoints*rules.InFlight)
			sender.Wake(slices.Collect(maps.Keys(keys)))
			for _, h := range hanging {
				for range test.attempts {
					<-h.blocked
				}
			}
			w.scope.Workspace = w.NewWorkspace()
			healthy := w.newSubscriber(respondStatus(http.StatusOK))
			w.addEvents(1)
			sender.Wake(w.keys(healthy))
			w.eventually("the event of the healthy endpoint is delivered", func() bool { return w.countStatus(healthy, affiliate.DeliveryDelivered) == 1 })
			for _, h := range hanging {
				if n := len(h.ids()); n != test.attempts {
					t.Fatalf("%d attempts in flight to a hanging endpoint, want %d", n, test.attempts)
				}
			}
		})
	}
}

func TestSender_SecretThatCannotBeDecryptedDoesNotDelayOthers(t *testing.T) {
	w := newQueueWorld(t)
	broken, healthy := w.newSubscriber(respondStatus(http.StatusOK)), w.newSubscriber(respondStatus(http.StatusOK))
	secret := w.seal.Seal(broken.secret, broken.id.UUID[:])
	w.Exec(`update webhook_endpoints set secret = 'b:another key' where id = $1`, broken.id)
	sender, _ := w.startSender(w.queue)
	w.addEvents(5)
	sender.Wake(w.keys(broken, healthy))
	w.eventually("all of the other are delivered", func() bool { return w.countStatus(healthy, affiliate.DeliveryDelivered) == 5 })
	if n := len(broken.ids()); n != 0 {
		t.Errorf("%d requests without a signature", n)
	}
	w.Exec(`update webhook_endpoints set secret = $1 where id = $2`, secret, broken.id)
	w.advance(2 * time.Minute)
	w.eventually("all are delivered with the right key", func() bool { return w.countStatus(broken, affiliate.DeliveryDelivered) == 5 })
}
