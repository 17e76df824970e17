package ratelimit

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Limiter counts one request at a time. It is safe for concurrent use.
type Limiter struct {
	client redis.UniversalClient
	opt    Options
	warned minutely

	mu    sync.Mutex
	local map[string]*window
}

// NewLimiter shares its windows through a client of clickstream.Connect; a nil
// client makes a Limiter of this process alone.
func NewLimiter(client redis.UniversalClient, opt Options) *Limiter {
	opt.setDefaults()
	return &Limiter{client: client, opt: opt, local: make(map[string]*window)}
}

// Allow counts one request of subject in zone, or refuses it.
func (l *Limiter) Allow(ctx context.Context, zone Zone, subject string) Result {
	key := windowKey(l.opt.HashKey, zone.Name, subject)
	nowMs := l.opt.Now().UnixMilli()
	// What this process admitted is part of what all did, so when its own window
	// is full the shared one is as well, and asking would change nothing.
	if full, refusal := l.full(key, nowMs, zone.Limit); full {
		return refusal
	}
	granted, sum, retry, reset, err := ask(ctx, l.client, key, nowMs, zone.Limit, 1, span, "")
	if err != nil {
		return l.alone(zone, key, nowMs, err)
	}
	if granted == 0 {
		return Result{Limit: zone.Limit, RetryAfter: seconds(retry), ResetAfter: seconds(reset)}
	}
	l.admit(key, nowMs)
	return Result{Allowed: true, Limit: zone.Limit, Remaining: max(0, zone.Limit-sum), ResetAfter: seconds(reset)}
}

var errNoRedis = errors.New("no Redis is configured")

func ask(ctx context.Context, client redis.UniversalClient, key string, nowMs, limit, want, span int64, holder string, settle ...bucket) (granted, sum, retry, reset int64, err error) {
	if client == nil {
		return 0, 0, 0, 0, errNoRedis
	}
	// A caller that goes away must not be mistaken for a Redis that does not
	// answer, and its request has been made.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
	defer cancel()
	args := make([]any, 0, 5+2*len(settle))
	args = append(args, nowMs, limit, want, span, holder)
	for _, b := range settle {
		args = append(args, strconv.FormatInt(b.second, 10), b.count)
	}
	reply, err := acquire.Run(ctx, client, []string{key}, args...).Int64Slice()
	if err != nil {
		return 0, 0, 0, 0, err
	}
	return reply[0], reply[1], reply[2], reply[3], nil
}

func (l *Limiter) full(key string, nowMs, limit int64) (bool, Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.local[key]
	if w == nil {
		return false, Result{}
	}
	w.forget(nowMs / 1000)
	if w.total < limit {
		return false, Result{}
	}
	return true, Result{Limit: limit, RetryAfter: seconds(w.freeIn(nowMs, limit)), ResetAfter: seconds(w.emptyIn(nowMs))}
}

func (l *Limiter) admit(key string, nowMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window(key, nowMs).add(nowMs/1000, 1)
}

func (l *Limiter) alone(zone Zone, key string, nowMs int64, cause error) Result {
	l.opt.Fallback(zone.Name)
	if l.client != nil && l.warned.due(l.opt.Now()) {
		l.opt.Log.Warn("limits are counted by this process alone", "zone", zone.Name, "error", cause)
	}
	limit := zone.Limit
	if zone.LocalLimit > 0 {
		limit = zone.LocalLimit
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.window(key, nowMs)
	w.forget(nowMs / 1000)
	if w.total >= limit {
		return Result{Limit: limit, RetryAfter: seconds(w.freeIn(nowMs, limit)), ResetAfter: seconds(w.emptyIn(nowMs))}
	}
	w.add(nowMs/1000, 1)
	return Result{Allowed: true, Limit: limit, Remaining: limit - w.total, ResetAfter: seconds(w.emptyIn(nowMs))}
}

// window finds or makes a local window. When there are too many, those that
// have run empty go, or else any one.
func (l *Limiter) window(key string, nowMs int64) *window {
	if w := l.local[key]; w != nil {
		return w
	}
	if len(l.local) >= maxSubjects {
		const sample = 64
		looked, dropped, victim := 0, 0, ""
		for other, w := range l.local {
			victim = other
			if w.forget(nowMs / 1000); len(w.buckets) == 0 {
				delete(l.local, other)
				dropped++
			}
			if looked++; looked == sample {
				break
			}
		}
		if dropped == 0 {
			delete(l.local, victim)
		}
	}
	w := &window{span: span}
	l.local[key] = w
	return w
}

// RetryAfterSeconds prints RetryAfter as the header wants it.
func (r Result) RetryAfterSeconds() string {
	return strconv.FormatInt(int64(r.RetryAfter/time.Second), 10)
}
