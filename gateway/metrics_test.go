package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
