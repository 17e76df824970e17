package server

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Metrics is a gRPC stats handler that counts calls and measures their duration, both over
// the network and in the same process.
type Metrics struct {
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

// healthChecks begins the names of the methods that are health checks.
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
// (Policy.Lasting), because their duration is not the time to a response. The label has
// the value "other" for all methods without a policy, because a client could otherwise
// create any number of time series by calling unknown methods.
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

// TagConn does nothing.
func (m *Metrics) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (m *Metrics) HandleConn(context.Context, stats.ConnStats) {}

// CountEvents registers a counter of events and returns the callback that counts an event
// after its commit. There is an event for each change of a conversion, a commission or a
// payout.
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
