package webhook

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

const (
	// attemptTimeout bounds one attempt (DECISIONS.md section 9).
	attemptTimeout = 15 * time.Second
	// pollEvery is how often a sender looks for what other processes have committed for
	// its endpoints, and whether something has become due.
	pollEvery = 200 * time.Millisecond
	// inFlight bounds the attempts of a process, finishTogether those that are stored
	// together, fetchLanes the lanes whose deliveries are read together.
	inFlight       = 1000
	finishTogether = 512
	fetchLanes     = 32
	// pause is behind a database that does not answer, databaseTimeout how long it may
	// take.
	pause           = time.Second
	databaseTimeout = 5 * time.Second
	// sealedFor is how long an endpoint is left alone whose secret does not open.
	sealedFor = time.Minute
	// stopAttempts is how long attempts may take to end when the process stops.
	stopAttempts = 5 * time.Second
)

// SenderConfig is what a sender needs.
type SenderConfig struct {
	Queue   Queue
	Client  *Client
	Seal    Sealer
	Log     *slog.Logger
	Now     func() time.Time
	Metrics *Metrics
}

// Sender sends what is due, in one process. It serves endpoints alone, each for as
// long as it has something for it: a lane is an endpoint that it serves.
//
// One goroutine, that of Run, has all its state. Attempts and calls of the database
// are made beside it and come back as functions that it runs; of each kind of call
// one is under way at a time, and takes all that has gathered meanwhile.
type Sender struct {
	SenderConfig
	id      affiliate.SenderID
	timeout time.Duration // of an attempt
	room    int           // for attempts under way

	mu    sync.Mutex
	woken map[affiliate.EndpointKey]bool
	wake  chan struct{}

	attempts chan ended
	calls    chan func()
	sending  context.Context // of the attempts

	lanes map[affiliate.EndpointKey]*lane
	turn  []*lane // the same, in the order in which they have their turn
	// resting are lanes in which a reading has found nothing to do for a while.
	resting []*lane
	// parted are lanes that were dropped while something of theirs was busy.
	parted map[affiliate.EndpointKey]*lane
	// begun and read are whose turn it is to begin an attempt, and to be read.
	begun, read int
	wanted      map[affiliate.EndpointKey]bool
	denied      map[affiliate.EndpointKey]denial
	asked       map[affiliate.EndpointKey]bool      // once more, after a denial
	alarms      map[affiliate.EndpointKey]time.Time // when to ask for an endpoint
	outcomes    []ended                             // to be stored,
	apart       bool                                // each endpoint's by themselves: together they could not be

	flying                       int                           // attempts under way,
	places                       map[affiliate.WorkspaceID]int // and those of each workspace
	leasing, fetching, finishing bool
	pausedUntil                  time.Time
	renewed, swept, rewound      time.Time
	stopping                     bool
}

// ended is an attempt that has ended.
type ended struct {
	webhook.AttemptResult
	of      *lane
	aborted bool // by the end of the process: it counts for nothing
}

// NewSender makes a sender; Run runs it.
func NewSender(cfg SenderConfig) *Sender {
	return &Sender{
		SenderConfig: cfg,
		id:           affiliate.SenderID{UUID: uuid.New()},
		timeout:      attemptTimeout,
		room:         inFlight,
		woken:        map[affiliate.EndpointKey]bool{},
		wake:         make(chan struct{}, 1),
		attempts:     make(chan ended, inFlight),
		calls:        make(chan func(), 4),
		lanes:        map[affiliate.EndpointKey]*lane{},
		parted:       map[affiliate.EndpointKey]*lane{},
		wanted:       map[affiliate.EndpointKey]bool{},
		denied:       map[affiliate.EndpointKey]denial{},
		asked:        map[affiliate.EndpointKey]bool{},
		places:       map[affiliate.WorkspaceID]int{},
		alarms:       map[affiliate.EndpointKey]time.Time{},
	}
}

// Wake tells that endpoints have something new. It does not wait.
func (s *Sender) Wake(endpoints []affiliate.EndpointKey) {
	s.mu.Lock()
	for _, key := range endpoints {
		s.woken[key] = true
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sends until the context ends. Attempts that are under way then have a moment
// to end; what came of them is stored, and the endpoints are given back.
func (s *Sender) Run(ctx context.Context) {
	sending, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	s.sending = sending
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var giveUp <-chan time.Time
	done := ctx.Done()
	for !s.stopping || s.busy() {
		s.step(sending)
		select {
		case <-s.wake:
		case a := <-s.attempts:
			s.ended(a)
			for range len(s.attempts) {
				s.ended(<-s.attempts)
			}
		case call := <-s.calls:
			call()
		case <-poll.C:
			s.look()
		case <-done:
			s.stopping, done = true, nil
			giveUp = time.After(stopAttempts)
		case <-giveUp:
			abort()
		}
	}
	s.leave(context.WithoutCancel(ctx))
}

// leave stores the outcomes that are left, and gives all endpoints back.
func (s *Sender) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	var err error
	for err == nil && len(s.outcomes) > 0 {
		_, err = s.Queue.Finish(ctx, attempted(s.takeOutcomes()))
	}
	if err == nil && len(s.turn) > 0 {
		err = s.Queue.Release(ctx, s.id, slices.Collect(keysOf(s.turn)))
	}
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "webhooks: what was sent last is sent again, by whoever comes next", slog.Any("error", err))
	}
}

