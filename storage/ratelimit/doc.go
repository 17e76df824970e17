// Package ratelimit enforces limits of the form "at most N in any 60 seconds", or in any
// longer period, for example an hour (Zone.Window).
//
// A limit applies to each subject separately, for example to each IP address. All
// processes count the requests of a subject in one shared window in Redis. A window
// consists of 61 buckets, each a sixtieth of the period: the current bucket and the 60
// buckets before it. For a period of 60 seconds, a bucket is one second. An admitted
// request counts until its bucket has left the window. Therefore any period contains at
// most N requests, and a request may be refused for up to the length of one bucket longer
// than necessary. Refused requests do not count.
//
// The package has two implementations:
//
//	Limiter: makes one call to Redis before each request. It is for limits that must be
//	         exact. Simultaneous requests of a subject share a call.
//	Lease:   takes tokens from the shared window in blocks. A token admits one request,
//	         so most requests need no call to Redis. It is for clicks. Its period is
//	         always 60 seconds.
//
// Both also count the requests that this process has admitted in a local window. If Redis
// does not respond within 50 ms (Options.Timeout), the local window decides. Therefore a
// failure of Redis neither disables the limits nor makes requests fail.
//
// Without Redis, each process admits up to N requests (or Zone.LocalLimit), because it
// does not know the requests of the other processes. Differences between the clocks of
// the processes are not corrected. A difference of one second makes the window inexact by
// one second.
//
// Each region has its own Redis, so a limit of the collectors applies in each region
// separately. If the requests of a subject reach R regions, all regions together admit at
// most R·N of them in any period. If a region is cut off from the others, its limits do not
// change.
//
// In Redis, the key of a window is an HMAC of its subject. Therefore dumps and
// append-only files contain no IP addresses and no API keys.
package ratelimit

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Zone is a rate limit. It allows Limit requests in any period of the length Window for
// each subject, for example for each IP address.
type Zone struct {
	Name  string
	Limit int64
	// Window is a whole number of minutes. 0 means one minute.
	Window time.Duration
	// LocalLimit replaces Limit while Redis does not respond. 0 means Limit.
	LocalLimit int64
}

// bucketMs returns the length of a bucket in ms.
func (z Zone) bucketMs() int64 {
	return max(z.Window, time.Minute).Milliseconds() / (span - 1)
}

// Result is the decision about a request.
type Result struct {
	Allowed bool
	Limit   int64
	// Remaining is the number of further requests that the window allows. Other processes
	// may have admitted some of these requests since the last call to Redis.
	Remaining int64
	// RetryAfter is set if the request was refused. After this time a new request
	// succeeds, unless other requests are admitted first. The value is in whole seconds,
	// at least one.
	RetryAfter time.Duration
	// ResetAfter is the time until the window is empty if no more requests arrive. The
	// value is in whole seconds, rounded up.
	ResetAfter time.Duration
}

// SetHeaders sets the headers RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for a zone with
// a period of 60 seconds. If the request was refused, it also sets Retry-After. The parameter t of RateLimit is the
// time until the window is empty. If the request was refused, t is equal to Retry-After.
func (r Result) SetHeaders(h http.Header, zone string) {
	var buffer [64]byte
	name := append(append(append(buffer[:0], '"'), zone...), '"')
	policy := strconv.AppendInt(append(name, ";q="...), r.Limit, 10)
	h["Ratelimit-Policy"] = []string{string(append(policy, ";w=60"...))}
	reset := r.ResetAfter
	if !r.Allowed {
		reset = r.RetryAfter
	}
	state := strconv.AppendInt(append(name, ";r="...), r.Remaining, 10)
	state = strconv.AppendInt(append(state, ";t="...), int64(reset/time.Second), 10)
	h["Ratelimit"] = []string{string(state)}
	if !r.Allowed {
		h["Retry-After"] = []string{r.RetryAfterSeconds()}
	}
}

// RetryAfterSeconds returns RetryAfter as the value of the Retry-After header.
func (r Result) RetryAfterSeconds() string {
	return strconv.FormatInt(int64(r.RetryAfter/time.Second), 10)
}

