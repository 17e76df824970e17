package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	// attemptTimeout is the time limit of one attempt (docs/merchant/webhooks.md#respond).
	attemptTimeout = 15 * time.Second
	// maxInFlight is the maximum number of attempts in flight in one process.
	maxInFlight = 1000
	// databaseTimeout is the time limit of one call of the database.
	databaseTimeout = 5 * time.Second
	// pauseAfterError is the pause after a failed call of the database.
	pauseAfterError = time.Second
	// stopTimeout is the longest time that a shutdown waits for attempts in flight.
	stopTimeout = 5 * time.Second
)

// SenderConfig holds the dependencies of a Sender.
type SenderConfig struct {
	DB      *postgres.DB
	Client  *Client
	Seal    Sealer
	Log     *slog.Logger
	Now     func() time.Time
	Metrics *Metrics
	// Tracer records a span for each attempt to deliver an event whose cause was recorded.
	// Default: no spans.
	Tracer trace.Tracer
}

// Sender sends due deliveries. It claims endpoints and starts one goroutine for each
// claimed endpoint (servedEndpoint.serve).
type Sender struct {
	*senderDeps
	leases *leases

	mu      sync.Mutex
	serving map[webhook.EndpointKey]*servedEndpoint
	running sync.WaitGroup // the goroutines of the endpoints in serving
}

// senderDeps holds the components that the goroutines of all endpoints share.
type senderDeps struct {
	reader   *reader
	recorder *recorder
	slots    *slots
	client   *Client
	seal     Sealer
	log      *slog.Logger
	now      func() time.Time
	metrics  *Metrics
	tracer   trace.Tracer
	timeout  time.Duration // time limit of an attempt
}

// NewSender returns a Sender. Run starts it.
func NewSender(cfg SenderConfig) *Sender {
	id := affiliate.SenderID{UUID: uuid.New()}
	if cfg.Tracer == nil {
		cfg.Tracer = noop.Tracer{}
	}
	return &Sender{
		senderDeps: &senderDeps{
			reader:   &reader{db: cfg.DB, sender: id, log: cfg.Log, now: cfg.Now, requests: newBatcher[readRequest]()},
			recorder: &recorder{db: cfg.DB, log: cfg.Log, now: cfg.Now, pending: newBatcher[finishedAttempt]()},
			slots:    newSlots(maxInFlight),
			client:   cfg.Client, seal: cfg.Seal, log: cfg.Log, now: cfg.Now, metrics: cfg.Metrics, tracer: cfg.Tracer, timeout: attemptTimeout,
		},
		leases:  newLeases(cfg.DB, id, cfg.Now),
		serving: map[webhook.EndpointKey]*servedEndpoint{},
	}
}

// Wake makes the sender read the new deliveries of the endpoints. If this process does
// not have the lease of an endpoint, the sender claims the endpoint. Wake does not block.
func (s *Sender) Wake(endpoints []webhook.EndpointKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range endpoints {
		if e := s.serving[key]; e != nil {
			e.wake()
		} else {
			s.leases.requestClaim(key)
		}
	}
}

// Run sends deliveries until ctx ends. After that it waits for the attempts in flight,
// for at most stopTimeout. Before it returns, it stores the outcomes of these attempts
// and releases all leases.
func (s *Sender) Run(ctx context.Context) {
	attemptCtx, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var workers sync.WaitGroup
	workers.Go(func() { s.reader.run(background) })
	workers.Go(func() { s.recorder.run(background) })

	s.manageLeases(ctx, attemptCtx)

	abortTimer := time.AfterFunc(stopTimeout, abort)
	defer abortTimer.Stop()
	s.running.Wait()
	stopBackground()
	workers.Wait()
	s.shutdown(context.WithoutCancel(ctx))
}

// shutdown stores the last outcomes and releases all leases.
func (s *Sender) shutdown(ctx context.Context) {
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

// manageLeases claims endpoints and renews and releases their leases until ctx ends. It
// starts a goroutine for each claimed endpoint.
func (s *Sender) manageLeases(ctx, attemptCtx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		granted, err := s.leases.claim(ctx)
		for key, leaseEnd := range granted {
			s.serve(ctx, attemptCtx, key, leaseEnd)
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
		s.metrics.setGauges(s.slots.inFlight(), s.leases.count())
		select {
		case <-s.leases.requested:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// serve starts the goroutine of an endpoint. leaseEnd is the end of the endpoint's lease.
// If the goroutine exists already, serve gives it the new end of the lease.
func (s *Sender) serve(ctx, attemptCtx context.Context, key webhook.EndpointKey, leaseEnd time.Time) {
	s.mu.Lock()
	e := s.serving[key]
	if e == nil && s.leases.has(key) { // removeEndpoint may have returned the lease
		e = newServedEndpoint(s.senderDeps, key, leaseEnd)
		s.serving[key] = e
		s.running.Go(func() {
			e.serve(ctx, attemptCtx)
			s.removeEndpoint(e)
		})
	}
	s.mu.Unlock()
	if e != nil {
		e.post(func() { e.leaseUntil = leaseEnd })
	}
}

// removeEndpoint removes an endpoint whose goroutine has ended and returns its lease. If
// there are new deliveries, it requests another claim.
func (s *Sender) removeEndpoint(e *servedEndpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.serving, e.key)
	s.leases.returnLease(e.key)
	if len(e.wakeups) > 0 || e.backlog.HasMore() {
		s.leases.requestClaim(e.key)
	}
}

// startSpan starts the span of an attempt in the trace of the event's cause, if the cause
// was recorded. The returned function ends the span. The span does not contain the address
// of the endpoint, which can contain a secret.
func startSpan(ctx context.Context, tracer trace.Tracer, due webhook.DueDelivery) (context.Context, func(webhook.Outcome)) {
	ctx, ok := spans.FromReference(ctx, due.Trace)
	if !ok {
		return ctx, func(webhook.Outcome) {}
	}
	ctx, span := tracer.Start(ctx, "webhook attempt", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("tributary.event.id", affiliate.WireID(due.Event)),
		attribute.String("tributary.delivery.id", due.ID.String()),
		attribute.Int("tributary.webhook.attempt", due.Attempts+1),
	))
	return ctx, func(outcome webhook.Outcome) {
		if outcome.StatusCode != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", outcome.StatusCode))
		}
		if !outcome.Succeeded() {
			span.SetAttributes(attribute.String("error.type", outcome.ErrorCode))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
