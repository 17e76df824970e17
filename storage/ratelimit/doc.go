// Package ratelimit enforces limits of the form "at most N in any 60 seconds".
//
// A window is a row of one-second buckets: the current second and the sixty before it.
// An admitted request counts until its bucket has left the row. So no 60 seconds,
// wherever they begin, hold more than N requests, and a place becomes free at most a
// second late. Refused requests do not count.
//
//	Limiter: one Lua call before each request, for limits that all instances share.
//	         Requests of one subject that wait at the same time share a call.
//	Lease:   blocks of tokens fetched in advance, for the click path, where a request
//	         must not wait for Redis.
//
// Both keep a local window beside the shared one, of the requests that this process
// admitted. If Redis does not answer within 50 ms (Options.Timeout), the local window decides. So a limit
// is never switched off and never refuses all requests.
//
// Limits: without Redis each process admits up to N, so there is no common count. The
// clocks of the processes are not corrected: a difference of a second blurs the window
// by a second.
//
// In Redis the key of a window is an HMAC of its subject, so no address and no key is in
// a dump or an append-only file.
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
	// LocalLimit replaces Limit while Redis does not answer; 0 means Limit.
	LocalLimit int64
}

// Result is the decision about one request.
type Result struct {
	Allowed bool
	Limit   int64
	// Remaining is the number of free places in the window as far as this process knows.
	Remaining int64
	// RetryAfter is set on a refusal: the time, in whole seconds and at least one, after
	// which the next request succeeds unless others came first.
	RetryAfter time.Duration
	// ResetAfter is the time until the whole limit is free again if no request comes, in
	// whole seconds, rounded up.
	ResetAfter time.Duration
}

const (
	// span is sixty full seconds and the one that has begun.
	span           = 61
	defaultTimeout = 50 * time.Millisecond
	// redisPause is how long a Lease makes no call after one that failed.
	redisPause = 250 * time.Millisecond
	// maxSubjects bounds the local windows of one Limiter or Lease.
	maxSubjects = 100_000
)

// Options are shared by Limiter and Lease.
type Options struct {
	// HashKey keys the HMAC of subjects. All processes that share a limit have the same.
	HashKey []byte
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives one line a minute while Redis does not answer; nil discards.
	Log *slog.Logger
	// Fallback, when set, is called for every decision made without Redis.
	Fallback func(zone string)
	// Timeout bounds one call of Redis; 0 means 50 ms. A request waits for at most one
	// call and the rest of the call before.
	Timeout time.Duration
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
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
}

func windowKey(hashKey []byte, zone, subject string) string {
	mac := hmac.New(sha256.New, hashKey)
	mac.Write([]byte(zone))
	mac.Write([]byte{0})
	mac.Write([]byte(subject))
	return "limit:{" + zone + ":" + hex.EncodeToString(mac.Sum(nil)[:16]) + "}"
}

// acquire reads and writes the shared window KEYS[1], a hash with a row for each holder.
// A row is the number of the call that wrote it, its sum, and then pairs (second, count)
// in the order of seconds, four bytes each. A row is written whenever tokens are taken,
// so only its first buckets can have left the window since then.
//
// ARGV: now in ms, limit, tokens wanted, number of buckets, holder and, if the holder
// keeps its row itself, that row. It replaces the stored row unless that is of a later
// call: then this call arrived late and nothing waits for its result. A call that the
// client of a Cluster sends twice counts once.
//
// It returns the tokens granted, the sum afterwards, the ms until one token is free (0
// if all were granted) and the ms until all are free.
var acquire = redis.NewScript(`
local now, limit, want, span, holder, sent = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local second = math.floor(now / 1000)
local rows, total, newest = {}, 0, second - span
-- take adds what a row still holds and returns its number, sum and buckets.
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
local stored, own = redis.call('HGETALL', KEYS[1]), sent
for i = 1, #stored, 2 do
  if stored[i] ~= holder then
    local _, _, buckets = take(stored[i + 1])
    if buckets == '' then
      redis.call('HDEL', KEYS[1], stored[i])
    end
    rows[#rows + 1] = buckets
  elseif not sent then
    own = stored[i + 1]
  elseif struct.unpack('>I4', stored[i + 1]) > struct.unpack('>I4', sent) then
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
    to = to - 8 -- written with a clock that is ahead
  end
  local before, after = string.sub(buckets, 1, to), string.sub(buckets, to + 1)
  if to == 0 or at < second then
    buckets = before .. struct.pack('>I4I4', second, granted) .. after
  else
    buckets = string.sub(before, 1, -9) .. struct.pack('>I4I4', second, count + granted) .. after
  end
end
if granted > 0 or sent then
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

// seconds rounds milliseconds up to whole seconds, at least one.
func seconds(ms int64) time.Duration {
	return max(time.Second, time.Duration((ms+999)/1000)*time.Second)
}

// minutely limits log lines to one a minute.
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
