package postgres_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func succeed() error { return nil }

// Publish must create one delivery of an event for each subscribed endpoint.
func TestPublish_CreatesDeliveriesForSubscribers(t *testing.T) {
	f := newFixture(t)
	endpoints := map[string]webhook.EndpointKey{}
	for name, tc := range map[string]struct {
		scope   affiliate.Scope
		columns pgtest.Row
	}{
		"all events":              {f.Scope, nil},
		"a group of events":       {f.Scope, pgtest.Row{"subscriptions": []string{"payout.*"}}},
		"the name of the event":   {f.Scope, pgtest.Row{"subscriptions": []string{"link.created", "payout.paid"}}},
		"three matching patterns": {f.Scope, pgtest.Row{"subscriptions": []string{"*", "payout.*", "payout.paid"}}},
		"other events":            {f.Scope, pgtest.Row{"subscriptions": []string{"commission.*", "payout.failed", "promo_code.*"}}},
		"disabled":                {f.Scope, pgtest.Row{"active": false, "epoch": 2}},
		"enabled again":           {f.Scope, pgtest.Row{"epoch": 2}},
		"deleted":                 {f.Scope, pgtest.Row{"active": false, "epoch": 2, "deleted_at": f.Now()}},
		"another mode":            {f.InOtherMode().Scope, nil},
		"another workspace":       {f.NewShop(affiliate.ModeLive).Scope, nil},
	} {
		endpoints[name] = webhook.EndpointKey{Workspace: tc.scope.Workspace, ID: f.NewEndpoint(tc.scope, tc.columns)}
	}

	var notified []webhook.EndpointKey
	f.DB.OnDeliveries(func(endpoints []webhook.EndpointKey) { notified = append(notified, endpoints...) })
	event := affiliate.NewEvent(f.Scope, "payout.paid", f.Now(), map[string]string{"id": "1"}, nil)
	if err := postgres.Publish(t.Context(), f.DB, succeed, event); err != nil {
		t.Fatal(err)
	}
	want := []string{"a group of events", "all events", "enabled again", "the name of the event", "three matching patterns"}
	var got []string
	for name, e := range endpoints {
		n := f.Count(`
			select count(*) from webhook_deliveries d join webhook_endpoints e on e.workspace_id = d.workspace_id and e.id = d.endpoint_id and e.mode = d.mode
			join events v on v.workspace_id = d.workspace_id and v.id = d.event_id and v.day = d.day and v.mode = d.mode and v.type = d.event_type
			where d.endpoint_id = $1 and d.event_id = $2 and d.id = delivery_id(d.event_id, d.endpoint_id) and d.status = 'pending' and d.due_at = $3
				and d.created_at = $3 and d.epoch = e.epoch and d.day = '2026-03-10'`, e.ID, event.ID, f.Now())
		if n == 1 {
			got = append(got, name)
			if !slices.Contains(notified, e) {
				t.Errorf("the callback did not receive the endpoint %q", name)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || len(notified) != len(want) || f.Count(`select count(*) from webhook_deliveries`) != len(want) {
		t.Errorf("the endpoints %q have a delivery and the callback received %d endpoints, want %q", got, len(notified), want)
	}
}

// A pattern like promo.* must match only if the part of the event name before the dot is
// equal to promo. promo_code.created must not match.
func TestPublish_MatchesWholeEventGroups(t *testing.T) {
	f := newFixture(t)
	promo := f.NewEndpoint(f.Scope, pgtest.Row{"subscriptions": []string{"promo_code.*"}})
	f.NewEndpoint(f.Scope, pgtest.Row{"subscriptions": []string{"promo.*"}})
	if err := postgres.Publish(t.Context(), f.DB, succeed, affiliate.NewEvent(f.Scope, affiliate.EventPromoCodeCreated, f.Now(), nil, nil)); err != nil {
		t.Fatal(err)
	}
	if got := f.Texts(`select endpoint_id::text from webhook_deliveries`); !slices.Equal(got, []string{promo.String()}) {
		t.Errorf("the deliveries are for the endpoints %s, want one for %s", got, promo)
	}
}

func TestPublish_StoresEventsWithoutSubscribers(t *testing.T) {
	f := newFixture(t)
	notified := false
	f.DB.OnDeliveries(func([]webhook.EndpointKey) { notified = true })
	if err := postgres.Publish(t.Context(), f.DB, succeed, affiliate.NewEvent(f.Scope, "payout.paid", f.Now(), nil, nil)); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from events`); n != 1 || notified || f.Count(`select count(*) from webhook_deliveries`) != 0 {
		t.Errorf("%d events are stored and the callback was called: %t, want 1 and false, and no delivery", n, notified)
	}
}

// If a transaction is rolled back, its events and deliveries must not be stored, and the
// callback must not run. If it commits, the callback must run after the commit.
func TestPublish_CommitsWithItsTransaction(t *testing.T) {
	f := newFixture(t)
	key := webhook.EndpointKey{Workspace: f.Scope.Workspace, ID: f.NewEndpoint(f.Scope)}
	var notified []webhook.EndpointKey
	f.DB.OnDeliveries(func(endpoints []webhook.EndpointKey) {
		notified = append(notified, endpoints...)
		if n := f.Count(`select count(*) from webhook_deliveries`); n != 2 {
			t.Errorf("the callback sees %d deliveries, want 2", n)
		}
	})
	events := []affiliate.Event{
		affiliate.NewEvent(f.Scope, "payout.paid", f.Now(), nil, nil), affiliate.NewEvent(f.Scope, "payout.failed", f.Now(), nil, nil),
	}
	failure := errors.New("the change fails")
	if err := postgres.Publish(t.Context(), f.DB, func() error { return failure }, events...); !errors.Is(err, failure) {
		t.Fatalf("Publish returned %v, want %v", err, failure)
	}
	if n := f.Count(`select count(*) from webhook_deliveries`) + f.Count(`select count(*) from events`); n != 0 || notified != nil {
		t.Errorf("after a rollback, %d rows are stored and the callback received %v, want none", n, notified)
	}
	beforeCommit := func() error {
		if notified != nil {
			t.Error("the callback ran before the commit")
		}
		return nil
	}
	if err := postgres.Publish(t.Context(), f.DB, beforeCommit, events...); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(notified, []webhook.EndpointKey{key, key}) {
		t.Errorf("the callback received %v, want the endpoint twice", notified)
	}
}

func TestDeliveryID_HasTheTimeOfItsEvent(t *testing.T) {
	f := newFixture(t)
	event, endpoint := affiliate.NewID[affiliate.EventID](f.Now().Add(time.Millisecond)), affiliate.NewID[affiliate.EndpointID](f.Now())
	id := func(event affiliate.EventID, endpoint affiliate.EndpointID) (id affiliate.DeliveryID) {
		t.Helper()
		if err := f.SQL.QueryRow(t.Context(), `select delivery_id($1, $2)`, event, endpoint).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	one := id(event, endpoint)
	at, ok := one.Time()
	if want, _ := event.Time(); !ok || !at.Equal(want) || one.UUID[8]&0xc0 != 0x80 {
		t.Errorf("the delivery id %s has the time %s, want the time of its event, %s", one, at, want)
	}
	if again := id(event, endpoint); again != one {
		t.Errorf("two calls of delivery_id returned %s and %s, want the same id", one, again)
	}
	ids := []affiliate.DeliveryID{one, id(affiliate.NewID[affiliate.EventID](at), endpoint), id(event, affiliate.NewID[affiliate.EndpointID](f.Now()))}
	if ids[0] == ids[1] || ids[0] == ids[2] || ids[1] == ids[2] {
		t.Errorf("the delivery ids %v are not all different", ids)
	}
}

// partitions returns the weeks for which a table has a partition, without the default
// partition.
func (f *fixture) partitions(table string) []string {
	return f.Texts(`select right(c.relname, 8) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = $1::text::regclass and c.relname ~ '[0-9]$' order by 1`, table)
}

// partitionedTables are the tables with a partition per week.
var partitionedTables = []string{"events", "webhook_deliveries"}

// rowPartitions returns the partition and day of each row of a table.
func (f *fixture) rowPartitions(table string) []string {
	return f.Texts(`select tableoid::regclass::text || ' ' || day from ` + table + ` order by day`)
}

// EnsureWeekPartitions must create the partition of a week in both tables and move the
// rows of this week from the default partition to the new partition. It must also move
// rows of transactions that have not committed yet, so it waits for them.
func TestEnsureWeekPartitions_MovesRowsFromDefaultPartition(t *testing.T) {
	f := newFixture(t)
	f.NewEndpoint(f.Scope)
	days := []time.Time{
		time.Date(2026, 3, 8, 23, 59, 59, 999e6, time.UTC), time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 15, 23, 59, 59, 999e6, time.UTC), time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC),
	}
	publish := func(at time.Time, beforeCommit func() error) {
		t.Helper()
		if err := postgres.Publish(t.Context(), f.DB, beforeCommit, affiliate.NewEvent(f.Scope, "payout.paid", at, nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range days {
		publish(at, succeed)
	}
	created := make(chan error, 1)
	publish(days[1].Add(time.Hour), func() error {
		go func() {
			n, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, days[1].AddDate(0, 0, 2), days[3].Add(-time.Hour))
			if err == nil && n != 3 { // also the partition of notifications
				err = fmt.Errorf("%d partitions were created, want 3", n)
			}
			created <- err
		}()
		f.AwaitLock()
		return nil
	})
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	for _, table := range partitionedTables {
		if got := f.partitions(table); !slices.Equal(got, []string{"20260309"}) {
			t.Errorf("%s has the partitions %q, want 20260309", table, got)
		}
		want := []string{
			table + "_default 2026-03-08", table + "_20260309 2026-03-09", table + "_20260309 2026-03-09", table + "_20260309 2026-03-15",
			table + "_default 2026-03-16",
		}
		if got := f.rowPartitions(table); !slices.Equal(got, want) {
			t.Errorf("the rows of %s are in the partitions %q, want %q", table, got, want)
		}
	}
	for _, want := range []int{3, 0} {
		if n, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, days[1], days[3]); err != nil || n != want {
			t.Errorf("EnsureWeekPartitions created %d partitions, %v, want %d", n, err, want)
		}
	}
	publish(days[3], succeed)
	if got := f.rowPartitions("webhook_deliveries"); got[4] != "webhook_deliveries_20260316 2026-03-16" || got[5] != got[4] {
		t.Errorf("the rows are in the partitions %q, want the last two rows in webhook_deliveries_20260316", got)
	}
	if n, err := postgres.StrayWeekRows(t.Context(), f.DB); err != nil || n != 2 {
		t.Errorf("%d rows are in the default partitions, %v, want 2", n, err)
	}
}

// DropOldWeeks must delete old rows from the default partitions. It must drop the
// partition of a week only when all days of this week are old.
func TestDropOldWeeks_DropsOldPartitionsAndRows(t *testing.T) {
	f := newFixture(t)
	f.NewEndpoint(f.Scope)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	week := func(at time.Time) time.Time { return at.AddDate(0, 0, -(int(at.Weekday())+6)%7) }
	oldest := today.AddDate(0, 0, -34) // the oldest day whose events must remain
	// remaining is the first week that must remain. dropped is the last week that must be
	// dropped.
	remaining, dropped := week(oldest), week(oldest).AddDate(0, 0, -7)
	if _, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, dropped.AddDate(0, 0, -7), remaining); err != nil {
		t.Fatal(err)
	}
	stray := dropped.AddDate(0, 0, -14)
	for _, at := range []time.Time{
		stray, stray.AddDate(0, 0, 1), stray.AddDate(0, 0, 2), dropped.AddDate(0, 0, -1), dropped.AddDate(0, 0, 6), remaining, today,
	} {
		if err := postgres.Publish(t.Context(), f.DB, succeed, affiliate.NewEvent(f.Scope, "payout.paid", at, nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	day := func(at time.Time) string { return at.Format("20060102") }
	for _, table := range partitionedTables {
		if got, want := f.partitions(table), []string{day(dropped.AddDate(0, 0, -7)), day(dropped), day(remaining)}; !slices.Equal(got, want) {
			t.Fatalf("%s has the partitions %q, want %q", table, got, want)
		}
	}
	// In each of the two tables, the first call drops two partitions and deletes two rows
	// of the default partition. The second call deletes one row of the default partition.
	// The third call does nothing.
	for _, want := range []int64{8, 2, 0} {
		if n, err := postgres.DropOldWeeks(t.Context(), f.DB, 2); err != nil || n != want {
			t.Errorf("DropOldWeeks dropped %d partitions and rows, %v, want %d", n, err, want)
		}
	}
	for _, table := range partitionedTables {
		if got := f.partitions(table); !slices.Equal(got, []string{day(remaining)}) {
			t.Errorf("after the calls, %s has the partitions %q, want %s", table, got, day(remaining))
		}
		want := []string{table + "_" + day(remaining) + " " + remaining.Format(time.DateOnly), table + "_default " + today.Format(time.DateOnly)}
		if got := f.rowPartitions(table); !slices.Equal(got, want) {
			t.Errorf("the rows of %s are in the partitions %q, want %q", table, got, want)
		}
	}
}

// DropOldWeeks cannot drop a partition while a transaction is reading it. A later call
// must drop the partition.
func TestDropOldWeeks_FailsWhileAPartitionIsRead(t *testing.T) {
	f := newFixture(t)
	at := time.Now().AddDate(0, 0, -50)
	if _, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, at, at); err != nil {
		t.Fatal(err)
	}
	reader, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), `select from events`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.DropOldWeeks(t.Context(), f.DB, 2); err == nil || len(f.partitions("events")) != 1 || len(f.partitions("webhook_deliveries")) != 0 {
		t.Errorf("DropOldWeeks during a read of events returned %v, want an error; the partition of webhook_deliveries must be dropped", err)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := postgres.DropOldWeeks(t.Context(), f.DB, 2); err != nil || n != 1 {
		t.Errorf("after the read, DropOldWeeks dropped %d partitions and rows, %v, want 1", n, err)
	}
	if _, err := f.SQL.Exec(t.Context(), `select drop_old_weeks('clicks', 2)`); err == nil {
		t.Error("drop_old_weeks drops partitions of other tables")
	}
}

// The callback of OnEvent runs once for each event that has committed.
func TestPublish_CallsBackAfterCommit(t *testing.T) {
	f := newFixture(t)
	counted := map[string]int{}
	f.DB.OnEvent(func(name affiliate.EventName, mode affiliate.Mode) { counted[string(name)+" "+string(mode)]++ })
	paid := func() affiliate.Event {
		return affiliate.NewEvent(f.Scope, affiliate.EventPayoutPaid, f.Now(), nil, nil)
	}
	failed := affiliate.NewEvent(f.Scope, affiliate.EventPayoutFailed, f.Now(), nil, nil)
	rolledBack := errors.New("rolled back")
	if err := postgres.Publish(t.Context(), f.DB, func() error { return rolledBack }, paid()); !errors.Is(err, rolledBack) || len(counted) != 0 {
		t.Fatalf("a transaction that rolls back returned %v and counted %v", err, counted)
	}
	beforeCommit := func() error {
		if len(counted) != 0 {
			t.Errorf("before the commit %v were counted", counted)
		}
		return nil
	}
	if err := postgres.Publish(t.Context(), f.DB, beforeCommit, paid(), paid(), failed); err != nil {
		t.Fatal(err)
	}
	if want := (map[string]int{"payout.paid live": 2, "payout.failed live": 1}); !maps.Equal(counted, want) {
		t.Errorf("%v were counted, want %v", counted, want)
	}
}
