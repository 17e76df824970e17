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

// patience is for tests that speak of what Redis answers, however slow the machine.
const patience = 10 * time.Second

// clock is a time that only a test moves.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_800_000_000_123)
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// oracle remembers every admission and knows nothing of buckets.
type oracle struct{ admitted []int64 }

func (o *oracle) within(from, to int64) int64 { // from < at <= to
	var n int64
	for _, at := range o.admitted {
		if at > from && at <= to {
			n++
		}
	}
	return n
}

// check holds one decision to the promise: never more than limit in any 60 s,
// and a refusal only when the row of buckets is full.
func (o *oracle) check(t *rapid.T, result Result, nowMs, limit, rowSeconds int64) {
	if result.Allowed {
		o.admitted = append(o.admitted, nowMs)
		if n := o.within(nowMs-60_000, nowMs); n > limit {
			t.Fatalf("%d admitted within 60 s, the limit is %d", n, limit)
		}
		return
	}
	if n := o.within(nowMs-rowSeconds*1000, nowMs); n < limit {
		t.Fatalf("refused with %d of %d in the row", n, limit)
	}
	if result.RetryAfter < time.Second || result.RetryAfter > time.Duration(rowSeconds)*time.Second || result.RetryAfter%time.Second != 0 {
		t.Fatalf("Retry-After %s", result.RetryAfter)
	}
}

var runs atomic.Int64

func limiterProperty(client redis.UniversalClient) func(*rapid.T) {
	return func(t *rapid.T) {
		c := newClock()
		// Two instances and one shared window, or one instance alone.
		instances := []*Limiter{NewLimiter(client, Options{Timeout: patience, Now: c.now})}
		if client != nil {
			instances = append(instances, NewLimiter(client, Options{Timeout: patience, Now: c.now}))
		}
		zone := Zone{Name: "test", Limit: rapid.Int64Range(1, 12).Draw(t, "limit")}
		subject := strconv.FormatInt(runs.Add(1), 10)
		var seen oracle
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			c.advance(time.Duration(rapid.OneOf(rapid.Int64Range(0, 50), rapid.Int64Range(0, 20_000), rapid.Just(int64(1000))).Draw(t, "ms")) * time.Millisecond)
			limiter := rapid.SampledFrom(instances).Draw(t, "instance")
			result := limiter.Allow(context.Background(), zone, subject)
			seen.check(t, result, c.ms.Load(), zone.Limit, 61)
			if !result.Allowed && rapid.Bool().Draw(t, "obey") {
				c.advance(result.RetryAfter)
				result = limiter.Allow(context.Background(), zone, subject)
				if !result.Allowed {
					t.Fatal("refused after waiting exactly as long as asked")
				}
				seen.check(t, result, c.ms.Load(), zone.Limit, 61)
			}
		}
	}
}

func TestLimiterHoldsToTheOracle(t *testing.T) {
	t.Run("shared", rapid.MakeCheck(limiterProperty(connect(t, redistest.New(t)))))
	t.Run("alone", rapid.MakeCheck(limiterProperty(nil)))
}

func TestRefusalsDoNotConsume(t *testing.T) {
	for name, client := range map[string]redis.UniversalClient{"shared": connect(t, redistest.New(t)), "alone": nil} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			limiter, zone := NewLimiter(client, Options{Timeout: patience, Now: c.now}), Zone{Name: "test", Limit: 5}
			for range 5 {
				limiter.Allow(t.Context(), zone, "a")
			}
			for range 59 {
				if limiter.Allow(t.Context(), zone, "a").Allowed {
					t.Fatal("a sixth")
				}
				c.advance(time.Second)
			}
			c.advance(2 * time.Second)
			if result := limiter.Allow(t.Context(), zone, "a"); !result.Allowed || result.Remaining != 4 {
				t.Fatalf("hammering kept the window full: %+v", result)
			}
			if result := limiter.Allow(t.Context(), zone, "b"); !result.Allowed || result.Remaining != 4 {
				t.Fatalf("subjects share a window: %+v", result)
			}
		})
	}
}

