package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// healthService begins the names of the methods that are health checks.
const healthService = "/affiliate.v1.HealthService/"

// conversionReports are the methods that report conversions.
var conversionReports = []string{affiliatev1.ConversionService_ReportConversion_FullMethodName, affiliatev1.ConversionService_ReportConversions_FullMethodName}

// metrics measures requests. It has no label for the route, because the core measures each
// method. The exception is the report of conversions: it fails at the gateway if no core is
// reached.
type metrics struct {
	seconds           *prometheus.HistogramVec
	failedConversions prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tributary_gateway_request_seconds",
		Help: "Time from the arrival of a request to its complete response, by class of the HTTP status: 2xx to 5xx. " +
			"Health checks, streams of events and requests without a response are not counted.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"class"}), failedConversions: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tributary_gateway_conversion_reports_failed_total",
		Help: "Reports of one or more conversions that got a response of the class 5xx.",
	})}
	for _, class := range []string{"2xx", "3xx", "4xx", "5xx"} {
		m.seconds.WithLabelValues(class)
	}
	registry.MustRegister(m.seconds, m.failedConversions)
	return m
}

// observe records a request. It does not count an error response to a client that has
// closed its connection, because closing the connection has caused the error.
func (m *metrics) observe(c *call, took time.Duration) {
	switch {
	case c.status == 0, c.status >= http.StatusInternalServerError && c.request.Context().Err() != nil:
		return
	case c.route != nil && (contract.EventStream(c.route.FullMethod) || strings.HasPrefix(c.route.FullMethod, healthService)):
		return
	}
	if c.route != nil && c.status >= http.StatusInternalServerError && slices.Contains(conversionReports, c.route.FullMethod) {
		m.failedConversions.Inc()
	}
	m.seconds.WithLabelValues(strconv.Itoa(c.status/100) + "xx").Observe(took.Seconds())
}
