package ingest

import (
	"sync"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// queue passes entries from the fetchers to the workers. The number of clicks in it is
// limited. The queue also remembers which entries this process is working on. Redis can
// deliver such an entry again, for example after a failed read or when this consumer
// claims an old entry. The queue drops it, so that two workers do not store the same
// entry at the same time.
type queue struct {
	limit int

	mu      sync.Mutex
	changed sync.Cond
	entries []clickstream.Entry
	clicks  int
	// active holds the entries that are in the queue or with a worker.
	active map[entryKey]struct{}
	// finished holds, per shard, the entries that were finished after the shard's current
	// read began. The read may return them, because they were pending when it began.
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

// beginRead must be called before each read of a shard, whose entries are then pushed.
// Each shard has only one fetcher.
func (q *queue) beginRead(shard int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished[shard] = make(map[string]struct{})
}

// push adds an entry. It waits while the queue is full. It drops the entry if this
// process is already working on it, if it was finished after the read began, or if the
// queue is closed.
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

// pop waits for entries and removes entries that together have at least rows clicks, or
// all of them if there are fewer. It returns no entry if the queue is closed and empty.
func (q *queue) pop(rows int) []clickstream.Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.entries) == 0 && !q.closed {
		q.changed.Wait()
	}
	n, clicks := 0, 0
	for n < len(q.entries) && clicks < rows {
		clicks += weight(q.entries[n])
		n++
	}
	popped := q.entries[:n:n]
	q.entries = q.entries[n:]
	q.clicks -= clicks
	q.changed.Broadcast()
	return popped
}

// done marks entries as finished.
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

// close makes push drop all further entries. pop still returns the entries in the queue.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// weight returns the number of clicks of an entry according to its writer. The size of
// the entry limits the result, because the writer's number may be wrong.
func weight(entry clickstream.Entry) int {
	return max(1, min(entry.Clicks, len(entry.Batch)/16))
}
