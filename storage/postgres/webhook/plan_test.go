package webhook_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// Every statement on deliveries must use an index, and only the indexes of partitions
// that can contain rows of the result.
func TestDeliveryStatements_UseIndexesOfNeededPartitions(t *testing.T) {
	t.Parallel()
	f := newQueueAt(t, time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC))
	if _, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, f.Now().AddDate(0, 0, -14), f.Now()); err != nil {
		t.Fatal(err)
	}
	e := f.NewEndpoint(f.Scope)
	// The deliveries are from the last twenty days. The oldest of these days have no
	// partition of their own, so their deliveries are in the default partition.
	f.fillDeliveries(f.Scope, e, 14_400, f.Now(), 2*time.Minute)
	f.fillDeliveries(f.Scope, f.NewEndpoint(f.Scope), 20_000, f.Now(), 86*time.Second)
	other := affiliate.Scope{Workspace: f.NewWorkspace(), Mode: f.Scope.Mode}
	f.fillDeliveries(other, f.NewEndpoint(other), 20_000, f.Now(), 86*time.Second)
	f.VacuumAnalyze()

	month, week := f.Now().AddDate(0, 0, -30), f.Now().Truncate(24*time.Hour).AddDate(0, 0, -2)
	dead, event := webhook.DeliveryDeadLettered, affiliate.NewID[affiliate.EventID](f.Now())
	const (
		thisWeek = "webhook_deliveries_20260316"
		pkey     = "_pkey"
		byStatus = "_workspace_id_endpoint_id_status_"
		byType   = "_workspace_id_endpoint_id_event_"
		due      = "_workspace_id_endpoint_id_epoch_"
	)
	weeks := []string{thisWeek, "webhook_deliveries_20260309", "webhook_deliveries_20260302", "webhook_deliveries_default"}
	// check checks that a plan contains the given nodes, and that it uses the index with
	// the given suffix in the given partitions, but in no other partition.
	check := func(what, explained string, nodes, partitions []string, index string) {
		t.Helper()
		plan := strings.Join(strings.Fields(explained), " ")
		for _, node := range nodes {
			if !strings.Contains(plan, node) {
				t.Errorf("%s: the plan does not contain %q\n%s", what, node, explained)
			}
		}
		for _, week := range weeks {
			needed := slices.Contains(partitions, week)
			name := week + index
			if index == byType && week == "webhook_deliveries_default" {
				name = week + "_by_type" // Migrate has built and named it (buildPartitionIndexes)
			}
			if used := strings.Contains(plan, "using "+name) || strings.Contains(plan, "on "+name); used != needed {
				t.Errorf("%s: the plan uses the index %s: %t, want %t\n%s", what, name, used, needed, explained)
			}
			if strings.Contains(plan, week) && !needed {
				t.Errorf("%s: the plan reads the partition %s, which it does not need\n%s", what, week, explained)
			}
		}
		for _, scan := range []string{"Seq Scan on webhook", "Hash"} {
			if strings.Contains(plan, scan) {
				t.Errorf("%s: the plan contains %q\n%s", what, scan, explained)
			}
		}
	}
	list := func(since time.Time, filter webhook.DeliveryFilter) (page, count string) {
		pageSQL, countSQL, args := webhooks.DeliveryListSQL(f.Scope, e, since, filter)
		args["limit"], args["offset"] = 20, 0
		return f.Plan(pageSQL, args), f.Plan(countSQL, args)
	}
	ordered := []string{"Limit -> Merge Append", "Index Scan Backward"}
	page, count := list(month, webhook.DeliveryFilter{})
	check("page", page, ordered, weeks, pkey)
	check("total", count, []string{"Limit -> Append", "Index Only Scan"}, weeks, pkey)
	if strings.Contains(count, "Index Scan") || strings.Contains(count, "Bitmap") {
		t.Errorf("the statement that counts the deliveries reads the table and not only the index:\n%s", count)
	}
	page, _ = list(week, webhook.DeliveryFilter{})
	// Every list reads the default partition, because it may have rows of any day.
	check("page of the last two days", page, ordered, []string{thisWeek, "webhook_deliveries_default"}, pkey)
	page, count = list(month, webhook.DeliveryFilter{Status: &dead})
	check("page of a status", page, ordered, weeks, byStatus)
	check("total of a status", count, []string{"Limit -> Append"}, weeks, byStatus)
	page, count = list(month, webhook.DeliveryFilter{Type: affiliate.EventWebhookPing})
	check("page of a type", page, ordered, weeks, byType)
	check("total of a type", count, []string{"Limit -> Append"}, weeks, byType)
	twoDays, yesterday := f.Now().AddDate(0, 0, -2), f.Now().AddDate(0, 0, -1)
	page, _ = list(month, webhook.DeliveryFilter{Created: affiliate.Period{From: &twoDays, Before: &yesterday}})
	check("page of a day", page, []string{"Limit -> Index Scan Backward"}, []string{thisWeek}, pkey)
	page, _ = list(month, webhook.DeliveryFilter{Event: &event})
	check("page of an event", page, []string{"Index Scan"}, weeks[:1], pkey)

	one := webhooks.DeliveryArgs(f.Scope, e, affiliate.NewID[affiliate.DeliveryID](f.Now()))
	check("one delivery", f.Plan(webhooks.SelectDeliverySQL, one), []string{"Index Scan"}, weeks[:1], pkey)
	check("lock one delivery", f.Plan(webhooks.LockDeliverySQL, one), []string{"Index Scan"}, weeks[:1], pkey)
	one["status"], one["tier"], one["extra"], one["epoch"], one["due_at"], one["completed_at"] = "failed", 1, 1, 1, f.Now(), nil
	check("update one delivery", f.Plan(webhooks.UpdateDeliverySQL, one), []string{"Index Scan"}, weeks[:1], pkey)

	job := webhook.RecoverDeliveries{
		Workspace: f.Scope.Workspace, Mode: f.Scope.Mode, Endpoint: e, Since: month, Until: f.Now(), RequestedAt: f.Now(),
		Statuses: []webhook.DeliveryStatus{webhook.DeliveryDeadLettered, webhook.DeliveryCanceled},
	}
	check("count recoverable deliveries", f.Plan(webhooks.CountRecoverableSQL, webhooks.RecoverableArgs(job, 1)), nil, weeks, byStatus)
	args := webhooks.RecoverableArgs(job, 1)
	args["at"], args["limit"] = f.Now(), 5000
	check("recover a block", f.PlanWith(webhooks.BlockPlan, webhooks.RecoverBlockSQL, args), []string{"Nested Loop"}, weeks, byStatus)
	check("recover a block", f.PlanWith(webhooks.BlockPlan, webhooks.RecoverBlockSQL, args), nil, weeks, pkey)

	canceled := webhooks.DeliveryArgs(f.Scope, e, affiliate.DeliveryID{})
	canceled["epoch"], canceled["limit"], canceled["ended"] = 2, 5000, f.Now()
	check("cancel a block", f.PlanWith(webhooks.BlockPlan, webhooks.CancelBlockSQL, canceled), []string{"Nested Loop"}, weeks, due)
	check("cancel a block", f.PlanWith(webhooks.BlockPlan, webhooks.CancelBlockSQL, canceled), nil, weeks, pkey)
}