const (
	// span is the number of buckets in the window of a Limiter: the current bucket, and 60
	// full buckets, which together are as long as the period of the limit.
	span           = 61
	defaultTimeout = 50 * time.Millisecond
	// redisPause is the time for which a Lease makes no call to Redis after a failure.
	redisPause = 250 * time.Millisecond
	// maxSubjects is the maximum number of local windows of a Limiter or Lease.
	maxSubjects = 100_000
)

// Options configures a Limiter or a Lease.
type Options struct {
	// HashKey is the key for the HMAC of subjects. All processes that share a limit must
	// use the same key.
	HashKey []byte
	// Now returns the current time. nil means time.Now.
	Now func() time.Time
	// Log receives at most one line per minute while Redis does not respond. nil means no
	// log.
	Log *slog.Logger
	// Fallback is called for every decision that was made without Redis. It may be nil.
	Fallback func(zone string)
	// Timeout is the timeout of a call to Redis. 0 means 50 ms. A request waits at most
	// for the end of a running call and then for one more call.
	Timeout time.Duration
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log, o.Timeout = cmp.Or(o.Log, slog.New(slog.DiscardHandler)), cmp.Or(o.Timeout, defaultTimeout)
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

// acquireScript takes tokens from the shared window KEYS[1]. The window is a Redis hash.
// Each holder of tokens has one row in it: each Lease has its own row, and all Limiters
// share the row of the holder "". A row consists of the number of the call that wrote it,
// the sum of its counts, and its buckets. A bucket is a number and a count. The number is
// the start of the bucket, divided by its length. The buckets are in ascending order of
// their numbers. Each number and count has four bytes.
//
// The arguments are the current time in ms, the limit, the requested number of tokens,
// the number of buckets in the window, the length of a bucket in ms, and the name of the
// holder. A Lease also sends its whole row, and the script replaces the stored row by it. If
// a later call has written the stored row, the script changes nothing: this call has arrived
// late, and its caller no longer waits for the result. The client of a Cluster may send a
// call twice. Because the second call replaces the row with the same row, its tokens count
// once.
//
// The script returns the number of granted tokens, the sum of the window after the grant,
// the time in ms until one more token is free (0 if all requested tokens were granted), and
// the time in ms until the window is empty.
var acquireScript = redis.NewScript(`
local now, limit, want, span, length = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local holder, sent = ARGV[6], ARGV[7]
local current = math.floor(now / length)
local rows, total, newest = {}, 0, current - span
-- take removes the buckets of a row that have left the window and adds the other buckets
-- to total. It returns the number of the call that wrote the row, the sum of the remaining
-- buckets and these buckets.
local function take(row)
  local number, sum, from = struct.unpack('>I4I4', row)
  while from < #row do
    local at, count = struct.unpack('>I4I4', row, from)
    if at > current - span then
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
  sum, total, newest = sum + granted, total + granted, math.max(newest, current)
  local to, at, count = #buckets, 0, 0
  while to > 0 do
    at, count = struct.unpack('>I4I4', buckets, to - 7)
    if at <= current then
      break
    end
    to = to - 8 -- this bucket was written with a clock that is ahead
  end
  local before, after = string.sub(buckets, 1, to), string.sub(buckets, to + 1)
  if to == 0 or at < current then
    buckets = before .. struct.pack('>I4I4', current, granted) .. after
  else
    buckets = string.sub(before, 1, -9) .. struct.pack('>I4I4', current, count + granted) .. after
  end
end
if granted > 0 or sent then
  if buckets == '' then
    redis.call('HDEL', KEYS[1], holder)
  else
    redis.call('HSET', KEYS[1], holder, struct.pack('>I4I4', number, sum) .. buckets)
    redis.call('PEXPIRE', KEYS[1], (span + 1) * length)
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
      retry = (bucket[1] + span) * length - now
      break
    end
  end
end
return {granted, total, retry, (newest + span) * length - now}
`)

// seconds rounds milliseconds up to whole seconds, at least one.
func seconds(ms int64) time.Duration {
	return max(time.Second, time.Duration((ms+999)/1000)*time.Second)
}

type logLimiter struct {
	mu   sync.Mutex
	next time.Time
}

func (m *logLimiter) allow(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.next) {
		return false
	}
	m.next = now.Add(time.Minute)
	return true
}
