// Package ingest copies clicks from the click stream in Redis into the database. A click
// that is processed several times is still stored only once. The click stream is divided
// into shards. Each process is one consumer of the stream, with one fetcher goroutine for
// each shard and one or two worker goroutines:
//
//	shard 0 ─▶ fetcher ─┐           ┌─▶ worker: decode, look up links, mark unique
//	shard 1 ─▶ fetcher ─┼─▶ queue ──┤           clicks, store, commit, acknowledge
//	   …                ┘           └─▶ worker
//
// A stream entry contains several clicks. A fetcher first reads the entries that its
// process has read before but not acknowledged, and then new entries. It also claims the
// entries of crashed processes from time to time. A worker takes all waiting entries from
// the queue and stores up to 5,000 clicks in one batch, so batches are larger when more
// clicks arrive. A worker acknowledges entries after the commit. After a crash, entries
// are therefore processed again and not lost. If a click is stored again, nothing
// changes, because a row with its id exists.
//
// A click is unique if it is the first click of its visitor within 24 hours. The clicks
// of a batch are checked for this in Redis, before they are stored. If the check takes
// too long, they are stored as not unique, and a metric counts them. If the same click is
// checked again, the result is the same, and the stored row does not change.
//
// The package guarantees that each click that a collector has accepted becomes a row in
// the table clicks or a dead letter, unless Redis loses the click before it is stored. A
// dead letter is a record that cannot be stored as a click, with a reason. Dead letters
// are stored in a table. Malformed records, and records that the database rejects, are
// also written to a dead-letter stream. Entries are removed from the click stream after
// their clicks were stored.
//
// The package does not store clicks in a particular order. A click is stored some
// milliseconds after the collector's response, or later if the database cannot be
// reached. Entries that Redis has lost before they were read cannot be stored. The
// metrics entries_lost and groups_recreated count the losses that can be detected.
package ingest

import (
	"context"
	"errors"

	"github.com/tributary-hq/tributary/affiliate/click"
)

// Store stores clicks in the database. There are two kinds of errors. If the error or an
// error that it wraps has a method RejectsData() bool that returns true, the data is
// invalid and the same call would fail again. Any other error means that the database
// could not be reached. The call may then have stored all records or none.
type Store interface {
	// StoreClicks stores all clicks or none. It adds the new clicks and the new unique
	// clicks to the statistics, but not the clicks of bots. It ignores clicks that are
	// already stored.
	StoreClicks(ctx context.Context, clicks []click.Click) error
	// ResolveClicks looks up the targets of clicks. It returns one resolution for each
	// source, in the same order.
	ResolveClicks(ctx context.Context, sources []click.Source) ([]Resolution, error)
	// DeadLetterClicks stores records that cannot be stored as clicks. It ignores dead
	// letters whose ids are already stored.
	DeadLetterClicks(ctx context.Context, letters []click.DeadLetter) error
}

// Visitors checks which clicks are the first click of their visitor within 24 hours.
type Visitors interface {
	// MarkUnique sets the field Unique of the clicks. It takes less than a second. It
	// returns the number of clicks that it could not check. If a click is checked again,
	// the result is the same.
	MarkUnique(ctx context.Context, clicks []*click.Click) (unknown int)
}

// Resolution is the result of looking up a ClickSource.
type Resolution = click.Resolution

// rejectsData reports whether err means that the store rejected the data of a call.
func rejectsData(err error) bool {
	var rejection interface{ RejectsData() bool }
	return errors.As(err, &rejection) && rejection.RejectsData()
}
