// Package health answers load balancers.
//
// Liveness says that the process runs, and nothing else: a lost dependency is
// no reason to restart it. Readiness says that the database and the cache
// answered within a second.
package health

import (
	"context"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// probeTimeout bounds one look at one dependency.
const probeTimeout = time.Second

// Probe asks one dependency whether it answers.
type Probe struct {
	// Name is what the answer calls it: database, cache.
	Name string
	Ping func(context.Context) error
}

// Service implements affiliate.v1.HealthService.
type Service struct {
	affiliatev1.UnimplementedHealthServiceServer
	probes []Probe
}

// New makes the service.
func New(probes ...Probe) *Service { return &Service{probes: probes} }

// CheckLiveness always answers.
func (s *Service) CheckLiveness(context.Context, *affiliatev1.CheckLivenessRequest) (*affiliatev1.HealthStatus, error) {
	return &affiliatev1.HealthStatus{Status: "ok"}, nil
}

// CheckReadiness asks every dependency and names the first that is lost.
func (s *Service) CheckReadiness(ctx context.Context, _ *affiliatev1.CheckReadinessRequest) (*affiliatev1.HealthStatus, error) {
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}
	return &affiliatev1.HealthStatus{Status: "ok"}, nil
}

// Ready is the same for the metrics port.
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answers := make(chan string, len(s.probes))
	for _, p := range s.probes {
		go func() {
			if p.Ping(ctx) != nil {
				answers <- p.Name
				return
			}
			answers <- ""
		}()
	}
	for range s.probes {
		if lost := <-answers; lost != "" {
			return &affiliate.Error{
				Reason:   affiliate.ReasonServiceUnavailable,
				Message:  fmt.Sprintf("The %s is not reachable.", lost),
				Metadata: map[string]string{"dependency": lost, "retry_after": "1"},
			}
		}
	}
	return nil
}
