package ratelimit

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/redis/go-redis/v9"
)

// Limiter counts each request in the shared window before it is admitted. It is safe
// for concurrent use.
type Limiter struct {
	client redis.UniversalClient
	opt    Options
	warned minutely

	mu        sync.Mutex
	local     *simplelru.LRU[string, *window]
	questions map[string]*question // the newest unfinished one of each key
}

// question is one call of Redis for all requests of a subject that arrive while the
// call before it is running. So at most one call per subject runs, and a single request
// starts its call at once.
type question struct {
	before *question // the running call; nil if there is none
	asked  bool      // the call has begun and takes no more requests
	want   int64     // number of requests

	done                       chan struct{} // closed when the result is set
	granted, sum, retry, reset int64
	err                        error
}

// NewLimiter shares its windows through a client of clickstream.Connect. With a nil
// client the Limiter counts in this process only.
func NewLimiter(client redis.UniversalClient, opt Options) *Limiter {
	opt.setDefaults()
	local, _ := simplelru.NewLRU[string, *window](maxSubjects, nil) // fails only without a size
	return &Limiter{client: client, opt: opt, local: local, questions: make(map[string]*question)}
}

// Allow counts one request of subject in zone, or refuses it.
func (l *Limiter) Allow(ctx context.Context, zone Zone, subject string) Result {
	key := windowKey(l.opt.HashKey, zone.Name, subject)
	nowMs := l.opt.Now().UnixMilli()
	// The shared window counts at least what this process admitted. If the local window
	// is full, the shared one is full too and needs no call.
	if full, refusal := l.full(key, nowMs, zone.Limit); full {
		return refusal
	}
	q, place := l.join(key)
	if place == 0 {
		l.ask(ctx, zone, key, q)
	}
	<-q.done
	switch {
	case q.err != nil:
		return l.alone(zone, key, nowMs, q.err)
	case place >= q.granted:
		return Result{Limit: zone.Limit, RetryAfter: seconds(q.retry), ResetAfter: seconds(q.reset)}
	}
	left := max(0, zone.Limit-q.sum) + q.granted - 1 - place
	return Result{Allowed: true, Limit: zone.Limit, Remaining: left, ResetAfter: seconds(q.reset)}
}

// join adds a request to the next call and returns its place there. The request with
// place 0 makes the call.
func (l *Limiter) join(key string) (q *question, place int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q = l.questions[key]
	if q == nil || q.asked {
		next := &question{done: make(chan struct{}), err: errNoAnswer}
		next.before, q = q, next
		l.questions[key] = q
	}
	q.want++
	return q, q.want - 1
}

// ask waits for the call before and then makes this one. If the call before failed,
// this one fails too: its requests would wait for the same timeout again.
func (l *Limiter) ask(ctx context.Context, zone Zone, key string, q *question) {
	// A panic must not leave the other requests waiting.
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.questions[key] == q {
			delete(l.questions, key)
		}
		close(q.done)
	}()
	if before := q.before; before != nil {
		q.before = nil // otherwise all earlier calls stay in memory
		if <-before.done; before.err != nil {
			q.err = before.err
			return
		}
	}
	l.mu.Lock()
	q.asked = true
	l.mu.Unlock()
	nowMs := l.opt.Now().UnixMilli()
	q.granted, q.sum, q.retry, q.reset, q.err = l.opt.ask(ctx, l.client, key, nowMs, zone.Limit, q.want, span, "", nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.granted > 0 {
		l.window(key).add(nowMs/1000, q.granted)
	}
}

var (
	errNoRedis  = errors.New("no Redis is configured")
	errNoAnswer = errors.New("the call of Redis was abandoned")
)

// ask calls the script on the shared window. A holder that keeps its row itself passes
// it; with a nil row Redis keeps it.
func (o *Options) ask(ctx context.Context, client redis.UniversalClient, key string, nowMs, limit, want, span int64, holder string, row []byte) (granted, sum, retry, reset int64, err error) {
	if client == nil {
		return 0, 0, 0, 0, errNoRedis
	}
	// A caller that cancels must not look like a Redis that does not answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Timeout)
	defer cancel()
	args := []any{nowMs, limit, want, span, holder}
	if row != nil {
		args = append(args, row)
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
	w, ok := l.local.Get(key)
	if !ok {
		return false, Result{}
	}
	w.forget(nowMs / 1000)
	if w.total < limit {
		return false, Result{}
	}
	return true, Result{Limit: limit, RetryAfter: seconds(w.freeIn(nowMs, limit)), ResetAfter: seconds(w.emptyIn(nowMs))}
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
	w := l.window(key)
	w.forget(nowMs / 1000)
	if w.total >= limit {
		return Result{Limit: limit, RetryAfter: seconds(w.freeIn(nowMs, limit)), ResetAfter: seconds(w.emptyIn(nowMs))}
	}
	w.add(nowMs/1000, 1)
	return Result{Allowed: true, Limit: limit, Remaining: limit - w.total, ResetAfter: seconds(w.emptyIn(nowMs))}
}

// window returns the local window of a key. A new one evicts the least recently used
// if there are maxSubjects.
func (l *Limiter) window(key string) *window {
	w, ok := l.local.Get(key)
	if !ok {
		w = &window{span: span}
		l.local.Add(key, w)
	}
	return w
}

// RetryAfterSeconds formats RetryAfter for the header.
func (r Result) RetryAfterSeconds() string {
	return strconv.FormatInt(int64(r.RetryAfter/time.Second), 10)
}
