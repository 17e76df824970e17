package webhook

import (
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// readBlock is the greatest number of new deliveries that one read returns. A read
	// begins when fewer than readBelow deliveries are ready.
	readBlock = 64
	readBelow = 32
	// maxReadAge is the longest time between the read of a delivery and its attempt. A
	// change of the endpoint, or an erasure of personal data in the event, therefore
	// affects all attempts that begin more than maxReadAge later.
	maxReadAge = time.Second
	// lateCommit is the time by which consecutive reads overlap. The overlap is needed
	// because a transaction can commit a delivery after a delivery with a later due
	// time was read. If a delivery is committed even later, it is read after the next
	// call of Rewind.
	lateCommit = 2 * time.Second
	// maxUnstored is the greatest number of attempts that are in flight or whose
	// outcome is not stored. If the process crashes, these attempts are repeated.
	maxUnstored = 1000
)

// Backlog holds the due deliveries of an endpoint that its sender has read from the
// database. Deliveries are read in the order of their due times. A delivery stays due in
// the database until the outcome of its attempt is stored. The backlog therefore
// remembers which due deliveries are being attempted.
type Backlog struct {
	ready []readyDelivery // in the order of their due times
	// unstored holds the due times of the deliveries that are being attempted, or whose
	// outcome is not stored yet.
	unstored map[affiliate.DeliveryID]time.Time
	// nextReadFrom is the due time at which the next read begins. Every delivery due
	// before nextReadFrom is already in ready or in unstored.
	nextReadFrom  time.Time
	mayHaveUnread bool // there may be due deliveries that were not read

	reading   bool
	readBegan time.Time
	readFrom  time.Time
	readLimit int
	// storedDuringRead holds deliveries whose outcome was stored during the current
	// read. The read may still return them.
	storedDuringRead map[affiliate.DeliveryID]bool
}

type readyDelivery struct {
	DueDelivery
	readAt time.Time
}

// NewBacklog returns the backlog of an endpoint before the first read.
func NewBacklog() Backlog {
	return Backlog{mayHaveUnread: true, unstored: map[affiliate.DeliveryID]time.Time{}, storedDuringRead: map[affiliate.DeliveryID]bool{}}
}

// MarkNewDeliveries records that there may be new due deliveries.
func (b *Backlog) MarkNewDeliveries() { b.mayHaveUnread = true }

// HasMore reports whether there may be due deliveries that were not read.
func (b *Backlog) HasMore() bool { return b.mayHaveUnread }

// Rewind makes the next read begin with the oldest due delivery.
func (b *Backlog) Rewind() { b.nextReadFrom, b.mayHaveUnread = time.Time{}, true }

// NeedsRead reports whether a read should begin.
func (b *Backlog) NeedsRead() bool { return b.mayHaveUnread && !b.reading && len(b.ready) < readBelow }

// Reading reports whether a read is in progress.
func (b *Backlog) Reading() bool { return b.reading }

// BeginRead starts a read. It returns the earliest due time to read and the greatest
// number of deliveries. The number includes deliveries that the backlog already knows,
// because the read returns them again.
func (b *Backlog) BeginRead(now time.Time) (from time.Time, limit int) {
	b.mayHaveUnread, b.reading, b.readBegan, b.readFrom, b.readLimit = false, true, now, b.nextReadFrom, readBlock
	for _, d := range b.ready {
		b.countKnown(d.DueAt)
	}
	for _, dueAt := range b.unstored {
		b.countKnown(dueAt)
	}
	return b.nextReadFrom, b.readLimit
}

func (b *Backlog) countKnown(dueAt time.Time) {
	if !dueAt.Before(b.nextReadFrom) {
		b.readLimit++
	}
}

// EndRead adds the result of the read that BeginRead started. The parameter due holds the
// deliveries that the read returned, the oldest first.
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
	if !b.nextReadFrom.Before(b.readFrom) { // neither Drop nor Rewind was called during the read
		b.nextReadFrom = next
	}
	b.reading, b.mayHaveUnread = false, b.mayHaveUnread || isFull
	clear(b.storedDuringRead)
	slices.SortStableFunc(b.ready, func(a, b readyDelivery) int { return a.DueAt.Compare(b.DueAt) })
}

