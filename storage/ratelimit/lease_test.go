package ratelimit

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/storage/redistest"
)

var tracking = Zone{Name: "tracking", Limit: 1000}

// burst sends n requests in total through the leases, with several goroutines per lease.
// It returns the number of admitted requests.
func burst(leases []*Lease, subject string, n int) int64 {
	var allowed, sent atomic.Int64
	var group sync.WaitGroup
	for _, lease := range leases {
		for range 8 {
			group.Go(func() {
				for sent.Add(1) <= int64(n) {
					if lease.Take(context.Background(), tracking, subject).Allowed {
						allowed.Add(1)
					}
				}
			})
		}
	}
	group.Wait()
	return allowed.Load()
}

func TestLease_OneProcessAdmitsExactlyTheLimit(t *testing.T) {
	client := connect(t, redistest.New(t))
	c := newClock()
	lease := NewLease(client, Options{Now: c.now})
	if n := burst([]*Lease{lease}, "a", 1100); n != 1000 {
		t.Fatalf("%d of 1100 requests were admitted, want 1000", n)
	}
	result := lease.Take(t.Context(), tracking, "a")
	if result.Allowed || result.RetryAfter < time.Second {
		t.Fatalf("got %+v, want a refusal", result)
	}
	c.advance(result.RetryAfter)
	if !lease.Take(t.Context(), tracking, "a").Allowed {
		t.Fatal("a request after RetryAfter was refused")
	}
	// The limit must also be exact with the real clock.
	if n := burst([]*Lease{NewLease(client, Options{})}, "b", 1100); n != 1000 {
		t.Fatalf("%d of 1100 requests were admitted with the real clock, want 1000", n)
	}
}

func TestLease_FourProcessesShareTheLimit(t *testing.T) {
	client := connect(t, redistest.New(t))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	leases := make([]*Lease, 4)
	for i := range leases {
		leases[i] = NewLease(client, Options{Timeout: longTimeout})
		running.Go(func() { leases[i].Run(ctx) })
	}
	allowed := burst(leases, "a", 1400)
	if allowed < 950 || allowed > 1000 {
		t.Fatalf("%d of 1400 requests were admitted, want 950 to 1000", allowed)
	}
	// The other three leases must return their unused tokens after about a second, long
	// before the tokens leave the window.
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && allowed < 1000; time.Sleep(20 * time.Millisecond) {
		allowed += burst(leases[:1], "a", 5)
	}
	if allowed != 1000 {
		t.Errorf("after the unused tokens were returned, %d requests were admitted in total, want 1000", allowed)
	}
	cancel()
	running.Wait()
}

func TestLease_RareRequestsUseOneTokenEach(t *testing.T) {
	c := newClock()
	lease := NewLease(connect(t, redistest.New(t)), Options{Timeout: longTimeout, Now: c.now})
	// A click is sent every 1.1 s. For each click, the lease takes a block of tokens,
	// uses one token and returns the others.
	for i := range 50 {
		if !lease.Take(t.Context(), tracking, "a").Allowed {
			t.Fatalf("click %d was refused", i)
		}
		c.advance(1100 * time.Millisecond)
		lease.sweep(t.Context())
	}
	if n := burst([]*Lease{lease}, "a", 1100); n != 950 {
		t.Errorf("%d more requests were admitted after 50 clicks, want 950", n)
	}
}

func TestLease_WithoutRedisForgetsIdleSubjects(t *testing.T) {
	c := newClock()
	lease := NewLease(nil, Options{Now: c.now})
	for range 3 {
		lease.Take(t.Context(), Zone{Name: "visitor", Limit: 2}, "a")
	}
	lease.sweep(t.Context())
	if n := lease.subjects.Len(); n != 1 || lease.Take(t.Context(), Zone{Name: "visitor", Limit: 2}, "a").Allowed {
		t.Errorf("%d subjects are remembered, want one, over its limit", n)
	}
	c.advance(leaseSpan * time.Second)
	lease.sweep(t.Context())
	if n := lease.subjects.Len(); n != 0 {
		t.Errorf("%d subjects are remembered after the window, want none", n)
	}
}

