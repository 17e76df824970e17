package webhook_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// queue is a shop with endpoints that have waiting deliveries.
type queue struct {
	*pgtest.Shop
	sender affiliate.SenderID
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	q := newQueueAt(t, time.Now().UTC().Truncate(time.Millisecond))
	if _, err := postgres.EnsureWeekPartitions(q.Context(), q.DB, q.Now().AddDate(0, 0, -35), q.Now().AddDate(0, 0, 7)); err != nil {
		t.Fatal(err)
	}
	return q
}

// newQueueAt returns a queue whose clock always shows the given time. It creates no
// partitions for deliveries.
func newQueueAt(t *testing.T, now time.Time) *queue {
	t.Helper()
	shop := pgtest.Open(t, func() time.Time { return now }).NewShop(affiliate.ModeLive)
	return &queue{shop, affiliate.SenderID{UUID: uuid.New()}}
}

// endpoint inserts an endpoint with the given number of waiting deliveries. The newest
// delivery became due a minute ago, and each earlier delivery one minute before the next.
func (q *queue) endpoint(waiting int) domain.EndpointKey {
	q.Helper()
	key := domain.EndpointKey{Workspace: q.Scope.Workspace, ID: q.NewEndpoint(q.Scope, pgtest.Row{"secret": "sealed"})}
	ids := make([]affiliate.EventID, waiting)
	at := make([]time.Time, waiting)
	for i := range ids {
		at[i] = q.Now().Add(-time.Duration(waiting-i) * time.Minute)
		ids[i] = affiliate.NewID[affiliate.EventID](at[i])
	}
	q.Exec(`
		with written as (
			insert into events (workspace_id, id, day, mode, type, body, created_at)
			select $1, e.id, e.at::date, $2, 'program.updated', '{}', e.at
			from unnest($3::uuid[], $4::timestamptz[]) as e (id, at) returning *
		)
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, due_at, created_at)
		select workspace_id, $5, delivery_id(id, $5), day, mode, id, type, 1, created_at, created_at from written`,
		key.Workspace, q.Scope.Mode, ids, at, key.ID)
	return key
}

// claim acquires leases on endpoints for q.sender and returns the endpoints whose leases
// were granted.
func (q *queue) claim(now time.Time, keys ...domain.EndpointKey) []domain.EndpointKey {
	q.Helper()
	got, err := webhooks.Claim(q.Context(), q.DB, q.sender, keys, now, now.Add(30*time.Second))
	if err != nil {
		q.Fatal(err)
	}
	return got
}

func (q *queue) due(now time.Time, limit int, keys ...domain.EndpointKey) ([]domain.Target, []domain.DueDelivery) {
	q.Helper()
	reads := make([]domain.DueQuery, len(keys))
	for i, key := range keys {
		reads[i] = domain.DueQuery{Key: key, Limit: limit}
	}
	targets, due, err := webhooks.Due(q.Context(), q.DB, q.sender, reads, now)
	if err != nil {
		q.Fatal(err)
	}
	return targets, due
}

