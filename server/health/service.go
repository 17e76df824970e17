// Package health serves the liveness and readiness checks of load balancers.
//
// Liveness means only that the process runs, because restarting it would not repair a
// failed dependency. Readiness means that the database and the cache responded within a
// second.
package health

import (
	"context"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// probeTimeout is the time limit of one readiness check.
const probeTimeout = time.Second

// Probe checks whether one dependency is reachable.
type Probe struct {
	// Name is the dependency's name in the response: database or cache.
	Name string
	Ping func(context.Context) error
}

// Service implements affiliate.v1.HealthService.
type Service struct {
	affiliatev1.UnimplementedHealthServiceServer
	probes []Probe
}

// New returns a Service.
func New(probes ...Probe) *Service { return &Service{probes: probes} }

// CheckLiveness always returns ok.
func (s *Service) CheckLiveness(context.Context, *affiliatev1.CheckLivenessRequest) (*affiliatev1.HealthStatus, error) {
	return &affiliatev1.HealthStatus{Status: "ok"}, nil
}

// CheckReadiness checks all dependencies. Errors: SERVICE_UNAVAILABLE with the name of
// the first dependency that failed.
func (s *Service) CheckReadiness(ctx context.Context, _ *affiliatev1.CheckReadinessRequest) (*affiliatev1.HealthStatus, error) {
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}
	return &affiliatev1.HealthStatus{Status: "ok"}, nil
}

// Ready is CheckReadiness for the readiness endpoint on the metrics port.
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	failed := make(chan string, len(s.probes)) // the name, or "" if the probe succeeded
	for _, p := range s.probes {
		go func() {
			if p.Ping(ctx) != nil {
				failed <- p.Name
				return
			}
			failed <- ""
		}()
	}
	for range s.probes {
		if name := <-failed; name != "" {
			return &affiliate.Error{
				Reason:   affiliate.ReasonServiceUnavailable,
				Message:  fmt.Sprintf("The %s is not reachable.", name),
				Metadata: map[string]string{"dependency": name, "retry_after": "1"},
			}
		}
	}
	return nil
}
