package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// requestCounts returns the number of measured requests by class of the status.
func requestCounts(t *testing.T, registry prometheus.Gatherer) map[string]uint64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "tributary_gateway_request_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			counts[metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleCount()
		}
	}
	return counts
}

func TestMetrics_CountRequestsByClass(t *testing.T) {
	registry := prometheus.NewRegistry()
	var failure error
	respond := func(context.Context, string, proto.Message) (proto.Message, error) { return nil, failure }
	f := newFixture(t, respond, func(c *Config) { c.Registry = registry })
	if counts := requestCounts(t, registry); len(counts) != 4 {
		t.Errorf("at the start there are the classes %v, want four", counts)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name    string
		path    string
		failure error
		ctx     context.Context
		class   string // empty if the request is not counted
	}{
		{"a response", "/api/v1/programs", nil, nil, "2xx"},
		{"an unknown path", "/api/v1/nothing", nil, nil, "4xx"},
		{"a refusal of the core", "/api/v1/programs", status.Error(codes.PermissionDenied, "no"), nil, "4xx"},
		{"a failure of the core", "/api/v1/programs", status.Error(codes.Internal, "broken"), nil, "5xx"},
		{"a core that is not reachable", "/api/v1/programs", status.Error(codes.Unavailable, "gone"), nil, "5xx"},
		{"a client that has gone", "/api/v1/programs", nil, canceled, ""},
		{"a health check", "/api/v1/health/ready", status.Error(codes.Unavailable, "not ready"), nil, ""},
	} {
		before := requestCounts(t, registry)
		failure = tc.failure
		ctx := tc.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, tc.path, strings.NewReader(""))
		f.server.Config.Handler.ServeHTTP(httptest.NewRecorder(), request)
		for class, count := range requestCounts(t, registry) {
			want := before[class]
			if class == tc.class {
				want++
			}
			if count != want {
				t.Errorf("%s: the class %s has %d requests, want %d", tc.name, class, count, want)
			}
		}
	}
}

// Without a core, only the gateway counts reports of conversions that fail.
func TestMetrics_CountFailedConversionReports(t *testing.T) {
	registry := prometheus.NewRegistry()
	var failure error
	respond := func(context.Context, string, proto.Message) (proto.Message, error) { return nil, failure }
	f := newFixture(t, respond, func(c *Config) { c.Registry = registry })
	gone := status.Error(codes.Unavailable, "gone")
	want := 0
	for _, tc := range []struct {
		name, path, body string
		failure          error
		counted          bool
	}{
		{"a core that is not reachable", "/api/v1/conversions", "{}", gone, true},
		{"an internal error", "/api/v1/conversions", "{}", status.Error(codes.Internal, "broken"), true},
		{"a batch", "/api/v1/conversions/batch", `{"conversions": [{}]}`, gone, true},
		{"a body that is not JSON", "/api/v1/conversions", "{", gone, true},
		{"an invalid conversion", "/api/v1/conversions", "{}", status.Error(codes.InvalidArgument, "no"), false},
		{"another method", "/api/v1/programs", "{}", gone, false},
	} {
		failure = tc.failure
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tc.path, strings.NewReader(tc.body))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		f.server.Config.Handler.ServeHTTP(recorder, request)
		if tc.counted {
			want++
		}
		text := fmt.Sprintf("# HELP %[1]s Reports of one or more conversions that got a response of the class 5xx.\n# TYPE %[1]s counter\n%[1]s %[2]d\n",
			"tributary_gateway_conversion_reports_failed_total", want)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "tributary_gateway_conversion_reports_failed_total"); err != nil {
			t.Errorf("%s, with the response %d: %v", tc.name, recorder.Code, err)
		}
	}
}

func TestMetrics_CountPanics(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newFixture(t, nil, func(c *Config) { c.Registry = registry })
	handler := f.server.Config.Handler.(*gateway)
	handler.mux = nil // every request panics
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/programs", nil))
	if count := requestCounts(t, registry)["5xx"]; recorder.Code != http.StatusInternalServerError || count != 1 {
		t.Errorf("after a panic with the response %d, %d requests of the class 5xx are counted, want 1", recorder.Code, count)
	}
}