// Ready reports whether a delivery can be attempted now. If the oldest delivery was read
// more than maxReadAge ago, all ready deliveries are dropped and read again.
func (b *Backlog) Ready(now time.Time) bool {
	if len(b.ready) > 0 && now.Sub(b.ready[0].readAt) > maxReadAge {
		b.Drop()
	}
	return len(b.ready) > 0 && len(b.unstored) < maxUnstored
}

// Drop removes the ready deliveries. The next read returns them again.
func (b *Backlog) Drop() {
	if len(b.ready) > 0 && b.ready[0].DueAt.Before(b.nextReadFrom) {
		b.nextReadFrom = b.ready[0].DueAt
	}
	b.ready, b.mayHaveUnread = nil, true
}

// Next removes and returns the delivery to attempt now. Ready must have returned true.
func (b *Backlog) Next() DueDelivery {
	due := b.ready[0].DueDelivery
	b.ready = b.ready[1:]
	b.unstored[due.ID] = due.DueAt
	return due
}

// Stored records that the outcome of an attempt is stored. If there will be another
// attempt, the next read returns the delivery again.
func (b *Backlog) Stored(r AttemptResult) {
	delete(b.unstored, r.Delivery.ID)
	if b.reading {
		b.storedDuringRead[r.Delivery.ID] = true
	}
	b.mayHaveUnread = b.mayHaveUnread || !r.Outcome.Succeeded() || r.Delivery.State.RequestedAttempts > 0
}

// Empty reports whether the backlog has nothing to do: no delivery is ready or being
// attempted, and no read is in progress or needed.
func (b *Backlog) Empty() bool {
	return len(b.ready) == 0 && len(b.unstored) == 0 && !b.reading && !b.mayHaveUnread
}

// Unstored returns the number of deliveries that are being attempted or whose outcome
// is not stored.
func (b *Backlog) Unstored() int { return len(b.unstored) }

// Limit limits the number of attempts of one endpoint that may be in flight at the same
// time. The number depends on the latest outcomes of the endpoint:
//
//	no outcome is known yet                      2
//	the last attempt did not time out           10 (InFlight)
//	the last attempt timed out                   1
//	10 consecutive failures (the breaker opens)  0 for a minute, then 1
//
// An endpoint that does not respond therefore uses one or two attempts at a time
// instead of ten.
type Limit struct {
	failures    int // number of consecutive failures
	lastOutcome outcomeClass
	pausedUntil time.Time
}

type outcomeClass int

const (
	unknown outcomeClass = iota
	inTime
	timedOut
)

const unknownInFlight = 2

// Load sets the state to the stored values of an endpoint. If the last attempt failed,
// Load assumes a timeout, because the cause of the failure is not stored. Load changes
// nothing if the stored number of failures is already known.
func (l *Limit) Load(t Target) {
	if t.ConsecutiveFailures == l.failures {
		return
	}
	l.failures, l.pausedUntil, l.lastOutcome = t.ConsecutiveFailures, time.Time{}, unknown
	if l.failures > 0 {
		l.lastOutcome = timedOut
	}
	if t.LastDeliveryAt != nil {
		l.openBreaker(*t.LastDeliveryAt)
	}
}

// Count records the outcome of an attempt that ended at the given time.
func (l *Limit) Count(o Outcome, at time.Time) {
	l.lastOutcome = inTime
	if o.TimedOut() {
		l.lastOutcome = timedOut
	}
	if o.Succeeded() {
		l.failures, l.pausedUntil = 0, time.Time{}
		return
	}
	l.failures++
	l.openBreaker(at)
}

func (l *Limit) openBreaker(lastFailure time.Time) {
	if l.failures >= BreakerFailures {
		l.pausedUntil = lastFailure.Add(BreakerPause)
	}
}

// Paused reports whether the breaker is open.
func (l *Limit) Paused(now time.Time) bool { return now.Before(l.pausedUntil) }

// InFlight returns the greatest number of attempts in flight while the breaker is not
// open.
func (l *Limit) InFlight() int {
	switch {
	case l.failures >= BreakerFailures, l.LastAttemptTimedOut():
		return 1
	case l.lastOutcome == unknown:
		return unknownInFlight
	default:
		return InFlight
	}
}

// LastAttemptTimedOut reports whether the last attempt timed out.
func (l *Limit) LastAttemptTimedOut() bool { return l.lastOutcome == timedOut }
