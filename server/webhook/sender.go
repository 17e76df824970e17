package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
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
	Seal    server.Sealer
	Log     *slog.Logger
	Now     func() time.Time
	Metrics *Metrics
	// Tracer records a span for each attempt to deliver an event, if the trace of the event's
	// cause was recorded. Default: no spans.
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
	SenderConfig
	reader   *reader
	recorder *recorder
	slots    *slots
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
			SenderConfig: cfg,
			reader:       &reader{SenderConfig: cfg, sender: id, requests: newBatcher[readRequest]()},
			recorder:     &recorder{SenderConfig: cfg, pending: newBatcher[finishedAttempt]()},
			slots:        newSlots(maxInFlight), timeout: attemptTimeout,
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
// for at most stopTimeout. Before it returns, it stores the outcomes of these attempts and
// releases all leases. If the outcomes cannot be stored, the leases expire instead.
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

func (s *Sender) shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err := s.recorder.flush(ctx)
	if err == nil {
		err = s.leases.releaseAll(ctx)
	}
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "the last webhook attempts could not be recorded; they will be repeated", slog.Any("error", err))
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
			s.Log.LogAttrs(ctx, slog.LevelWarn, "leases of webhook endpoints could not be managed", slog.Any("error", err))
			sleep(ctx, pauseAfterError)
		}
		s.Metrics.setGauges(s.slots.inFlight(), s.leases.count())
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
	if e == nil && s.leases.has(key) { // removeEndpoint may have given the lease back
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

// removeEndpoint removes an endpoint whose goroutine has ended and gives its lease back. If
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

// startSpan starts the span of an attempt in the trace of the event's cause, if that trace was
// recorded. The returned function ends the span. The span does not contain the address
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

// Values of the label outcome that are not error codes.
const (
	outcomeDelivered = "delivered"
	outcome5xx       = "http_5xx"
	outcome4xx       = "http_4xx"
	outcomeOther     = "http_other" // an invalid status
)

// lateAfter is the time after which an endpoint with a due delivery counts as late.
const lateAfter = time.Minute

// Metrics are the metrics of the sender. Labels contain no endpoints and no workspaces,
// so that the number of time series stays small.
type Metrics struct {
	attempts         *prometheus.CounterVec
	duration, delay  prometheus.Histogram
	inFlight, served prometheus.Gauge
}

// NewMetrics returns Metrics and registers them in registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_webhook_attempts_total",
			Help: "Attempts to deliver an event, by outcome: delivered, or the error code (http_4xx and http_5xx for responses).",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tributary_webhook_attempt_seconds", Help: "Duration of an attempt.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tributary_webhook_delay_seconds", Help: "Time from an event to the start of its first attempt. It grows if the senders are too slow.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 10),
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tributary_webhook_attempts_in_flight", Help: "Attempts in flight, at most 1,000 per process.",
		}),
		served: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tributary_webhook_endpoints_served", Help: "Endpoints that this process serves.",
		}),
	}
	for _, outcome := range append(webhook.FailureCodes(), outcomeDelivered, outcome5xx, outcome4xx, outcomeOther) {
		m.attempts.WithLabelValues(outcome)
	}
	registry.MustRegister(m.attempts, m.duration, m.delay, m.inFlight, m.served)
	return m
}

// observeAttempt counts an attempt and records its duration. For the first attempt of a
// delivery, it also records the delay since the event.
func (m *Metrics) observeAttempt(a webhook.AttemptResult) {
	outcome := a.Outcome.ErrorCode
	switch code := a.Outcome.StatusCode; {
	case a.Outcome.Succeeded():
		outcome = outcomeDelivered
	case code >= 500:
		outcome = outcome5xx
	case code >= 400:
		outcome = outcome4xx
	case code >= 100 && code < 300:
		outcome = outcomeOther
	}
	m.attempts.WithLabelValues(outcome).Inc()
	m.duration.Observe(a.Ended.Sub(a.Started).Seconds())
	if a.Delivery.Attempts == 0 {
		if at, ok := a.Delivery.Event.Time(); ok {
			m.delay.Observe(max(0, a.Started.Sub(at).Seconds()))
		}
	}
}

func (m *Metrics) setGauges(inFlight, served int) {
	m.inFlight.Set(float64(inFlight))
	m.served.Set(float64(served))
}

// NewGauges returns the gauges of the deliveries that are due. A scrape searches an index
// once for each active endpoint.
func NewGauges(db *postgres.DB, now func() time.Time) *server.Gauges {
	return server.NewGauges("webhooks", func(ctx context.Context, set server.SetGauge) error {
		at := now()
		lateness, err := webhooks.Lateness(ctx, db, at, at.Add(-lateAfter))
		age := 0.0
		if lateness.OldestDue != nil {
			age = max(0, at.Sub(*lateness.OldestDue).Seconds())
		}
		set(0, float64(lateness.Endpoints))
		set(1, float64(lateness.Late))
		set(2, age)
		return err
	},
		server.Gauge{Name: "tributary_webhook_endpoints", Help: "Active endpoints."},
		server.Gauge{Name: "tributary_webhook_endpoints_late", Help: "Active endpoints with a delivery that has been due for more than a minute. A slow receiver makes its own endpoint late."},
		server.Gauge{Name: "tributary_webhook_oldest_due_seconds", Help: "Time since which the oldest delivery of an active endpoint has been due. 0 if none is due."},
	)
}
