package webhook_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// A read takes 1.2 s on the clock of the test. The sender discards deliveries that it read
// more than a second ago, so it must not count the time of the read itself.
func TestSender_DeliversWithSlowReads(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newSubscriber(http.StatusOK)
	f.publish(20)
	db := f.OpenHooked(func(sql string, _ []any) error {
		if isRead(sql) {
			f.clock.Advance(1200 * time.Millisecond)
		}
		return nil
	})
	f.startSenderWith(db, 1000).wake(r)
	r.awaitDelivered(20)
	if n := r.countRequests(); n != 20 {
		t.Errorf("%d requests were sent for 20 events", n)
	}
}

func TestSender_CountsAnOutcomeOnceIfTheCommitReturnsAnError(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newSubscriber(http.StatusForbidden)
	f.publish(4)
	r.leaveOnlyLastAttempt()
	var commits atomic.Int64
	var committed atomic.Bool // a commit has succeeded
	db := f.OpenHooked(func(sql string, _ []any) error {
		if sql == "commit" && commits.Add(1) <= 2 {
			return pgtest.ErrResponseLost
		}
		return nil
	}, func(sql string, _ int64) {
		if sql == "commit" {
			committed.Store(true)
		}
	})
	f.startSenderWith(db, 1000).wake(r)
	r.await(4, domain.DeliveryDeadLettered)
	pgtest.Eventually(t, "a commit succeeds", committed.Load)
	if health := r.endpoint().Health; health.ConsecutiveFailures != 4 || health.DeadLetters != 4 {
		t.Errorf("the endpoint has %d failures and %d dead letters, want 4 and 4", health.ConsecutiveFailures, health.DeadLetters)
	}
	if n := r.countRequests(); n != 4 {
		t.Errorf("%d requests were sent for 4 events", n)
	}
}

func TestSender_LockedEndpointDoesNotDelayOthers(t *testing.T) {
	f := newSenderFixture(t)
	locked, free := f.newSubscriber(http.StatusOK), f.newSubscriber(http.StatusOK)
	sender := f.startSender()
	f.deliverFirst(sender, locked, free)
	f.inTx(func(tx *postgres.Tx) error {
		if _, err := webhooks.LockEndpoint(t.Context(), tx, f.Scope, locked.id); err != nil {
			return err
		}
		f.publish(30)
		sender.wake(locked, free)
		free.awaitDelivered(31)
		f.clock.Advance(11 * time.Second) // the leases must be renewed
		f.publish(1)
		sender.wake(free)
		free.awaitDelivered(32)
		return nil
	})
	locked.awaitDelivered(32)
}

// A read of the sender returns that an endpoint is disabled. The sender drops such an
// endpoint: it stops serving it. But while the result of the read is on its way, the
// endpoint is enabled again and receives an event. The event must be delivered.
func TestSender_ServesEndpointThatIsWokenWhileItIsDropped(t *testing.T) {
	f := newSenderFixture(t)
	r, other := f.newSubscriber(http.StatusOK), f.newSubscriber(http.StatusOK)
	var block, searched atomic.Bool
	blocked, release := make(chan struct{}), make(chan struct{})
	db := f.OpenHooked(func(sql string, _ []any) error {
		switch {
		case isClaim(sql):
			select {
			case release <- struct{}{}:
			default:
			}
		case isSearch(sql) && searched.Load():
			return errors.New("only a wakeup can lead to a delivery")
		}
		return nil
	}, func(sql string, rows int64) {
		if isSearch(sql) {
			searched.Store(true)
		}
		if isRead(sql) && rows == 0 && block.CompareAndSwap(true, false) {
			blocked <- struct{}{}
			select {
			case <-release:
			case <-t.Context().Done():
			}
		}
	})
	sender := f.startSenderWith(db, 1000)
	pgtest.Eventually(t, "the sender has searched for endpoints and has found none", searched.Load)
	f.deliverFirst(sender, r)
	block.Store(true)
	r.setActive(false)
	<-blocked
	r.setActive(true)
	f.publish(1)
	// The sender claims the endpoint other when it has received both wakeups. The claim
	// ends the blocked read.
	sender.wake(r, other)
	r.awaitDelivered(2)
}

