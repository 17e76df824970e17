package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/inflight"
)

// Limiter counts each request in the shared window before it admits the request. It is
// safe for concurrent use.
type Limiter struct {
	client   redis.UniversalClient
	opt      Options
	warnings logLimiter

	mu    sync.Mutex
	local *simplelru.LRU[string, *window]
	calls inflight.Group[acquisition]
}

// NewLimiter returns a Limiter. The client must come from clickstream.Connect. If the
// client is nil, the Limiter counts only the requests of this process.
func NewLimiter(client redis.UniversalClient, opt Options) *Limiter {
	opt.setDefaults()
	local, _ := simplelru.NewLRU[string, *window](maxSubjects, nil) // fails only if the size is not positive
	return &Limiter{client: client, opt: opt, local: local}
}

// Allow counts one request of subject in zone, or refuses it.
func (l *Limiter) Allow(ctx context.Context, zone Zone, subject string) Result {
	key := windowKey(l.opt.HashKey, zone.Name, subject)
	nowMs := l.opt.Now().UnixMilli()
	// The shared window includes the requests of the local window. If the local window is
	// full, the shared window is full too, so no call is necessary.
	if full, refusal := l.localWindowFull(key, nowMs, zone.Limit); full {
		return refusal
	}
	got, position, err := l.calls.Do(key, func(requests int64) (acquisition, error) {
		nowMs := l.opt.Now().UnixMilli()
		got, err := l.opt.acquire(ctx, l.client, key, nowMs, zone.Limit, requests, span, zone.bucketMs(), "", nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		if got.granted > 0 {
			l.window(zone, key).add(nowMs, got.granted)
		}
		return got, err
	})
	switch {
	case err != nil:
		return l.decideLocally(zone, key, nowMs, err)
	case position >= got.granted:
		return Result{Limit: zone.Limit, RetryAfter: seconds(got.retry), ResetAfter: seconds(got.reset)}
	}
	remaining := max(0, zone.Limit-got.sum) + got.granted - 1 - position
	return Result{Allowed: true, Limit: zone.Limit, Remaining: remaining, ResetAfter: seconds(got.reset)}
}

var errNoRedis = errors.New("no Redis is configured")

type acquisition struct{ granted, sum, retry, reset int64 }

// acquire requests tokens from the shared window with the given key: it runs
// acquireScript. The given row replaces the stored row of the holder. If row is nil, the
// script adds the granted tokens to the stored row.
func (o *Options) acquire(
	ctx context.Context, client redis.UniversalClient, key string, nowMs, limit, tokens, span, bucketMs int64, holder string, row []byte,
) (acquisition, error) {
	if client == nil {
		return acquisition{}, errNoRedis
	}
	// A canceled request must not count as a failure of Redis.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Timeout)
	defer cancel()
	args := []any{nowMs, limit, tokens, span, bucketMs, holder}
	if row != nil {
		args = append(args, row)
	}
	reply, err := acquireScript.Run(ctx, client, []string{key}, args...).Int64Slice()
	if err != nil {
		return acquisition{}, err
	}
	return acquisition{reply[0], reply[1], reply[2], reply[3]}, nil
}

// localWindowFull reports whether the local window of a key is full. If it is full,
// refusal is the result for the request.
func (l *Limiter) localWindowFull(key string, nowMs, limit int64) (full bool, refusal Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.local.Get(key)
	if !ok {
		return false, Result{}
	}
	w.removeOld(nowMs)
	if w.total < limit {
		return false, Result{}
	}
	return true, w.refusal(nowMs, limit)
}

// decideLocally decides without Redis, from the requests that this process has admitted.
func (l *Limiter) decideLocally(zone Zone, key string, nowMs int64, cause error) Result {
	l.opt.Fallback(zone.Name)
	if l.client != nil && l.warnings.allow(l.opt.Now()) {
		l.opt.Log.Warn("rate limits are counted by this process alone, because Redis fails", "zone", zone.Name, "error", cause)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window(zone, key).decide(zone, nowMs)
}

// window returns the local window of a key of the zone and creates it if necessary. If
// there are already maxSubjects windows, the new window evicts the least recently used
// window. The caller must have locked l.mu.
func (l *Limiter) window(zone Zone, key string) *window {
	w, ok := l.local.Get(key)
	if !ok {
		w = &window{span: span, bucketMs: zone.bucketMs()}
		l.local.Add(key, w)
	}
	return w
}

// window counts requests in buckets of equal length, in memory. The number of a bucket is
// its start divided by the length. It is not safe for concurrent use.
type window struct {
	span     int64    // number of buckets
	bucketMs int64    // length of a bucket in ms
	buckets  []bucket // by number, ascending
	total    int64
}

type bucket struct{ number, count int64 }

func (w *window) removeOld(nowMs int64) {
	current, old := nowMs/w.bucketMs, 0
	for old < len(w.buckets) && w.buckets[old].number <= current-w.span {
		w.total -= w.buckets[old].count
		old++
	}
	if old > 0 {
		w.buckets = append(w.buckets[:0], w.buckets[old:]...)
	}
}

// decide counts a request at nowMs, or refuses it.
func (w *window) decide(zone Zone, nowMs int64) Result {
	limit := cmp.Or(zone.LocalLimit, zone.Limit)
	w.removeOld(nowMs)
	if w.total >= limit {
		return w.refusal(nowMs, limit)
	}
	w.add(nowMs, 1)
	return Result{Allowed: true, Limit: limit, Remaining: limit - w.total, ResetAfter: seconds(w.emptyIn(nowMs))}
}

func (w *window) refusal(nowMs, limit int64) Result {
	return Result{Limit: limit, RetryAfter: seconds(w.freeIn(nowMs, limit)), ResetAfter: seconds(w.emptyIn(nowMs))}
}

// add counts requests in the bucket that contains the time atMs.
func (w *window) add(atMs, count int64) {
	number := atMs / w.bucketMs
	w.total += count
	// Search from the end, because most requests belong to the last bucket. An earlier
	// bucket occurs only if the clock was set back.
	i := len(w.buckets)
	for i > 0 && w.buckets[i-1].number > number {
		i--
	}
	if i > 0 && w.buckets[i-1].number == number {
		w.buckets[i-1].count += count
		return
	}
	w.buckets = slices.Insert(w.buckets, i, bucket{number, count})
}

// freeIn returns the time in ms from nowMs until the window allows one more request.
func (w *window) freeIn(nowMs, limit int64) int64 {
	excess := w.total - limit + 1
	for _, b := range w.buckets {
		if excess -= b.count; excess <= 0 {
			return (b.number+w.span)*w.bucketMs - nowMs
		}
	}
	return w.span * w.bucketMs
}

// emptyIn returns the time in ms from nowMs until the window is empty.
func (w *window) emptyIn(nowMs int64) int64 {
	if len(w.buckets) == 0 {
		return 0
	}
	return (w.buckets[len(w.buckets)-1].number+w.span)*w.bucketMs - nowMs
}
