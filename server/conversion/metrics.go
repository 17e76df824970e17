package conversion

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
)

// Metrics counts the reports of conversions, by merchants' servers and payment processors.
// Labels contain no workspaces, so that the number of time series stays small.
type Metrics struct{ reports *prometheus.CounterVec }

// The outcomes of reports that record nothing.
const (
	outcomeDuplicate = string(affiliate.ReasonConversionDuplicate)
	outcomeFailed    = string(affiliate.ReasonInternal)
)

// NewMetrics returns Metrics and registers them in registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tributary_conversions_total",
		Help: "Reports of conversions, by mode and outcome: the code of the attribution reason if the conversion was recorded, CONVERSION_DUPLICATE, " +
			"or INTERNAL_ERROR if the database failed. Reports that the API refused for another reason are not counted.",
	}, []string{"mode", "outcome"})}
	outcomes := []string{outcomeDuplicate, outcomeFailed}
	for _, reason := range attribution.DecisionReasons() {
		outcomes = append(outcomes, string(reason))
	}
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		for _, outcome := range outcomes {
			m.reports.WithLabelValues(string(mode), outcome)
		}
	}
	registry.MustRegister(m.reports)
	return m
}

// observe counts a report with the error of recorder.record.
func (m *Metrics) observe(r *report, err error) {
	outcome := string(r.Recorded().Decision.Reason)
	var refusal *affiliate.Error
	switch {
	case errors.Is(err, affiliate.Refuse(affiliate.ReasonConversionDuplicate)):
		outcome = outcomeDuplicate
	case errors.As(err, &refusal), r.Replay() != nil, errors.Is(err, context.Canceled): // the caller has gone
		return
	case err != nil:
		outcome = outcomeFailed
	}
	m.reports.WithLabelValues(string(r.Conversion.Scope.Mode), outcome).Inc()
}
