// Package tracing records the spans of a program and sends them to a receiver of
// OpenTelemetry traces, in the protocol OTLP over HTTP.
//
// Guarantees: a request never waits for the receiver. If the receiver does not accept the
// spans, they are dropped and counted. Only the attributes of the list exportedAttributes leave
// the process, so a span contains no address of a client, no user agent, no credential and
// no value of a SQL statement. Baggage is neither accepted nor sent.
//
// The package imports neither gRPC nor Postgres, because the collector uses it.
package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
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
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

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
	// maxPipeline is the maximum number of commands in a Redis pipeline. Longer pipelines have no span, because the
	// library formats all commands of a pipeline even if the span is not recorded.
	maxPipeline = 100
)

// Propagator reads and writes the headers traceparent and tracestate (W3C Trace Context).
// It ignores the header baggage.
var Propagator propagation.TextMapPropagator = propagation.TraceContext{}

// Traces are the traces of a process. Its three providers have different rules for the spans that are recorded. If
// traces are not enabled, the providers record nothing.
type Traces struct {
	// Public is for requests of clients. The process decides at random, according to the
	// setting TRIBUTARY_TRACES_SAMPLE. The span continues the trace of the client. But neither the sampled flag nor the
	// trace id that the client sent influences the decision, because otherwise any client
	// could make the process record all requests of the client.
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

// Open returns the traces of a program. The receiver shows the spans under the given name of the service.
// If several programs in one process share a registry, they also share the counter of
// spans. Open does not connect to the receiver. The caller must call Close.
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
	// The libraries report errors of their own to this global handler. The default handler
	// writes to the standard logger.
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

// NewLogger returns the logger of a program. It writes log messages of the given level and above, one JSON object per
// line. If the context of a message has a recorded span, the line has the fields trace_id
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

const (
	// logInterval is the minimum time between two log lines about the receiver.
	logInterval = time.Minute
	// maxResponse is the maximum number of bytes that are read from a response. The content
	// is discarded, but a connection can be reused only after the content was read.
	maxResponse = 64 << 10
)

// exportedAttributes are the attributes of spans that leave the process. The libraries set
// more attributes. Some of the attributes that are not in this list contain personal data: the address and the user
// agent of a client, and paths, which can contain tokens. db.query.text contains no values, because statements have
// their values as parameters, and otelpgx does not record parameters.
var exportedAttributes = []string{
	"db.collection.name", "db.operation.batch.size", "db.operation.name", "db.query.text", "db.redis.num_cmd",
	"db.system", "db.system.name", "error.type", "http.request.body.size", "http.request.method",
	"http.response.body.size", "http.response.status_code", "http.route", "pgx.operation.type",
	"pgx.rows_affected", "pgx.sql_state", "rpc.method", "rpc.response.status_code", "rpc.system.name",
	"tributary.click.id", "tributary.conversion.id", "tributary.delivery.id", "tributary.event.id",
	"tributary.webhook.attempt", "url.scheme",
}

// client sends spans in the protocol OTLP over HTTP. The client of OpenTelemetry is not
// used, because it imports gRPC (docs/adr/0016-own-client-for-traces.md).
type client struct {
	url      string
	http     *http.Client
	queue    *queue
	log      *slog.Logger
	now      func() time.Time
	lastLine atomic.Int64 // time of the last log line, in Unix nanoseconds
}

func (*client) Start(context.Context) error { return nil }

func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It makes one attempt. If the receiver does not
// accept the spans, UploadTraces drops them, because a queue for repetitions would grow
// while the receiver is not available.
func (c *client) UploadTraces(ctx context.Context, resources []*tracepb.ResourceSpans) error {
	n := 0
	for _, r := range resources {
		for _, scope := range r.GetScopeSpans() {
			n += len(scope.GetSpans())
			for _, span := range scope.GetSpans() {
				redact(span)
			}
		}
	}
	// TracesData has the same encoding as ExportTraceServiceRequest.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: resources})
	if err == nil {
		err = c.post(ctx, body)
	}
	c.queue.sent(n, err)
	if now := c.now().UnixNano(); err != nil {
		if last := c.lastLine.Load(); now-last >= int64(logInterval) && c.lastLine.CompareAndSwap(last, now) {
			c.log.LogAttrs(ctx, slog.LevelWarn, "traces cannot be exported and are dropped", slog.Any("error", err))
		}
	}
	return nil
}

func (c *client) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := c.http.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err // the URL can contain a password
		}
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxResponse))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%w: status %d", errStatus, response.StatusCode)
	}
	return nil
}

// redact removes the parts of a span that must not leave the process: the attributes that are not in
// exportedAttributes, the attributes of links, the events and the message of the status, which can contain values of a
// request, and the trace state, which comes from the client.
func redact(span *tracepb.Span) {
	span.Attributes = slices.DeleteFunc(span.GetAttributes(), func(a *commonpb.KeyValue) bool { return !slices.Contains(exportedAttributes, a.GetKey()) })
	span.Events, span.TraceState = nil, ""
	if span.GetStatus() != nil {
		span.Status.Message = ""
	}
	for _, link := range span.GetLinks() {
		link.Attributes, link.TraceState = nil, ""
	}
}
