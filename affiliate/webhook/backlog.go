package webhook

import (
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// readBlock is the number of deliveries of an endpoint that one read adds to those
	// that are known. A read begins when fewer than readBelow are ready.
	readBlock = 64
	readBelow = 32
	// maxReadAge bounds how long a delivery that was read may wait for its attempt. A
	// change of the endpoint, or an erasure of the event's data, counts from then on.
	maxReadAge = time.Second
	// lateCommit is how far reads overlap: a transaction may commit a delivery after a
	// later delivery was read. Rewind finds those that commit even later.
	lateCommit = 2 * time.Second
	// maxUnstored bounds the attempts that are in flight or whose outcome is not stored.
	// A process that dies repeats them.
	maxUnstored = 1000
)

// Backlog is the part of an endpoint's due deliveries that its sender has read. A
// delivery is read from the head of the index (endpoint, due time) and stays due in
// the database until its outcome is stored, so the backlog knows which of the due
// deliveries are being attempted.
type Backlog struct {
	ready []readyDelivery // in the order of their due times
	// unstored has the due times of the deliveries that are being attempted, or whose
	// outcome is not stored yet.
	unstored map[affiliate.DeliveryID]time.Time
	// from is where the next read begins. Every delivery due before it is ready or
	// unstored.
	from time.Time
	more bool // there may be due deliveries that were not read

	reading   bool
	readBegan time.Time
	readFrom  time.Time
	readLimit int
	// storedDuringRead are deliveries that the current read may return although their
	// outcome is stored meanwhile.
	storedDuringRead map[affiliate.DeliveryID]bool
}

type readyDelivery struct {
	DueDelivery
	readAt time.Time
}

// NewBacklog returns the backlog of an endpoint of which nothing has been read.
func NewBacklog() Backlog {
	return Backlog{more: true, unstored: map[affiliate.DeliveryID]time.Time{}, storedDuringRead: map[affiliate.DeliveryID]bool{}}
}

// More notes that there may be new due deliveries.
func (b *Backlog) More() { b.more = true }

// HasMore reports whether there may be due deliveries that were not read.
func (b *Backlog) HasMore() bool { return b.more }

// Rewind lets the next read begin with the oldest due delivery.
func (b *Backlog) Rewind() { b.from, b.more = time.Time{}, true }

// WantsRead reports whether to begin a read.
func (b *Backlog) WantsRead() bool { return b.more && !b.reading && len(b.ready) < readBelow }

// Reading reports whether a read has begun and not ended.
func (b *Backlog) Reading() bool { return b.reading }

// BeginRead returns the start and the limit of the read that begins now. The limit
// includes the known deliveries that the read returns once more.
func (b *Backlog) BeginRead(now time.Time) (from time.Time, limit int) {
	b.more, b.reading, b.readBegan, b.readFrom, b.readLimit = false, true, now, b.from, readBlock
	for _, d := range b.ready {
		b.countKnown(d.DueAt)
	}
	for _, dueAt := range b.unstored {
		b.countKnown(dueAt)
	}
	return b.from, b.readLimit
}

func (b *Backlog) countKnown(dueAt time.Time) {
	if !dueAt.Before(b.from) {
		b.readLimit++
	}
}

// EndRead adds the result of the read: the deliveries due from its start on, the
// longest due first, up to its limit.
func (b *Backlog) EndRead(due []DueDelivery, now time.Time) {
	known := make(map[affiliate.DeliveryID]bool, len(b.ready))
	for _, d := range b.ready {
		known[d.ID] = true
	}
	isFull := len(due) >= b.readLimit
	next, last := b.readBegan.Add(-lateCommit), time.Time{}
	for _, d := range due {
		if last.Before(d.DueAt) {
			last = d.DueAt
		}
		if _, unstored := b.unstored[d.ID]; !unstored && !known[d.ID] && !b.storedDuringRead[d.ID] {
			b.ready = append(b.ready, readyDelivery{d, now})
		}
	}
	if isFull && last.Before(next) {
		next = last
	}
	if !b.from.Before(b.readFrom) { // neither Drop nor Rewind has gone back meanwhile
		b.from = next
	}
	b.reading, b.more = false, b.more || isFull
	clear(b.storedDuringRead)
	slices.SortStableFunc(b.ready, func(a, b readyDelivery) int { return a.DueAt.Compare(b.DueAt) })
}

// Ready reports whether a delivery can be attempted now. If it was read too long ago,
// all are dropped and read again.
func (b *Backlog) Ready(now time.Time) bool {
	if len(b.ready) > 0 && now.Sub(b.ready[0].readAt) > maxReadAge {
		b.Drop()
	}
	return len(b.ready) > 0 && len(b.unstored) < maxUnstored
}

// Drop forgets what is ready. It is read again.
func (b *Backlog) Drop() {
	if len(b.ready) > 0 && b.ready[0].DueAt.Before(b.from) {
		b.from = b.ready[0].DueAt
	}
	b.ready, b.more = nil, true
}

// Next removes the delivery to attempt now. Ready must have returned true.
func (b *Backlog) Next() DueDelivery {
	due := b.ready[0].DueDelivery
	b.ready = b.ready[1:]
	b.unstored[due.ID] = due.DueAt
	return due
}

// Stored notes that the outcome of an attempt is stored. A failure may have a next
// attempt, whose due time the next read finds.
func (b *Backlog) Stored(r AttemptResult) {
	delete(b.unstored, r.Due.ID)
	if b.reading {
		b.storedDuringRead[r.Due.ID] = true
	}
	b.more = b.more || !r.Outcome.Succeeded() || r.Due.State.Extra > 0
}

// Empty reports whether nothing is ready, being attempted, being read or to be read.
func (b *Backlog) Empty() bool {
	return len(b.ready) == 0 && len(b.unstored) == 0 && !b.reading && !b.more
}

// Unstored returns the number of deliveries that are being attempted or whose outcome
// is not stored.
func (b *Backlog) Unstored() int { return len(b.unstored) }
