package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Metrics is a gRPC stats handler that counts calls and measures their duration, both over
// the network and in the same process.
type Metrics struct {
	withoutConns
	seconds *prometheus.HistogramVec
	// calls has a time series for each status code from the start. The histogram has none
	// for a method and a code that did not occur yet, because most of them never occur.
	calls *prometheus.CounterVec
}

// NewMetrics registers the core's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tributary_core_call_seconds",
			Help:    "Time from the arrival of a call to its response, by gRPC method and status code.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"method", "code"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_core_calls_total",
			Help: "Calls by gRPC status code, without health checks.",
		}, []string{"code"}),
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		m.calls.WithLabelValues(code.String())
	}
	registry.MustRegister(m.seconds, m.calls)
	return m
}

var healthChecks = []string{"/" + affiliatev1.HealthService_ServiceDesc.ServiceName + "/", "/grpc.health.v1.Health/"}

// IsHealthCheck reports whether a method is a health check.
func IsHealthCheck(method string) bool {
	return slices.ContainsFunc(healthChecks, func(prefix string) bool { return strings.HasPrefix(method, prefix) })
}

type methodKey struct{}

// TagRPC stores the method's name in the context, where HandleRPC reads it.
func (m *Metrics) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, info.FullMethodName)
}

// HandleRPC counts a call when it ends and records its duration. It does not record the
// duration of streams that were open until the client or the core ended them
// (Policy.Lasting), because their duration is not the time to a response. The label method
// is "other" for all methods without a policy, because a client could otherwise create any
// number of time series by calling unknown methods.
func (m *Metrics) HandleRPC(ctx context.Context, event stats.RPCStats) {
	end, ok := event.(*stats.End)
	if !ok {
		return
	}
	method, _ := ctx.Value(methodKey{}).(string)
	code := status.Code(end.Error).String()
	if !IsHealthCheck(method) {
		m.calls.WithLabelValues(code).Inc()
	}
	policy, known := policies[method]
	if !known {
		method = "other"
	}
	if policy.Lasting && end.Error == nil {
		return
	}
	m.seconds.WithLabelValues(method, code).Observe(end.EndTime.Sub(end.BeginTime).Seconds())
}

// withoutConns is the part of a stats.Handler that ignores connections.
type withoutConns struct{}

func (withoutConns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (withoutConns) HandleConn(context.Context, stats.ConnStats)                       {}

// CountEvents registers a counter of events and returns the callback that counts an event
// after its commit. The events are those in webhooks, for example about conversions,
// commissions and payouts.
func CountEvents(registry prometheus.Registerer) func(affiliate.EventName, affiliate.Mode) {
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tributary_events_total",
		Help: "Events committed by this process, by type and mode. The types are the same as in webhooks, for example commission.approved.",
	}, []string{"type", "mode"})
	for _, kind := range affiliate.Catalogue() {
		for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
			events.WithLabelValues(string(kind.Name), string(mode))
		}
	}
	registry.MustRegister(events)
	return func(name affiliate.EventName, mode affiliate.Mode) {
		events.WithLabelValues(string(name), string(mode)).Inc()
	}
}

// gaugesTimeout bounds the time for which a scrape waits for the database.
const gaugesTimeout = time.Second

// Gauge describes a metric of Gauges.
type Gauge struct {
	Name, Help string
	// Labels are the names of the labels.
	Labels []string
}

// Gauges is a group of gauges that are read from the database at each scrape. All cores
// report the same numbers. The gauges are missing while the database does not respond; a
// counter shows this.
type Gauges struct {
	descriptions []*prometheus.Desc
	read         func(ctx context.Context, set SetGauge) error
	failures     prometheus.Counter
}

// SetGauge reports the value of the gauge with the given index. labels are the values of
// its labels.
type SetGauge func(index int, value float64, labels ...string)

// NewGauges returns a prometheus.Collector. At each scrape it calls read, which reports
// the values of the gauges. group is the name of the group in the metrics.
func NewGauges(group string, read func(ctx context.Context, set SetGauge) error, gauges ...Gauge) *Gauges {
	g := &Gauges{read: read, failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "tributary_gauges_failed_total",
		Help:        "Scrapes in which a group of gauges is missing, because the database did not respond within a second, by group.",
		ConstLabels: prometheus.Labels{"group": group},
	})}
	for _, gauge := range gauges {
		g.descriptions = append(g.descriptions, prometheus.NewDesc(gauge.Name, gauge.Help, gauge.Labels, nil))
	}
	return g
}

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(descriptions chan<- *prometheus.Desc) {
	g.failures.Describe(descriptions)
	for _, description := range g.descriptions {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector. It reports either all gauges or none.
func (g *Gauges) Collect(values chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), gaugesTimeout)
	defer cancel()
	var read []prometheus.Metric
	err := g.read(ctx, func(index int, value float64, labels ...string) {
		read = append(read, prometheus.MustNewConstMetric(g.descriptions[index], prometheus.GaugeValue, value, labels...))
	})
	if err != nil {
		g.failures.Inc()
		read = nil
	}
	g.failures.Collect(values)
	for _, metric := range read {
		values <- metric
	}
}

// Traces are the stats handlers that record a span for each call. They differ in what they
// do with the span of the caller.
type Traces struct {
	// Trusted handles calls whose metadata the server trusts (Config.TrustedProxies). The
	// caller has decided whether the call is recorded.
	Trusted stats.Handler
	// Public handles all other calls. The core decides itself.
	Public stats.Handler
}

// tracer is the stats handler that selects one of the handlers of Traces for each call.
type tracer struct {
	withoutConns
	Traces
	pipeline *pipeline
}

func (t tracer) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	// The library hides the values of the client's context from a stream in the same process.
	if client := inprocgrpc.ClientContext(ctx); client != nil {
		ctx = trace.ContextWithSpan(ctx, trace.SpanFromContext(client))
	}
	if _, trusted := t.pipeline.peerOf(ctx); trusted {
		return t.Trusted.TagRPC(ctx, info)
	}
	return t.Public.TagRPC(ctx, info)
}

// HandleRPC completes the span in the context. It does not matter which of the two handlers
// has started it.
func (t tracer) HandleRPC(ctx context.Context, event stats.RPCStats) { t.Trusted.HandleRPC(ctx, event) }

// statsHandlers calls several stats handlers, in their order. They run before the
// interceptors.
type statsHandlers struct {
	withoutConns
	all []stats.Handler
}

func (h statsHandlers) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	for _, handler := range h.all {
		ctx = handler.TagRPC(ctx, info) //nolint:fatcontext // each handler adds its own value
	}
	return ctx
}

func (h statsHandlers) HandleRPC(ctx context.Context, event stats.RPCStats) {
	for _, handler := range h.all {
		handler.HandleRPC(ctx, event)
	}
}
