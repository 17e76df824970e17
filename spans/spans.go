// Package spans contains the functions that several parts of the service share for spans of
// OpenTelemetry: how to name the span of an HTTP request, and how to store a reference to a
// span with a click or an event, so that later work belongs to the same trace.
//
// The functions, except FromReference, do nothing and allocate nothing if the context has no
// recorded span. Most requests have none, and no request has one if traces are not enabled.
package spans

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tributary-hq/tributary/affiliate"
)

// referenceSize is the size of a reference in bytes: the trace id (16 bytes), followed by
// the span id (8 bytes).
const referenceSize = 24

// Reference returns a reference to the span of the context. It returns nil if the span is
// not recorded.
func Reference(ctx context.Context) []byte {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsSampled() || !span.IsValid() {
		return nil
	}
	traceID, spanID := span.TraceID(), span.SpanID()
	return append(traceID[:], spanID[:]...)
}

// FromReference returns a context whose new spans are children of the span of a reference.
// It returns ctx itself, and false, if the reference is empty or not valid.
func FromReference(ctx context.Context, reference []byte) (context.Context, bool) {
	if len(reference) != referenceSize {
		return ctx, false
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(reference[:16]), SpanID: trace.SpanID(reference[16:]), TraceFlags: trace.FlagsSampled,
	})
	if !span.IsValid() {
		return ctx, false
	}
	return trace.ContextWithRemoteSpanContext(ctx, span), true
}

// TraceParent returns the value of the header traceparent (W3C Trace Context) for the span
// of the context. It returns "" if the span is not recorded.
func TraceParent(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsSampled() || !span.IsValid() {
		return ""
	}
	return "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-01"
}

// SetRoute names the span of an HTTP request after its route. route is a template such as
// /api/v1/programs/{program_id}, so that the name contains no values.
func SetRoute(ctx context.Context, method, route string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetName(method + " " + route)
		span.SetAttributes(attribute.String("http.route", route))
	}
}

// Attributes of spans with the id of a record of the service. A search for an id finds the
// traces of its record, for example those of a click and of the conversion that is attributed
// to the click.
const (
	clickID      = attribute.Key("tributary.click.id")
	conversionID = attribute.Key("tributary.conversion.id")
)

// SetClick adds the id of a click to the span of the context.
func SetClick(ctx context.Context, id affiliate.ClickID) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(clickID.String(id.String()))
	}
}

// SetConversion adds the ids of a conversion and of its click to the span of the context. click
// is nil if the conversion has none.
func SetConversion(ctx context.Context, id affiliate.ConversionID, click *affiliate.ClickID) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(conversionID.String(id.String()))
	if click != nil {
		SetClick(ctx, *click)
	}
}
