// Package tracing records the spans of a program and sends them to a receiver of
// OpenTelemetry traces, in the protocol OTLP over HTTP.
//
// Guarantees: a request never waits for the receiver. If the receiver does not accept the
// spans, they are dropped and counted. Only the attributes of the list in client.go leave
// the process, so a span contains no address of a client, no user agent, no credential and
// no value of a SQL statement. Baggage is neither accepted nor sent.
//
// The package imports neither gRPC nor Postgres, because the collector uses it.
package tracing

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/version"
)

const (
	// queueSpans is the maximum number of spans that wait for the receiver. A span uses
	// about one kilobyte.
	queueSpans = 4096
	// exportTimeout limits one request to the receiver.
	exportTimeout = 5 * time.Second
	// flushTimeout limits the time for which Close sends the last spans.
	flushTimeout = 2 * time.Second
	// maxPipeline is the maximum number of commands in a pipeline of Redis that has a span.
	// The library formats all commands of a pipeline, also if the span is not recorded.
	maxPipeline = 100
)

// Propagator reads and writes the headers traceparent and tracestate (W3C Trace Context).
// It ignores the header baggage.
var Propagator propagation.TextMapPropagator = propagation.TraceContext{}

// Traces are the traces of a process. Its three providers differ in who decides whether a
// span is recorded. If traces are not enabled, none of them records anything.
type Traces struct {
	// Public is for requests of clients. The process decides at random, according to the
	// setting TRIBUTARY_TRACES_SAMPLE. The span continues the trace of the client, but
	// neither the sampled flag nor the trace id of the client has an influence, because any
	// client could otherwise make the process record all its requests.
	Public trace.TracerProvider
	// Trusted is for requests of other processes of this service. The span is recorded if the
	// span of the caller is recorded. If there is no such span, the process decides at random
	// like Public.
	Trusted trace.TracerProvider
	// Inner is for all other work. A span is recorded only if its parent is recorded, so work
	// in the background that no recorded request has caused has no spans.
	Inner trace.TracerProvider

	enabled   bool
	processor sdktrace.SpanProcessor
}

// Open returns the traces of a program. service is the name under which the receiver shows
// the spans. Several programs in one process can share a registry; they then share a counter. Open does not connect to the receiver. The caller must call Close.
func Open(cfg settings.Traces, service string, registry prometheus.Registerer, log *slog.Logger) (*Traces, error) {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tributary_trace_spans_total",
		Help: "Recorded spans, by result: exported, or dropped because the receiver of traces did not accept them in time.",
	}, []string{"result"})
	var registered prometheus.AlreadyRegisteredError
	switch err := registry.Register(spans); {
	case errors.As(err, &registered): // by another program in this process
		spans = registered.ExistingCollector.(*prometheus.CounterVec)
	case err != nil:
		return nil, err
	}
	q := &queue{exported: spans.WithLabelValues("exported"), dropped: spans.WithLabelValues("dropped")}
	if cfg.TracesURL == "" {
		off := noop.NewTracerProvider()
		return &Traces{Public: off, Trusted: off, Inner: off}, nil
	}
	// The libraries report errors of their own to this global handler. Its default writes to
	// the standard logger.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.LogAttrs(context.Background(), slog.LevelDebug, "OpenTelemetry reports an error", slog.Any("error", err))
	}))
	exporter, err := otlptrace.New(context.Background(), &client{
		url: cfg.TracesURL, queue: q, log: log, now: time.Now,
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	})
	if err != nil {
		return nil, err
	}
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithMaxQueueSize(queueSpans), sdktrace.WithExportTimeout(exportTimeout))
	provider := func(sampler sdktrace.Sampler) trace.TracerProvider {
		return sdktrace.NewTracerProvider(
			sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(q),
			sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version.Release()))),
		)
	}
	random := share(cfg.TracesSample)
	return &Traces{
		Public: provider(random), Trusted: provider(sdktrace.ParentBased(random)), Inner: provider(sdktrace.ParentBased(sdktrace.NeverSample())),
		enabled: true, processor: q,
	}, nil
}

// Enabled reports whether the process records traces.
func (t *Traces) Enabled() bool { return t.enabled }

// Close sends the last spans, for at most flushTimeout. Spans that end later are dropped.
func (t *Traces) Close() {
	if !t.enabled {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	_ = t.processor.Shutdown(ctx) // the client has logged why it failed
}

// Handler returns a handler that records a span for each request for which traced returns
// true. The handler next must name the span after its route (spans.SetRoute), because a path
// can contain values.
func (t *Traces) Handler(next http.Handler, traced func(*http.Request) bool) http.Handler {
	if !t.enabled {
		return next
	}
	return otelhttp.NewHandler(next, "",
		otelhttp.WithTracerProvider(t.Public), otelhttp.WithPropagators(Propagator), otelhttp.WithFilter(traced),
		otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return "HTTP" }))
}

// InstrumentRedis records a span for each command of a client, without its arguments.
func (t *Traces) InstrumentRedis(client redis.UniversalClient) error {
	if !t.enabled {
		return nil
	}
	return redisotel.InstrumentTracing(client,
		redisotel.WithTracerProvider(t.Inner), redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false), redisotel.WithDialFilter(true),
		redisotel.WithCommandsFilter(func(commands []redis.Cmder) bool { return len(commands) > maxPipeline }))
}

// share is a sampler that records a random share of the spans. It does not keep the trace
// state of the parent, which comes from a client.
type share float64

func (s share) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if rand.Float64() < float64(s) { // #nosec G404 -- not a secret
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

func (share) Description() string { return "random" }

// queue limits the number of spans that wait for the receiver, and counts the exported
// and the dropped spans.
type queue struct {
	sdktrace.SpanProcessor
	waiting           atomic.Int64
	exported, dropped prometheus.Counter
}

func (q *queue) OnEnd(span sdktrace.ReadOnlySpan) {
	if q.waiting.Add(1) > queueSpans {
		q.waiting.Add(-1)
		q.dropped.Inc()
		return
	}
	q.SpanProcessor.OnEnd(span)
}

func (q *queue) sent(n int, err error) {
	q.waiting.Add(int64(-n))
	if err != nil {
		q.dropped.Add(float64(n))
		return
	}
	q.exported.Add(float64(n))
}

var errStatus = errors.New("the receiver of traces responds with an error")

// NewLogger returns the logger of a program. It writes one JSON object per line, for
// records of the level and above. A line about a recorded request has the fields trace_id
// and span_id.
func NewLogger(out io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(logHandler{slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})})
}

// logHandler adds the ids of the span in the context to each line.
type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
