package health_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/health"
)

func TestReadinessNamesWhatIsLost(t *testing.T) {
	well := func(context.Context) error { return nil }
	lost := func(context.Context) error { return errors.New("refused") }
	hanging := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	cases := []struct {
		name            string
		database, cache func(context.Context) error
		want            string
	}{
		{"both answer", well, well, ""},
		{"database refuses", lost, well, "database"},
		{"cache refuses", well, lost, "cache"},
		{"cache hangs", well, hanging, "cache"},
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
	if resp, err := health.New(health.Probe{Name: "database", Ping: lost}).CheckLiveness(t.Context(), nil); err != nil || resp.GetStatus() != "ok" {
		t.Errorf("liveness: %v, %v", resp, err)
	}
}
