package webhook_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// Each filter of the list reads an index of the order of the list, at a million deliveries of one endpoint.
func TestDeliveryFilters_UseIndexesAtAMillionRows(t *testing.T) {
	pgtest.Slow(t)
	f := newQueueAt(t, time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC))
	if _, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, f.Now().AddDate(0, 0, -21), f.Now()); err != nil {
		t.Fatal(err)
	}
	e := f.NewEndpoint(f.Scope)
	f.fillDeliveries(f.Scope, e, 1_000_000, f.Now(), 1500*time.Millisecond)
	f.VacuumAnalyze("webhook_deliveries")
	failed, day, next := webhook.DeliveryFailed, f.Now().AddDate(0, 0, -9), f.Now().AddDate(0, 0, -8)
	scans := pgtest.ScansOf("webhook_deliveries_2026") // the default partition is empty
	for name, tc := range map[string]struct {
		filter webhook.DeliveryFilter
		index  string
	}{
		"status":          {webhook.DeliveryFilter{Status: &failed}, "_workspace_id_endpoint_id_status_"},
		"rare type":       {webhook.DeliveryFilter{Type: affiliate.EventCommissionCreated}, "_workspace_id_endpoint_id_event_"},
		"period":          {webhook.DeliveryFilter{Created: affiliate.Period{From: &day, Before: &next}}, "_pkey"},
		"type and period": {webhook.DeliveryFilter{Type: affiliate.EventPayoutPaid, Created: affiliate.Period{From: &day, Before: &next}}, ""},
	} {
		page, count, args := webhooks.DeliveryListSQL(f.Scope, e, f.Now().AddDate(0, 0, -30), tc.filter)
		args["limit"], args["offset"] = 20, 0
		pgtest.CheckPlan(t, name+", page", f.Plan(page, args), []string{"Index Scan", tc.index}, scans)
		pgtest.CheckPlan(t, name+", total", f.Plan(count, args), []string{tc.index}, scans)
	}
}
