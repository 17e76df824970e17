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

	// timeout replaces redisTimeout where a test has to have Redis's answer.
	timeout time.Duration
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
	if o.timeout == 0 {
		o.timeout = redisTimeout
	}
}

func windowKey(hashKey []byte, zone, subject string) string {
	mac := hmac.New(sha256.New, hashKey)
	mac.Write([]byte(zone))
	mac.Write([]byte{0})
	mac.Write([]byte(subject))
	return "limit:{" + zone + ":" + hex.EncodeToString(mac.Sum(nil)[:16]) + "}"
}

// acquire is the shared window KEYS[1], a hash with a row for each holder: the number
// of the question that wrote it, its sum, and then (second, count) by second, four
// bytes each. A row is written at least as often as tokens are taken, so only its first
// buckets have to be looked at: what has left it since then.
//
// ARGV: now in ms, limit, tokens wanted, buckets in the row, holder, and of a holder
// that keeps its row itself that row, which replaces the stored one unless that is of
// a later question: then this one came late, and nobody waits for it any more. One that
// a Cluster's client sends twice is answered twice and counts once. It returns the tokens
// granted, the sum afterwards, the ms until one token is free (0 when all were granted)
// and the ms until all are.
var acquire = redis.NewScript(`
local now, limit, want, span, holder, told = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local second = math.floor(now / 1000)
local rows, total, newest = {}, 0, second - span
-- take counts what a row still holds, and returns its number, sum and buckets.
local function take(row)
  local number, sum, from = struct.unpack('>I4I4', row)
  while from < #row do
    local at, count = struct.unpack('>I4I4', row, from)
    if at > second - span then
      newest = math.max(newest, (struct.unpack('>I4', row, #row - 7)))
      break
    end
    sum, from = sum - count, from + 8
  end
  total = total + sum
  return number, sum, string.sub(row, from)
end
local stored, own = redis.call('HGETALL', KEYS[1]), told
for i = 1, #stored, 2 do
  if stored[i] ~= holder then
    local _, _, buckets = take(stored[i + 1])
    if buckets == '' then
      redis.call('HDEL', KEYS[1], stored[i])
    end
    rows[#rows + 1] = buckets
  elseif not told then
    own = stored[i + 1]
  elseif struct.unpack('>I4', stored[i + 1]) > struct.unpack('>I4', told) then
    return {0, limit, 0, 0}
  end
end
local number, sum, buckets = 0, 0, ''
if own then
  number, sum, buckets = take(own)
end
local granted = math.max(0, math.min(want, limit - total))
if granted > 0 then
  sum, total, newest = sum + granted, total + granted, math.max(newest, second)
  local to, at, count = #buckets, 0, 0
  while to > 0 do
    at, count = struct.unpack('>I4I4', buckets, to - 7)
    if at <= second then
      break
    end
    to = to - 8 -- of a clock that is ahead
  end
  local before, after = string.sub(buckets, 1, to), string.sub(buckets, to + 1)
  if to == 0 or at < second then
    buckets = before .. struct.pack('>I4I4', second, granted) .. after
  else
    buckets = string.sub(before, 1, -9) .. struct.pack('>I4I4', second, count + granted) .. after
  end
end
if granted > 0 or told then
  if buckets == '' then
    redis.call('HDEL', KEYS[1], holder)
  else
    redis.call('HSET', KEYS[1], holder, struct.pack('>I4I4', number, sum) .. buckets)
    redis.call('PEXPIRE', KEYS[1], (span + 1) * 1000)
  end
end
local retry = 0
if granted < want then
  local all = {}
  rows[#rows + 1] = buckets
  for _, row in ipairs(rows) do
    for from = 1, #row, 8 do
      local at, count = struct.unpack('>I4I4', row, from)
      all[#all + 1] = {at, count}
    end
  end
  table.sort(all, function(a, b) return a[1] < b[1] end)
  local excess = total - limit + 1
  for _, bucket in ipairs(all) do
    excess = excess - bucket[2]
    if excess <= 0 then
      retry = (bucket[1] + span) * 1000 - now
      break
    end
  end
end
return {granted, total, retry, (newest + span) * 1000 - now}
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
