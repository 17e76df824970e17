// Package ingest brings the click stream into the database, every click once.
//
//	shard 0 ─ fetch ─┐            ┌─ worker: decode, resolve, unique?, store (COPY) ─ commit ─ XACK
//	shard 1 ─ fetch ─┼─ queue ────┤
//	   …             ┘            └─ worker
//
// A fetcher reads what its consumer had not finished, then news, and now and
// then what dead consumers left. Workers fold as many entries as are waiting
// into one batch of about 5,000 rows: the busier the stream, the larger the
// batch. Entries are acknowledged after the commit, never before, so a crash at
// any point leads to a repetition and never to a loss; the click id makes a
// repetition change nothing.
//
// Which clicks are unique is asked once per batch, before it is stored, and never
// waited for: what is not known in time is stored as not unique, and counted. A
// repetition asks again and is told the same, while the row keeps the first word.
//
// It guarantees that every click that was acknowledged at the edge ends as a row
// of clicks or, with its reason, as a dead letter in a table and on a stream,
// and that the stream is trimmed only below what is stored.
//
// It does not promise an order, and not that a row is there when the edge
// answers: that takes some milliseconds, or as long as the database is away.
// Entries that vanished from Redis before they were read cannot be stored; the
// lost counter is an alarm.
package ingest

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is where clicks end. An error whose chain has a method RejectsData()
// bool that says true names the data: repeating the call with the same records
// cannot succeed. Every other error means that the store could not be reached,
// and that nothing or everything was stored.
type Store interface {
	// StoreClicks stores all or none, and counts what was not there before, and how
	// much of it is unique, but clicks of bots. Clicks that are there already are left
	// as they are.
	StoreClicks(ctx context.Context, clicks []affiliate.Click) error
	// ResolveClicks finds what the sources lead to, one answer for each, in their
	// order.
	ResolveClicks(ctx context.Context, sources []affiliate.ClickSource) ([]Resolution, error)
	// DeadLetterClicks keeps records that cannot be stored. A letter whose id is
	// there already is left as it is.
	DeadLetterClicks(ctx context.Context, letters []affiliate.ClickDeadLetter) error
}

// Visitors know which clicks are the first of their visitors in 24 hours.
type Visitors interface {
	// MarkUnique sets Unique of those that are, in a fraction of a second; unknown is
	// how many it could not tell about. A click that asks again is told the same.
	MarkUnique(ctx context.Context, clicks []*affiliate.Click) (unknown int)
}

// Resolution is what became of one ClickSource.
type Resolution = affiliate.ClickResolution

func rejectsData(err error) bool {
	var named interface{ RejectsData() bool }
	return errors.As(err, &named) && named.RejectsData()
}
