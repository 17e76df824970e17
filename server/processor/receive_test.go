package processor_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// Anybody can send messages without a valid signature. They cause few writes, and the sum is
// right as soon as the next write follows.
func TestReceiveProcessorEvent_CountsSignatureFailures(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.clock.Set(f.clock.Now().Truncate(time.Hour).Add(time.Minute))
	bad := func() int64 {
		t.Helper()
		_, err := f.deliverSigned([]byte(`{}`), "t=1,v1=00")
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidSignature)
		status, err := f.service.GetProcessorConnection(f.asOwner(), &affiliatev1.GetProcessorConnectionRequest{Processor: "stripe"})
		if err != nil {
			t.Fatal(err)
		}
		return status.GetSignatureFailures()
	}
	for i := range int64(10) {
		if got := bad(); got != i+1 {
			t.Errorf("%d failures, want %d", got, i+1)
		}
	}
	for range 5 {
		if got := bad(); got < 10 || got > 15 { // a slow machine begins another second
			t.Errorf("%d failures, want at least 10", got)
		}
	}
	f.clock.Advance(time.Second)
	if got := bad(); got != 16 {
		t.Errorf("%d failures, want 16", got)
	}
}

// Events that arrive faster than they can be stored are refused, and Stripe sends them again.
func TestReceiveProcessorEvent_Overload(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.put(stripeserver.NewSession("cs_a", nil))
	holder, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `lock table processor_events in exclusive mode`); err != nil {
		t.Fatal(err)
	}
	const limit, events = 500, 520
	bodies := make([][]byte, events)
	for i := range bodies {
		bodies[i] = f.event("checkout.session.completed", "cs_a")
	}
	var refused, stored atomic.Int64
	var calls sync.WaitGroup
	for _, body := range bodies {
		calls.Go(func() {
			switch _, err := f.deliver(body); {
			case err == nil:
				stored.Add(1)
			case pgtest.ReasonOf(t, err) == affiliate.ReasonServiceUnavailable:
				refused.Add(1)
			}
		})
	}
	pgtest.Eventually(t, "the events above the limit are refused", func() bool { return refused.Load() == events-limit })
	if err := holder.Rollback(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	if stored.Load() != limit {
		t.Errorf("%d events are stored, want %d", stored.Load(), limit)
	}
	f.WantCount(limit, "events", `select count(*) from processor_events`)
}

// Messages that cannot be from the processor count. Valid events do not, because the processor
// sends the events of all merchants from the same addresses.
func TestReceiveProcessorEvent_LimitsFailures(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.put(stripeserver.NewSession("cs_a", nil))
	unknown := affiliate.NewID[processor.ConnectionID](f.clock.Now())
	send := func(processor, connection string) error {
		_, err := f.service.ReceiveProcessorEvent(t.Context(), &affiliatev1.ReceiveProcessorEventRequest{
			Processor: processor, ConnectionId: connection, Body: &httpbody.HttpBody{Data: []byte(`{}`)},
		})
		return err
	}
	mustDeliver := func() {
		t.Helper()
		if _, err := f.deliver(f.event("checkout.session.completed", "cs_a")); err != nil {
			t.Fatal(err)
		}
	}
	mustDeliver()
	if f.limiter.count != 0 {
		t.Fatalf("a valid event counts: %d", f.limiter.count)
	}
	f.limiter.limit = 4
	pgtest.RequireRefusal(t, send("stripe", f.connection.String()), affiliate.ReasonInvalidSignature)
	pgtest.RequireRefusal(t, send("stripe", unknown.String()), affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, send("stripe", "x"), affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, send("other", unknown.String()), affiliate.ReasonNotFound)
	for _, connection := range []string{f.connection.String(), unknown.String()} {
		if metadata := pgtest.RequireRefusal(t, send("stripe", connection), affiliate.ReasonRateLimitExceeded); metadata["retry_after"] != "7" {
			t.Errorf("retry after %q s, want 7", metadata["retry_after"])
		}
	}
	mustDeliver()
	if f.limiter.count != 6 || f.limiter.zone != server.ZoneGeneral {
		t.Errorf("%d requests count in the zone %s, want 6 in general", f.limiter.count, f.limiter.zone)
	}
}

func TestReceiveProcessorEvent_RemembersUnknownConnections(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.put(stripeserver.NewSession("cs_a", nil))
	clock := pgtest.NewClock(f.clock.Now())
	f.service.Now = clock.Now
	body := f.event("checkout.session.completed", "cs_a")
	signature := f.sign(body, f.secret, clock.Now())
	f.Exec(`update processor_connections set deleted_at = now()`)
	deliver := func() error {
		_, err := f.deliverSigned(body, signature)
		return err
	}
	pgtest.RequireRefusal(t, deliver(), affiliate.ReasonNotFound)

	// A call that read the table would wait for the lock.
	locked, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locked.Exec(t.Context(), `lock table processor_connections in access exclusive mode`); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		pgtest.RequireRefusal(t, deliver(), affiliate.ReasonNotFound)
	}
	if err := locked.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	f.Exec(`update processor_connections set deleted_at = null`)
	clock.Advance(5*time.Second - time.Millisecond)
	pgtest.RequireRefusal(t, deliver(), affiliate.ReasonNotFound)
	clock.Advance(time.Millisecond)
	if err := deliver(); err != nil {
		t.Errorf("after 5 seconds, the event of a new connection is refused: %v", err)
	}
}
