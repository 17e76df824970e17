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
	return "limit:{" + zone + ":" + hex.EncodeToString(mac.Sum(nil)[:16]) + "}"
}

// acquire is the shared window KEYS[1], a hash with a row for each holder: its sum
// and then (second, count) by second, four bytes each. A row is written at least as
// often as tokens are taken, so only its first buckets have to be looked at: what has
// left it since then.
//
// ARGV: now in ms, limit, tokens wanted, buckets in the row, holder, and of a holder
// that keeps its row itself that row, which replaces the stored one. It returns the
// tokens granted, the sum afterwards, the ms until one token is free (0 when all were
// granted) and the ms until all are.
var acquire = redis.NewScript(`
local now, limit, want, span, holder, told = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local second = math.floor(now / 1000)
-- trim returns a row's sum and buckets without those that have left it.
local function trim(row)
  local sum, from = struct.unpack('>I4', row)
  while from < #row do
    local at, count = struct.unpack('>I4I4', row, from)
    if at > second - span then
      break
    end
    sum, from = sum - count, from + 8
  end
  return sum, string.sub(row, from)
end
local stored, own, others, total = redis.call('HGETALL', KEYS[1]), told, {}, 0
for i = 1, #stored, 2 do
  if stored[i] ~= holder then
    local sum, buckets = trim(stored[i + 1])
    if buckets == '' then
      redis.call('HDEL', KEYS[1], stored[i])
    end
    others[#others + 1] = buckets
    total = total + sum
  elseif not told then
    own = stored[i + 1]
  end
end
local sum, buckets = 0, ''
if own then
  sum, buckets = trim(own)
end
total = total + sum
local granted = math.max(0, math.min(want, limit - total))
if granted > 0 then
  sum, total = sum + granted, total + granted
  local at, count = 0, 0
  if buckets ~= '' then
    at, count = struct.unpack('>I4I4', buckets, #buckets - 7)
  end
  if at < second then
    buckets = buckets .. struct.pack('>I4I4', second, granted)
  else -- or later, by another's clock
    buckets = string.sub(buckets, 1, -9) .. struct.pack('>I4I4', at, count + granted)
  end
end
if granted > 0 or told then
  if buckets == '' then
    redis.call('HDEL', KEYS[1], holder)
  else
    redis.call('HSET', KEYS[1], holder, struct.pack('>I4', sum) .. buckets)
    redis.call('PEXPIRE', KEYS[1], (span + 1) * 1000)
  end
end
local retry, reset = 0, second
if granted < want then
  local all = {}
  others[#others + 1] = buckets
  for _, row in ipairs(others) do
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
  reset = all[#all][1]
end
return {granted, total, retry, (reset + span) * 1000 - now}
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
