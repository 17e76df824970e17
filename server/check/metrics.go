package check

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
)

// NewGauges returns the gauges of the latest results. A check that has never run counts as
// if it had run at the start of this process, so that an alert about old results does not
// fire for a new service.
func NewGauges(db *postgres.DB, now func() time.Time) *server.Gauges {
	started := now()
	return server.NewGauges("checks", func(ctx context.Context, set server.SetGauge) error {
		checks, err := checks.Latest(ctx, db)
		if err != nil {
			return err
		}
		oldest := now()
		for _, c := range checks {
			at := started
			if c.CheckedAt != nil {
				at = *c.CheckedAt
			}
			if at.Before(oldest) {
				oldest = at
			}
			set(0, float64(c.Violated), c.Name)
		}
		set(1, now().Sub(oldest).Seconds())
		return nil
	},
		server.Gauge{
			Name: "tributary_check_violations", Labels: []string{"check"},
			Help: "Differences that the latest run of a consistency check found, by check.",
		},
		server.Gauge{
			Name: "tributary_check_oldest_result_seconds",
			Help: "Time since the latest run of the consistency check that has not run for the longest time.",
		},
	)
}
