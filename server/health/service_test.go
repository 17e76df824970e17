package health_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/health"
)

func TestCheckReadiness_NamesTheFailedDependency(t *testing.T) {
	reachable := func(context.Context) error { return nil }
	refusing := func(context.Context) error { return errors.New("refused") }
	hanging := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	cases := []struct {
		name            string
		database, cache func(context.Context) error
		want            string
	}{
		{"both reachable", reachable, reachable, ""},
		{"database refuses", refusing, reachable, "database"},
		{"cache refuses", reachable, refusing, "cache"},
		{"cache hangs", reachable, hanging, "cache"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := health.New(health.Probe{Name: "database", Ping: c.database}, health.Probe{Name: "cache", Ping: c.cache})
			resp, err := s.CheckReadiness(t.Context(), nil)
			if c.want == "" {
				if err != nil || resp.GetStatus() != "ok" {
					t.Fatalf("%v, %v", resp, err)
				}
				return
			}
			var refusal *affiliate.Error
			if !errors.As(err, &refusal) || refusal.Reason != affiliate.ReasonServiceUnavailable || refusal.Metadata["dependency"] != c.want {
				t.Errorf("got %v", err)
			}
		})
	}
	if resp, err := health.New(health.Probe{Name: "database", Ping: refusing}).CheckLiveness(t.Context(), nil); err != nil || resp.GetStatus() != "ok" {
		t.Errorf("liveness: %v, %v", resp, err)
	}
}
