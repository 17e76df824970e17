// Package ingest brings the click stream into the database, every click once.
//
//	shard 0 ─ fetch ─┐            ┌─ worker: decode, resolve, unique?, store (COPY) ─ commit ─ XACK
//	shard 1 ─ fetch ─┼─ queue ────┤
//	   …             ┘            └─ worker
//
// A fetcher reads the unfinished entries of its consumer, then new entries, and at times
// entries of dead consumers. Workers combine waiting entries into batches of about 5,000
// rows: the busier the stream, the larger the batch. Entries are acknowledged after the
// commit, never before. So a crash leads to a repetition and not to a loss, and the click
// id makes a repetition change nothing.
//
// Each batch is checked once for unique clicks before it is stored. Storing does not wait
// for a slow answer: such clicks are stored as not unique and counted. A repetition gets
// the same answer, and the row keeps the first value.
//
// Guarantees: every click that was acknowledged at the edge becomes a row of clicks or,
// with its reason, a dead letter in a table and on a stream. The streams are trimmed only
// below stored entries.
//
// Limits: there is no order. A row is there some milliseconds after the response of the
// edge, or later while the database is away. Entries that Redis lost before they were
// read cannot be stored. The counters entries_lost and groups_recreated report such
// losses as far as they can be seen.
package ingest

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store stores clicks. An error with a method RejectsData() bool in its chain that
// returns true names the data: repeating the call with the same records cannot succeed.
// Every other error means that the store could not be reached and that it stored either
// nothing or all records.
type Store interface {
	// StoreClicks stores all clicks or none. It counts new clicks and new unique clicks,
	// without those of bots. Clicks that are stored already are left as they are.
	StoreClicks(ctx context.Context, clicks []affiliate.Click) error
	// ResolveClicks returns one resolution for each source, in their order.
	ResolveClicks(ctx context.Context, sources []affiliate.ClickSource) ([]Resolution, error)
	// DeadLetterClicks keeps records that cannot be stored. A record whose id is there
	// already is left as it is.
	DeadLetterClicks(ctx context.Context, letters []affiliate.ClickDeadLetter) error
}

// Visitors knows which clicks are the first of their visitors in 24 hours.
type Visitors interface {
	// MarkUnique sets Unique of these clicks, in a fraction of a second. unknown is the
	// number of clicks that it could not check. A repeated click gets the same result.
	MarkUnique(ctx context.Context, clicks []*affiliate.Click) (unknown int)
}

// Resolution is the result of looking up a ClickSource.
type Resolution = affiliate.ClickResolution

func rejectsData(err error) bool {
	var named interface{ RejectsData() bool }
	return errors.As(err, &named) && named.RejectsData()
}
