// Package health serves the liveness and readiness checks of load balancers.
//
// The liveness check succeeds if the process runs. It does not test dependencies, because
// a restart of the process would not repair them. The readiness check succeeds if the
// database and the cache (Redis) respond within a second.
package health

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// probeTimeout is the time limit of one readiness check.
const probeTimeout = time.Second

// Probe checks whether a dependency of the service can be reached.
type Probe struct {
	// Name is the dependency's name in the response: database or cache.
	Name string
	Ping func(context.Context) error
}

// Service implements affiliate.v1.HealthService.
type Service struct {
	affiliatev1.UnimplementedHealthServiceServer
	now    func() time.Time
	probes []Probe
}

// New returns a Service that checks readiness with the probes. now returns the time with
// which gateways compare their clocks.
func New(now func() time.Time, probes ...Probe) *Service { return &Service{now: now, probes: probes} }

// TimeKey is a key in the response metadata of CheckLiveness. Its value is the current time
// in the format time.RFC3339Nano.
const TimeKey = "x-time"

// CheckLiveness always returns ok.
func (s *Service) CheckLiveness(ctx context.Context, _ *affiliatev1.CheckLivenessRequest) (*affiliatev1.HealthStatus, error) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(TimeKey, s.now().UTC().Format(time.RFC3339Nano))) // fails only outside of a call
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

// Ready checks all dependencies like CheckReadiness. The readiness endpoint on the
// metrics port calls it.
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	failed := make(chan string, len(s.probes)) // receives the name of each failed probe, and "" for each other probe
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
