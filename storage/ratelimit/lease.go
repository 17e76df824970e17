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

// Lease admits requests with blocks of tokens. A block is 1.2 percent of the limit (12 of
// 1,000), but at least one token. For each subject, Lease takes a block from the shared
// window, uses its tokens for one second and then returns the unused tokens. A request
// waits for Redis only if the block of its subject has no token left. All requests of a
// subject that wait share one call.
//
//	shared window:  … [second g: 12 for collector A, 4 for B] …   62 buckets
//	collector A:    block of second g, 9 tokens left, valid for one second after the call
//
// A block counts in the shared window from the second g of its call. Its last token may
// be used one second later, and the request must then count for 60 more seconds.
// Therefore the window has one bucket more than the window of a Limiter.
//
// For each subject, a process has its own row in the shared window. It sends the whole
// row with each call. Therefore the next call corrects the row after a call without a
// response, or after an outage in which the process admitted requests without Redis. If a
// call arrives after a later call, it has no effect.
//
// If only one process counts the requests of a subject, it admits exactly the limit.
// While Redis responds, several processes together never admit more than the limit. They
// may admit less, because each process may hold a block with unused tokens.
type Lease struct {
	client   redis.UniversalClient
	opt      Options
	holder   string
	warnings logLimiter

	mu       sync.Mutex
	subjects *simplelru.LRU[subjectKey, *subject]
	created  int // number of subjects that were created
	// pauseUntil is the time until which no call is made, because Redis has not
	// responded.
	pauseUntil time.Time
}

type subjectKey struct{ zone, subject string }

const (
	// leaseSpan is the number of buckets in the window of a Lease.
	leaseSpan = span + 1
	// leaseBucketMs is the length of these buckets in ms. It must not be shorter than blockLifetime, because the
	// window has only one bucket more than that of a Limiter. A Lease ignores Zone.Window.
	leaseBucketMs = 1000
	// blockLifetime is the time for which the tokens of a block can be used.
	blockLifetime = time.Second
	// blockPermille is the size of a block in thousandths of the limit.
	blockPermille = 12
	// refusalLifetime is the time for which a refusal is repeated without a call to
	// Redis. It is short, because other processes may return tokens.
	refusalLifetime = 50 * time.Millisecond
	// sweepInterval is the time between two searches for expired blocks.
	sweepInterval = 200 * time.Millisecond
	// returnTimeout limits the time to return tokens when the process ends.
	returnTimeout = time.Second
)

// subject is the state of one subject in this process: its tokens, and its row in the
// shared window.
type subject struct {
	mu   sync.Mutex
	key  string
	zone Zone
	// holder is the name of the row in the shared window. It is unique for each object of
	// this type. If a subject is evicted and created again, the new object must not
	// overwrite the row of the old object.
	holder string
	// used counts the used tokens by the second of their block.
	used window

	// The current block: the number of its unused tokens, the time in ms at which it was
	// granted and the time at which it expires.
	unused       int64
	blockGranted int64
	blockExpires time.Time

	// rowOutdated is true if the row in the shared window may differ from the tokens of
	// this process. The row must then be written again.
	rowOutdated bool
	// calls is the number of calls. It is sent with each call, so that the script can
	// ignore a call that arrives after a later call.
	calls int64
	// callDone is closed when the running call has returned. It is nil if no call is
	// running.
	callDone chan struct{}

	// Until refusedUntil, requests that need a new block get the result refusal.
	refusedUntil time.Time
	refusal      Result

	// sum is the number of tokens in the shared window. reset is the time in ms until the
	// window is empty. Both are from the response to the last call.
	sum, reset int64
}

// NewLease returns a Lease. The client must come from clickstream.Connect. If it is nil, the
// limits apply to the requests of this process alone. If Run is not called, the unused tokens
// of a subject are returned only with its next call.
func NewLease(client redis.UniversalClient, opt Options) *Lease {
	opt.setDefaults()
	subjects, _ := simplelru.NewLRU[subjectKey, *subject](maxSubjects, nil) // fails only if the size is not positive
	return &Lease{client: client, opt: opt, holder: ":" + rand.Text()[:10], subjects: subjects}
}

// Take counts one request of the subject with the given name, or refuses it.
func (l *Lease) Take(ctx context.Context, zone Zone, name string) Result {
	s := l.subject(zone, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := l.opt.Now()
		s.expire(now)
		s.used.removeOld(now.UnixMilli())
		switch {
		case s.used.total >= zone.Limit:
			// This process has used the whole limit, so the shared window is full too.
			return s.used.refusal(now.UnixMilli(), zone.Limit)
		case s.unused > 0:
			s.unused--
			s.used.add(s.blockGranted, 1)
			return Result{Allowed: true, Limit: zone.Limit, Remaining: max(0, zone.Limit-s.sum) + s.unused, ResetAfter: seconds(s.reset)}
		case now.Before(s.refusedUntil):
			return s.refusal
		case l.paused(now):
			return l.decideLocally(s, now)
		case s.callDone != nil:
			returned := s.callDone
			s.mu.Unlock()
			<-returned // for at most Options.Timeout
			s.mu.Lock()
		default:
			l.call(ctx, s, now, blockSize(zone.Limit))
		}
	}
}

// blockSize returns the number of tokens in a block. When one of four processes refuses a
// request, the other three hold at most 3.6 percent of the limit in unused tokens.
func blockSize(limit int64) int64 { return max(1, limit*blockPermille/1000) }