// The test makes random requests and random calls of sweep, with one process and with
// four processes. No period of 60 s may contain more admitted requests than the limit.
// With one process, the oracle also checks every refusal.
func TestLease_MatchesOracle(t *testing.T) {
	property := func(client redis.UniversalClient, collectors int) func(*rapid.T) {
		return func(t *rapid.T) {
			c := newClock()
			leases := make([]*Lease, collectors)
			for i := range leases {
				leases[i] = NewLease(client, Options{Timeout: longTimeout, Now: c.now})
			}
			// A lease takes tokens in blocks. With the limit 250 a block has 3 tokens,
			// with the other limits it has one.
			zone := Zone{Name: "test", Limit: rapid.SampledFrom([]int64{5, 20, 250}).Draw(t, "limit")}
			subject := strconv.FormatInt(lastSubject.Add(1), 10)
			var reference oracle
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				c.advance(time.Duration(rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, 30_000), rapid.SampledFrom([]int64{999, 1000, 1001, 60_000, 61_000})).Draw(t, "ms")) * time.Millisecond)
				lease := rapid.SampledFrom(leases).Draw(t, "collector")
				if rapid.IntRange(0, 4).Draw(t, "act") == 0 {
					lease.sweep(context.Background())
					continue
				}
				for range rapid.SampledFrom([]int{1, 1, 3, 30}).Draw(t, "clicks") {
					result := lease.Take(context.Background(), zone, subject)
					if collectors == 1 || result.Allowed {
						reference.check(t, result, c.ms.Load(), zone.Limit, 62)
					}
					if result.Allowed {
						continue
					}
					if collectors == 1 {
						c.advance(result.RetryAfter)
						result = lease.Take(context.Background(), zone, subject)
						if !result.Allowed {
							t.Fatal("a request after RetryAfter was refused")
						}
						reference.check(t, result, c.ms.Load(), zone.Limit, 62)
					}
					break
				}
			}
		}
	}
	client := connect(t, redistest.New(t))
	t.Run("one process", rapid.MakeCheck(property(client, 1)))
	t.Run("four processes", rapid.MakeCheck(property(client, 4)))
	t.Run("without Redis", rapid.MakeCheck(property(nil, 1)))
}

func TestLease_CountsLocallyWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	client := connect(t, server.URL)
	c := newClock()
	var fallbacks atomic.Int64
	lease := NewLease(client, Options{Now: c.now, Fallback: func(string) { fallbacks.Add(1) }})
	before := burst([]*Lease{lease}, "a", 300)
	server.Kill9()
	if n := burst([]*Lease{lease}, "a", 1100); before+n != 1000 {
		t.Fatalf("%d requests were admitted with Redis and %d without it, want 1000 in total", before, n)
	}
	if fallbacks.Load() == 0 {
		t.Error("Fallback was not called")
	}

	// After the restart, the requests that were admitted without Redis must count in the
	// shared window, so that other processes do not admit more requests.
	server.Restart()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		c.advance(300 * time.Millisecond)
		lease.sweep(t.Context())
		// The lease is settled when its entry in Redis contains all tokens that it has
		// used.
		lease.mu.Lock()
		s, _ := lease.subjects.Peek(subjectKey{"tracking", "a"})
		lease.mu.Unlock()
		s.mu.Lock()
		settled := !s.rowOutdated
		s.mu.Unlock()
		if settled {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the lease has not written its row within 20 s after the restart")
		}
	}
	if n := burst([]*Lease{NewLease(client, Options{Now: c.now})}, "a", 20); n != 0 {
		t.Errorf("another process admitted %d more requests, want none", n)
	}
}

