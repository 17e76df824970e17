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
	// pollInterval is how often the goroutine of an endpoint checks for deliveries that
	// other processes have committed or that have become due.
	pollInterval = 200 * time.Millisecond
	// rewindInterval is how often the goroutine reads the due deliveries from the
	// beginning. Normally it continues after the last delivery that it has read, but a
	// transaction that commits late can insert a delivery with an earlier due time.
	rewindInterval = 10 * time.Second
	// idleTimeout is how long the process keeps the lease of an endpoint that has no due
	// deliveries.
	idleTimeout = 10 * time.Second
	// secretRetry is how long an endpoint is paused if its secret cannot be decrypted.
	secretRetry = time.Minute
)

// servedEndpoint sends the deliveries of one endpoint while this process has the
// endpoint's lease. The method serve runs in its own goroutine, which is the only one
// that may use the fields. Other goroutines communicate with it by the methods post and
// wake.
type servedEndpoint struct {
	*senderDeps
	key webhook.EndpointKey

	leaseUntil  time.Time
	target      webhook.Target
	secrets     []webhook.Secret
	backlog     webhook.Backlog
	limit       webhook.Limit
	inFlight    int
	slotRequest *slotRequest // a request for a slot, or a granted slot that no attempt uses yet; or nil
	hasSlot     bool         // slotRequest was granted
	pausedUntil time.Time    // no attempts before this time, because the secret could not be decrypted
	lastActive  time.Time
	lastRewind  time.Time

	mailbox
}

// mailbox passes function calls and wakeups from other goroutines to the goroutine of an
// endpoint.
type mailbox struct {
	calls   chan func()   // functions that the endpoint's goroutine must call
	wakeups chan struct{} // receives a value when the endpoint has new deliveries
	done    chan struct{} // closed when the goroutine ends
}

func newServedEndpoint(p *senderDeps, key webhook.EndpointKey, leaseUntil time.Time) *servedEndpoint {
	now := p.Now()
	return &servedEndpoint{
		senderDeps: p, key: key, leaseUntil: leaseUntil, backlog: webhook.NewBacklog(), lastActive: now, lastRewind: now,
		mailbox: mailbox{calls: make(chan func(), webhook.InFlight), wakeups: make(chan struct{}, 1), done: make(chan struct{})},
	}
}

// post makes the endpoint's goroutine call a function. If the goroutine has ended, post
// does nothing.
func (m *mailbox) post(call func()) {
	select {
	case m.calls <- call:
	case <-m.done:
	}
}

// wake makes the endpoint's goroutine read new deliveries. It does not block.
func (m *mailbox) wake() {
	select {
	case m.wakeups <- struct{}{}:
	default:
	}
}

// serve sends deliveries until the endpoint is idle, its lease has ended or ctx ends.
// Before it returns, it waits for the attempts in flight. If ctx has not ended, it also
// waits until the outcomes of the attempts are stored. The attempts run in the context
// attemptCtx.
func (e *servedEndpoint) serve(ctx, attemptCtx context.Context) {
	defer close(e.done)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	stop := ctx.Done()
	for {
		now := e.Now()
		stopping := ctx.Err() != nil
		if !stopping {
			e.requestRead(now)
			e.startAttempts(attemptCtx, now)
		}
		if e.canReturn(now, stopping) {
			e.releaseSlot()
			return
		}
		select {
		case call := <-e.calls:
			call()
			for range len(e.calls) {
				(<-e.calls)()
			}
		case <-e.wakeups:
			e.backlog.MarkNewDeliveries()
		case <-poll.C:
			e.backlog.MarkNewDeliveries()
			if now.Sub(e.lastRewind) >= rewindInterval {
				e.lastRewind = now
				e.backlog.Rewind()
			}
		case <-stop:
			stop = nil
		}
	}
}

