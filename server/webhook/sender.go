package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// attemptTimeout bounds one attempt (DECISIONS.md section 9).
	attemptTimeout = 15 * time.Second
	// maxInFlight bounds the attempts of a process in flight.
	maxInFlight = 1000
	// databaseTimeout bounds a call of the queue, pauseAfterError the time to the next
	// one after an error.
	databaseTimeout = 5 * time.Second
	pauseAfterError = time.Second
	// stopTimeout bounds the wait for attempts in flight when the process stops.
	stopTimeout = 5 * time.Second
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

// Sender sends due deliveries. It claims endpoints and starts a goroutine for each
// one (servedEndpoint.serve); these share its parts.
type Sender struct {
	*parts
	leases *leases

	mu      sync.Mutex
	serving map[affiliate.EndpointKey]*servedEndpoint
	running sync.WaitGroup // the goroutines of serving
}

// parts are shared by all served endpoints.
type parts struct {
	reader   *reader
	recorder *recorder
	places   *places
	client   *Client
	seal     Sealer
	log      *slog.Logger
	now      func() time.Time
	metrics  *Metrics
	timeout  time.Duration // of an attempt
}

// NewSender makes a sender. Run runs it.
func NewSender(cfg SenderConfig) *Sender {
	id := affiliate.SenderID{UUID: uuid.New()}
	return &Sender{
		parts: &parts{
			reader:   &reader{queue: cfg.Queue, sender: id, log: cfg.Log, now: cfg.Now, asked: newCollector[readRequest]()},
			recorder: &recorder{queue: cfg.Queue, log: cfg.Log, finished: newCollector[finishedAttempt]()},
			places:   newPlaces(maxInFlight),
			client:   cfg.Client, seal: cfg.Seal, log: cfg.Log, now: cfg.Now, metrics: cfg.Metrics, timeout: attemptTimeout,
		},
		leases:  newLeases(cfg.Queue, id, cfg.Now),
		serving: map[affiliate.EndpointKey]*servedEndpoint{},
	}
}

// Wake notes that endpoints have new deliveries. It does not block.
func (s *Sender) Wake(endpoints []affiliate.EndpointKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range endpoints {
		if e := s.serving[key]; e != nil {
			e.wake()
		} else {
			s.leases.want(key)
		}
	}
}

// Run sends until ctx ends. Attempts in flight then have stopTimeout to end. Their
// outcomes are stored and all leases are given back before Run returns.
func (s *Sender) Run(ctx context.Context) {
	attempts, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var workers sync.WaitGroup
	workers.Go(func() { s.reader.run(background) })
	workers.Go(func() { s.recorder.run(background) })

	s.manageLeases(ctx, attempts)

	kill := time.AfterFunc(stopTimeout, abort)
	defer kill.Stop()
	s.running.Wait()
	stopBackground()
	workers.Wait()
	s.finish(context.WithoutCancel(ctx))
}

// finish stores the last outcomes and gives all leases back.
func (s *Sender) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err := s.recorder.flush(ctx)
	if err == nil {
		err = s.leases.releaseAll(ctx)
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the last webhook attempts could not be recorded; they will be repeated", slog.Any("error", err))
	}
}

// manageLeases renews, claims, releases and searches, and starts a goroutine for each
// claimed endpoint, until ctx ends.
func (s *Sender) manageLeases(ctx, attempts context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		granted, err := s.leases.claim(ctx)
		for key, until := range granted {
			s.serve(ctx, attempts, key, until)
		}
		if err == nil {
			err = s.leases.release(ctx)
		}
		if err == nil {
			err = s.leases.search(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "leases of webhook endpoints could not be managed", slog.Any("error", err))
			sleep(ctx, pauseAfterError)
		}
		s.metrics.observe(s.places.inFlight(), s.leases.held())
		select {
		case <-s.leases.wanting:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// serve starts the goroutine of an endpoint, or tells it that its lease is renewed.
func (s *Sender) serve(ctx, attempts context.Context, key affiliate.EndpointKey, until time.Time) {
	s.mu.Lock()
	e := s.serving[key]
	if e == nil && s.leases.holds(key) { // leave may have given it back meanwhile
		e = newServedEndpoint(s.parts, key, until)
		s.serving[key] = e
		s.running.Go(func() {
			e.serve(ctx, attempts)
			s.leave(e)
		})
	}
	s.mu.Unlock()
	if e != nil {
		e.post(func() { e.leaseUntil = until })
	}
}

// leave ends the service of an endpoint whose goroutine has ended. If it was woken
// meanwhile it is claimed again.
func (s *Sender) leave(e *servedEndpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.serving, e.key)
	s.leases.giveBack(e.key)
	if len(e.woken) > 0 || e.backlog.HasMore() {
		s.leases.want(e.key)
	}
}
