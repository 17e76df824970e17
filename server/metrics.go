package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Metrics counts and times every call, over the network and in process alike.
type Metrics struct {
	calls *prometheus.HistogramVec
}

// NewMetrics registers the core's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "tributary_core_call_seconds",
		Help:    "Time from a call's arrival to its answer, by gRPC method and status code.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"method", "code"})}
	registry.MustRegister(m.calls)
	return m
}

type methodKey struct{}

// TagRPC remembers the method for the end of the call. Methods that are not
// ours share one name, so that callers cannot invent series.
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
