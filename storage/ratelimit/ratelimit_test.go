package ratelimit

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func connect(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// longTimeout is the timeout for tests that need the response of Redis. It is long, so
// that these tests also pass on a slow machine.
const longTimeout = 10 * time.Second

// clock is a fake clock. Its time changes only when the test calls advance.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_800_000_000_123)
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// oracle checks the decisions of a Limiter or Lease. Unlike these, it has no buckets. It
// stores the exact time, in ms, of every admitted request. minutes is the period of the
// limit. 0 means one minute.
type oracle struct {
	admitted []int64
	minutes  int64
}

// count returns the number of requests that were admitted later than afterMs and not
// later than untilMs.
func (o *oracle) count(afterMs, untilMs int64) int64 {
	var n int64
	for _, at := range o.admitted {
		if at > afterMs && at <= untilMs {
			n++
		}
	}
	return n
}

// check checks a decision. In any period of the limit, the number of admitted requests
// must not be above limit. A request may be refused only if the number of requests
// admitted in the last spanSeconds, multiplied by the minutes of the period, has reached
// limit.
func (o *oracle) check(t *rapid.T, result Result, nowMs, limit, spanSeconds int64) {
	minutes := max(o.minutes, 1)
	spanSeconds *= minutes
	if result.Allowed {
		o.admitted = append(o.admitted, nowMs)
		if n := o.count(nowMs-minutes*60_000, nowMs); n > limit {
			t.Fatalf("%d requests were admitted within %d minutes, want at most %d", n, minutes, limit)
		}
		return
	}
	if n := o.count(nowMs-spanSeconds*1000, nowMs); n < limit {
		t.Fatalf("a request was refused although the window has %d requests and the limit is %d", n, limit)
	}
	if result.RetryAfter < time.Second || result.RetryAfter > time.Duration(spanSeconds)*time.Second || result.RetryAfter%time.Second != 0 {
		t.Fatalf("RetryAfter is %s, want whole seconds from 1 to %d", result.RetryAfter, spanSeconds)
	}
}

// lastSubject is the last subject of the property tests. Each run uses the next number.
var lastSubject atomic.Int64

func limiterProperty(client redis.UniversalClient) func(*rapid.T) {
	return func(t *rapid.T) {
		c := newClock()
		// Two instances with a shared window, or one instance without Redis.
		instances := []*Limiter{NewLimiter(client, Options{Timeout: longTimeout, Now: c.now})}
		if client != nil {
			instances = append(instances, NewLimiter(client, Options{Timeout: longTimeout, Now: c.now}))
		}
		minutes := rapid.SampledFrom([]int64{0, 1, 60}).Draw(t, "minutes")
		zone := Zone{Name: "test", Limit: rapid.Int64Range(1, 12).Draw(t, "limit"), Window: time.Duration(minutes) * time.Minute}
		subject := strconv.FormatInt(lastSubject.Add(1), 10)
		reference := oracle{minutes: minutes}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			ms := rapid.OneOf(rapid.Int64Range(0, 50), rapid.Int64Range(0, 20_000), rapid.Just(int64(1000))).Draw(t, "ms")
			c.advance(time.Duration(ms*max(minutes, 1)) * time.Millisecond)
			limiter := rapid.SampledFrom(instances).Draw(t, "instance")
			result := limiter.Allow(context.Background(), zone, subject)
			reference.check(t, result, c.ms.Load(), zone.Limit, 61)
			if !result.Allowed && rapid.Bool().Draw(t, "wait") {
				c.advance(result.RetryAfter)
				result = limiter.Allow(context.Background(), zone, subject)
				if !result.Allowed {
					t.Fatal("a request after RetryAfter was refused")
				}
				reference.check(t, result, c.ms.Load(), zone.Limit, 61)
			}
		}
	}
}

func TestLimiter_MatchesOracle(t *testing.T) {
	t.Run("with Redis", rapid.MakeCheck(limiterProperty(connect(t, redistest.New(t)))))
	t.Run("without Redis", rapid.MakeCheck(limiterProperty(nil)))
}

