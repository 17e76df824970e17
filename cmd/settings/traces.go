package settings

import (
	"errors"
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
