package spans_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/tributary-hq/tributary/spans"
)

func spanContext(flags trace.TraceFlags) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 15: 2}, SpanID: trace.SpanID{3, 7: 4}, TraceFlags: flags,
	}))
}

func TestReference_RestoresRecordedSpan(t *testing.T) {
	ctx := spanContext(trace.FlagsSampled)
	restored, ok := spans.FromReference(context.Background(), spans.Reference(ctx))
	if !ok {
		t.Fatal("the reference of a recorded span is not valid")
	}
	const want = "00-01000000000000000000000000000002-0300000000000004-01"
	if got := spans.TraceParent(restored); got != want || spans.TraceParent(ctx) != want {
		t.Errorf("the span became %q, want %q", got, want)
	}
	if !trace.SpanContextFromContext(restored).IsRemote() {
		t.Error("the restored span is not remote")
	}
}

func TestReference_IsEmptyWithoutRecordedSpan(t *testing.T) {
	for name, ctx := range map[string]context.Context{"no span": context.Background(), "not recorded": spanContext(0)} {
		if reference, header := spans.Reference(ctx), spans.TraceParent(ctx); reference != nil || header != "" {
			t.Errorf("%s: got the reference %x and the header %q, want none", name, reference, header)
		}
	}
}

func TestFromReference_RejectsInvalidReferences(t *testing.T) {
	valid := spans.Reference(spanContext(trace.FlagsSampled))
	for name, reference := range map[string][]byte{
		"empty": nil, "short": valid[:23], "long": append(valid, 0), "zero": make([]byte, 24), "no span id": append(valid[:16:16], make([]byte, 8)...),
	} {
		if ctx, ok := spans.FromReference(context.Background(), reference); ok || trace.SpanContextFromContext(ctx).IsValid() {
			t.Errorf("%s: the reference %x was accepted", name, reference)
		}
	}
}
