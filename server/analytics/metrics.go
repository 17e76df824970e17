package analytics

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

// NewGauges returns the gauge of the changes that the analytics do not contain yet. now is
// its clock.
func NewGauges(db *postgres.DB, now func() time.Time) *server.Gauges {
	return server.NewGauges("analytics", func(ctx context.Context, set server.SetGauge) error {
		at, err := rollups.Oldest(ctx, db)
		age := 0.0
		if at != nil {
			age = max(0, now().Sub(*at).Seconds())
		}
		set(0, age)
		return err
	}, server.Gauge{
		Name: "tributary_analytics_oldest_entry_seconds",
		Help: "Age of the oldest change that the analytics do not contain yet, or 0 if they contain all changes.",
	})
}