// canReturn reports whether serve can return now. stopping means that the process stops.
func (e *servedEndpoint) canReturn(now time.Time, stopping bool) bool {
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

// idle reports whether the endpoint had no work for the time idleTimeout and has no
// delivery that becomes due in the next idleTimeout. An endpoint whose circuit breaker is
// open is not idle: if its lease were released, the endpoint would be claimed again soon,
// because its deliveries are still due.
func (e *servedEndpoint) idle(now time.Time) bool {
	return e.backlog.Empty() && e.mayAttempt(now) && now.Sub(e.lastActive) >= idleTimeout &&
		(e.target.NextDue == nil || e.target.NextDue.Sub(now) > idleTimeout)
}

// mayAttempt reports whether attempts can start now. The remaining time of the lease must
// be long enough for a complete attempt. The endpoint must not be paused, and its circuit
// breaker must not be open.
func (e *servedEndpoint) mayAttempt(now time.Time) bool {
	return e.leaseUntil.Sub(now) >= leaseMargin && !now.Before(e.pausedUntil) && !e.limit.Paused(now)
}

func (e *servedEndpoint) requestRead(now time.Time) {
	waiting := e.slotRequest != nil && !e.hasSlot || e.inFlight > 0 && e.limit.InFlight() == 1
	if waiting || !e.mayAttempt(now) || !e.backlog.NeedsRead() {
		return // attempts cannot start soon, and the deliveries may change until then
	}
	from, limit := e.backlog.BeginRead(now)
	e.reader.request(readRequest{
		query: webhook.DueQuery{Key: e.key, From: from, Limit: limit},
		reply: func(p readResult) { e.post(func() { e.applyRead(p) }) },
	})
}

// applyRead adds the deliveries that were read to the backlog, and updates the endpoint's
// target, limits and secrets.
func (e *servedEndpoint) applyRead(p readResult) {
	now := e.Now()
	e.backlog.EndRead(p.due, now)
	if p.target == nil {
		e.stopServing() // the endpoint is disabled or deleted, or another process has the lease
		return
	}
	e.target = *p.target
	if e.backlog.Unstored() == 0 {
		e.limit.Load(e.target)
	}
	var err error
	if e.secrets, err = e.openSecrets(e.target, now); err != nil {
		// Requests cannot be signed until the operator restores the encryption key.
		e.Log.LogAttrs(context.Background(), slog.LevelError, "the signing secret of a webhook endpoint cannot be decrypted",
			slog.String("endpoint", e.key.ID.String()), slog.Any("error", err))
		e.pausedUntil = now.Add(secretRetry)
		e.backlog.Drop()
	}
}

// stopServing prevents further attempts and makes serve return soon. It does not cancel
// attempts in flight.
func (e *servedEndpoint) stopServing() {
	e.leaseUntil = time.Time{}
	e.backlog.Drop()
}

// startAttempts starts attempts for due deliveries. It stops at the endpoint's limit of
// attempts in flight, or if the process has no free slot.
func (e *servedEndpoint) startAttempts(ctx context.Context, now time.Time) {
	for e.mayAttempt(now) && e.inFlight < e.limit.InFlight() && e.backlog.Ready(now) {
		if !e.acquireSlot() {
			return
		}
		e.startAttempt(ctx, e.backlog.Next())
	}
	readsSoon := e.backlog.Reading() || e.backlog.HasMore() && e.mayAttempt(now)
	if !readsSoon {
		e.releaseSlot()
	}
}

// acquireSlot reports whether the endpoint has a slot for its next attempt. If the
// endpoint has no slot, acquireSlot requests one.
func (e *servedEndpoint) acquireSlot() bool {
	if e.slotRequest == nil {
		request := &slotRequest{workspace: e.key.Workspace, hanging: e.limit.LastAttemptTimedOut()}
		request.granted = func() {
			go e.post(func() { e.hasSlot = e.hasSlot || e.slotRequest == request })
		}
		e.slotRequest, e.hasSlot = request, e.slots.acquire(request)
	}
	return e.hasSlot
}

// releaseSlot cancels the request for a slot, or releases a slot that no attempt uses.
func (e *servedEndpoint) releaseSlot() {
	if e.slotRequest != nil {
		e.slots.cancel(e.slotRequest)
		e.slotRequest, e.hasSlot = nil, false
	}
}

// startAttempt makes one attempt in a new goroutine, which releases the slot after the
// attempt.
func (e *servedEndpoint) startAttempt(ctx context.Context, due webhook.DueDelivery) {
	slot := e.slotRequest
	e.slotRequest, e.hasSlot = nil, false
	e.inFlight++
	e.lastActive = e.Now()
	request := Request{
		URL: e.target.URL, ID: affiliate.WireID(due.Event), Attempt: due.Attempts + 1, Body: due.Body, Secrets: e.secrets, Timeout: e.timeout,
	}
	go func() {
		ctx, endSpan := startSpan(ctx, e.Tracer, due)
		result := webhook.AttemptResult{Key: e.key, Delivery: due, Started: e.Now(), Random: rand.Float64()}
		request.At = result.Started
		result.Outcome = e.Client.Send(ctx, request)
		result.Ended = e.Now()
		endSpan(result.Outcome)
		e.slots.release(slot)
		aborted := result.Outcome.StatusCode == 0 && ctx.Err() != nil
		e.post(func() { e.attemptEnded(result, aborted) })
	}()
}

// attemptEnded counts an attempt and passes its outcome to the recorder. It does not
// record an attempt that was aborted because the process stops.
func (e *servedEndpoint) attemptEnded(r webhook.AttemptResult, aborted bool) {
	e.inFlight--
	if aborted {
		return
	}
	e.lastActive = r.Ended
	e.Metrics.observeAttempt(r)
	e.limit.Count(r.Outcome, r.Ended)
	if e.limit.Paused(r.Ended) {
		e.backlog.Drop()
	}
	if r.Outcome.Gone() {
		e.stopServing() // the receiver responded with 410 Gone, so the recorder will disable the endpoint
	}
	e.recorder.add(finishedAttempt{r, e})
}

// outcomesStored removes deliveries from the backlog after their outcomes were stored.
// disabled means that the endpoint was disabled because of these outcomes. The recorder
// calls outcomesStored in its own goroutine.
func (e *servedEndpoint) outcomesStored(stored []finishedAttempt, disabled bool) {
	e.post(func() {
		for _, a := range stored {
			e.backlog.Stored(a.AttemptResult)
		}
		if disabled {
			e.stopServing()
		}
	})
}

func (p *senderDeps) openSecrets(t webhook.Target, now time.Time) ([]webhook.Secret, error) {
	sealed := [][]byte{t.Secret}
	if t.PreviousSecret != nil && t.PreviousUntil != nil && now.Before(*t.PreviousUntil) {
		sealed = append(sealed, t.PreviousSecret)
	}
	return openSecrets(p.Seal, t.ID, sealed)
}
