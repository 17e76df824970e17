package webhook

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

const (
	// pollEvery is how often an endpoint looks for deliveries that other processes have
	// committed, and for those that have become due.
	pollEvery = 200 * time.Millisecond
	// rewindEvery is how often it looks for deliveries that were committed late.
	rewindEvery = 10 * time.Second
	// idleAfter is how long an endpoint without work keeps its lease.
	idleAfter = 10 * time.Second
	// sealedPause is how long an endpoint is not served whose secret cannot be decrypted.
	sealedPause = time.Minute
)

// servedEndpoint sends the deliveries of one endpoint while this process has its
// lease. The goroutine of serve owns the fields; other goroutines reach it through
// post and wake.
type servedEndpoint struct {
	*parts
	key affiliate.EndpointKey

	leaseUntil  time.Time
	target      webhook.Target
	secrets     []webhook.Secret
	backlog     webhook.Backlog
	limit       webhook.Limit
	inFlight    int
	request     *placeRequest // waits for a place or has one that no attempt uses; nil: none
	hasPlace    bool          // request was granted
	pausedUntil time.Time     // the secret could not be decrypted
	lastActive  time.Time
	lastRewind  time.Time

	mailbox
}

// mailbox is how other goroutines reach the goroutine of an endpoint.
type mailbox struct {
	calls chan func()   // to run there
	woken chan struct{} // there are new deliveries
	done  chan struct{} // closed at its end
}

func newServedEndpoint(p *parts, key affiliate.EndpointKey, leaseUntil time.Time) *servedEndpoint {
	now := p.now()
	return &servedEndpoint{
		parts: p, key: key, leaseUntil: leaseUntil, backlog: webhook.NewBacklog(), lastActive: now, lastRewind: now,
		mailbox: mailbox{calls: make(chan func(), webhook.InFlight), woken: make(chan struct{}, 1), done: make(chan struct{})},
	}
}

// post runs a function in the goroutine of serve, unless that has ended.
func (m *mailbox) post(call func()) {
	select {
	case m.calls <- call:
	case <-m.done:
	}
}