func TestSender_ServesEndpointThatIsEnabledAgainAfterGone(t *testing.T) {
	f := newSenderFixture(t)
	r := f.newBlockingSubscriber(http.StatusGone)
	sender := f.startSender()
	f.deliverFirst(sender, r.subscriber)
	r.block.Store(true)
	f.publish(50)
	sender.wake(r.subscriber)
	r.awaitBlocked(domain.InFlight)
	// A user disables the endpoint before the receiver responds with 410, and enables it
	// again afterwards.
	r.setActive(false)
	r.release()
	r.await(domain.InFlight, domain.DeliveryDeadLettered)
	r.block.Store(false)
	r.setActive(true)
	f.publish(1)
	sender.wake(r.subscriber)
	r.awaitDelivered(2)
}

// A slot is the permission for one attempt in flight. The sender has a limited number of
// slots for all workspaces.
func TestSender_SlowWorkspaceLeavesSlotsToOthers(t *testing.T) {
	f := newSenderFixture(t)
	const slots = 4 * domain.InFlight
	var slow []*blockingSubscriber
	for range 4 {
		slow = append(slow, f.newBlockingSubscriber(http.StatusOK))
	}
	sender := f.startSenderWith(f.DB, slots)
	f.deliverFirst(sender, subscribersOf(slow)...)
	for _, h := range slow {
		h.block.Store(true)
	}
	f.publish(40)
	sender.wake(subscribersOf(slow)...)
	inUse := func() (n int64) {
		for _, h := range slow {
			n += h.blocked.Load()
		}
		return n
	}
	pgtest.Eventually(t, "half of the slots are in use", func() bool { return inUse() >= slots/2 })
	other := f.inNewWorkspace()
	healthy := other.newSubscriber(http.StatusOK)
	other.publish(30)
	sender.wake(healthy)
	healthy.awaitDelivered(30)
	if n := inUse(); n > slots/2 {
		t.Errorf("one workspace uses %d of %d slots, want at most %d", n, slots, slots/2)
	}
	for _, h := range slow {
		h.release()
	}
	for _, h := range slow {
		h.awaitDelivered(41)
	}
}

// One hundred endpoints in ten workspaces hang: they do not respond. In the case "known to
// hang", each of them already has a failure. The first attempt to a healthy endpoint of another
// workspace must start while all of them hang.
func TestSender_HangingEndpointsLeaveSlotsToAHealthyOne(t *testing.T) {
	for name, tc := range map[string]struct {
		failures     int
		wantAttempts int // attempts in flight of each hanging endpoint
	}{
		"not known to hang": {0, 2},
		"known to hang":     {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSenderFixture(t)
			const workspaces, endpoints, events = 10, 10, 12
			var hanging []*blockingSubscriber
			for range workspaces {
				other := f.inNewWorkspace()
				for range endpoints {
					h := other.newBlockingSubscriber(http.StatusOK)
					h.block.Store(true)
					hanging = append(hanging, h)
				}
				other.publish(events)
			}
			f.setHealth(domain.Health{ConsecutiveFailures: tc.failures}, subscribersOf(hanging)...)
			// A slot is the permission for one attempt in flight. There are only as many
			// slots as the hanging endpoints would use with domain.InFlight attempts each.
			sender := f.startSenderWith(f.DB, workspaces*endpoints*domain.InFlight)
			sender.wake(subscribersOf(hanging)...)
			for _, h := range hanging {
				h.awaitBlocked(int64(tc.wantAttempts))
			}
			healthy := f.newSubscriber(http.StatusOK)
			f.publish(1)
			sender.wake(healthy)
			healthy.awaitDelivered(1)
			for _, h := range hanging {
				if n := h.countRequests(); n != tc.wantAttempts {
					t.Errorf("a hanging endpoint has %d attempts in flight, want %d", n, tc.wantAttempts)
				}
			}
			for _, h := range hanging {
				h.release() // otherwise the sender waits for these attempts when it stops
			}
		})
	}
}

func TestSender_SecretThatCannotBeDecryptedDoesNotDelayOthers(t *testing.T) {
	f := newSenderFixture(t)
	broken, healthy := f.newSubscriber(http.StatusOK), f.newSubscriber(http.StatusOK)
	broken.replaceSecret(newKeys(t, "b", 7).Seal(broken.secret, broken.id.UUID[:]), nil)
	sender := f.startSender()
	f.publish(5)
	sender.wake(broken, healthy)
	healthy.awaitDelivered(5)
	if n := broken.countRequests(); n != 0 {
		t.Errorf("%d requests were sent without a signature, want none", n)
	}
	broken.replaceSecret(f.keys.Seal(broken.secret, broken.id.UUID[:]), nil)
	f.clock.Advance(2 * time.Minute)
	broken.awaitDelivered(5)
}