// busy tells whether something is under way that has to end before the process may.
func (s *Sender) busy() bool {
	return s.flying > 0 || s.leasing || s.fetching || s.finishing || len(s.outcomes) > 0 && s.sending.Err() == nil
}

// step begins whatever can begin.
func (s *Sender) step(ctx context.Context) {
	now := s.Now()
	s.takeWoken(now)
	// Outcomes lock the rows whose leases are to be prolonged: these go first.
	if !s.finishing && len(s.outcomes) > 0 && !now.Before(s.pausedUntil) && (s.stopping || !s.renewalDue(now)) {
		s.finish(ctx)
	}
	if s.stopping {
		return
	}
	if !now.Before(s.pausedUntil) {
		if !s.leasing {
			s.lease(ctx, now)
		}
		if !s.fetching {
			s.fetch(ctx, now)
		}
	}
	s.begin(ctx, now)
}

func (s *Sender) takeWoken(now time.Time) {
	s.mu.Lock()
	woken := s.woken
	s.woken = map[affiliate.EndpointKey]bool{}
	s.mu.Unlock()
	for key := range woken {
		if l := s.lanes[key]; l != nil {
			l.more = true
		} else if d, ok := s.denied[key]; ok && now.Before(d.until) {
			s.denied[key] = denial{d.until, true}
		} else {
			s.wanted[key] = true
		}
	}
}

// look is what time alone brings about.
func (s *Sender) look() {
	now := s.Now()
	rewind := now.Sub(s.rewound) >= sweepEvery
	if rewind {
		s.rewound = now
	}
	for _, l := range slices.Clone(s.turn) {
		if !now.Before(l.until) {
			s.drop(l.key) // by now it may be another's
			continue
		}
		l.more, l.anew = true, l.anew || rewind
	}
	for key, at := range s.alarms {
		if !at.After(now) {
			delete(s.alarms, key)
			s.wanted[key] = true
		}
	}
	for key, d := range s.denied {
		if d.until.After(now) {
			continue
		}
		delete(s.denied, key)
		if d.again {
			s.asked[key], s.wanted[key] = true, true
		}
	}
	s.Metrics.standing(s.flying, len(s.turn))
}

// fetch reads what is due for lanes that want more, some of them at a time, in turn.
func (s *Sender) fetch(ctx context.Context, now time.Time) {
	if s.flying == s.room {
		return // what is read now would be too old when it can begin
	}
	var wanted []webhook.Read
	for range s.turn {
		l := s.turn[s.read%len(s.turn)]
		s.read++
		if !l.wants(now) {
			continue
		}
		if wanted = append(wanted, l.want(now)); len(wanted) == fetchLanes {
			break
		}
	}
	if len(wanted) == 0 {
		return
	}
	s.fetching = true
	s.call(ctx, func(ctx context.Context) (func(), error) {
		targets, due, err := s.Queue.Due(ctx, s.id, wanted, now)
		return func() { s.fetching = false; s.fetched(wanted, targets, due, err) }, err
	})
}

func (s *Sender) fetched(wanted []webhook.Read, targets []webhook.Target, due []webhook.DueDelivery, err error) {
	if err != nil {
		for _, w := range wanted {
			if l := s.lanes[w.Key]; l != nil {
				l.more, l.reading = true, false
			}
		}
		return
	}
	now := s.Now()
	byEndpoint := map[affiliate.EndpointID][]webhook.DueDelivery{}
	for _, d := range due {
		byEndpoint[d.Endpoint] = append(byEndpoint[d.Endpoint], d)
	}
	there := make(map[affiliate.EndpointKey]bool, len(targets))
	for _, t := range targets {
		l := s.lanes[t.Key]
		if l == nil {
			continue
		}
		there[t.Key] = true
		secrets, err := s.open(t, now)
		if err != nil {
			// Nothing can be signed for it; whoever put the keys wrong is to hear of it.
			s.Log.LogAttrs(s.sending, slog.LevelError, "the signing secret of a webhook endpoint does not open",
				slog.String("endpoint", t.Key.ID.String()), slog.Any("error", err))
			l.take(t, nil, nil, now)
			l.pauseUntil, l.anew = now.Add(sealedFor), true
			continue
		}
		l.take(t, secrets, byEndpoint[t.Key.ID], now)
		if l.idle(now) {
			s.resting = append(s.resting, l)
		}
	}
	for _, w := range wanted {
		if !there[w.Key] {
			s.drop(w.Key) // turned off, deleted, or not ours any more
		}
	}
}