func TestWithoutRedisTheProcessCountsAlone(t *testing.T) {
	server := redistest.Start(t)
	c := newClock()
	var fallbacks atomic.Int64
	limiter := NewLimiter(connect(t, server.URL), Options{Now: c.now, Fallback: func(string) { fallbacks.Add(1) }})
	zone := Zone{Name: "auth", Limit: 10, LocalLimit: 5}
	for range 3 {
		limiter.Allow(t.Context(), zone, "a")
	}
	server.Kill9()
	before := fallbacks.Load() // a slow machine may have had some already
	allowed := 0
	for range 20 {
		if limiter.Allow(t.Context(), zone, "a").Allowed {
			allowed++
		}
	}
	// Three of the five were used before, by this process.
	if got := fallbacks.Load() - before; allowed != 2 || got != 20 {
		t.Errorf("%d allowed, %d fallbacks", allowed, got)
	}

	server.Restart()
	server.Pause()
	defer server.Resume()
	before = fallbacks.Load()
	if !limiter.Allow(t.Context(), zone, "b").Allowed || fallbacks.Load() == before {
		t.Error("a hanging Redis was waited for")
	}
}

func TestHeaders(t *testing.T) {
	h := http.Header{}
	Result{Limit: 1000, RetryAfter: 3 * time.Second, ResetAfter: 61 * time.Second}.SetHeaders(h, "tracking")
	if h.Get("Retry-After") != "3" || h.Get("RateLimit-Policy") != `"tracking";q=1000;w=60` || h.Get("RateLimit") != `"tracking";r=0;t=3` {
		t.Error(h)
	}
	h = http.Header{}
	Result{Allowed: true, Limit: 300, Remaining: 12, ResetAfter: 61 * time.Second}.SetHeaders(h, "general")
	if h.Get("Retry-After") != "" || h.Get("RateLimit") != `"general";r=12;t=61` {
		t.Error(h)
	}
}

func TestNoSubjectReachesRedis(t *testing.T) {
	client := connect(t, redistest.New(t))
	NewLimiter(client, Options{HashKey: []byte("k")}).Allow(t.Context(), Zone{Name: "test", Limit: 1}, "203.0.113.9")
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || keys[0] == "" {
		t.Fatal(keys, err)
	}
	if ttl := client.TTL(t.Context(), keys[0]).Val(); ttl > 62*time.Second || ttl < 60*time.Second {
		t.Errorf("the window lives %s", ttl)
	}
	other := windowKey([]byte("other"), "test", "203.0.113.9")
	if keys[0] == other || len(keys[0]) != len(other) {
		t.Errorf("%s does not depend on the hash key", keys[0])
	}
}

func TestLimiterIsBounded(t *testing.T) {
	limiter := NewLimiter(nil, Options{})
	for i := range maxSubjects + 1000 {
		limiter.Allow(t.Context(), Zone{Name: "test", Limit: 1}, strconv.Itoa(i))
	}
	if n := limiter.local.Len(); n != maxSubjects {
		t.Errorf("%d windows", n)
	}
}

// counted counts the commands of a client.
type counted struct{ atomic.Int64 }

func (c *counted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.Add(1)
		return next(ctx, cmd)
	}
}

