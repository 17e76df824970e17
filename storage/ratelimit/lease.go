package ratelimit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/redis/go-redis/v9"
)

// Lease counts requests in blocks. It takes up to 1.2 percent of a limit (12 of 1,000)
// from the shared window at once, hands out the tokens for one second and gives back the
// rest. A request waits for Redis only if its subject's block is used up, and all
// requests that wait share one call.
//
//	shared window:  … [second g: 12 of collector A, 4 of B] …   a row of 62 buckets
//	collector A:    block of second g, 9 left, valid for a second after the call
//
// A block counts in the shared window from the second g of its call. Its last token may
// be used a second later and has to count for 60 more seconds, so the row is one bucket
// longer than the Limiter's. Each process has a row of its own in the shared window and
// sends the whole row with each call. So the next call corrects the row after a call
// without a response, or after an outage in which this process admitted requests alone.
// A call that arrives after a later one changes nothing.
//
// One process admits exactly the limit. Several processes together never admit more,
// and at most one block less for each other process that holds one.
type Lease struct {
	client redis.UniversalClient
	opt    Options
	holder string
	warned minutely

	mu       sync.Mutex
	subjects *simplelru.LRU[subjectKey, *subject]
	made     int
	// pauseUntil is set when Redis did not answer. Until then no request asks it.
	pauseUntil time.Time
}

type subjectKey struct{ zone, subject string }

const (
	leaseSpan = span + 1
	leaseTime = time.Second
	// blockPermille is the part of a limit that one block takes.
	blockPermille = 12
	// refusalFor is how long a refusal is repeated without another call. Other processes
	// may give tokens back in the meantime.
	refusalFor = 50 * time.Millisecond
	sweepEvery = 200 * time.Millisecond
	// giveBackTimeout bounds the return of tokens when the process ends.
	giveBackTimeout = time.Second
)

// subject is the share of one key or address.
type subject struct {
	mu   sync.Mutex
	key  string
	zone Zone
	// holder names the row of this object in the shared window. It is not the name of
	// the process: a subject that was evicted and made again must not overwrite the row
	// of its former object.
	holder string
	// used counts the tokens handed out, by the second of their block.
	used window
	// The current block: tokens left, second, end.
	left    int64
	granted int64
	expires time.Time
	// unsettled: the row in the shared window may differ from the tokens used.
	unsettled bool
	// questions numbers the calls, so that Redis ignores one that arrives late.
	questions int64
	// asking is closed when the running call has returned; nil if none runs.
	asking chan struct{}
	// Until refusedUntil requests are refused with refusal.
	refusedUntil time.Time
	refusal      Result
	// sum and reset are the last values of the shared window.
	sum, reset int64
}

// NewLease shares its windows through a client of clickstream.Connect. Without Run,
// unused tokens are given back only with the next call of their subject.
func NewLease(client redis.UniversalClient, opt Options) *Lease {
	opt.setDefaults()
	subjects, _ := simplelru.NewLRU[subjectKey, *subject](maxSubjects, nil) // fails only without a size
	return &Lease{client: client, opt: opt, holder: ":" + rand.Text()[:10], subjects: subjects}
}

// Take counts one request of subject in zone, or refuses it.
func (l *Lease) Take(ctx context.Context, zone Zone, name string) Result {
	s := l.subject(zone, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := l.opt.Now()
		s.expire(now)
		s.used.forget(now.Unix())
		switch {
		case s.used.total >= zone.Limit:
			// This process has used the whole limit, so the shared window is full too.
			return s.refuse(now, zone.Limit)
		case s.left > 0:
			s.left--
			s.used.add(s.granted, 1)
			return Result{Allowed: true, Limit: zone.Limit, Remaining: max(0, zone.Limit-s.sum) + s.left, ResetAfter: seconds(s.reset)}
		case now.Before(s.refusedUntil):
			return s.refusal
		case l.paused(now):
			return l.alone(s, now)
		case s.asking != nil:
			asked := s.asking
			s.mu.Unlock()
			<-asked // after redisTimeout at the latest
			s.mu.Lock()
		default:
			l.ask(ctx, s, now, block(zone.Limit))
		}
	}
}

// block returns the size of a block: 12 of 1,000, so that four processes together leave
// at most 3.6 percent unused.
func block(limit int64) int64 { return max(1, limit*blockPermille/1000) }

// ask fetches a block (want > 0) and writes the row of s. The caller holds s.mu, which
// is unlocked during the call.
func (l *Lease) ask(ctx context.Context, s *subject, now time.Time, want int64) {
	asked := make(chan struct{})
	s.asking = asked
	// expire sets it again if the block ends during the call.
	s.unsettled = false
	s.questions++
	limit, row := s.zone.Limit, s.row()
	s.mu.Unlock()
	granted, sum, retry, reset, err := l.opt.ask(ctx, l.client, s.key, now.UnixMilli(), limit, want, leaseSpan, s.holder, row)
	s.mu.Lock()
	s.asking = nil
	close(asked)
	if err != nil {
		// It is unknown whether the row was written and a block granted.
		s.unsettled = true
		l.pause(now, s.zone.Name, err)
		return
	}
	s.sum, s.reset = sum, reset
	switch {
	case want == 0:
	case granted == 0:
		s.refusal = Result{Limit: limit, RetryAfter: seconds(retry), ResetAfter: seconds(reset)}
		s.refusedUntil = now.Add(refusalFor)
	default:
		s.left, s.granted, s.expires = granted, now.Unix(), now.Add(leaseTime)
	}
}

