// Package ratelimit holds callers to "at most N in any 60 seconds", strictly.
//
// A window is a row of one-second buckets: the current second and the sixty
// before it. What was admitted counts until its bucket has left the row, so no
// 60 seconds, wherever they begin, hold more than N, and a place becomes free at
// most a second late. Refusals count nothing.
//
//	Limiter: a Lua call in front of every request, for limits that every instance
//	         shares; requests of one subject that wait at the same time share it.
//	Lease:   blocks fetched ahead, for the click path, where a request must not
//	         wait for Redis.
//
// Both keep a window of their own beside the shared one, of what this process
// admitted. When Redis does not answer within 50 ms that window alone decides,
// so a limit is never switched off and never refuses everybody.
//
// It does not promise one count over all processes while Redis is away: then
// each admits up to N. Nor does it bound the error of the processes' clocks:
// two that differ by a second blur the window by that second.
//
// In Redis a window lives under an HMAC of its subject: no address and no key
// reaches a dump or an append-only file.
package ratelimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Zone is one limit: N in any 60 seconds for each subject.
type Zone struct {
	Name  string
	Limit int64
	// LocalLimit replaces Limit while Redis does not answer; 0 means the same.
	LocalLimit int64
}

// Result is the answer to one request.
type Result struct {
	Allowed bool
	Limit   int64
	// Remaining is what is left in the window as far as this process knows.
	Remaining int64
	// RetryAfter is set on a refusal: whole seconds, at least one, after which
	// the next request succeeds unless others came first.
	RetryAfter time.Duration
	// ResetAfter is how long until the whole limit is free again, if nothing is
	// sent meanwhile; whole seconds, rounded up.
	ResetAfter time.Duration
}

const (
	// span is sixty full seconds and the one that has begun.
	span = 61
	// redisTimeout is what a question to the shared window may take. A request waits
	// for one, and before it for the rest of one that was under way.
	redisTimeout = 50 * time.Millisecond
	// redisPause is how long a Lease leaves Redis alone after it did not answer.
	redisPause = 250 * time.Millisecond
	// maxSubjects bounds the local windows of one Limiter or Lease.
	maxSubjects = 100_000
)

// Options are shared by Limiter and Lease.
type Options struct {
	// HashKey keys the HMAC over subjects; all processes that share a limit need
	// the same one.
	HashKey []byte
	// Now is the one clock; nil means time.Now.
	Now func() time.Time
	// Log gets one line a minute while Redis does not answer; nil means none.
	Log *slog.Logger
	// Fallback, when set, is called for every decision made without Redis.
	Fallback func(zone string)
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Fallback == nil {
		o.Fallback = func(string) {}
	}
}

func windowKey(hashKey []byte, zone, subject string) string {
	mac := hmac.New(sha256.New, hashKey)
	mac.Write([]byte(zone))
	mac.Write([]byte{0})
	mac.Write([]byte(subject))
	return "rl:{" + zone + ":" + hex.EncodeToString(mac.Sum(nil)[:16]) + "}"
}

// acquire is the shared window KEYS[1], a hash of "<second><holder>" → count.
// ARGV: now in ms, limit, tokens wanted, buckets in the row, holder, and then
// pairs (second, count) that set this holder's buckets right. It returns the
// tokens granted, the sum afterwards, the ms until one token is free (0 when all
// were granted) and the ms until all are.
var acquire = redis.NewScript(`
local now, limit, want, span, holder = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local second = math.floor(now / 1000)
for i = 6, #ARGV, 2 do
  if tonumber(ARGV[i + 1]) > 0 then
    redis.call('HSET', KEYS[1], ARGV[i] .. holder, ARGV[i + 1])
  else
    redis.call('HDEL', KEYS[1], ARGV[i] .. holder)
  end
end
local stored = redis.call('HGETALL', KEYS[1])
local sum, newest, live = 0, second, {}
for i = 1, #stored, 2 do
  local at, count = tonumber(string.match(stored[i], '^%d+')), tonumber(stored[i + 1])
  if at <= second - span then
    redis.call('HDEL', KEYS[1], stored[i])
  else
    sum = sum + count
    newest = math.max(newest, at)
    live[#live + 1] = {at, count}
  end
end
local granted = math.max(0, math.min(want, limit - sum))
if granted > 0 then
  redis.call('HINCRBY', KEYS[1], second .. holder, granted)
  sum = sum + granted
end
if granted > 0 or #ARGV > 5 then
  redis.call('PEXPIRE', KEYS[1], (span + 1) * 1000)
end
local retry = 0
if granted < want then
  live[#live + 1] = {second, granted}
  table.sort(live, function(a, b) return a[1] < b[1] end)
  local excess = sum - limit + 1
  for _, bucket in ipairs(live) do
    excess = excess - bucket[2]
    if excess <= 0 then
      retry = (bucket[1] + span) * 1000 - now
      break
    end
  end
end
return {granted, sum, retry, (newest + span) * 1000 - now}
`)

// seconds rounds up to whole seconds, at least one.
func seconds(ms int64) time.Duration {
	return max(time.Second, time.Duration((ms+999)/1000)*time.Second)
}

// minutely lets one line a minute through.
type minutely struct {
	mu   sync.Mutex
	next time.Time
}

func (m *minutely) due(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.next) {
		return false
	}
	m.next = now.Add(time.Minute)
	return true
}
