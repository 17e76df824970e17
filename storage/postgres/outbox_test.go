package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

func succeed() error { return nil }

// An event gets one delivery per subscribed endpoint, in the transaction of the change
// that causes it.
func TestPublish_CreatesDeliveriesForSubscribers(t *testing.T) {
	f := newWebhookFixture(t)
	endpoints := map[string]affiliate.Endpoint{
		"all":         f.create(f.scope, "*"),
		"a group":     f.create(f.scope, "payout.*"),
		"the name":    f.create(f.scope, "link.created", "payout.paid"),
		"three times": f.create(f.scope, "*", "payout.*", "payout.paid"),
		"disabled":    f.create(f.scope, "*"),
		"deleted":     f.create(f.scope, "*"),
		"other names": f.create(f.scope, "commission.*", "payout.failed", "promo_code.*"),
	}
	for what, scope := range f.others() {
		endpoints[what] = f.create(scope, "*")
	}
	f.setActive(endpoints["disabled"], false)
	f.remove(endpoints["deleted"])
	again := f.create(f.scope, "*")
	f.setActive(again, false)
	endpoints["enabled again"] = f.setActive(again, true)

	var notified []affiliate.EndpointKey
	f.Store.OnDeliveries(func(endpoints []affiliate.EndpointKey) { notified = append(notified, endpoints...) })
	event := affiliate.NewEvent(f.scope, "payout.paid", f.now, map[string]string{"id": "1"}, nil)
	if err := f.Store.Publish(t.Context(), succeed, event); err != nil {
		t.Fatal(err)
	}
	want := []string{"a group", "all", "enabled again", "the name", "three times"}
	var got []string
	for name, e := range endpoints {
		n := f.Count(`
			select count(*) from webhook_deliveries d join webhook_endpoints e on e.workspace_id = d.workspace_id and e.id = d.endpoint_id and e.mode = d.mode
			join events v on v.workspace_id = d.workspace_id and v.id = d.event_id and v.day = d.day and v.mode = d.mode and v.type = d.event_type
			where d.endpoint_id = $1 and d.event_id = $2 and d.id = delivery_id(d.event_id, d.endpoint_id) and d.status = 'pending' and d.due_at = $3
				and d.created_at = $3 and d.epoch = e.epoch and d.day = '2026-03-18'`, e.ID, event.ID, f.now)
		if n == 1 {
			got = append(got, name)
			key := affiliate.EndpointKey{Workspace: e.Scope.Workspace, ID: e.ID}
			if !slices.Contains(notified, key) {
				t.Errorf("%s: the callback did not receive the endpoint", name)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || len(notified) != len(want) || f.Count(`select count(*) from webhook_deliveries`) != len(want) {
		t.Errorf("deliveries for %q, callback received %d endpoints", got, len(notified))
	}
}

// A pattern like promo.* matches the whole part before the dot, not a prefix of it.
func TestPublish_MatchesWholeEventGroups(t *testing.T) {
	f := newWebhookFixture(t)
	promo := f.create(f.scope, "promo_code.*")
	f.create(f.scope, "promo.*")
	if err := f.Store.Publish(t.Context(), succeed, affiliate.NewEvent(f.scope, affiliate.EventPromoCodeCreated, f.now, nil, nil)); err != nil {
		t.Fatal(err)
	}
	if got := f.text(`select endpoint_id::text from webhook_deliveries`); got != promo.ID.String() {
		t.Errorf("delivered to %s", got)
	}
}

func TestPublish_StoresEventsWithoutSubscribers(t *testing.T) {
	f := newWebhookFixture(t)
	notified := false
	f.Store.OnDeliveries(func([]affiliate.EndpointKey) { notified = true })
	if err := f.Store.Publish(t.Context(), succeed, affiliate.NewEvent(f.scope, "payout.paid", f.now, nil, nil)); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from events`); n != 1 || notified || f.Count(`select count(*) from webhook_deliveries`) != 0 {
		t.Errorf("%d events, callback called: %v", n, notified)
	}
}

// If a transaction is rolled back, it leaves no events and no deliveries, and the
// callback does not run. Otherwise the callback runs after the commit.
func TestPublish_CommitsWithItsTransaction(t *testing.T) {
	f := newWebhookFixture(t)
	e := f.create(f.scope)
	var notified []affiliate.EndpointKey
	f.Store.OnDeliveries(func(endpoints []affiliate.EndpointKey) {
		notified = append(notified, endpoints...)
		if n := f.Count(`select count(*) from webhook_deliveries`); n != 2 {
			t.Errorf("the callback sees %d deliveries, want 2", n)
		}
	})
	events := []affiliate.Event{
		affiliate.NewEvent(f.scope, "payout.paid", f.now, nil, nil), affiliate.NewEvent(f.scope, "payout.failed", f.now, nil, nil),
	}
	failure := errors.New("the change fails")
	if err := f.Store.Publish(t.Context(), func() error { return failure }, events...); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from webhook_deliveries`) + f.Count(`select count(*) from events`); n != 0 || notified != nil {
		t.Errorf("%d rows, callback received %v", n, notified)
	}
	beforeCommit := func() error {
		if notified != nil {
			t.Error("the callback ran before the commit")
		}
		return nil
	}
	if err := f.Store.Publish(t.Context(), beforeCommit, events...); err != nil {
		t.Fatal(err)
	}
	if key := (affiliate.EndpointKey{Workspace: f.scope.Workspace, ID: e.ID}); !slices.Equal(notified, []affiliate.EndpointKey{key, key}) {
		t.Errorf("callback received %v", notified)
	}
}

func TestDeliveryID_HasTheTimeOfItsEvent(t *testing.T) {
	f := newWebhookFixture(t)
	event, endpoint := affiliate.NewID[affiliate.Event](f.now.Add(time.Millisecond)), affiliate.NewID[affiliate.Endpoint](f.now)
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
		t.Errorf("delivery id %s does not have the time of its event, %s", one, want)
	}
	if again := id(event, endpoint); again != one {
		t.Errorf("%s and %s", one, again)
	}
	others := []affiliate.DeliveryID{one, id(affiliate.NewID[affiliate.Event](at), endpoint), id(event, affiliate.NewID[affiliate.Endpoint](f.now))}
	if others[0] == others[1] || others[0] == others[2] || others[1] == others[2] {
		t.Errorf("delivery ids %v are not all different", others)
	}
}

// partitions returns the weeks for which a table has a partition, without the default
// partition.
func (f *webhookFixture) partitions(table string) []string {
	return f.Texts(`select right(c.relname, 8) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = $1::text::regclass and c.relname ~ '[0-9]$' order by 1`, table)
}

var partitioned = []string{"events", "webhook_deliveries"}

// rowPartitions returns the partition and day of each row of a table.
func (f *webhookFixture) rowPartitions(table string) []string {
	return f.Texts(`select tableoid::regclass::text || ' ' || day from ` + table + ` order by day`)
}

// When the partition of a week is created, rows of that week move from the default
// partition into it, in both tables. This includes rows of transactions that have not
// committed yet.
func TestEnsureEventPartitions_MovesRowsFromDefaultPartition(t *testing.T) {
	f := newWebhookFixture(t)
	f.create(f.scope)
	days := []time.Time{
		time.Date(2026, 3, 8, 23, 59, 59, 999e6, time.UTC), time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 15, 23, 59, 59, 999e6, time.UTC), time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC),
	}
	publish := func(at time.Time, before func() error) {
		t.Helper()
		if err := f.Store.Publish(t.Context(), before, affiliate.NewEvent(f.scope, "payout.paid", at, nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range days {
		publish(at, succeed)
	}
	created := make(chan error, 1)
	publish(days[1].Add(time.Hour), func() error {
		go func() {
			n, err := f.Store.EnsureEventPartitions(t.Context(), days[1].AddDate(0, 0, 2), days[3].Add(-time.Hour))
			if err == nil && n != 2 {
				err = errors.New("not two partitions")
			}
			created <- err
		}()
		for f.Count(`select count(*) from pg_locks where not granted and relation = 'events_default'::regclass`) == 0 {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	for _, table := range partitioned {
		if got := f.partitions(table); !slices.Equal(got, []string{"20260309"}) {
			t.Errorf("%s: %q", table, got)
		}
		want := []string{
			table + "_default 2026-03-08", table + "_20260309 2026-03-09", table + "_20260309 2026-03-09", table + "_20260309 2026-03-15",
			table + "_default 2026-03-16",
		}
		if got := f.rowPartitions(table); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	}
	if n, err := f.Store.EnsureEventPartitions(t.Context(), days[1], days[3]); err != nil || n != 2 {
		t.Errorf("%d partitions, %v", n, err)
	}
	if n, err := f.Store.EnsureEventPartitions(t.Context(), days[1], days[3]); err != nil || n != 0 {
		t.Errorf("%d partitions, %v", n, err)
	}
	publish(days[3], succeed)
	if got := f.rowPartitions("webhook_deliveries"); got[4] != "webhook_deliveries_20260316 2026-03-16" || got[5] != got[4] {
		t.Errorf("%q", got)
	}
	if n, err := f.Store.StrayEvents(t.Context()); err != nil || n != 2 {
		t.Errorf("%d events in the default partition, %v", n, err)
	}
}

// Old rows are deleted one by one from the default partitions. Partitions of a week are
// only dropped as a whole.
func TestDropOldEvents_DropsOldPartitionsAndRows(t *testing.T) {
	f := newWebhookFixture(t)
	f.now = time.Now().UTC()
	f.create(f.scope)
	today := f.now.Truncate(24 * time.Hour)
	week := func(at time.Time) time.Time { return at.AddDate(0, 0, -(int(at.Weekday())+6)%7) }
	oldest := today.AddDate(0, 0, -34) // the oldest day that is kept
	kept, last := week(oldest), week(oldest).AddDate(0, 0, -7)
	if _, err := f.Store.EnsureEventPartitions(t.Context(), last.AddDate(0, 0, -7), kept); err != nil {
		t.Fatal(err)
	}
	stray := last.AddDate(0, 0, -14)
	for _, at := range []time.Time{
		stray, stray.AddDate(0, 0, 1), stray.AddDate(0, 0, 2), last.AddDate(0, 0, -1), last.AddDate(0, 0, 6), kept, today,
	} {
		if err := f.Store.Publish(t.Context(), succeed, affiliate.NewEvent(f.scope, "payout.paid", at, nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	day := func(at time.Time) string { return at.Format("20060102") }
	for _, table := range partitioned {
		if got := f.partitions(table); !slices.Equal(got, []string{day(last.AddDate(0, 0, -7)), day(last), day(kept)}) {
			t.Fatalf("%s: %q", table, got)
		}
	}
	// In the first call, per table: two partitions and two rows of the default
	// partition. In the second call: one row of the default partition. Then nothing.
	for _, want := range []int64{8, 2, 0} {
		if n, err := f.Store.DropOldEvents(t.Context(), 2); err != nil || n != want {
			t.Errorf("dropped %d, %v, want %d", n, err, want)
		}
	}
	for _, table := range partitioned {
		if got := f.partitions(table); !slices.Equal(got, []string{day(kept)}) {
			t.Errorf("%s: %q", table, got)
		}
		want := []string{table + "_" + day(kept) + " " + kept.Format(time.DateOnly), table + "_default " + today.Format(time.DateOnly)}
		if got := f.rowPartitions(table); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A partition that a transaction is reading is dropped by a later call.
func TestDropOldEvents_FailsWhileAPartitionIsRead(t *testing.T) {
	f := newWebhookFixture(t)
	at := time.Now().AddDate(0, 0, -50)
	if _, err := f.Store.EnsureEventPartitions(t.Context(), at, at); err != nil {
		t.Fatal(err)
	}
	reader, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), `select from events`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store.DropOldEvents(t.Context(), 2); err == nil || len(f.partitions("events")) != 1 || len(f.partitions("webhook_deliveries")) != 0 {
		t.Errorf("%v", err)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Store.DropOldEvents(t.Context(), 2); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := f.SQL.Exec(t.Context(), `select drop_old_events('conversions', 2)`); err == nil {
		t.Error("drop_old_events drops partitions of other tables")
	}
}