// wake tells the goroutine of serve to read. It does not block.
func (m *mailbox) wake() {
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// serve sends deliveries until the endpoint is idle, its lease has ended or ctx ends.
// Before it returns it waits for the attempts in flight, and unless ctx has ended for
// their outcomes to be stored. attempts is the context of the attempts.
func (e *servedEndpoint) serve(ctx, attempts context.Context) {
	defer close(e.done)
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	stop := ctx.Done()
	for {
		now := e.now()
		stopping := ctx.Err() != nil
		if !stopping {
			e.read(now)
			e.begin(attempts, now)
		}
		if e.finished(now, stopping) {
			e.returnPlace()
			return
		}
		select {
		case call := <-e.calls:
			call()
			for range len(e.calls) {
				(<-e.calls)()
			}
		case <-e.woken:
			e.backlog.MarkMore()
		case <-poll.C:
			e.backlog.MarkMore()
			if now.Sub(e.lastRewind) >= rewindEvery {
				e.lastRewind = now
				e.backlog.Rewind()
			}
		case <-stop:
			stop = nil
		}
	}
}

// finished reports whether serve may return.
func (e *servedEndpoint) finished(now time.Time, stopping bool) bool {
	switch {
	case e.inFlight > 0:
		return false
	case stopping:
		return true
	case !now.Before(e.leaseUntil):
		return e.backlog.Unstored() == 0 && !e.backlog.Reading()
	default:
		return e.idle(now)
	}
}

// idle reports whether there was nothing to do for a while and will be nothing soon.
// While the breaker is open the endpoint is not idle: it would be claimed again at once.
func (e *servedEndpoint) idle(now time.Time) bool {
	return e.backlog.Empty() && e.mayAttempt(now) && now.Sub(e.lastActive) >= idleAfter &&
		(e.target.NextDue == nil || e.target.NextDue.Sub(now) > idleAfter)
}

// mayAttempt reports whether attempts may begin now: one that began would end before
// the lease does, and the breaker is not open.
func (e *servedEndpoint) mayAttempt(now time.Time) bool {
	return e.leaseUntil.Sub(now) >= leaseMargin && !now.Before(e.pausedUntil) && !e.limit.Paused(now)
}

func (e *servedEndpoint) read(now time.Time) {
	waits := e.request != nil && !e.hasPlace || e.inFlight > 0 && e.limit.InFlight() == 1
	if waits || !e.mayAttempt(now) || !e.backlog.NeedsRead() {
		return // what it would read now would be too old when its attempt may begin
	}
	from, limit := e.backlog.BeginRead(now)
	e.reader.ask(readRequest{
		read:  webhook.Read{Key: e.key, From: from, Limit: limit},
		reply: func(p page) { e.post(func() { e.take(p) }) },
	})
}

// take takes the result of a read.
func (e *servedEndpoint) take(p page) {
	now := e.now()
	e.backlog.EndRead(p.due, now)
	if p.target == nil {
		e.stopServing() // disabled, deleted, or another process has the lease
		return
	}
	e.target = *p.target
	if e.backlog.Unstored() == 0 {
		e.limit.Load(e.target)
	}
	var err error
	if e.secrets, err = e.openSecrets(e.target, now); err != nil {
		// The operator has to restore the key; nothing can be signed until then.
		e.log.LogAttrs(context.Background(), slog.LevelError, "the signing secret of a webhook endpoint cannot be decrypted",
			slog.String("endpoint", e.key.ID.String()), slog.Any("error", err))
		e.pausedUntil = now.Add(sealedPause)
		e.backlog.Drop()
	}
}

// stopServing ends the use of the lease. Attempts in flight end by themselves.
func (e *servedEndpoint) stopServing() {
	e.leaseUntil = time.Time{}
	e.backlog.Drop()
}

// begin begins attempts while the limits of the endpoint and of the process allow it.
func (e *servedEndpoint) begin(ctx context.Context, now time.Time) {
	for e.mayAttempt(now) && e.inFlight < e.limit.InFlight() && e.backlog.Ready(now) {
		if !e.acquirePlace() {
			return
		}
		e.attempt(ctx, e.backlog.Next())
	}
	readsSoon := e.backlog.Reading() || e.backlog.HasMore() && e.mayAttempt(now)
	if !readsSoon {
		e.returnPlace()
	}
}

// acquirePlace reports whether the endpoint has a place for its next attempt. If not,
// it has asked for one.
func (e *servedEndpoint) acquirePlace() bool {
	if e.request == nil {
		request := &placeRequest{workspace: e.key.Workspace, hanging: e.limit.Hanging()}
		request.granted = func() {
			go e.post(func() { e.hasPlace = e.hasPlace || e.request == request })
		}
		e.request, e.hasPlace = request, e.places.acquire(request)
	}
	return e.hasPlace
}

// returnPlace gives back a place that no attempt uses.
func (e *servedEndpoint) returnPlace() {
	if e.request != nil {
		e.places.cancel(e.request)
		e.request, e.hasPlace = nil, false
	}
}

// attempt makes one attempt in a goroutine of its own, which uses the place.
func (e *servedEndpoint) attempt(ctx context.Context, due webhook.DueDelivery) {
	place := e.request
	e.request, e.hasPlace = nil, false
	e.inFlight++
	e.lastActive = e.now()
	request := Request{
		URL: e.target.URL, ID: affiliate.WireID(due.Event), Attempt: due.Attempts + 1, Body: due.Body, Secrets: e.secrets, Timeout: e.timeout,
	}
	go func() {
		result := webhook.AttemptResult{Key: e.key, Due: due, Started: e.now(), Random: rand.Float64()}
		request.At = result.Started
		result.Outcome = e.client.Send(ctx, request)
		result.Ended = e.now()
		e.places.release(place)
		aborted := result.Outcome.StatusCode == 0 && ctx.Err() != nil
		e.post(func() { e.ended(result, aborted) })
	}()
}

// ended counts an attempt that has ended and hands its outcome to the recorder. An
// attempt that the end of the process has aborted is not recorded.
func (e *servedEndpoint) ended(r webhook.AttemptResult, aborted bool) {
	e.inFlight--
	if aborted {
		return
	}
	e.lastActive = r.Ended
	e.metrics.attempted(r)
	e.limit.Count(r.Outcome, r.Ended)
	if e.limit.Paused(r.Ended) {
		e.backlog.Drop()
	}
	if r.Outcome.Gone() {
		e.stopServing() // recording it disables the endpoint
	}
	e.recorder.add(finishedAttempt{r, e})
}

// recorded notes that outcomes are stored. disabled: they have disabled the endpoint.
// The recorder calls it from its own goroutine.
func (e *servedEndpoint) recorded(stored []finishedAttempt, disabled bool) {
	e.post(func() {
		for _, a := range stored {
			e.backlog.Stored(a.AttemptResult)
		}
		if disabled {
			e.stopServing()
		}
	})
}

// openSecrets decrypts the secrets that sign now, the newest first.
func (p *parts) openSecrets(t webhook.Target, now time.Time) ([]webhook.Secret, error) {
	sealed := [][]byte{t.Secret}
	if t.Previous != nil && t.PreviousUntil != nil && now.Before(*t.PreviousUntil) {
		sealed = append(sealed, t.Previous)
	}
	return openSecrets(p.seal, t.Key.ID, sealed)
}
