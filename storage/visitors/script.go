package visitors

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate/click"
)

const (
	// buckets is the number of buckets. It is small, because almost every batch of clicks
	// needs one call of the script for each bucket. It is large enough to distribute the
	// buckets over the masters of a cluster. The maximum is 256, because one byte of the
	// digest determines the bucket.
	buckets = 16
	// keyPrefix and keySuffix enclose the number of the bucket in a key. Because of the
	// braces, a cluster stores both hashes of a bucket in the same slot.
	keyPrefix, keySuffix = "u:{", "}:"
	// fieldSize is the number of bytes of the digest that are used as the field of a
	// hash. Redis needs the same memory for 14 bytes as for 7.
	fieldSize = 14
	// A query consists of a field and a token. A value consists of a token and a time of
	// four bytes. The script contains fieldSize and the following sizes as literal
	// numbers.
	tokenSize = 8
	querySize = fieldSize + tokenSize
	valueSize = tokenSize + 4
	// maxCallVisitors is the maximum number of visitors per call. It limits the duration
	// of a call to about 4 ms, because Redis executes no other command during a call.
	// Because of a limit of Lua, it must not be higher than 3,900.
	maxCallVisitors = 1000
)

// script looks up visitors of one bucket and stores new visitors. ARGV[1] contains a
// query for each visitor: the field of the visitor and the token of a click. The reply
// contains a value for each visitor: the token of the visitor's unique click and the
// second in which this token was stored.
//
// KEYS are the bucket's hashes of even and of odd days. If the field "day" of today's
// hash contains another day, the hash has old visitors. In this case, the script removes
// the hash before it stores a new visitor. It uses UNLINK, because DEL would block Redis
// for a long time. The hashes also expire, because a bucket without new visitors is never
// written.
//
// A value in yesterday's hash counts only if its time is less than 24 hours ago. A time
// in the future is possible, because the clock may have been set back. The script reads
// everything before it writes anything, so that a failed call has changed nothing.
//
// The field "pad" makes Redis store the hash as a hash table from the first visitor on.
// Without this field, Redis would store a small hash as a list and search the list from
// its start for each query. 1,000 queries of a list with 500 visitors would block Redis
// for 40 ms.
var script = redis.NewScript(`
local now = tonumber(redis.call('TIME')[1])
local day = math.floor(now / 86400)
local today, other = KEYS[day % 2 + 1], KEYS[(day + 1) % 2 + 1]
local queries, count, sub = ARGV[1], #ARGV[1] / 22, string.sub

local fields = {}
for i = 1, count do
  fields[i] = sub(queries, i * 22 - 21, i * 22 - 8)
end
local values = redis.call('HMGET', today, unpack(fields))
local current = redis.call('HGET', today, 'day') == tostring(day)
local missing, n = {}, 0
for i = 1, count do
  if not (current and values[i]) then
    n = n + 1
    missing[n], fields[n] = i, fields[i]
  end
end
if n == 0 then
  return table.concat(values)
end

local before = redis.call('EXISTS', other) == 1 and redis.call('HMGET', other, unpack(fields, 1, n))
local time, new, k = struct.pack('>I4', now), {}, 0
for j = 1, n do
  local i, value = missing[j], before and before[j]
  if not value or #value ~= 12 or math.abs(now - struct.unpack('>I4', value, 9)) >= 86400 then
    value = sub(queries, i * 22 - 7, i * 22) .. time
    new[k + 1], new[k + 2] = fields[j], value
    k = k + 2
  end
  values[i] = value
end
if k > 0 then
  if not current then
    redis.call('UNLINK', today)
    redis.call('HSET', today, 'day', day, 'pad', string.rep('-', 65))
    redis.call('EXPIRE', today, 3 * 86400)
  end
  redis.call('HSET', today, unpack(new))
end
return table.concat(values)
`)

type call struct {
	keys []string
	// clicks contains the earliest click of each visitor.
	clicks []*click.Click
	// queries contains a query for each visitor.
	queries []byte
	reply   *redis.Cmd
	// values contains a value for each visitor. It is empty if the call has failed.
	values string
}

func newCall(bucket byte) *call {
	key := keyPrefix + strconv.Itoa(int(bucket)) + keySuffix
	return &call{keys: []string{key + "0", key + "1"}}
}

// add adds a query for a visitor. If the visitor is new, the script makes the given click
// its unique click.
func (c *call) add(field []byte, click *click.Click) {
	c.clicks = append(c.clicks, click)
	c.queries = append(append(c.queries, field...), token(click)...)
}

// useEarlier replaces the click of visitor n if the given click was received earlier.
func (c *call) useEarlier(n int, click *click.Click) {
	if click.ReceivedAt.Before(c.clicks[n].ReceivedAt) {
		c.clicks[n] = click
		copy(c.queries[n*querySize+fieldSize:], token(click))
	}
}

// uniqueToken returns the token of the unique click of visitor n. ok is false if the call
// has failed.
func (c *call) uniqueToken(n int) (token string, ok bool) {
	if c.values == "" {
		return "", false
	}
	return c.values[n*valueSize:][:tokenSize], true
}

// send makes the given calls in one pipeline. Each call succeeds or fails independently
// of the others. If a server does not have the script, for example after a restart or a
// failover, send repeats the failed calls with EVAL in a second pipeline. SCRIPT LOAD
// would have to be sent to every node of a Cluster.
func send(ctx context.Context, client redis.UniversalClient, calls []*call) {
	pipeline := client.Pipeline()
	for _, c := range calls {
		c.reply = script.EvalSha(ctx, pipeline, c.keys, c.queries)
	}
	_, _ = pipeline.Exec(ctx)
	for _, c := range calls {
		if redis.HasErrorPrefix(c.reply.Err(), "NOSCRIPT") {
			c.reply = script.Eval(ctx, pipeline, c.keys, c.queries)
		}
	}
	if pipeline.Len() > 0 {
		_, _ = pipeline.Exec(ctx)
	}
	for _, c := range calls {
		// Check the value and not the error. After a timeout, the library sets the error
		// of all commands, including commands that have received a response.
		if values, ok := c.reply.Val().(string); ok && len(values) == len(c.clicks)*valueSize {
			c.values = values
		}
	}
}
