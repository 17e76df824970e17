package ingest

import (
	"sync"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// queue passes entries from the fetchers to the workers. The number of clicks in the
// queue is limited. The queue also drops duplicates: Redis can deliver an entry again
// while this process is still working on the entry, for example after a failed read or
// when this consumer claims old entries. Two workers would then store the same entry at
// the same time.
type queue struct {
	limit int

	mu      sync.Mutex
	changed sync.Cond
	entries []clickstream.Entry
	clicks  int // number of clicks in entries
	// active holds the entries that are in the queue or that a worker is storing.
	active map[entryKey]struct{}
	// finished holds, for each shard, the entries that were finished after the current
	// read of the shard began. This read can still return these entries, because they
	// were pending when it began.
	finished map[int]map[string]struct{}
	closed   bool
}

type entryKey struct {
	shard int
	id    string
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit, active: make(map[entryKey]struct{}), finished: make(map[int]map[string]struct{})}
	q.changed.L = &q.mu
	return q
}

// beginRead must be called before each read of a shard. Each shard has one fetcher, so at
// most one read of a shard runs at a time.
func (q *queue) beginRead(shard int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished[shard] = make(map[string]struct{})
}

// push adds an entry. It waits while the queue is full. It drops the entry if this
// process is already working on the entry, if the entry was finished after the read
// began, or if the queue is closed.
func (q *queue) push(entry clickstream.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.clicks >= q.limit && !q.closed {
		q.changed.Wait()
	}
	key := entryKey{entry.Shard, entry.ID}
	_, active := q.active[key]
	_, finished := q.finished[entry.Shard][entry.ID]
	if active || finished || q.closed {
		return
	}
	q.active[key] = struct{}{}
	q.entries = append(q.entries, entry)
	q.clicks += weight(entry)
	q.changed.Broadcast()
}

// pop waits until the queue has entries. It removes and returns the oldest entries. It
// stops when these entries together have at least minClicks clicks, or when the queue is
// empty. It returns nil if the queue is closed and empty.
func (q *queue) pop(minClicks int) []clickstream.Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.entries) == 0 && !q.closed {
		q.changed.Wait()
	}
	n, clicks := 0, 0
	for n < len(q.entries) && clicks < minClicks {
		clicks += weight(q.entries[n])
		n++
	}
	popped := q.entries[:n:n]
	q.entries = q.entries[n:]
	q.clicks -= clicks
	q.changed.Broadcast()
	return popped
}

func (q *queue) done(entries []clickstream.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, entry := range entries {
		delete(q.active, entryKey{entry.Shard, entry.ID})
		if finished := q.finished[entry.Shard]; finished != nil {
			finished[entry.ID] = struct{}{}
		}
	}
}

// close makes push drop all further entries. pop still returns the entries that are in
// the queue.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// weight returns the number of clicks in an entry. The collector has counted the clicks
// and stored the number in the entry. The stored number could be wrong, so the size of
// the entry limits the result: the id of a click alone has 16 bytes.
func weight(entry clickstream.Entry) int {
	return max(1, min(entry.Clicks, len(entry.Batch)/16))
}
