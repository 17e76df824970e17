package health_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/health"
)

func TestCheckReadiness_NamesTheFailedDependency(t *testing.T) {
	reachable := func(context.Context) error { return nil }
	refusing := func(context.Context) error { return errors.New("refused") }
	hanging := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, tc := range []struct {
		name            string
		database, cache func(context.Context) error
		wantFailed      string // empty if the service is ready
	}{
		{"both reachable", reachable, reachable, ""},
		{"database refuses", refusing, reachable, "database"},
		{"cache refuses", reachable, refusing, "cache"},
		{"cache hangs", reachable, hanging, "cache"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := health.New(time.Now, health.Probe{Name: "database", Ping: tc.database}, health.Probe{Name: "cache", Ping: tc.cache})
			got, err := s.CheckReadiness(t.Context(), nil)
			if tc.wantFailed == "" {
				if err != nil || got.GetStatus() != "ok" {
					t.Errorf("CheckReadiness returned %v, error %v, want the status ok", got, err)
				}
				return
			}
			var refusal *affiliate.Error
			if !errors.As(err, &refusal) || refusal.Reason != affiliate.ReasonServiceUnavailable || refusal.Metadata["dependency"] != tc.wantFailed {
				t.Errorf("CheckReadiness returned the error %v, want %s with the dependency %s", err, affiliate.ReasonServiceUnavailable, tc.wantFailed)
			}
		})
	}
}

func TestCheckLiveness_IgnoresDependencies(t *testing.T) {
	service := health.New(time.Now, health.Probe{Name: "database", Ping: func(context.Context) error { return errors.New("refused") }})
	if got, err := service.CheckLiveness(t.Context(), nil); err != nil || got.GetStatus() != "ok" {
		t.Errorf("CheckLiveness returned %v, error %v, want the status ok", got, err)
	}
}
