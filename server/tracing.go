package server

import (
	"context"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"
)

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
	Traces
	pipeline *pipeline
}

// TagRPC starts the span of a call.
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

// TagConn does nothing.
func (tracer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (tracer) HandleConn(context.Context, stats.ConnStats) {}

// statsHandlers calls several stats handlers, in their order. They run before the
// interceptors.
type statsHandlers []stats.Handler

// TagRPC implements stats.Handler.
func (h statsHandlers) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	for _, handler := range h {
		ctx = handler.TagRPC(ctx, info) //nolint:fatcontext // each handler adds its own value
	}
	return ctx
}

// HandleRPC implements stats.Handler.
func (h statsHandlers) HandleRPC(ctx context.Context, event stats.RPCStats) {
	for _, handler := range h {
		handler.HandleRPC(ctx, event)
	}
}

// TagConn does nothing, because no handler measures connections.
func (h statsHandlers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (h statsHandlers) HandleConn(context.Context, stats.ConnStats) {}
