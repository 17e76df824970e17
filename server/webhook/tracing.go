package webhook

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/spans"
)

// startSpan starts the span of an attempt in the trace of the event's cause, if the cause
// was recorded. The returned function ends the span. The span does not contain the address
// of the endpoint, which can contain a secret.
func startSpan(ctx context.Context, tracer trace.Tracer, due webhook.DueDelivery) (context.Context, func(webhook.Outcome)) {
	ctx, ok := spans.FromReference(ctx, due.Trace)
	if !ok {
		return ctx, func(webhook.Outcome) {}
	}
	ctx, span := tracer.Start(ctx, "webhook attempt", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("tributary.event.id", affiliate.WireID(due.Event)),
		attribute.String("tributary.delivery.id", due.ID.String()),
		attribute.Int("tributary.webhook.attempt", due.Attempts+1),
	))
	return ctx, func(outcome webhook.Outcome) {
		if outcome.StatusCode != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", outcome.StatusCode))
		}
		if !outcome.Succeeded() {
			span.SetAttributes(attribute.String("error.type", outcome.ErrorCode))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
