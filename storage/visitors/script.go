package visitors

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// buckets are few, because each is a call for nearly every batch, and enough to
	// spread over the masters of a cluster. At most 256, a byte of the digest.
	buckets = 16
	// keyPrefix and keySuffix have a bucket's number between them, by which the
	// cluster keeps both its hashes in one slot.
	keyPrefix, keySuffix = "u:{", "}:"
	// fieldSize is what a field has of a digest: Redis needs no more memory for 14
	// bytes than for 7.
	fieldSize = 14
	// A question is a field and a token, an answer a token and four bytes of time; the
	// script has these sizes as numbers.
	tokenSize    = 8
	questionSize = fieldSize + tokenSize
	answerSize   = tokenSize + 4
	// callVisitors bounds a call, during which Redis serves nobody else, to some 4 ms.
	// Lua could pass on no more than 3,900.
	callVisitors = 1000
)

// script answers for visitors of one bucket. ARGV[1] has them one after the other,
// each a field and a token. The answer has each visitor's value: the holder's token
// and the second in which it asked.
//
// KEYS are the bucket's hashes of even and of odd days. A hash whose field day is not
// today's is dropped before the first write, by UNLINK: its deletion would hold up
// everybody, and so would its expiry, which is for buckets that nobody asks any more.
// Of the other hash a value's own time says whether it counts; time to come is that
// of a clock since set back. Everything is read before anything is written, so that a
// call that fails has changed nothing.
//
// The field pad makes a hash a table from its first visitor on: Redis keeps small
// hashes as a list in which it looks for each field from the front, and a thousand
// questions to a list of 500 hold it up for 40 ms.
var script = redis.NewScript(`
local now = tonumber(redis.call('TIME')[1])
local day = math.floor(now / 86400)
local today, other = KEYS[day % 2 + 1], KEYS[(day + 1) % 2 + 1]
local asked, count, sub = ARGV[1], #ARGV[1] / 22, string.sub

local fields = {}
for i = 1, count do
  fields[i] = sub(asked, i * 22 - 21, i * 22 - 8)
end
local values = redis.call('HMGET', today, unpack(fields))
local kept = redis.call('HGET', today, 'day') == tostring(day)
local missing, n = {}, 0
for i = 1, count do
  if not (kept and values[i]) then
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
    value = sub(asked, i * 22 - 7, i * 22) .. time
    new[k + 1], new[k + 2] = fields[j], value
    k = k + 2
  end
  values[i] = value
end
if k > 0 then
  if not kept then
    redis.call('UNLINK', today)
    redis.call('HSET', today, 'day', day, 'pad', string.rep('-', 65))
    redis.call('EXPIRE', today, 3 * 86400)
  end
  redis.call('HSET', today, unpack(new))
end
return table.concat(values)
`)

// call is one of the script.
type call struct {
	keys []string
	// first are the clicks that came first of their visitors, and ask for all.
	first []*affiliate.Click
	asked []byte
	reply *redis.Cmd
	// answers are empty when there are none.
	answers string
}

func newCall(bucket byte) *call {
	key := keyPrefix + strconv.Itoa(int(bucket)) + keySuffix
	return &call{keys: []string{key + "0", key + "1"}}
}

// add asks for one more visitor, as the holder if there is none.
func (c *call) add(field []byte, first *affiliate.Click) {
	c.first = append(c.first, first)
	c.asked = append(append(c.asked, field...), token(first)...)
}

// earlier makes click the one that asks for visitor n, if it came first.
func (c *call) earlier(n int, click *affiliate.Click) {
	if click.ReceivedAt.Before(c.first[n].ReceivedAt) {
		c.first[n] = click
		copy(c.asked[n*questionSize+fieldSize:], token(click))
	}
}

// holder is the token of the click that is visitor n's unique one.
func (c *call) holder(n int) (holder string, known bool) {
	if c.answers == "" {
		return "", false
	}
	return c.answers[n*answerSize:][:tokenSize], true
}

// send makes calls in one round trip; each succeeds or fails by itself. Where Redis
// has forgotten the script (a restart, a failover) there is a second with the whole
// of it: SCRIPT LOAD would need every node of a Cluster.
func send(ctx context.Context, client redis.UniversalClient, calls []*call) {
	pipeline := client.Pipeline()
	for _, c := range calls {
		c.reply = script.EvalSha(ctx, pipeline, c.keys, c.asked)
	}
	_, _ = pipeline.Exec(ctx)
	for _, c := range calls {
		if redis.HasErrorPrefix(c.reply.Err(), "NOSCRIPT") {
			c.reply = script.Eval(ctx, pipeline, c.keys, c.asked)
		}
	}
	if pipeline.Len() > 0 {
		_, _ = pipeline.Exec(ctx)
	}
	for _, c := range calls {
		// When the time is over the library gives its error to those too that have been
		// answered: what counts is the answer.
		if answers, ok := c.reply.Val().(string); ok && len(answers) == len(c.first)*answerSize {
			c.answers = answers
		}
	}
}