// fillDeliveries inserts n deliveries to an endpoint. newest is the creation time of the
// first delivery. Each following delivery is older by the duration step. A hundredth of
// the deliveries is dead-lettered, a hundredth is pending, a hundredth is failed, and the
// others are delivered.
func (q *queue) fillDeliveries(scope affiliate.Scope, endpoint affiliate.EndpointID, n int, newest time.Time, step time.Duration) {
	q.Helper()
	q.Exec(`
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, status, due_at, created_at, completed_at)
		select $1, $2, u.id, (a.at at time zone 'UTC')::date, $3, u.id, 'payout.paid', 1,
			case n % 100 when 0 then 'dead_lettered' when 1 then 'pending' when 2 then 'failed' else 'delivered' end,
			case when n % 100 in (1, 2) then a.at end, a.at, case when n % 100 not in (1, 2) then a.at end
		from generate_series(0, $4::integer - 1) n
		cross join lateral (select $5::timestamptz - n * $6::interval as at) a
		cross join lateral (
			select (lpad(to_hex((extract(epoch from a.at) * 1000)::bigint), 12, '0') || '7' || substr(md5($2::uuid::text || n), 1, 3) || '8' || substr(md5($2::uuid::text || n), 4, 15))::uuid as id
		) u`, scope.Workspace, endpoint, scope.Mode, n, newest, step)
}
