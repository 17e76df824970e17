// Package visitors remembers whose first click in 24 hours was which, so that
// each click can be told to be unique or not.
//
// Model: a visitor is a workspace and mode, an address, an agent and a referral
// code, and a digest of them stands for it. The digest chooses one of a few buckets,
// each of which is two hashes in Redis, of today's new visitors and of yesterday's:
//
//	u:{bucket}:0   of even days (UTC, by the clock of Redis)
//	u:{bucket}:1   of odd days
//	  day              → the number of the hash's day
//	  pad              → what makes the hash a table (see script)
//	  digest           → the click that is unique (the half of its id that is random)
//	                     and the second in which it asked
//
// A script looks visitors up in both hashes and adds those who are new or came more
// than 24 hours ago, all of a bucket in one call. A click is unique when the hash
// then has its own.
//
// Guaranteed: one click of a visitor is unique, however many processes ask at
// once. The answer is the same however often, in whatever company and after
// whatever crash a click asks again within 24 hours. No address is in Redis, and
// nothing that says whose the visitor is.
//
// Not promised: that nothing is left out. A question that Redis does not answer
// in time may have added the visitor all the same, and then no click of that
// visitor is unique for 24 hours; nor may one be when a click that is stored already
// is asked for after them. They run from the question, which for a click that waited
// in a journal is later than the click. Nor does a visitor last for longer than the
// key of the month under which the edge hashes addresses: with a new one everybody
// is new.
//
// A visitor costs some 80 bytes (Redis 7.0, a 64-bit machine) until the second
// midnight (UTC) after the question, so there are those of one day after a midnight
// and those of two before it.
package visitors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
)

// answerWithin bounds what ingestion waits for; clicks go on without an answer.
const answerWithin = 250 * time.Millisecond

// Visitors are those of the last 24 hours.
type Visitors struct{ client redis.UniversalClient }

// New keeps visitors in a Redis, which may be a cluster: the buckets are in
// different slots.
func New(client redis.UniversalClient) *Visitors { return &Visitors{client} }

// place is where a visitor is asked for: as the call's nth.
type place struct {
	in *call
	n  int
}

// waiting is a click whose visitor is asked for.
type waiting struct {
	click   *affiliate.Click
	visitor place
}

// MarkUnique sets Unique of the clicks that are the first of their visitors. It
// takes 250 ms at most; unknown is how many clicks it could not tell about by
// then, which are left as they are.
func (v *Visitors) MarkUnique(ctx context.Context, clicks []*affiliate.Click) (unknown int) {
	calls, asking := gather(clicks)
	if len(calls) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	send(ctx, v.client, calls)
	for _, w := range asking {
		holder, known := w.visitor.in.holder(w.visitor.n)
		if !known {
			unknown++
			continue
		}
		// Not only the one that asked: another may have asked before a crash.
		w.click.Unique = string(token(w.click)) == holder
	}
	return unknown
}

// gather makes calls for the visitors of clicks, but for clicks that never are
// unique: of bots, and of visitors who cannot be told apart.
func gather(clicks []*affiliate.Click) (calls []*call, asking []waiting) {
	visitors := make(map[[1 + fieldSize]byte]place, len(clicks))
	asking = make([]waiting, 0, len(clicks))
	var filling [buckets]*call
	var scratch []byte
	for _, click := range clicks {
		if click.IsBot || click.Consent == affiliate.ConsentDenied || len(click.IPHash) == 0 {
			continue
		}
		scratch = appendVisitor(scratch[:0], click)
		sum := sha256.Sum256(scratch)
		sum[0] %= buckets
		visitor := [1 + fieldSize]byte(sum[:])
		at, seen := visitors[visitor]
		if seen {
			at.in.earlier(at.n, click)
		} else {
			in := filling[sum[0]]
			if in == nil || len(in.first) == callVisitors {
				in = newCall(sum[0])
				filling[sum[0]] = in
				calls = append(calls, in)
			}
			at = place{in, len(in.first)}
			in.add(visitor[1:], click)
			visitors[visitor] = at
		}
		asking = append(asking, waiting{click, at})
	}
	return calls, asking
}

// appendVisitor writes who the visitor is. Parts of any length tell theirs, so
// that no two visitors are written alike.
func appendVisitor(b []byte, click *affiliate.Click) []byte {
	b = append(b, click.Scope.Workspace.UUID[:]...)
	b = appendPart(b, click.Scope.Mode)
	b = appendPart(b, click.IPHash)
	b = appendPart(b, click.UAHash)
	return appendPart(b, click.ReferralCode)
}

func appendPart[T ~string | ~[]byte](b []byte, part T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// token stands for a click among those of its visitor: the half of its id that is
// random.
func token(click *affiliate.Click) []byte { return click.ID.UUID[8:] }
