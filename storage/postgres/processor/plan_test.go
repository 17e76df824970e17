package processor

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The statements read ranges of indexes. They do not read or sort all events of a workspace,
// of which there may be millions.
func TestStatements_UseIndexes(t *testing.T) {
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	shop := f.NewShop(affiliate.ModeTest)
	shops := []*pgtest.Shop{shop, shop.InOtherMode(), f.NewShop(affiliate.ModeTest), f.NewShop(affiliate.ModeLive)}
	// The ids have the order of the rows. The planner measures how well both orders agree, so with
	// the order of random ids its choice for a few rows would differ from run to run.
	connectionOf := func(s *pgtest.Shop) processor.ConnectionID {
		return processor.ConnectionIDOf(s.Scope, conversion.Stripe)
	}
	slices.SortFunc(shops, func(a, b *pgtest.Shop) int {
		return cmp.Or(
			strings.Compare(a.Scope.Workspace.String(), b.Scope.Workspace.String()),
			strings.Compare(connectionOf(a).String(), connectionOf(b).String()))
	})
	for _, s := range shops {
		connection := connectionOf(s)
		f.Exec(`
			insert into processor_events (workspace_id, connection_id, id, mode, type, account_id, resync, status, happened_at, received_at)
			select $1, $2, 'evt_' || n, $3, 'invoice.paid', 'a', false, case when n % 100 = 0 then 'received' else 'applied' end,
				$4::timestamptz - n * interval '15 minutes', $4::timestamptz - n * interval '15 minutes'
			from generate_series(1, 5000) n`, s.Scope.Workspace, connection, s.Scope.Mode, f.Now())
		f.Exec(`
			insert into processor_signature_failures (workspace_id, connection_id, hour, failures)
			select $1, $2, date_trunc('hour', $3::timestamptz) - n * interval '1 hour', 1 from generate_series(0, 999) n`, s.Scope.Workspace, connection, f.Now())
	}
	f.VacuumAnalyze("processor_events", "processor_signature_failures")
	check := func(name, sql string, required []string, forbidden []string, args ...any) {
		t.Helper()
		pgtest.CheckPlan(t, name, f.Plan(sql, args...), required, append(forbidden, "Seq Scan on processor", "Bitmap"))
	}
	workspace, mode, connection := shop.Scope.Workspace, shop.Scope.Mode, connectionOf(shop)
	check("list", listEvents, []string{"Limit -> Index Scan using processor_events_list"}, []string{"Sort"}, workspace, mode, 20, 0)
	check("a later page", listEvents, []string{"Limit -> Index Scan using processor_events_list"}, []string{"Sort"}, workspace, mode, 20, 2_000)
	check("total", postgres.CountUpTo(affiliate.MaxTotal, whereEvents), []string{"Index Only Scan using processor_events"}, nil, workspace, mode)

	check("abandoned events", abandonedEvents, []string{"processor_events_waiting"}, []string{"Sort"}, f.Now().AddDate(0, 0, -4), 1_000)

	db := f.DB
	health, err := Health(t.Context(), db, processor.Connection{Scope: shop.Scope, ID: connection}, f.Now())
	if err != nil || health.LastEventAt == nil || health.OldestWaitingAt == nil || health.SignatureFailures != 24 {
		t.Fatalf("Health returned %+v, %v", health, err)
	}
	check("health", readHealth,
		[]string{"processor_events_list", "processor_events_waiting", "processor_signature_failures_pkey"}, []string{"Sort"},
		workspace, mode, connection, f.Now().Add(-24*time.Hour))
	if n, err := DeleteProcessorEvents(t.Context(), db, f.Now().AddDate(0, 0, -26), 10); n != 10 || err != nil {
		t.Fatalf("DeleteProcessorEvents returned %d, %v, want 10", n, err)
	}
	check("deletion", deleteEvents, []string{"processor_events_by_age", "processor_events_pkey"}, []string{"Sort"},
		f.Now().AddDate(0, 0, -26), 1_000)
}