func TestClaim_GrantsALeaseToOneSender(t *testing.T) {
	q := newQueue(t)
	keys := []domain.EndpointKey{q.endpoint(1), q.endpoint(1), q.endpoint(1)}
	if got := q.claim(q.Now(), keys[:2]...); len(got) != 2 {
		t.Fatalf("the first sender claims %d endpoints, want 2", len(got))
	}
	other := affiliate.SenderID{UUID: uuid.New()}
	claimForOther := func(now time.Time) []domain.EndpointKey {
		t.Helper()
		got, err := webhooks.Claim(t.Context(), q.DB, other, keys, now, now.Add(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := claimForOther(q.Now().Add(10 * time.Second)); !slices.Equal(got, keys[2:]) {
		t.Errorf("the other sender claims %v, want only the third endpoint %v", got, keys[2])
	}
	// A sender can renew its leases. It reads only deliveries of endpoints that it
	// leases.
	if got := q.claim(q.Now().Add(20*time.Second), keys...); len(got) != 2 {
		t.Errorf("the first sender renews %d leases, want 2", len(got))
	}
	if _, due := q.due(q.Now().Add(20*time.Second), 10, keys...); len(due) != 2 {
		t.Errorf("the first sender reads %d deliveries, want the 2 deliveries of its endpoints", len(due))
	}
	if err := webhooks.Release(t.Context(), q.DB, q.sender, keys); err != nil {
		t.Fatal(err)
	}
	if got := claimForOther(q.Now().Add(21 * time.Second)); len(got) != 3 {
		t.Errorf("after the release, the other sender claims %d endpoints, want 3", len(got))
	}
	// After an hour, the leases of the other sender have expired.
	if targets, due := q.due(q.Now().Add(time.Hour), 10, keys...); len(targets)+len(due) != 0 {
		t.Errorf("without a lease, the first sender reads %d endpoints and %d deliveries, want none", len(targets), len(due))
	}
	if got := q.claim(q.Now().Add(time.Hour), keys...); len(got) != 3 {
		t.Errorf("the first sender claims %d endpoints with expired leases, want 3", len(got))
	}
}

func TestQueue_ExcludesInactiveAndDeletedEndpoints(t *testing.T) {
	for _, change := range []string{"active = false", "deleted_at = now()"} {
		q := newQueue(t)
		key := q.endpoint(3)
		q.claim(q.Now(), key)
		q.Exec("update webhook_endpoints set " + change)
		if targets, due := q.due(q.Now(), 10, key); len(targets)+len(due) != 0 {
			t.Errorf("%s: read %d endpoints and %d deliveries, want none", change, len(targets), len(due))
		}
		if got := q.claim(q.Now(), key); len(got) != 0 {
			t.Errorf("%s: the lease was renewed, want no lease", change)
		}
		if found, err := webhooks.Unclaimed(t.Context(), q.DB, q.Now().Add(time.Hour), 10); err != nil || len(found) != 0 {
			t.Errorf("%s: Unclaimed returned %v, %v, want no endpoints", change, found, err)
		}
	}
}

func TestDue_ReturnsLongestWaitingDeliveriesOfCurrentEpoch(t *testing.T) {
	q := newQueue(t)
	key := q.endpoint(20)
	q.Exec(`update webhook_deliveries set epoch = 0 where due_at < $1`, q.Now().Add(-15*time.Minute))
	later := q.Now().Add(time.Minute)
	q.Exec(`update webhook_deliveries set due_at = $1 where due_at >= $2`, later, q.Now().Add(-5*time.Minute))
	q.claim(q.Now(), key)
	targets, due := q.due(q.Now(), 6, key)
	if len(targets) != 1 || targets[0].NextDue == nil || !targets[0].NextDue.Equal(later) {
		t.Errorf("Due returned the targets %+v, want one target whose next delivery is due at %v", targets, later)
	}
	if len(due) != 6 || !due[0].DueAt.Equal(q.Now().Add(-15*time.Minute)) || !due[5].DueAt.Equal(q.Now().Add(-10*time.Minute)) {
		t.Errorf("Due returned the deliveries %+v, want the 6 deliveries that became due 15 to 10 minutes ago", due)
	}
}

func TestApplyOutcomes_SkipsChangedDeliveries(t *testing.T) {
	q := newQueue(t)
	key := q.endpoint(2)
	q.claim(q.Now(), key)
	_, due := q.due(q.Now(), 2, key)
	var changes []domain.DeliveryChange
	for _, d := range due {
		result := domain.AttemptResult{Key: key, Delivery: d, Outcome: domain.ResponseOutcome(http.StatusBadGateway, 0), Started: q.Now(), Ended: q.Now().Add(time.Second)}
		changes = append(changes, result.Apply(d.State))
	}
	// A retry of the second delivery is requested during its attempt.
	q.Exec(`update webhook_deliveries set extra = 1 where id = $1`, due[1].ID)
	for _, want := range [][]affiliate.DeliveryID{{due[0].ID}, nil} {
		err := q.DB.InSendingTx(t.Context(), func(tx *postgres.Tx) error {
			applied, err := webhooks.ApplyOutcomes(t.Context(), tx, changes)
			if !slices.Equal(applied, want) {
				t.Errorf("ApplyOutcomes applied the outcomes of %v, want %v", applied, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := q.Count(`select count(*) from webhook_deliveries where attempt_count = 1 and tier = 1 and status = 'failed'
		and jsonb_array_length(attempts) = 1 and http_status_code = 502 and completed_at is null`); n != 1 {
		t.Errorf("%d deliveries have one stored attempt, want 1", n)
	}
	if _, due = q.due(q.Now().Add(time.Hour), 1, key); len(due) != 0 {
		t.Error("a delivery was read without a lease")
	}
}

func TestUnclaimed_ReturnsEndpointsWithoutALease(t *testing.T) {
	q := newQueue(t)
	leased, unleased, idle := q.endpoint(2), q.endpoint(2), q.endpoint(0)
	q.claim(q.Now(), leased, idle)
	check := func(now time.Time, want ...domain.EndpointKey) {
		t.Helper()
		got, err := webhooks.Unclaimed(t.Context(), q.DB, now, 10)
		if err != nil || len(got) != len(want) || slices.ContainsFunc(want, func(k domain.EndpointKey) bool { return !slices.Contains(got, k) }) {
			t.Errorf("Unclaimed returned %v, %v, want %v", got, err, want)
		}
	}
	check(q.Now(), unleased)
	check(q.Now().Add(31*time.Second), unleased, leased)
}

func TestCancelRemaining_CancelsDeliveriesOfEarlierEpochs(t *testing.T) {
	q := newQueue(t)
	disabled, active := q.endpoint(5), q.endpoint(5)
	q.Exec(`update webhook_endpoints set active = false, epoch = 2 where id = $1`, disabled.ID)
	q.Exec(`update webhook_deliveries set status = 'delivered', extra = 1 where endpoint_id = $1 and due_at < $2`, disabled.ID, q.Now().Add(-4*time.Minute))
	for _, want := range []int64{3, 2, 0} {
		var n int64
		err := q.DB.InTx(t.Context(), func(tx *postgres.Tx) (err error) {
			n, err = webhooks.CancelRemaining(t.Context(), tx, q.Now(), 3)
			return err
		})
		if err != nil || n != want {
			t.Errorf("CancelRemaining canceled %d deliveries, %v, want %d", n, err, want)
		}
	}
	if n := q.Count(`select count(*) from webhook_deliveries where endpoint_id = $1 and due_at is null and extra = 0 and completed_at = $2 and status = 'canceled'`, disabled.ID, q.Now()); n != 4 {
		t.Errorf("%d deliveries are canceled, want 4", n)
	}
	if n := q.Count(`select count(*) from webhook_deliveries where endpoint_id = $1 and due_at is null and status = 'delivered'`, disabled.ID); n != 1 {
		t.Errorf("%d deliveries have the status delivered, want 1 (the delivery whose requested retry was canceled)", n)
	}
	if n := q.Count(`select count(*) from webhook_deliveries where endpoint_id = $1 and due_at is not null and status = 'pending'`, active.ID); n != 5 {
		t.Errorf("%d deliveries of the active endpoint are pending, want 5", n)
	}
}

// The statements of the sender must read only the deliveries that they return, even if
// many more deliveries are waiting. The statement that stores an outcome must find the
// delivery by its key in one partition. The id of the delivery determines the partition.
func TestQueueStatements_ReadFewRowsFromIndexes(t *testing.T) {
	q := newQueue(t)
	keys := []domain.EndpointKey{q.endpoint(20_000), q.endpoint(5_000), q.endpoint(10)}
	q.claim(q.Now(), keys...)
	q.VacuumAnalyze("webhook_deliveries", "webhook_endpoints", "events")
	conn, err := pgx.Connect(t.Context(), q.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set jit = off"); err != nil {
		t.Fatal(err)
	}
	plan := func(name, sql string, args ...any) string {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		if sql == webhooks.CancelRemainingSQL {
			if _, err := tx.Exec(t.Context(), webhooks.BlockPlan); err != nil {
				t.Fatal(err)
			}
		}
		rows, _ := tx.Query(t.Context(), "explain (analyze, costs off, timing off, summary off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("explain %s: %v", name, err)
		}
		return strings.Join(lines, "\n")
	}
	args := webhooks.DueArgs(keys, q.sender, q.Now())
	_, due := q.due(q.Now(), 64, keys[0])
	var changes []domain.DeliveryChange
	for _, d := range due {
		result := domain.AttemptResult{Key: keys[0], Delivery: d, Outcome: domain.ResponseOutcome(200, 0), Started: q.Now(), Ended: q.Now()}
		changes = append(changes, result.Apply(d.State))
	}
	outcomes, err := webhooks.OutcomeArgs(changes)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		plan  string
		parts []string // texts that the plan must contain
	}{
		{"targets", plan("targets", webhooks.TargetsSQL, args), []string{"(due_at > '", "Limit (actual rows=0"}},
		{"due", plan("due", webhooks.DueDeliveriesSQL, args), []string{
			"(workspace_id = e.workspace_id) AND (endpoint_id = e.id) AND (epoch = e.epoch) AND (due_at >= w.due_from) AND (due_at <=",
			"Limit (actual rows=46 loops=3)",
		}},
		{"cancel remaining", plan("cancel remaining", webhooks.CancelRemainingSQL, 1000, q.Now()), []string{"(epoch < e.epoch)"}},
		{"unclaimed", plan("unclaimed", webhooks.UnclaimedSQL, q.Now(), 10), []string{"(due_at <="}},
		{"lateness", plan("lateness", webhooks.SelectLatenessSQL, q.Now(), q.Now().Add(-time.Minute)), []string{"(due_at <=", "Limit (actual rows=1 loops=3)"}},
		{"outcomes", plan("outcomes", webhooks.ApplyOutcomesSQL, outcomes), []string{
			"(workspace_id = d.workspace_id) AND (endpoint_id = d.endpoint_id) AND (id = d.id) AND (day = d.day)", "never executed",
		}},
	} {
		flat := strings.Join(strings.Fields(c.plan), " ")
		for _, part := range c.parts {
			if !strings.Contains(flat, part) {
				t.Errorf("%s: the plan does not contain %q\n%s", c.name, part, c.plan)
			}
		}
		// These statements may read the whole table of endpoints, because the table is
		// small.
		flat = strings.ReplaceAll(flat, "Seq Scan on webhook_endpoints", "")
		if strings.Contains(flat, "Seq Scan") || strings.Contains(flat, "Sort Method") && c.name == "due" {
			t.Errorf("%s: the plan reads a whole table or sorts\n%s", c.name, c.plan)
		}
		for line := range strings.SplitSeq(c.plan, "\n") {
			var rows int
			if at := strings.Index(line, "actual rows="); at >= 0 {
				if _, err := fmt.Sscanf(line[at:], "actual rows=%d", &rows); err == nil && rows > 200 {
					t.Errorf("%s: a node of the plan reads %d rows\n%s", c.name, rows, c.plan)
				}
			}
		}
	}
}

func TestLateness_CountsActiveEndpoints(t *testing.T) {
	q := newQueue(t)
	want := func(endpoints, late int64, oldest time.Duration) {
		t.Helper()
		got, err := webhooks.Lateness(t.Context(), q.DB, q.Now(), q.Now().Add(-90*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		age := time.Duration(0)
		if got.OldestDue != nil {
			age = q.Now().Sub(*got.OldestDue)
		}
		if got.Endpoints != endpoints || got.Late != late || age != oldest {
			t.Errorf("Lateness returned %d endpoints, %d late, the oldest delivery due for %s; want %d, %d and %s",
				got.Endpoints, got.Late, age, endpoints, late, oldest)
		}
	}
	want(0, 0, 0)
	q.endpoint(0)
	q.endpoint(1) // due for a minute
	want(2, 0, time.Minute)
	slow, disabled, deleted := q.endpoint(5), q.endpoint(9), q.endpoint(9)
	q.Exec(`update webhook_endpoints set active = false, epoch = 2 where id = $1`, disabled.ID)
	q.Exec(`update webhook_endpoints set active = false, epoch = 2, deleted_at = $2 where id = $1`, deleted.ID, q.Now())
	want(3, 1, 5*time.Minute)
	q.Exec(`update webhook_deliveries set due_at = $2 where endpoint_id = $1`, slow.ID, q.Now().Add(time.Second))
	want(3, 0, time.Minute)
}
