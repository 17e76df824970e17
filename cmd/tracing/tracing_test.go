package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace"

	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
)

func open(t *testing.T, url string, sample float64, log *slog.Logger) (*tracing.Traces, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	traces, err := tracing.Open(settings.Traces{TracesURL: url, TracesSample: sample}, "test", registry, log)
	if err != nil {
		t.Fatal(err)
	}
	return traces, registry
}

// remote returns a context with the span of a caller.
func remote(flags trace.TraceFlags) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags,
	}))
}

func TestProviders_DecideWhatIsRecorded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	none, _ := open(t, server.URL, 0, slog.New(slog.DiscardHandler))
	all, _ := open(t, server.URL, 1, slog.New(slog.DiscardHandler))
	defer none.Close()
	defer all.Close()
	noParent, recorded, notRecorded := context.Background(), remote(trace.FlagsSampled), remote(0)
	for name, c := range map[string]struct {
		provider trace.TracerProvider
		parent   context.Context
		want     bool
	}{
		"public, share 0, caller recorded":      {none.Public, recorded, false},
		"public, share 1, caller not recorded":  {all.Public, notRecorded, true},
		"public, share 1, no caller":            {all.Public, noParent, true},
		"trusted, share 0, caller recorded":     {none.Trusted, recorded, true},
		"trusted, share 1, caller not recorded": {all.Trusted, notRecorded, false},
		"trusted, share 0, no caller":           {none.Trusted, noParent, false},
		"trusted, share 1, no caller":           {all.Trusted, noParent, true},
		"inner, share 0, parent recorded":       {none.Inner, recorded, true},
		"inner, share 1, parent not recorded":   {all.Inner, notRecorded, false},
		"inner, share 1, no parent":             {all.Inner, noParent, false},
	} {
		_, span := c.provider.Tracer("test").Start(c.parent, "span")
		if got := span.IsRecording(); got != c.want {
			t.Errorf("%s: recorded: %t, want %t", name, got, c.want)
		}
		if parent := trace.SpanContextFromContext(c.parent); parent.IsValid() && span.SpanContext().TraceID() != parent.TraceID() {
			t.Errorf("%s: the span does not continue the trace of its parent", name)
		}
		span.End()
	}
}

// A receiver that does not respond must not block requests, and its failure is logged once.
func TestClient_DropsSpansThatReceiverRefuses(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	var log bytes.Buffer
	traces, registry := open(t, strings.Replace(server.URL, "http://", "http://user:hunter2@", 1), 1, tracing.NewLogger(&log, slog.LevelInfo))
	const spans = 2000 // several requests to the receiver
	for range spans {
		_, span := traces.Public.Tracer("test").Start(context.Background(), "span")
		span.End()
	}
	traces.Close()
	want := `
		# HELP tributary_trace_spans_total Recorded spans, by result: exported, or dropped because the receiver of traces did not accept them in time.
		# TYPE tributary_trace_spans_total counter
		tributary_trace_spans_total{result="dropped"} 2000
		tributary_trace_spans_total{result="exported"} 0
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "traces cannot be exported"); n != 1 || requests.Load() < 2 {
		t.Errorf("%d failed requests caused %d log lines, want 1:\n%s", requests.Load(), n, log.String())
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Error("the log contains the password")
	}
}

func TestLogger_AddsIDsOfRecordedSpan(t *testing.T) {
	var out bytes.Buffer
	log := tracing.NewLogger(&out, slog.LevelInfo).With("part", "test")
	log.InfoContext(remote(0), "not recorded")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("a line without a recorded span has a trace: %s", out.String())
	}
	log.InfoContext(remote(trace.FlagsSampled), "recorded")
	if want := `"part":"test","trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"`; !strings.Contains(out.String(), want) {
		t.Errorf("the line does not contain %s: %s", want, out.String())
	}
}
