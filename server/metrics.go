package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Metrics counts and times every call, both over the network and in the same process.
type Metrics struct {
	calls *prometheus.HistogramVec
}

// NewMetrics registers the core's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "tributary_core_call_seconds",
		Help:    "Time from the arrival of a call to its response, by gRPC method and status code.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"method", "code"})}
	registry.MustRegister(m.calls)
	return m
}

type methodKey struct{}

// TagRPC stores the method in the context for the end of the call. All methods without a
// policy share one name, so that callers cannot create new time series.
func (m *Metrics) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	method := info.FullMethodName
	if _, ok := policies[method]; !ok {
		method = "other"
	}
	return context.WithValue(ctx, methodKey{}, method)
}

// HandleRPC observes the end of a call.
func (m *Metrics) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if end, ok := event.(*stats.End); ok {
		method, _ := ctx.Value(methodKey{}).(string)
		m.calls.WithLabelValues(method, status.Code(end.Error).String()).Observe(end.EndTime.Sub(end.BeginTime).Seconds())
	}
}

// TagConn is not used.
func (m *Metrics) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is not used.
func (m *Metrics) HandleConn(context.Context, stats.ConnStats) {}
