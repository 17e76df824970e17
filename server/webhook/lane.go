package webhook

import (
	"iter"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

const (
	// fetchTogether bounds the deliveries of a lane that are read ahead of their
	// attempts, fetchBelow is how few of them make it want more.
	fetchTogether = 64
	fetchBelow    = 32
	// readAhead is how old they may be: what was read is not to outlive a change of its
	// endpoint, or an erasure, for longer.
	readAhead = time.Second
	// lateCommit is how far behind the last reading the next one begins at least: a
	// transaction may commit later than one that began later. What comes even later is
	// found when the reading begins anew, every sweepEvery.
	lateCommit = 2 * time.Second
	// idleFor is when a lane without work is given back.
	idleFor = 10 * time.Second
)

// lane is an endpoint that a sender serves.
type lane struct {
	key     affiliate.EndpointKey
	until   time.Time // of the lease
	target  webhook.Target
	secrets []webhook.Secret

	// ready was read at readAt and waits for its attempt; busy is being attempted, or
	// what came of it is not stored yet: it is still due for the database.
	ready  []webhook.DueDelivery
	readAt time.Time
	busy   map[affiliate.DeliveryID]bool
	flying int
	// reading: what is due is being read. What was stored meanwhile may be in it.
	reading bool
	begunAt time.Time // the reading
	stale   map[affiliate.DeliveryID]bool
	// more: there may be more that is due. Nothing before from is but what is busy.
	more    bool
	asked   int // of the last reading
	from    time.Time
	anew    bool // the next reading begins at the beginning
	nextDue *time.Time

	failures   int       // in a row
	pauseUntil time.Time // of the breaker
	gone       bool
	lastBusy   time.Time
}

func newLane(key affiliate.EndpointKey, now time.Time) *lane {
	return &lane{key: key, busy: map[affiliate.DeliveryID]bool{}, stale: map[affiliate.DeliveryID]bool{}, more: true, lastBusy: now}
}

// enter is for a lane that was dropped.
func (l *lane) enter(now time.Time) {
	l.ready, l.more, l.anew, l.gone, l.lastBusy = nil, true, true, false, now
}

func keysOf(lanes []*lane) iter.Seq[affiliate.EndpointKey] {
	return func(yield func(affiliate.EndpointKey) bool) {
		for _, l := range lanes {
			if !yield(l.key) {
				return
			}
		}
	}
}

// open tells whether attempts may begin at all: it is ours for long enough, and its
// breaker lets some through.
func (l *lane) open(now time.Time) bool {
	return !l.gone && !now.Before(l.pauseUntil) && l.until.Sub(now) >= leaseMargin
}

// room is how many attempts may be under way.
func (l *lane) room() int {
	if l.failures >= webhook.BreakerFailures {
		return 1 // a probe
	}
	return webhook.InFlight
}

func (l *lane) wants(now time.Time) bool {
	return l.more && len(l.ready) < fetchBelow && l.open(now)
}

// want asks for enough to find something new behind what is known already.
func (l *lane) want(now time.Time) webhook.Read {
	if l.anew {
		l.from, l.anew = time.Time{}, false
	}
	l.more, l.reading, l.begunAt, l.asked = false, true, now, fetchTogether+len(l.busy)
	return webhook.Read{Key: l.key, From: l.from, Limit: l.asked}
}

// take takes what was read, when it has come. What was ready is in it again, as it
// is now.
func (l *lane) take(t webhook.Target, secrets []webhook.Secret, due []webhook.DueDelivery, at time.Time) {
	l.reading = false
	l.target, l.secrets, l.nextDue, l.readAt = t, secrets, t.NextDue, at
	if len(l.busy) == 0 && t.ConsecutiveFailures != l.failures {
		l.failures = t.ConsecutiveFailures
		l.trip(t.LastDeliveryAt)
	}
	l.more = l.more || len(due) >= l.asked
	l.ready = l.ready[:0]
	for _, d := range due {
		if !l.busy[d.ID] && !l.stale[d.ID] {
			l.ready = append(l.ready, d)
		}
	}
	clear(l.stale)
	slices.SortStableFunc(l.ready, func(a, b webhook.DueDelivery) int { return a.DueAt.Compare(b.DueAt) })
	l.from = l.begunAt.Add(-lateCommit)
	if len(l.ready) > 0 && l.ready[0].DueAt.Before(l.from) {
		l.from = l.ready[0].DueAt // it may have to be read again
	}
	if len(l.ready) > 0 {
		l.lastBusy = at
	}
}

// next is the delivery to attempt now.
func (l *lane) next(now time.Time) (webhook.DueDelivery, bool) {
	if len(l.ready) == 0 || !l.open(now) || l.flying >= l.room() {
		return webhook.DueDelivery{}, false
	}
	if now.Sub(l.readAt) > readAhead {
		l.ready, l.more = l.ready[:0], true
		return webhook.DueDelivery{}, false
	}
	due := l.ready[0]
	l.ready = l.ready[1:]
	l.busy[due.ID] = true
	l.flying++
	l.lastBusy = now
	return due, true
}

// ended is behind an attempt: the breaker hears of it at once.
func (l *lane) ended(a webhook.AttemptResult) {
	l.flying--
	l.lastBusy = a.Ended
	if a.Outcome.Succeeded() {
		l.failures, l.pauseUntil = 0, time.Time{}
		return
	}
	l.failures++
	l.trip(&a.Ended)
	if a.Outcome.Gone() {
		// It is turned off, or will be turned on again as another lane.
		l.gone, l.ready = true, l.ready[:0]
	}
}

func (l *lane) trip(last *time.Time) {
	if l.failures >= webhook.BreakerFailures && last != nil {
		l.pauseUntil = last.Add(webhook.BreakerPause)
		l.ready = l.ready[:0]
	}
}

// stored is behind the outcome's commit. When it failed there is a next attempt,
// whose time the next reading tells.
func (l *lane) stored(a webhook.AttemptResult) {
	delete(l.busy, a.Due.ID)
	if l.reading {
		l.stale[a.Due.ID] = true
	}
	l.more = l.more || !a.Outcome.Succeeded() || a.Due.State.Extra > 0
}

// idle tells whether nothing is to be done for a while, by a reading of just now.
func (l *lane) idle(now time.Time) bool {
	return !l.more && !l.reading && len(l.ready) == 0 && len(l.busy) == 0 && now.Sub(l.lastBusy) >= idleFor &&
		!l.readAt.Before(l.pauseUntil) && (l.nextDue == nil || l.nextDue.Sub(now) > idleFor)
}
