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

// Limiter counts every request before it is let in. It is safe for concurrent use.
type Limiter struct {
	client redis.UniversalClient
	opt    Options
	warned minutely

	mu        sync.Mutex
	local     *simplelru.LRU[string, *window]
	questions map[string]*question // the last one of each key, until it is answered
}

// question asks the shared window for all requests of one subject that come while
// the question before it is under way: under load Redis is asked as often as it
// answers, and a single request does not wait for company.
type question struct {
	before *question // nil: there is none
	asked  bool      // it takes no more requests
	want   int64     // requests

	done                       chan struct{} // closed behind the answer
	granted, sum, retry, reset int64
	err                        error
}

// NewLimiter shares its windows through a client of clickstream.Connect; a nil
// client makes a Limiter of this process alone.
func NewLimiter(client redis.UniversalClient, opt Options) *Limiter {
	opt.setDefaults()
	local, _ := simplelru.NewLRU[string, *window](maxSubjects, nil) // fails only without a size
	return &Limiter{client: client, opt: opt, local: local, questions: make(map[string]*question)}
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

// join adds a request to the question that is asked next, and tells its place
// there. Who is the first asks it.
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

// ask waits for the answer to the question before, and then asks this one; without
// an answer to that, nobody waits for another.
func (l *Limiter) ask(ctx context.Context, zone Zone, key string, q *question) {
	// Whatever happens, nobody waits for ever.
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.questions[key] == q {
			delete(l.questions, key)
		}
		close(q.done)
	}()
	if before := q.before; before != nil {
		q.before = nil // no chain of them stays in memory
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
	errNoAnswer = errors.New("the question was given up")
)

// ask asks the shared window. A holder that keeps its row itself tells it; nil
// leaves it to Redis.
func (o *Options) ask(ctx context.Context, client redis.UniversalClient, key string, nowMs, limit, want, span int64, holder string, row []byte) (granted, sum, retry, reset int64, err error) {
	if client == nil {
		return 0, 0, 0, 0, errNoRedis
	}
	// A caller that goes away must not be mistaken for a Redis that does not
	// answer, and its request has been made.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.timeout)
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
