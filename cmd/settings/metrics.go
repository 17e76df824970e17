package settings

// The next types hold the address of the private port of a program (cmd/private). The
// address must be in a private network. The default ports differ, so that all programs can
// run on one machine. The command healthcheck reads no other setting.
type (
	// CoreMetrics belongs to the core.
	CoreMetrics struct {
		MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9100"`
	}
	// GatewayMetrics belongs to the gateway.
	GatewayMetrics struct {
		MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9101"`
	}
	// CollectorMetrics belongs to the collector.
	CollectorMetrics struct {
		MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9103"`
	}
	// LandingMetrics belongs to the landing service.
	LandingMetrics struct {
		LandingMetricsListen string `env:"TRIBUTARY_LANDING_METRICS_LISTEN" envDefault:"127.0.0.1:9102"`
	}
)
