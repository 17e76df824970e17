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

type visitorQuery struct {
	call *call
	n    int
}

type pendingClick struct {
	click *click.Click
	query visitorQuery
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
		unique, ok := p.query.call.uniqueToken(p.query.n)
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
	queries := make(map[[1 + fieldSize]byte]visitorQuery, len(clicks))
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
			query = visitorQuery{c, len(c.clicks)}
			c.add(visitor[1:], stored)
			queries[visitor] = query
		}
		pending = append(pending, pendingClick{stored, query})
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
	b = append(b, click.Scope.Workspace.UUID[:]...)
	b = appendPart(b, click.Scope.Mode)
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
