package assemble

import (
	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/server"
)

// tracerName is the name under which the spans of the service itself are reported.
const tracerName = "github.com/tributary-hq/tributary"

// statementTracer returns the tracer of SQL statements, or nil if traces are not enabled. It
// records no values of parameters.
func statementTracer(traces *tracing.Traces) pgx.QueryTracer {
	if !traces.Enabled() {
		return nil
	}
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(traces.Inner), otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithDisableAcquireTracer())
}

// callTraces returns the stats handlers that record the calls of a core, or nil if traces are
// not enabled.
func callTraces(traces *tracing.Traces) *server.Traces {
	if !traces.Enabled() {
		return nil
	}
	return &server.Traces{
		Trusted: otelgrpc.NewServerHandler(append(callOptions, otelgrpc.WithTracerProvider(traces.Trusted))...),
		Public:  otelgrpc.NewServerHandler(append(callOptions, otelgrpc.WithTracerProvider(traces.Public))...),
	}
}

// clientTraces returns the options of a connection to the core that record its calls.
func clientTraces(traces *tracing.Traces) []grpc.DialOption {
	if !traces.Enabled() {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(append(callOptions, otelgrpc.WithTracerProvider(traces.Inner))...))}
}

// callOptions are the options of all handlers of calls. Health checks have no spans.
var callOptions = []otelgrpc.Option{
	otelgrpc.WithPropagators(tracing.Propagator),
	otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return !server.IsHealthCheck(info.FullMethodName) }),
}