func TestLimiter_DoesNotCountRefusedRequests(t *testing.T) {
	for name, client := range map[string]redis.UniversalClient{"with Redis": connect(t, redistest.New(t)), "without Redis": nil} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			limiter, zone := NewLimiter(client, Options{Timeout: longTimeout, Now: c.now}), Zone{Name: "test", Limit: 5}
			for range 5 {
				limiter.Allow(t.Context(), zone, "a")
			}
			for range 59 {
				if limiter.Allow(t.Context(), zone, "a").Allowed {
					t.Fatal("a sixth request was admitted")
				}
				c.advance(time.Second)
			}
			c.advance(2 * time.Second)
			if result := limiter.Allow(t.Context(), zone, "a"); !result.Allowed || result.Remaining != 4 {
				t.Fatalf("the first request in an empty window: got %+v, want Allowed and Remaining 4", result)
			}
			if result := limiter.Allow(t.Context(), zone, "b"); !result.Allowed || result.Remaining != 4 {
				t.Fatalf("the first request of another subject: got %+v, want Allowed and Remaining 4", result)
			}
		})
	}
}

func TestLimiter_CountsLocallyWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	c := newClock()
	var fallbacks atomic.Int64
	limiter := NewLimiter(connect(t, server.URL), Options{Now: c.now, Fallback: func(string) { fallbacks.Add(1) }})
	zone := Zone{Name: "auth", Limit: 10, LocalLimit: 5}
	for range 3 {
		limiter.Allow(t.Context(), zone, "a")
	}
	server.Kill9()
	before := fallbacks.Load() // may be above 0 on a slow machine
	allowed := 0
	for range 20 {
		if limiter.Allow(t.Context(), zone, "a").Allowed {
			allowed++
		}
	}
	// Before the kill, this process admitted three requests. LocalLimit allows five.
	if got := fallbacks.Load() - before; allowed != 2 || got != 20 {
		t.Errorf("%d requests were admitted with %d fallbacks, want 2 and 20", allowed, got)
	}

	server.Restart()
	server.Pause()
	defer server.Resume()
	before = fallbacks.Load()
	if !limiter.Allow(t.Context(), zone, "b").Allowed || fallbacks.Load() == before {
		t.Error("while Redis hangs, a request was refused or Fallback was not called")
	}
}

func TestResult_SetHeaders(t *testing.T) {
	h := http.Header{}
	Result{Limit: 1000, RetryAfter: 3 * time.Second, ResetAfter: 61 * time.Second}.SetHeaders(h, "tracking")
	if h.Get("Retry-After") != "3" || h.Get("RateLimit-Policy") != `"tracking";q=1000;w=60` || h.Get("RateLimit") != `"tracking";r=0;t=3` {
		t.Errorf("after a refusal, the headers are %v, want Retry-After 3, q=1000, r=0 and t=3", h)
	}
	h = http.Header{}
	Result{Allowed: true, Limit: 300, Remaining: 12, ResetAfter: 61 * time.Second}.SetHeaders(h, "general")
	if h.Get("Retry-After") != "" || h.Get("RateLimit") != `"general";r=12;t=61` {
		t.Errorf("for an admitted request, the headers are %v, want no Retry-After, r=12 and t=61", h)
	}
}

func TestLimiter_KeyDoesNotContainSubject(t *testing.T) {
	client := connect(t, redistest.New(t))
	NewLimiter(client, Options{HashKey: []byte("k")}).Allow(t.Context(), Zone{Name: "test", Limit: 1}, "203.0.113.9")
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || keys[0] == "" {
		t.Fatalf("Redis has the keys %q, %v, want one key", keys, err)
	}
	if ttl := client.TTL(t.Context(), keys[0]).Val(); ttl > 62*time.Second || ttl < 60*time.Second {
		t.Errorf("the window expires after %s, want 60 s to 62 s", ttl)
	}
	other := windowKey([]byte("other"), "test", "203.0.113.9")
	if keys[0] == other || len(keys[0]) != len(other) {
		t.Errorf("the key %s does not depend on the hash key", keys[0])
	}
}

func TestLimiter_BoundsLocalWindows(t *testing.T) {
	limiter := NewLimiter(nil, Options{})
	for i := range maxSubjects + 1000 {
		limiter.Allow(t.Context(), Zone{Name: "test", Limit: 1}, strconv.Itoa(i))
	}
	if n := limiter.local.Len(); n != maxSubjects {
		t.Errorf("there are %d local windows, want %d", n, maxSubjects)
	}
}

// commandCounter is a Redis hook that counts the commands of a client.
type commandCounter struct{ atomic.Int64 }

func (c *commandCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commandCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *commandCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.Add(1)
		return next(ctx, cmd)
	}
}

