package ingest

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/tributary-hq/tributary/spans"
)

// maxBatchSpans is the maximum number of clicks of a batch that have a span of their own.
const maxBatchSpans = 100

// startSpans starts a span for each click of a batch whose request was recorded, at most
// maxBatchSpans. The spans belong to the traces of the requests. The statements of the batch
// belong to the first of these traces; the spans of the other clicks have a link to it. The
// returned function ends the spans.
func (i *Ingester) startSpans(ctx context.Context, batch []*decodedEntry) (context.Context, func()) {
	batchCtx := ctx
	var started []trace.Span
	for _, p := range batch {
		for _, r := range p.records {
			parent, ok := spans.FromReference(ctx, r.trace)
			if !ok || len(started) == maxBatchSpans {
				continue
			}
			options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
			if len(started) > 0 {
				options = append(options, trace.WithLinks(trace.LinkFromContext(batchCtx)))
			}
			clickCtx, span := i.tracer.Start(parent, "store click", options...)
			spans.SetClick(clickCtx, r.click.ID)
			if len(started) == 0 {
				batchCtx = clickCtx //nolint:fatcontext // set once
			}
			started = append(started, span)
		}
	}
	return batchCtx, func() {
		for _, span := range started {
			span.End()
		}
	}
}