// open opens the secrets that sign now, the newest first.
func (s *Sender) open(t webhook.Target, now time.Time) ([]webhook.Secret, error) {
	sealed := [][]byte{t.Secret}
	if t.Previous != nil && t.PreviousUntil != nil && now.Before(*t.PreviousUntil) {
		sealed = append(sealed, t.Previous)
	}
	return openSecrets(s.Seal, t.Key.ID, sealed)
}

// begin makes attempts, of each lane in turn one at a time, for as long as there is
// room. When half the places are taken, no workspace takes more than its share.
func (s *Sender) begin(ctx context.Context, now time.Time) {
	share := 0
	for began := true; began; {
		began = false
		for range s.turn {
			if s.flying == s.room {
				return
			}
			l := s.turn[s.begun%len(s.turn)]
			s.begun++
			if s.flying >= s.room/2 {
				if share == 0 {
					share = s.share()
				}
				if s.places[l.key.Workspace] >= share {
					continue
				}
			}
			if due, ok := l.next(now); ok {
				s.attempt(ctx, l, due)
				began = true
			}
		}
	}
}

// share is how many of the places a workspace may have when they are scarce, so that
// there are some for one that comes.
func (s *Sender) share() int {
	workspaces := map[affiliate.WorkspaceID]bool{}
	for _, l := range s.turn {
		workspaces[l.key.Workspace] = true
	}
	return max(1, s.room/(len(workspaces)+1))
}

func (s *Sender) attempt(ctx context.Context, l *lane, due webhook.DueDelivery) {
	s.flying++
	s.places[l.key.Workspace]++
	request := Request{
		URL: l.target.URL, ID: affiliate.WireID(due.Event), Attempt: due.Attempts + 1, Body: due.Body, Secrets: l.secrets, Timeout: s.timeout,
	}
	go func() {
		a := webhook.AttemptResult{Key: l.key, Due: due, Started: s.Now(), Random: rand.Float64()}
		request.At = a.Started
		a.Outcome = s.Client.Send(ctx, request)
		a.Ended = s.Now()
		s.attempts <- ended{a, l, a.Outcome.StatusCode == 0 && ctx.Err() != nil}
	}()
}

// ended is behind an attempt.
func (s *Sender) ended(a ended) {
	s.flying--
	if s.places[a.Key.Workspace]--; s.places[a.Key.Workspace] == 0 {
		delete(s.places, a.Key.Workspace)
	}
	if a.aborted {
		return
	}
	a.of.ended(a.AttemptResult)
	s.Metrics.attempted(a.AttemptResult)
	s.outcomes = append(s.outcomes, a)
}

// takeOutcomes takes those that are to be stored together.
func (s *Sender) takeOutcomes() []ended {
	if !s.apart {
		done := s.outcomes[:min(len(s.outcomes), finishTogether)]
		s.outcomes = s.outcomes[len(done):]
		return done
	}
	var done, left []ended
	for _, a := range s.outcomes {
		if a.Key == s.outcomes[0].Key && len(done) < finishTogether {
			done = append(done, a)
		} else {
			left = append(left, a)
		}
	}
	s.outcomes = left
	s.apart = len(left) > 0
	return done
}

func attempted(done []ended) []webhook.AttemptResult {
	attempts := make([]webhook.AttemptResult, len(done))
	for i, a := range done {
		attempts[i] = a.AttemptResult
	}
	return attempts
}

// finish stores outcomes.
func (s *Sender) finish(ctx context.Context) {
	done := s.takeOutcomes()
	what := attempted(done)
	s.finishing = true
	s.call(ctx, func(ctx context.Context) (func(), error) {
		off, err := s.Queue.Finish(ctx, what)
		return func() { s.finishing = false; s.finished(done, off, err) }, err
	})
}

// finished is behind Finish. What could not be stored waits behind the others, and
// from then on no endpoint's outcomes hold up another's.
func (s *Sender) finished(done []ended, off []webhook.DisabledEndpoint, err error) {
	if err != nil {
		s.outcomes = slices.Concat(s.outcomes, done)
		s.apart = true
		return
	}
	for _, a := range done {
		a.of.stored(a.AttemptResult)
		if a.Outcome.Gone() && s.lanes[a.Key] == a.of {
			s.drop(a.Key)
		}
		if len(a.of.busy) == 0 && s.parted[a.Key] == a.of {
			delete(s.parted, a.Key)
		}
	}
	for _, e := range off {
		s.drop(e.Key)
		s.Log.LogAttrs(s.sending, slog.LevelInfo, "a webhook endpoint was turned off",
			slog.String("endpoint", e.Key.ID.String()), slog.String("reason", string(e.Reason)))
	}
}

// call makes a call of the database beside the loop, which runs what comes back.
// Behind one that failed nothing is asked for a moment.
func (s *Sender) call(ctx context.Context, do func(context.Context) (func(), error)) {
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTimeout)
		defer cancel()
		then, err := do(ctx)
		s.calls <- func() {
			then()
			if err != nil {
				s.pausedUntil = s.Now().Add(pause)
				s.Log.LogAttrs(ctx, slog.LevelWarn, "the webhooks' queue does not answer", slog.Any("error", err))
			}
		}
	}()
}
