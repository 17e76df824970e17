package settings

import (
	"errors"
	"log/slog"
	"net/url"
)

// Traces holds the settings of the traces that a program records.
type Traces struct {
	// TracesURL is the address to which spans are sent in the protocol OTLP over HTTP, with
	// its path, for example http://127.0.0.1:4318/v1/traces. It may contain a user and a
	// password, which are sent with HTTP Basic authentication. If it is empty, nothing is
	// recorded.
	TracesURL string `env:"TRIBUTARY_TRACES_URL"`
	// TracesSample is the share of the requests that are recorded, from 0 to 1.
	TracesSample float64 `env:"TRIBUTARY_TRACES_SAMPLE" envDefault:"0.01"`
}

// Log holds the settings of the log of a program.
type Log struct {
	// LogLevel is the lowest level of the lines in the log.
	LogLevel LogLevel `env:"TRIBUTARY_LOG_LEVEL" envDefault:"info"`
}

// LogLevel is a level of slog. It implements slog.Leveler.
type LogLevel slog.Level

// Level returns the level.
func (l LogLevel) Level() slog.Level { return slog.Level(l) }

// UnmarshalText reads debug, info, warn or error.
func (l *LogLevel) UnmarshalText(text []byte) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[string(text)]
	if !ok {
		return errors.New("must be debug, info, warn or error")
	}
	*l = LogLevel(level)
	return nil
}

func (t Traces) faults() []error {
	var faults []error
	if u, err := url.Parse(t.TracesURL); t.TracesURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "") {
		faults = append(faults, errors.New("TRIBUTARY_TRACES_URL: must be an address such as http://127.0.0.1:4318/v1/traces"))
	}
	// The negation also rejects NaN.
	if !(t.TracesSample >= 0 && t.TracesSample <= 1) {
		faults = append(faults, errors.New("TRIBUTARY_TRACES_SAMPLE: must be between 0 and 1"))
	}
	return faults
}

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
