package webhook_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// plan is the plan of a statement in a transaction of these settings.
func (q *queue) plan(settings, sql string, args ...any) string {
	q.t.Helper()
	tx, err := q.SQL.Begin(q.t.Context())
	if err != nil {
		q.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(q.t.Context()) }()
	if _, err := tx.Exec(q.t.Context(), settings); err != nil {
		q.t.Fatal(err)
	}
	rows, _ := tx.Query(q.t.Context(), "explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		q.t.Fatalf("explain %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

// Whatever is asked of deliveries is read from an index, of the weeks that can have
// it.
func TestDeliveryStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	w := newQueueAt(t, time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC))
	if _, err := w.Store.EnsureEventPartitions(t.Context(), w.now.AddDate(0, 0, -14), w.now); err != nil {
		t.Fatal(err)
	}
	e := w.bare(w.scope)
	// Twenty days, a few of them in the default partition.
	w.fillDeliveries(e, 14_400, w.now, 2*time.Minute)
	w.fillDeliveries(w.bare(w.scope), 20_000, w.now, 86*time.Second)
	w.fillDeliveries(w.bare(affiliate.Scope{Workspace: w.NewWorkspace(), Mode: w.scope.Mode}), 20_000, w.now, 86*time.Second)
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
		pageSQL, countSQL, args := webhook.DeliveryListSQL(w.scope, e.ID, since, filter)
		args["limit"], args["offset"] = 20, 0
		return w.plan("", pageSQL, args), w.plan("", countSQL, args)
	}
	ordered := []string{"Limit -> Merge Append", "Index Scan Backward"}
	page, count := list(month, affiliate.DeliveryFilter{})
	check("a page", page, ordered, weeks, pkey)
	check("its total", count, []string{"Limit -> Append", "Index Only Scan"}, weeks, pkey)
	if strings.Contains(count, "Index Scan") || strings.Contains(count, "Bitmap") {
		t.Errorf("the total reads the table:\n%s", count)
	}
	page, _ = list(week, affiliate.DeliveryFilter{})
	// The default partition may have rows of any day.
	check("a page of two days", page, ordered, []string{thisWeek, "webhook_deliveries_default"}, pkey)
	page, count = list(month, affiliate.DeliveryFilter{Status: &dead})
	check("a page of a status", page, ordered, weeks, byStatus)
	check("its total", count, []string{"Limit -> Append"}, weeks, byStatus)
	page, _ = list(month, affiliate.DeliveryFilter{Event: &event})
	check("an event's", page, []string{"Index Scan"}, weeks[:1], pkey)

	one := webhook.DeliveryArgs(w.scope, e.ID, affiliate.NewID[affiliate.Delivery](w.now))
	check("one", w.plan("", webhook.SelectDeliverySQL, one), []string{"Index Scan"}, weeks[:1], pkey)
	check("one, locked", w.plan("", webhook.LockDeliverySQL, one), []string{"Index Scan"}, weeks[:1], pkey)
	one["status"], one["tier"], one["extra"], one["epoch"], one["due_at"], one["completed_at"] = "failed", 1, 1, 1, w.now, nil
	check("one, updated", w.plan("", webhook.UpdateDeliverySQL, one), []string{"Index Scan"}, weeks[:1], pkey)

	job := affiliate.RecoverDeliveries{
		Workspace: w.scope.Workspace, Mode: w.scope.Mode, Endpoint: e.ID, Since: month, Until: w.now, AskedAt: w.now,
		Statuses: []affiliate.DeliveryStatus{affiliate.DeliveryDeadLettered, affiliate.DeliveryCanceled},
	}
	check("what is to be recovered", w.plan("", webhook.CountRecoverableSQL, webhook.RecoverableArgs(job, 1)), nil, weeks, byStatus)
	args := webhook.RecoverableArgs(job, 1)
	args["at"], args["limit"] = w.now, 5000
	check("recovering", w.plan(webhook.BlockPlan, webhook.RecoverBlockSQL, args), []string{"Nested Loop"}, weeks, byStatus)
	check("recovering", w.plan(webhook.BlockPlan, webhook.RecoverBlockSQL, args), nil, weeks, pkey)

	canceled := webhook.DeliveryArgs(w.scope, e.ID, affiliate.DeliveryID{})
	canceled["epoch"], canceled["limit"], canceled["ended"] = 2, 5000, w.now
	check("canceling", w.plan(webhook.BlockPlan, webhook.CancelBlockSQL, canceled), []string{"Nested Loop"}, weeks, due)
	check("canceling", w.plan(webhook.BlockPlan, webhook.CancelBlockSQL, canceled), nil, weeks, pkey)
}

// bare makes an endpoint without deliveries.
func (q *queue) bare(scope affiliate.Scope) affiliate.Endpoint {
	q.t.Helper()
	e := affiliate.Endpoint{ID: affiliate.NewID[affiliate.Endpoint](q.now), Scope: scope}
	q.Exec(`insert into webhook_endpoints (workspace_id, id, mode, url, subscriptions, active, created_at, updated_at, version)
		values ($1, $2, $3, 'https://example.com/', '{*}', true, $4, $4, 1)`, scope.Workspace, e.ID, scope.Mode, q.now)
	return e
}

// fillDeliveries stores deliveries of events, one each step back from now: of a
// hundred, one was given up, one is pending, one has failed, and the rest is
// delivered.
func (q *queue) fillDeliveries(e affiliate.Endpoint, n int, now time.Time, step time.Duration) {
	q.t.Helper()
	q.Exec(`
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, status, due_at, created_at, completed_at)
		select $1, $2, u.id, (a.at at time zone 'UTC')::date, $3, u.id, 'payout.paid', 1,
			case n % 100 when 0 then 'dead_lettered' when 1 then 'pending' when 2 then 'failed' else 'delivered' end,
			case when n % 100 in (1, 2) then a.at end, a.at, case when n % 100 not in (1, 2) then a.at end
		from generate_series(0, $4::integer - 1) n
		cross join lateral (select $5::timestamptz - n * $6::interval as at) a
		cross join lateral (
			select (lpad(to_hex((extract(epoch from a.at) * 1000)::bigint), 12, '0') || '7' || substr(md5($2::uuid::text || n), 1, 3) || '8' || substr(md5($2::uuid::text || n), 4, 15))::uuid as id
		) u`, e.Scope.Workspace, e.ID, e.Scope.Mode, n, now, step)
}
