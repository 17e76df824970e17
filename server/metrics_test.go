package server

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestMetrics_CountCallsWithoutHealthChecks(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	if n, err := testutil.GatherAndCount(registry, "tributary_core_calls_total"); err != nil || n != 17 {
		t.Errorf("there are %d time series at the start and the error %v, want one for each of 17 codes", n, err)
	}
	now := time.Now()
	for _, tc := range []struct {
		name, method string
		code         codes.Code
		counted      float64
		measured     string // the label method of the histogram; empty if the call is not measured
	}{
		{"success", affiliatev1.ConversionService_ReportConversion_FullMethodName, codes.OK, 1, affiliatev1.ConversionService_ReportConversion_FullMethodName},
		{"failure", affiliatev1.ConversionService_ReportConversion_FullMethodName, codes.Internal, 1, affiliatev1.ConversionService_ReportConversion_FullMethodName},
		{"readiness", affiliatev1.HealthService_CheckReadiness_FullMethodName, codes.Unavailable, 0, affiliatev1.HealthService_CheckReadiness_FullMethodName},
		{"gRPC health", "/grpc.health.v1.Health/Check", codes.OK, 0, "/grpc.health.v1.Health/Check"},
		{"unknown method", "/no.Service/Method", codes.Unimplemented, 1, "other"},
		{"long stream", affiliatev1.NotificationService_StreamPartnerNotifications_FullMethodName, codes.OK, 1, ""},
	} {
		calls := func() float64 { return testutil.ToFloat64(m.calls.WithLabelValues(tc.code.String())) }
		before, series := calls(), testutil.CollectAndCount(m.seconds)
		ctx := m.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: tc.method})
		m.HandleRPC(ctx, &stats.Begin{})
		m.HandleRPC(ctx, &stats.End{BeginTime: now, EndTime: now.Add(time.Second), Error: status.Error(tc.code, "text")})
		if counted := calls() - before; counted != tc.counted {
			t.Errorf("%s: %v calls were counted, want %v", tc.name, counted, tc.counted)
		}
		added := testutil.CollectAndCount(m.seconds) - series
		if tc.measured == "" && added != 0 || tc.measured != "" && !m.seconds.DeleteLabelValues(tc.measured, tc.code.String()) {
			t.Errorf("%s: the histogram got %d time series, want the method %q", tc.name, added, tc.measured)
		}
	}
}
