package webhook

import "time"

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

// unknownInFlight is the limit of an endpoint whose outcomes are not known.
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

// PausedUntil returns the end of the last pause of the breaker; the zero time if there
// was no pause.
func (l *Limit) PausedUntil() time.Time { return l.pausedUntil }

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
