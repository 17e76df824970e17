// Package visitors determines which clicks are unique. A click is unique if it is the
// first click of its visitor in 24 hours.
//
// A visitor is identified by the workspace, the mode, the hash of the IP address, the
// hash of the user agent and the referral code. A digest of these values represents the
// visitor. One byte of the digest determines the bucket of the visitor. Each bucket
// consists of two Redis hashes: one for visitors that were stored today, and one for
// visitors that were stored yesterday.
//
//	u:{bucket}:0   visitors of even days (UTC, by the clock of Redis)
//	u:{bucket}:1   visitors of odd days
//	  day          → the day of all visitors in the hash, in days since 1970
//	  pad          → makes Redis store the hash as a hash table (see script)
//	  digest       → the token of the visitor's unique click (the random half of the
//	                 click's id) and the second in which the token was stored
//
// A script looks up visitors in both hashes. It adds the visitors that are missing or
// were stored more than 24 hours ago. One call processes up to 1,000 visitors of a
// bucket. After the call, a click is unique if the value of its visitor contains the
// token of the click.
//
// Delete deletes visitors when the test data of their workspace is deleted.
//
// The package guarantees:
//
//   - Within 24 hours, at most one click of a visitor becomes unique, however many
//     processes call MarkUnique at the same time.
//   - If MarkUnique is called again for a click within 24 hours, for example after a
//     crash, the result is the same, whatever other clicks are in the same call.
//   - Redis contains neither IP addresses nor the identity of a visitor.
//
// It has these limits:
//
//   - A visitor may have no unique click. If Redis does not respond in time, the script
//     may still have stored the visitor. Then no click of the visitor is unique for 24
//     hours. This can also happen if MarkUnique is called again, after more than 24
//     hours, for a click that is already in the database.
//   - The 24 hours start at the call of MarkUnique, not at the click. The call can be
//     much later than the click if a collector has kept the click in its journal.
//   - The edge hashes IP addresses with a key that changes every month, and when the hash
//     key is rotated. After a change, all visitors are new.
//
// A visitor takes about 80 bytes (Redis 7.0 on a 64-bit machine) until the second
// midnight (UTC) after the call. Shortly after midnight, Redis therefore stores the
// visitors of one day. Shortly before midnight, it stores the visitors of two days.
package visitors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate/click"
)

// timeout limits the time for which ingestion waits for Redis. After this time, ingestion
// stores the clicks as clicks that are not unique.
const timeout = 250 * time.Millisecond

// Visitors stores the visitors of the last 24 hours.
type Visitors struct{ client redis.UniversalClient }

// New returns a Visitors that uses client. Redis may be a cluster, because one call of
// the script uses only the keys of one bucket, which are in one slot.
func New(client redis.UniversalClient) *Visitors { return &Visitors{client} }

// pendingClick is a click and the query for its visitor, which has the index n in a call.
type pendingClick struct {
	click *click.Click
	call  *call
	n     int
}

// MarkUnique sets the field Unique of the given clicks. It takes at most 250 ms. unknown
// is the number of clicks for which Redis has returned no result. The field Unique of
// these clicks is not changed.
func (v *Visitors) MarkUnique(ctx context.Context, clicks []*click.Click) (unknown int) {
	calls, pending := newCalls(clicks)
	if len(calls) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	send(ctx, v.client, calls)
	for _, p := range pending {
		unique, ok := p.call.uniqueToken(p.n)
		if !ok {
			unknown++
			continue
		}
		// Compare the token of each click, not only of the click in the query. If this
		// call is repeated after a crash, the earlier call may have stored another click
		// of the visitor as the unique click.
		p.click.Unique = string(token(p.click)) == unique
	}
	return unknown
}

// newCalls returns the calls for the visitors of the given clicks. pending contains each
// click whose result comes from one of these calls. newCalls leaves out clicks that are
// never unique: clicks of bots, and clicks whose visitor cannot be identified.
func newCalls(clicks []*click.Click) (calls []*call, pending []pendingClick) {
	queries := make(map[[1 + fieldSize]byte]pendingClick, len(clicks))
	pending = make([]pendingClick, 0, len(clicks))
	var current [buckets]*call // the call of each bucket that still has room
	var scratch []byte
	for _, stored := range clicks {
		if stored.IsBot || stored.Consent == click.ConsentDenied || len(stored.IPHash) == 0 {
			continue
		}
		scratch = appendVisitor(scratch[:0], stored)
		sum := sha256.Sum256(scratch)
		sum[0] %= buckets
		visitor := [1 + fieldSize]byte(sum[:])
		query, exists := queries[visitor]
		if exists {
			query.call.useEarlier(query.n, stored)
		} else {
			c := current[sum[0]]
			if c == nil || len(c.clicks) == maxCallVisitors {
				c = newCall(sum[0])
				current[sum[0]] = c
				calls = append(calls, c)
			}
			query = pendingClick{call: c, n: len(c.clicks)}
			c.add(visitor[1:], stored)
			queries[visitor] = query
		}
		pending = append(pending, pendingClick{stored, query.call, query.n})
	}
	return calls, pending
}

// Delete deletes the visitors of the given clicks, whose test data was deleted. The next
// click of each visitor is unique.
func (v *Visitors) Delete(ctx context.Context, clicks []click.Click) error {
	pointers := make([]*click.Click, len(clicks))
	for i := range clicks {
		pointers[i] = &clicks[i]
	}
	calls, _ := newCalls(pointers)
	pipeline := v.client.Pipeline()
	for _, c := range calls {
		fields := make([]string, len(c.clicks))
		for n := range fields {
			fields[n] = string(c.queries[n*querySize:][:fieldSize])
		}
		for _, key := range c.keys {
			pipeline.HDel(ctx, key, fields...)
		}
	}
	if pipeline.Len() == 0 {
		return nil
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		return fmt.Errorf("delete visitors: %w", err)
	}
	return nil
}

// appendVisitor appends the values that identify the visitor of a click. Each part of
// variable length is preceded by its length, so that two visitors never have the same
// bytes.
func appendVisitor(b []byte, click *click.Click) []byte {
	b = append(b, click.Workspace.UUID[:]...)
	b = appendPart(b, click.Mode)
	b = appendPart(b, click.IPHash)
	b = appendPart(b, click.UAHash)
	return appendPart(b, click.ReferralCode)
}

func appendPart[T ~string | ~[]byte](b []byte, part T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// token returns the random half of a click's id. It identifies the click among the clicks
// of its visitor.
func token(click *click.Click) []byte { return click.ID.UUID[8:] }

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
