package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Metrics is a gRPC stats handler that measures the duration of calls, both over the
// network and in the same process.
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

// TagRPC stores the method's name in the context, where HandleRPC reads it. It stores the
// name "other" for all methods without a policy, because a client could otherwise create
// any number of time series by calling unknown methods.
func (m *Metrics) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	method := info.FullMethodName
	if _, ok := policies[method]; !ok {
		method = "other"
	}
	return context.WithValue(ctx, methodKey{}, method)
}

// HandleRPC records the duration of a call when the call ends. It does not record streams
// that were open until the client or the core ended them (Policy.Lasting), because their
// duration is not the time to a response.
func (m *Metrics) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if end, ok := event.(*stats.End); ok {
		method, _ := ctx.Value(methodKey{}).(string)
		if policies[method].Lasting && end.Error == nil {
			return
		}
		m.calls.WithLabelValues(method, status.Code(end.Error).String()).Observe(end.EndTime.Sub(end.BeginTime).Seconds())
	}
}

// TagConn does nothing.
func (m *Metrics) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (m *Metrics) HandleConn(context.Context, stats.ConnStats) {}
