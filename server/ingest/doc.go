// Package ingest copies clicks from the click stream into the database. It stores each
// click exactly once.
//
//	shard 0 ─ fetcher ─┐           ┌─ worker: decode, resolve, mark unique, store (COPY) ─ commit ─ XACK
//	shard 1 ─ fetcher ─┼─ queue ───┤
//	   …               ┘           └─ worker
//
// A fetcher reads the unfinished entries of its consumer first and new entries after
// that. From time to time it also claims the entries of dead consumers. A worker combines
// the waiting entries into batches of up to 5,000 rows: the busier the stream, the larger
// the batch. A worker acknowledges entries only after the commit. After a crash, entries
// are therefore processed again instead of being lost. Storing a click again changes
// nothing, because the row with its id exists.
//
// Each batch is checked once for unique clicks before it is stored. If this check takes
// too long, the clicks are stored as not unique, and a metric counts them. If the same
// click is checked again, the result is the same, and the row keeps the first value.
//
// Guarantees: every click that the edge has accepted becomes a row of the table clicks or
// a dead letter with a reason. Dead letters are in a table. Malformed and rejected records
// are also on a stream of their own. The click streams are trimmed only up to the oldest
// entry that is not yet stored.
//
// Limits: clicks are stored in no particular order. A row appears some milliseconds after
// the edge's response, or later if the database is not reachable. Entries that Redis lost
// before they were read cannot be stored. The counters entries_lost and groups_recreated
// count such losses where they can be detected.
package ingest

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store stores clicks. If the chain of an error contains an error whose method
// RejectsData() bool returns true, the data is invalid, and the same call can never
// succeed. Every other error means that the store was not reachable and that it stored
// either nothing or all records.
type Store interface {
	// StoreClicks stores all clicks or none. It adds the new clicks and the new unique
	// clicks to the statistics, except clicks of bots. It does not change or count clicks
	// that are already stored.
	StoreClicks(ctx context.Context, clicks []affiliate.Click) error
	// ResolveClicks returns one resolution for each source, in the same order.
	ResolveClicks(ctx context.Context, sources []affiliate.ClickSource) ([]Resolution, error)
	// DeadLetterClicks stores records that cannot be stored as clicks. It does not change
	// a dead letter whose id is already stored.
	DeadLetterClicks(ctx context.Context, letters []affiliate.ClickDeadLetter) error
}

// Visitors finds out which clicks are the first click of their visitor within 24 hours.
type Visitors interface {
	// MarkUnique sets the field Unique of the clicks. It takes less than a second. It
	// returns the number of clicks that it could not check. A click that is checked again
	// gets the same result.
	MarkUnique(ctx context.Context, clicks []*affiliate.Click) (unknown int)
}

// Resolution is the result of looking up a ClickSource.
type Resolution = affiliate.ClickResolution

func rejectsData(err error) bool {
	var rejection interface{ RejectsData() bool }
	return errors.As(err, &rejection) && rejection.RejectsData()
}