func TestLimiter_SimultaneousRequestsShareCall(t *testing.T) {
	const limit, used, waiting = 30, 1, 40
	client, c := connect(t, redistest.New(t)), newClock()
	var arrived atomic.Int64
	now := func() time.Time { arrived.Add(1); return c.now() }
	limiter := NewLimiter(client, Options{Timeout: longTimeout, Now: now, Fallback: func(string) { t.Error("a request was decided without Redis") }})
	zone := Zone{Name: "test", Limit: limit}
	if err := acquireScript.Load(t.Context(), client).Err(); err != nil {
		t.Fatal(err)
	}
	limiter.Allow(t.Context(), zone, "a")
	commands := &commandCounter{}
	client.AddHook(commands)

	// The test inserts a running call. It ends this call when all requests have arrived.
	release := hold(limiter, windowKey(nil, zone.Name, "a"))
	arrived.Store(0)
	results := make(chan Result, waiting)
	for range waiting {
		go func() { results <- limiter.Allow(context.Background(), zone, "a") }()
	}
	for deadline := time.Now().Add(20 * time.Second); arrived.Load() < waiting; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 20 s, %d requests wait for the next call, want %d", arrived.Load(), waiting)
		}
	}
	release()

	remaining := map[int64]bool{} // the values of Remaining of admitted requests
	for range waiting {
		result := <-results
		switch {
		case !result.Allowed && result.RetryAfter != 61*time.Second:
			t.Errorf("RetryAfter is %s, want 61 s, because the requests of the current second leave the window then", result.RetryAfter)
		case result.Allowed && remaining[result.Remaining]:
			t.Errorf("two requests have Remaining %d", result.Remaining)
		case result.Allowed:
			remaining[result.Remaining] = true
		}
	}
	if len(remaining) != limit-used || !remaining[0] || !remaining[limit-used-1] {
		t.Errorf("the values of Remaining are %v, want 0 to %d", remaining, limit-used-1)
	}
	// A request that has arrived last may need a call of its own.
	if n := commands.Load(); n < 1 || n > waiting/2 {
		t.Errorf("%d commands were sent to Redis, want 1 for most requests", n)
	}
}

// hold makes a call for a key that runs until the returned function is called.
func hold(limiter *Limiter, key string) (release func()) {
	started, end := make(chan struct{}), make(chan struct{})
	go func() {
		_, _, _ = limiter.calls.Do(key, func(int64) (acquisition, error) {
			close(started)
			<-end
			return acquisition{}, nil
		})
	}()
	<-started
	return func() { close(end) }
}

func TestLimiter_ParallelRequestsGetExactlyTheLimit(t *testing.T) {
	const limit, callers, each = 100, 20, 10
	client, c := connect(t, redistest.New(t)), newClock()
	var admitted atomic.Int64
	options := Options{Timeout: longTimeout, Now: c.now}
	instances := []*Limiter{NewLimiter(client, options), NewLimiter(client, options)}
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for range each {
				if instances[i%len(instances)].Allow(t.Context(), Zone{Name: "test", Limit: limit}, "a").Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := admitted.Load(); n != limit {
		t.Errorf("%d requests were admitted, want %d", n, limit)
	}
}

// If the clocks of two processes differ, each request counts in the second that the
// clock of its own process shows.
func TestLimiter_DifferentClocksShareWindow(t *testing.T) {
	client := connect(t, redistest.New(t))
	const limit, skew = 20, 600 * time.Second
	slowClock, zone := newClock(), Zone{Name: "test", Limit: limit}
	fastNow := func() time.Time { return slowClock.now().Add(skew) }
	slow, fast := NewLimiter(client, Options{Timeout: longTimeout, Now: slowClock.now}), NewLimiter(client, Options{Timeout: longTimeout, Now: fastNow})
	expect := func(description string, limiter *Limiter, allowed bool, remaining int64) Result {
		t.Helper()
		result := limiter.Allow(t.Context(), zone, "a")
		if result.Allowed != allowed || allowed && result.Remaining != remaining {
			t.Errorf("%s: got %+v, want Allowed %v and Remaining %d", description, result, allowed, remaining)
		}
		return result
	}
	expect("request with the fast clock", fast, true, limit-1)
	for i := range limit - 1 {
		expect("request with the slow clock", slow, true, limit-2-int64(i))
		slowClock.advance(time.Second)
	}
	refused := expect("request above the limit", slow, false, 0)
	if want := span*time.Second + skew; refused.ResetAfter < want-limit*time.Second || refused.ResetAfter > want {
		t.Errorf("ResetAfter is %s, want %s to %s, because the request with the fast clock still counts", refused.ResetAfter, want-limit*time.Second, want)
	}
	slowClock.advance(refused.RetryAfter)
	expect("request after RetryAfter", slow, true, 0)
	slowClock.advance(span * time.Second)
	expect("request when only the request with the fast clock still counts", slow, true, limit-2)
	slowClock.advance(skew)
	expect("request with an empty window", slow, true, limit-1)
}