func TestRequestsAtTheSameTimeShareAQuestion(t *testing.T) {
	const limit, used, waiting = 30, 1, 40
	client, c := connect(t, redistest.New(t)), newClock()
	limiter := NewLimiter(client, Options{Timeout: patience, Now: c.now, Fallback: func(string) { t.Error("decided without Redis") }})
	zone := Zone{Name: "test", Limit: limit}
	if err := acquire.Load(t.Context(), client).Err(); err != nil {
		t.Fatal(err)
	}
	limiter.Allow(t.Context(), zone, "a")
	asked := &counted{}
	client.AddHook(asked)

	// A question is under way until all have come.
	key, before := windowKey(nil, zone.Name, "a"), &question{asked: true, done: make(chan struct{})}
	limiter.questions[key] = before
	results := make(chan Result, waiting)
	for range waiting {
		go func() { results <- limiter.Allow(context.Background(), zone, "a") }()
	}
	for come := int64(0); come < waiting; time.Sleep(time.Millisecond) {
		limiter.mu.Lock()
		if q := limiter.questions[key]; q != before {
			come = q.want
		}
		limiter.mu.Unlock()
	}
	before.err = nil
	close(before.done)

	left := map[int64]bool{}
	for range waiting {
		result := <-results
		switch {
		case !result.Allowed && result.RetryAfter != 61*time.Second:
			t.Errorf("refused for %s, want until this second has left the row", result.RetryAfter)
		case result.Allowed && left[result.Remaining]:
			t.Errorf("two are told that %d are left", result.Remaining)
		case result.Allowed:
			left[result.Remaining] = true
		}
	}
	if len(left) != limit-used || !left[0] || !left[limit-used-1] {
		t.Errorf("admitted, by what was left: %v, want %d of them", left, limit-used)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("Redis was asked %d times", n)
	}
	if len(limiter.questions) != 0 {
		t.Errorf("%d questions are kept", len(limiter.questions))
	}
}

func TestParallelRequestsGetTheLimitExactly(t *testing.T) {
	const limit, callers, each = 100, 20, 10
	client, c := connect(t, redistest.New(t)), newClock()
	var admitted atomic.Int64
	options := Options{Timeout: patience, Now: c.now}
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
		t.Errorf("%d admitted of %d", n, limit)
	}
}

// Whoever waits for a question that Redis does not answer asks no other.
func TestWithoutAnAnswerNobodyAsksAgain(t *testing.T) {
	c := newClock()
	var fallbacks atomic.Int64
	client := connect(t, redistest.New(t))
	limiter := NewLimiter(client, Options{Now: c.now, Fallback: func(string) { fallbacks.Add(1) }})
	zone := Zone{Name: "test", Limit: 10, LocalLimit: 3}
	asked := &counted{}
	client.AddHook(asked)
	key, before := windowKey(nil, zone.Name, "a"), &question{asked: true, done: make(chan struct{}), err: context.DeadlineExceeded}
	limiter.questions[key] = before
	close(before.done)
	allowed := 0
	for range 5 {
		limiter.mu.Lock()
		limiter.questions[key] = before
		limiter.mu.Unlock()
		if limiter.Allow(t.Context(), zone, "a").Allowed {
			allowed++
		}
	}
	if allowed != 3 || fallbacks.Load() != 5 || asked.Load() != 0 {
		t.Errorf("%d allowed, %d decided alone, Redis asked %d times", allowed, fallbacks.Load(), asked.Load())
	}
}

// Whoever's clock is ahead, each request counts in the second of its own.
func TestClocksThatDifferShareAWindow(t *testing.T) {
	client := connect(t, redistest.New(t))
	const limit, skew = 20, 600 * time.Second
	behind, zone := newClock(), Zone{Name: "test", Limit: limit}
	ahead := func() time.Time { return behind.now().Add(skew) }
	slow, fast := NewLimiter(client, Options{Timeout: patience, Now: behind.now}), NewLimiter(client, Options{Timeout: patience, Now: ahead})
	expect := func(what string, limiter *Limiter, allowed bool, left int64) Result {
		t.Helper()
		result := limiter.Allow(t.Context(), zone, "a")
		if result.Allowed != allowed || allowed && result.Remaining != left {
			t.Errorf("%s: %+v", what, result)
		}
		return result
	}
	expect("the fast one's", fast, true, limit-1)
	for i := range limit - 1 {
		expect("the slow one's", slow, true, limit-2-int64(i))
		behind.advance(time.Second)
	}
	refused := expect("a 21st", slow, false, 0)
	if want := span*time.Second + skew; refused.ResetAfter < want-limit*time.Second || refused.ResetAfter > want {
		t.Errorf("all is free after %s, the fast one's after %s", refused.ResetAfter, want)
	}
	behind.advance(refused.RetryAfter)
	expect("after waiting as long as asked", slow, true, 0)
	behind.advance(span * time.Second)
	expect("a minute later the fast one's still counts", slow, true, limit-2)
	behind.advance(skew)
	expect("and nobody's at last", slow, true, limit-1)
}
