package ingest

import (
	"sync"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// queue holds entries between fetchers and workers, bounded by their clicks. It
// knows which entries are in this process, so that one that is delivered again
// meanwhile (an own entry read anew, or claimed for its age while the database
// is away) is not stored twice at the same time.
type queue struct {
	limit int

	mu      sync.Mutex
	changed sync.Cond
	entries []clickstream.Entry
	clicks  int
	here    map[entryKey]struct{}
	// ended are, of a shard that is being read, the entries dealt with meanwhile:
	// what is read may still show them as pending.
	ended  map[int]map[string]struct{}
	closed bool
}

type entryKey struct {
	shard int
	id    string
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit, here: make(map[entryKey]struct{}), ended: make(map[int]map[string]struct{})}
	q.changed.L = &q.mu
	return q
}

// reading says that a shard's entries are read from now on and pushed then. Each
// shard has one reader.
func (q *queue) reading(shard int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended[shard] = make(map[string]struct{})
}

// push adds an entry, waiting while the queue is full. It drops an entry that
// is here already or was dealt with since its shard is read, and any after close.
func (q *queue) push(entry clickstream.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.clicks >= q.limit && !q.closed {
		q.changed.Wait()
	}
	key := entryKey{entry.Shard, entry.ID}
	_, here := q.here[key]
	_, ended := q.ended[entry.Shard][entry.ID]
	if here || ended || q.closed {
		return
	}
	q.here[key] = struct{}{}
	q.entries = append(q.entries, entry)
	q.clicks += weight(entry)
	q.changed.Broadcast()
}

// pop waits for entries and takes as many as make about rows clicks; none after
// close when nothing is left.
func (q *queue) pop(rows int) []clickstream.Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.entries) == 0 && !q.closed {
		q.changed.Wait()
	}
	n, taken := 0, 0
	for n < len(q.entries) && taken < rows {
		taken += weight(q.entries[n])
		n++
	}
	popped := q.entries[:n:n]
	q.entries = q.entries[n:]
	q.clicks -= taken
	q.changed.Broadcast()
	return popped
}

// done forgets entries that were dealt with.
func (q *queue) done(entries []clickstream.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, entry := range entries {
		delete(q.here, entryKey{entry.Shard, entry.ID})
		if ended := q.ended[entry.Shard]; ended != nil {
			ended[entry.ID] = struct{}{}
		}
	}
}

// close lets nothing in any more; what is in can still be taken out.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// weight trusts the stated count only as far as the bytes allow: it comes from
// outside.
func weight(entry clickstream.Entry) int {
	return max(1, min(entry.Clicks, len(entry.Batch)/16))
}