// row returns the tokens that this process has used or may still use, in the format of
// the shared window.
func (s *subject) row() []byte {
	held := window{buckets: slices.Clone(s.used.buckets), total: s.used.total}
	if s.left > 0 {
		held.add(s.granted, s.left)
	}
	row := make([]byte, 0, 8+8*len(held.buckets))
	row = appendCount(appendCount(row, s.questions), held.total)
	for _, b := range held.buckets {
		row = appendCount(appendCount(row, b.second), b.count)
	}
	return row
}

// appendCount writes four bytes. They hold seconds until the year 2106 and counts up to
// four billion a minute; a limit above that limits nothing.
func appendCount(row []byte, n int64) []byte {
	return binary.BigEndian.AppendUint32(row, uint32(n)) //nolint:gosec // see above
}

// expire ends the current block after its second.
func (s *subject) expire(now time.Time) {
	if s.left > 0 && !now.Before(s.expires) {
		s.left = 0
		s.unsettled = true
	}
}

// alone decides without Redis, by the tokens that this process has handed out. The next
// call writes what it admits to the shared window.
func (l *Lease) alone(s *subject, now time.Time) Result {
	l.opt.Fallback(s.zone.Name)
	limit := s.zone.Limit
	if s.zone.LocalLimit > 0 {
		limit = s.zone.LocalLimit
	}
	if s.used.total >= limit {
		return s.refuse(now, limit)
	}
	s.used.add(now.Unix(), 1)
	s.unsettled = true
	return Result{Allowed: true, Limit: limit, Remaining: limit - s.used.total, ResetAfter: seconds(s.used.emptyIn(now.UnixMilli()))}
}

func (s *subject) refuse(now time.Time, limit int64) Result {
	nowMs := now.UnixMilli()
	return Result{Limit: limit, RetryAfter: seconds(s.used.freeIn(nowMs, limit)), ResetAfter: seconds(s.used.emptyIn(nowMs))}
}

func (l *Lease) paused(now time.Time) bool {
	if l.client == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.pauseUntil)
}

func (l *Lease) pause(now time.Time, zone string, cause error) {
	l.mu.Lock()
	l.pauseUntil = now.Add(redisPause)
	l.mu.Unlock()
	if !errors.Is(cause, errNoRedis) && l.warned.due(now) {
		l.opt.Log.Warn("limits are counted by this process alone", "zone", zone, "error", cause)
	}
}

// subject returns the share of a key or address. A new one evicts the least recently
// used if there are maxSubjects; the shared window keeps what the evicted one used.
func (l *Lease) subject(zone Zone, name string) *subject {
	key := subjectKey{zone.Name, name}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.subjects.Get(key); ok {
		return s
	}
	l.made++
	s := &subject{
		key: windowKey(l.opt.HashKey, zone.Name, name), zone: zone,
		holder: l.holder + "." + strconv.Itoa(l.made), used: window{span: leaseSpan},
	}
	l.subjects.Add(key, s)
	return s
}

// Run gives back unused tokens until ctx ends, and all tokens then.
func (l *Lease) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			l.giveBack(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
			l.sweep(ctx)
		}
	}
}

// sweep gives back the rest of blocks whose second is over and removes subjects that
// have nothing left in the window.
func (l *Lease) sweep(ctx context.Context) {
	keys, subjects := l.all()
	for i, s := range subjects {
		now := l.opt.Now()
		if l.paused(now) {
			return
		}
		s.mu.Lock()
		s.expire(now)
		s.used.forget(now.Unix())
		if s.unsettled && s.asking == nil {
			l.ask(ctx, s, now, 0)
		}
		rest := s.left == 0 && s.used.total == 0 && !s.unsettled && s.asking == nil
		s.mu.Unlock()
		if rest {
			l.mu.Lock()
			// A request that holds s goes on counting under the holder of s.
			l.subjects.Remove(keys[i])
			l.mu.Unlock()
		}
	}
}

// giveBack returns all unused tokens before the process ends.
func (l *Lease) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, giveBackTimeout)
	defer cancel()
	_, subjects := l.all()
	for _, s := range subjects {
		if ctx.Err() != nil {
			return // tokens that are kept count for another minute
		}
		now := l.opt.Now()
		s.mu.Lock()
		if s.left > 0 {
			s.left = 0
			s.unsettled = true
		}
		if s.unsettled && s.asking == nil && !l.paused(now) {
			l.ask(ctx, s, now, 0)
		}
		s.mu.Unlock()
	}
}

func (l *Lease) all() ([]subjectKey, []*subject) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subjects.Keys(), l.subjects.Values()
}
