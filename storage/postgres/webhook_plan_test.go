package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// plan is the plan of a statement in a transaction of these settings.
func (w *webhookWorld) plan(settings, sql string, args ...any) string {
	w.t.Helper()
	tx, err := w.SQL.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(w.t.Context()) }()
	if _, err := tx.Exec(w.t.Context(), settings); err != nil {
		w.t.Fatal(err)
	}
	rows, _ := tx.Query(w.t.Context(), "explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatalf("explain %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

// Whatever is asked of deliveries is read from an index, of the weeks that can have
// it.
func TestDeliveryStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	w := newWebhookWorld(t)
	if _, err := w.Store.EnsureEventPartitions(t.Context(), w.now.AddDate(0, 0, -14), w.now); err != nil {
		t.Fatal(err)
	}
	e := w.create(w.scope)
	// Twenty days, a few of them in the default partition.
	w.fillDeliveries(e, 14_400, w.now, 2*time.Minute)
	w.fillDeliveries(w.create(w.scope), 20_000, w.now, 86*time.Second)
	w.fillDeliveries(w.create(affiliate.Scope{Workspace: w.NewWorkspace(), Mode: w.scope.Mode}), 20_000, w.now, 86*time.Second)
	w.VacuumAnalyze()

	month, week := w.now.AddDate(0, 0, -30), w.now.Truncate(24*time.Hour).AddDate(0, 0, -2)
	dead, event := affiliate.DeliveryDeadLettered, affiliate.NewID[affiliate.Event](w.now)
	const (
		thisWeek = "webhook_deliveries_20260316"
		pkey     = "_pkey"
		byStatus = "_workspace_id_endpoint_id_status_"
		due      = "_workspace_id_endpoint_id_epoch_"
	)
	weeks := []string{thisWeek, "webhook_deliveries_20260309", "webhook_deliveries_20260302", "webhook_deliveries_default"}
	check := func(what, explained string, nodes, indexes []string, index string) {
		t.Helper()
		plan := strings.Join(strings.Fields(explained), " ")
		for _, node := range nodes {
			if !strings.Contains(plan, node) {
				t.Errorf("%s: no %q in\n%s", what, node, explained)
			}
		}
		for _, week := range weeks {
			wanted := slices.Contains(indexes, week)
			if uses := strings.Contains(plan, "using "+week+index) || strings.Contains(plan, "on "+week+index); uses != wanted {
				t.Errorf("%s: %s%s is used: %v in\n%s", what, week, index, uses, explained)
			}
			if looks := strings.Contains(plan, week); looks && !wanted {
				t.Errorf("%s: %s is looked at in\n%s", what, week, explained)
			}
		}
		for _, scan := range []string{"Seq Scan on webhook", "Hash"} {
			if strings.Contains(plan, scan) {
				t.Errorf("%s: %q in\n%s", what, scan, explained)
			}
		}
	}
	list := func(since time.Time, filter affiliate.DeliveryFilter) (page, count string) {
		pageSQL, countSQL, args := postgres.DeliveryListSQL(w.scope, e.ID, since, filter)
		return w.plan("", pageSQL, append(args, 20, 0)...), w.plan("", countSQL, args...)
	}
	ordered := []string{"Limit -> Merge Append", "Index Scan Backward"}
	page, count := list(month, affiliate.DeliveryFilter{})
	check("a page", page, ordered, weeks, pkey)
	check("its total", count, []string{"Limit -> Append"}, weeks, pkey)
	page, _ = list(week, affiliate.DeliveryFilter{})
	// The default partition may have rows of any day.
	check("a page of two days", page, ordered, []string{thisWeek, "webhook_deliveries_default"}, pkey)
	page, count = list(month, affiliate.DeliveryFilter{Status: &dead})
	check("a page of a status", page, ordered, weeks, byStatus)
	check("its total", count, []string{"Limit -> Append"}, weeks, byStatus)
	page, _ = list(month, affiliate.DeliveryFilter{Event: &event})
	check("an event's", page, []string{"Index Scan"}, weeks[:1], pkey)

	one := postgres.DeliveryArgs(w.scope, e.ID, affiliate.NewID[affiliate.Delivery](w.now))
	check("one", w.plan("", postgres.SelectDeliverySQL, one), []string{"Index Scan"}, weeks[:1], pkey)
	one["epoch"], one["most"], one["at"], one["ended"] = 1, postgres.MaxExtra, w.now, w.now
	check("a retry", w.plan("", postgres.RetryDeliverySQL, one), []string{"Index Scan"}, weeks[:1], pkey)

	job := affiliate.RecoverDeliveries{
		Workspace: w.scope.Workspace, Mode: w.scope.Mode, Endpoint: e.ID, Since: month, Until: w.now, AskedAt: w.now,
		Statuses: []affiliate.DeliveryStatus{affiliate.DeliveryDeadLettered, affiliate.DeliveryCanceled},
	}
	check("what is to be recovered", w.plan("", postgres.CountRecoverableSQL, postgres.RecoverableArgs(job, 1)), nil, weeks, byStatus)
	args := postgres.RecoverableArgs(job, 1)
	args["at"], args["limit"] = w.now, 5000
	check("recovering", w.plan(postgres.BlockPlan, postgres.RecoverSomeSQL, args), []string{"Nested Loop"}, weeks, byStatus)
	check("recovering", w.plan(postgres.BlockPlan, postgres.RecoverSomeSQL, args), nil, weeks, pkey)

	canceled := postgres.DeliveryArgs(w.scope, e.ID, affiliate.DeliveryID{})
	canceled["epoch"], canceled["limit"], canceled["ended"] = 2, 5000, w.now
	check("canceling", w.plan(postgres.BlockPlan, postgres.CancelSomeSQL, canceled), []string{"Nested Loop"}, weeks, due)
	check("canceling", w.plan(postgres.BlockPlan, postgres.CancelSomeSQL, canceled), nil, weeks, pkey)
}