// call requests a block with the given number of tokens and writes the row of s to the
// shared window. If tokens is 0, it only writes the row. The caller must have locked
// s.mu. call unlocks s.mu while it waits for Redis.
func (l *Lease) call(ctx context.Context, s *subject, now time.Time, tokens int64) {
	returned := make(chan struct{})
	s.callDone = returned
	// expire sets rowOutdated again if the block expires during the call.
	s.rowOutdated = false
	s.calls++
	limit, row := s.zone.Limit, s.row()
	s.mu.Unlock()
	got, err := l.opt.acquire(ctx, l.client, s.key, now.UnixMilli(), limit, tokens, leaseSpan, leaseBucketMs, s.holder, row)
	s.mu.Lock()
	s.callDone = nil
	close(returned)
	if err != nil {
		// It is unknown whether the row was written and whether a block was granted.
		s.rowOutdated = true
		l.pause(now, s.zone.Name, err)
		return
	}
	s.sum, s.reset = got.sum, got.reset
	switch {
	case tokens == 0:
	case got.granted == 0:
		s.refusal = Result{Limit: limit, RetryAfter: seconds(got.retry), ResetAfter: seconds(got.reset)}
		s.refusedUntil = now.Add(refusalLifetime)
	default:
		s.unused, s.blockGranted, s.blockExpires = got.granted, now.UnixMilli(), now.Add(blockLifetime)
	}
}

// row returns the row of s for the shared window. It contains the used tokens and the
// unused tokens of the current block.
func (s *subject) row() []byte {
	tokens := window{bucketMs: leaseBucketMs, buckets: slices.Clone(s.used.buckets), total: s.used.total}
	if s.unused > 0 {
		tokens.add(s.blockGranted, s.unused)
	}
	row := make([]byte, 0, 8+8*len(tokens.buckets))
	row = appendUint32(appendUint32(row, s.calls), tokens.total)
	for _, b := range tokens.buckets {
		row = appendUint32(appendUint32(row, b.number), b.count)
	}
	return row
}

// appendUint32 appends n as four bytes. Four bytes can represent seconds until the year
// 2106 and counts up to four billion. No realistic limit is higher.
func appendUint32(row []byte, n int64) []byte {
	return binary.BigEndian.AppendUint32(row, uint32(n)) //nolint:gosec // see above
}

// expire drops the unused tokens of the current block if the block has expired.
func (s *subject) expire(now time.Time) {
	if s.unused > 0 && !now.Before(s.blockExpires) {
		s.unused = 0
		s.rowOutdated = true
	}
}

// decideLocally decides without Redis, from the tokens that this process has used. The
// next call adds the admitted requests to the shared window.
func (l *Lease) decideLocally(s *subject, now time.Time) Result {
	l.opt.Fallback(s.zone.Name)
	before := s.used.total
	result := s.used.decide(s.zone, now.UnixMilli())
	s.rowOutdated = s.rowOutdated || s.used.total != before
	return result
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
	if !errors.Is(cause, errNoRedis) && l.warnings.allow(now) {
		l.opt.Log.Warn("rate limits are counted by this process alone, because Redis fails", "zone", zone, "error", cause)
	}
}

// subject returns the state of a subject in a zone and creates it if necessary. If there
// are already maxSubjects objects, the new object evicts the least recently used object.
// The tokens of the evicted object stay in the shared window.
func (l *Lease) subject(zone Zone, name string) *subject {
	key := subjectKey{zone.Name, name}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.subjects.Get(key); ok {
		return s
	}
	l.created++
	s := &subject{
		key: windowKey(l.opt.HashKey, zone.Name, name), zone: zone,
		holder: l.holder + "." + strconv.Itoa(l.created), used: window{span: leaseSpan, bucketMs: leaseBucketMs},
	}
	l.subjects.Add(key, s)
	return s
}

// Run returns the unused tokens of expired blocks until ctx ends. Then it returns all
// unused tokens.
func (l *Lease) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			l.returnTokens(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
			l.sweep(ctx)
		}
	}
}

func (l *Lease) sweep(ctx context.Context) {
	keys, subjects := l.all()
	for i, s := range subjects {
		now := l.opt.Now()
		if l.client != nil && l.paused(now) {
			return
		}
		s.mu.Lock()
		s.expire(now)
		s.used.removeOld(now.UnixMilli())
		if l.client == nil {
			s.rowOutdated = false // there is no shared window
		}
		if s.rowOutdated && s.callDone == nil {
			l.call(ctx, s, now, 0)
		}
		idle := s.unused == 0 && s.used.total == 0 && !s.rowOutdated && s.callDone == nil
		s.mu.Unlock()
		if idle {
			l.mu.Lock()
			// A request that has already obtained s can still use s. A new object for the
			// subject has its own row, so s and the new object do not overwrite each
			// other's rows.
			l.subjects.Remove(keys[i])
			l.mu.Unlock()
		}
	}
}

// returnTokens returns all unused tokens before the process ends.
func (l *Lease) returnTokens(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	_, subjects := l.all()
	for _, s := range subjects {
		if ctx.Err() != nil {
			return // the remaining unused tokens count for another minute
		}
		now := l.opt.Now()
		s.mu.Lock()
		if s.unused > 0 {
			s.unused = 0
			s.rowOutdated = true
		}
		if s.rowOutdated && s.callDone == nil && !l.paused(now) {
			l.call(ctx, s, now, 0)
		}
		s.mu.Unlock()
	}
}

func (l *Lease) all() ([]subjectKey, []*subject) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subjects.Keys(), l.subjects.Values()
}
