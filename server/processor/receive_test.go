package processor_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
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
