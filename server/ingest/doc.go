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

	"github.com/tributary-hq/tributary/affiliate/click"
)

// Visitors checks which clicks are the first click of their visitor within 24 hours.
type Visitors interface {
	// MarkUnique sets the field Unique of the clicks. It takes less than a second. It
	// returns the number of clicks that it could not check. If a click is checked again,
	// the result is the same.
	MarkUnique(ctx context.Context, clicks []*click.Click) (unknown int)
}
