package webhook

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// lease is for how long a process that died keeps its endpoints from others. An
	// attempt is only begun when it will have ended by the end of the lease.
	lease       = 30 * time.Second
	renewEvery  = 10 * time.Second
	leaseMargin = attemptTimeout + time.Second
	// sweepEvery is how often a sender looks for endpoints that nobody serves: those of a
	// process that died.
	sweepEvery = 10 * time.Second
	sweepLimit = 1000
	// deniedFor is for how long it does not ask again for an endpoint that it did not
	// get. It asks once more then: the endpoint's sender may have been about to give it
	// back.
	deniedFor = time.Second
)

// denial is of an endpoint that somebody else serves.
type denial struct {
	until time.Time
	again bool // ask then
}

// lease prolongs the leases, asks for endpoints, gives back what has nothing to do,
// or looks for what nobody serves; one of these at a time, the most urgent first.
func (s *Sender) lease(ctx context.Context, now time.Time) {
	switch {
	case s.renewalDue(now):
		if s.finishing {
			return
		}
		s.renewed = now
		s.serve(ctx, slices.Collect(keysOf(s.turn)), now)
		return
	case len(s.wanted) > 0:
		wanted := slices.Collect(maps.Keys(s.wanted))
		clear(s.wanted)
		s.serve(ctx, wanted, now)
		return
	}
	if idle := s.idle(now); len(idle) > 0 {
		s.leasing = true
		s.call(ctx, func(ctx context.Context) (func(), error) {
			return func() { s.leasing = false }, s.Queue.Release(ctx, s.id, idle)
		})
		return
	}
	if now.Sub(s.swept) >= sweepEvery {
		s.swept = now
		s.leasing = true
		s.call(ctx, func(ctx context.Context) (func(), error) {
			found, err := s.Queue.Neglected(ctx, now, sweepLimit)
			return func() {
				s.leasing = false
				for _, key := range found {
					s.wanted[key] = true
				}
			}, err
		})
	}
}

func (s *Sender) renewalDue(now time.Time) bool {
	return len(s.turn) > 0 && now.Sub(s.renewed) >= renewEvery
}

func (s *Sender) serve(ctx context.Context, asked []affiliate.EndpointKey, now time.Time) {
	until := now.Add(lease)
	s.leasing = true
	s.call(ctx, func(ctx context.Context) (func(), error) {
		got, err := s.Queue.Serve(ctx, s.id, asked, now, until)
		return func() { s.leasing = false; s.served(asked, got, until, err) }, err
	})
}

// served is behind Serve. What is not served is somebody else's, off or deleted, or
// its row was locked: a lane goes on until its lease ends, and is asked for again.
func (s *Sender) served(asked, got []affiliate.EndpointKey, until time.Time, err error) {
	now := s.Now()
	if err != nil {
		s.renewed = time.Time{}
		for _, key := range asked {
			if s.lanes[key] == nil {
				s.wanted[key] = true
			}
		}
		return
	}
	mine := make(map[affiliate.EndpointKey]bool, len(got))
	for _, key := range got {
		mine[key] = true
		delete(s.denied, key)
		delete(s.asked, key)
		if s.lanes[key] == nil {
			s.enter(key, now)
		}
		s.lanes[key].until = until
	}
	for _, key := range asked {
		switch {
		case mine[key]:
		case s.lanes[key] != nil:
			s.renewed = now.Add(deniedFor - renewEvery)
		default:
			s.denied[key] = denial{now.Add(deniedFor), !s.asked[key]}
			delete(s.asked, key)
		}
	}
}

// enter makes a lane. One that was dropped while attempts were under way goes on, so
// that these are not made twice.
func (s *Sender) enter(key affiliate.EndpointKey, now time.Time) {
	l := s.parted[key]
	if l == nil {
		l = newLane(key, now)
	} else {
		delete(s.parted, key)
		l.enter(now)
	}
	s.lanes[key] = l
	s.turn = append(s.turn, l)
}

// idle takes the lanes out of service that have nothing to do still. Those that have
// something later are asked for then.
func (s *Sender) idle(now time.Time) []affiliate.EndpointKey {
	var idle []affiliate.EndpointKey
	for _, l := range s.resting {
		if s.lanes[l.key] != l || !l.idle(now) {
			continue
		}
		if l.nextDue != nil {
			s.alarms[l.key] = *l.nextDue
		}
		s.drop(l.key)
		idle = append(idle, l.key)
	}
	s.resting = s.resting[:0]
	return idle
}

// drop ends a lane. Its attempts end by themselves. What it was woken for and has not
// read is asked for anew.
func (s *Sender) drop(key affiliate.EndpointKey) {
	l := s.lanes[key]
	if l == nil {
		return
	}
	delete(s.lanes, key)
	s.turn = slices.DeleteFunc(s.turn, func(other *lane) bool { return other == l })
	if len(l.busy) > 0 {
		s.parted[key] = l
	}
	if l.more {
		s.wanted[key] = true
	}
}