// A call can be delayed on its way to Redis until a later call has returned.
func TestLease_IgnoresCallThatArrivesLate(t *testing.T) {
	client := connect(t, redistest.New(t))
	c := newClock()
	lease := NewLease(client, Options{Timeout: longTimeout, Now: c.now})
	burst([]*Lease{lease}, "a", 5)
	s := lease.subject(tracking, "a")
	lateRow := s.row()
	burst([]*Lease{lease}, "a", 895)
	got, err := lease.opt.acquire(t.Context(), client, s.key, c.now().UnixMilli(), tracking.Limit, 12, leaseSpan, leaseBucketMs, s.holder, lateRow)
	if err != nil || got.granted != 0 {
		t.Fatalf("the late call returned %d tokens, %v, want 0", got.granted, err)
	}
	other := NewLease(client, Options{Timeout: longTimeout, Now: c.now})
	if n := burst([]*Lease{other}, "a", 1100); n > 100 || n < 80 {
		t.Errorf("after 900 requests, another process admits %d requests, want 80 to 100", n)
	}
}

// The client of a Cluster can send a call again after a lost connection.
func TestLease_CallThatIsSentTwiceCountsOnce(t *testing.T) {
	client := connect(t, redistest.New(t))
	c := newClock()
	lease := NewLease(client, Options{Timeout: longTimeout, Now: c.now})
	burst([]*Lease{lease}, "a", 12)
	s := lease.subject(tracking, "a")
	s.calls++
	row := s.row()
	for range 2 {
		got, err := lease.opt.acquire(t.Context(), client, s.key, c.now().UnixMilli(), tracking.Limit, 12, leaseSpan, leaseBucketMs, s.holder, row)
		if err != nil || got.granted != 12 || got.sum != 24 {
			t.Errorf("the call returned %d tokens, the sum %d and the error %v, want 12 and 24", got.granted, got.sum, err)
		}
	}
}

func TestLease_ReturnsTokensWhenRunEnds(t *testing.T) {
	client := connect(t, redistest.New(t))
	c := newClock()
	stopped := NewLease(client, Options{Timeout: longTimeout, Now: c.now})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped.Take(t.Context(), tracking, "a")
	stopped.Run(ctx)
	if n := burst([]*Lease{NewLease(client, Options{Timeout: longTimeout, Now: c.now})}, "a", 1100); n != 999 {
		t.Errorf("another process admits %d requests, want 999", n)
	}
}

func BenchmarkLease(b *testing.B) {
	lease := NewLease(connect(b, redistest.New(b)), Options{})
	zone := Zone{Name: "bench", Limit: 1_000_000_000}
	b.ReportAllocs()
	for b.Loop() {
		lease.Take(b.Context(), zone, "a")
	}
}

// BenchmarkLeaseWithFullRows measures the time that Redis needs for a call if each
// collector has used tokens in each second of the window.
func BenchmarkLeaseWithFullRows(b *testing.B) {
	for _, collectors := range []int{1, 4} {
		b.Run(strconv.Itoa(collectors), func(b *testing.B) {
			client, c := connect(b, redistest.New(b)), newClock()
			leases := make([]*Lease, collectors)
			for i := range leases {
				leases[i] = NewLease(client, Options{Now: c.now})
			}
			takeForOneSecond := func() {
				for _, lease := range leases {
					for range 12 / collectors {
						lease.Take(b.Context(), tracking, "a")
					}
				}
				c.advance(time.Second)
			}
			for range leaseSpan {
				takeForOneSecond()
			}
			client.ConfigResetStat(b.Context())
			for b.Loop() {
				takeForOneSecond()
			}
			stats := client.InfoMap(b.Context(), "commandstats").Item("Commandstats", "cmdstat_evalsha")
			var calls, micros int
			if _, err := fmt.Sscanf(stats, "calls=%d,usec=%d,", &calls, &micros); err != nil || calls == 0 {
				b.Fatalf("read the calls and microseconds from %q: %v", stats, err)
			}
			b.ReportMetric(float64(micros)/float64(calls), "redis-µs/call")
		})
	}
}
