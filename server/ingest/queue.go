package ingest

import (
	"sync"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// queue holds entries between fetchers and workers and is bounded by their clicks. It
// knows which entries this process has, so that an entry that is delivered again (read
// once more as its own, or claimed while the database is away) is not stored twice at
// the same time.
type queue struct {
	limit int

	mu      sync.Mutex
	changed sync.Cond
	entries []clickstream.Entry
	clicks  int
	here    map[entryKey]struct{}
	// ended holds the entries of a shard that were finished since its current read
	// began: the read may still return them as pending.
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

// reading marks the start of a read of a shard, whose entries are pushed after it. Each
// shard has one fetcher.
func (q *queue) reading(shard int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended[shard] = make(map[string]struct{})
}

// push adds an entry and waits while the queue is full. It drops an entry that is in this
// process or was finished since the read began, and any entry after close.
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

// pop waits for entries and takes entries of about rows clicks. It returns none if the
// queue is closed and empty.
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

// done removes finished entries.
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

// close refuses further entries. Entries in the queue can still be taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// weight returns the number of clicks of an entry. The writer's count is bounded by the
// bytes of the entry, because it may be wrong.
func weight(entry clickstream.Entry) int {
	return max(1, min(entry.Clicks, len(entry.Batch)/16))
}
