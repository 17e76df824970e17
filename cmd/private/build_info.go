package private

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/cmd/version"
)

// newBuildInfo returns a gauge whose labels describe this binary.
func newBuildInfo() prometheus.Collector {
	release, commit := version.Describe()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "tributary_build_info",
		Help:        "1, with the version and the commit of the binary as labels.",
		ConstLabels: prometheus.Labels{"version": release, "commit": commit},
	})
	info.Set(1)
	return info
}
