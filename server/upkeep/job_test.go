package upkeep_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	"github.com/tributary-hq/tributary/server/upkeep"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestRun_CreatesClickPartitionsAWeekAhead(t *testing.T) {
	ctx := t.Context()
	url := pgtest.New(t)
	store, err := postgres.Open(ctx, postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	now := time.Date(2026, 12, 28, 23, 59, 59, 999e6, time.FixedZone("", -5*3600))
	var log bytes.Buffer
	worker := upkeep.NewWorker(stores.Upkeep(store), slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	for range 2 {
		if err := worker.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var first, last string
	var count int
	if err := conn.QueryRow(ctx, `
		select min(relname), max(relname), count(*) from pg_class where relname ~ '^clicks_\d{8}$'`).Scan(&first, &last, &count); err != nil {
		t.Fatal(err)
	}
	if first != "clicks_20261222" || last != "clicks_20270105" || count != 15 {
		t.Errorf("%d partitions from %s to %s", count, first, last)
	}
	if log.Len() != 0 {
		t.Errorf("unexpected log: %s", &log)
	}
	if _, err := conn.Exec(ctx, `
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code,
		  received_at, expires_at, created_at, consent, is_bot)
		values (gen_random_uuid(), gen_random_uuid(), '2020-01-01', 'test', gen_random_uuid(), gen_random_uuid(), 'c', now(), now(), now(), 'unknown', false)`); err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "default partition") {
		t.Error("a click in the default partition was not logged")
	}
}

// rollObserver calls onRoll before each RollClicks.
type rollObserver struct {
	upkeep.Store
	onRoll func()
}

func (r rollObserver) RollClicks(ctx context.Context) (int64, bool, error) {
	r.onRoll()
	return r.Store.RollClicks(ctx)
}

// The job removes visitor data from clicks that are older than 90 days. It replaces days
// that ended 13 months ago by their sums. While a transaction uses the table, the second
// step fails. The first step runs before it and still succeeds.
func TestWork_AppliesTheRetentionOfClicks(t *testing.T) {
	ctx := t.Context()
	w := pgtest.Open(t, time.Now)
	now := time.Now().UTC()
	young, old := now.Add(-90*24*time.Hour+time.Minute), now.Add(-90*24*time.Hour-time.Minute)
	withVisitor := func() []string {
		return w.Texts(`select (received_at > $1)::text from clicks where ip_hash is not null or ip_prefix is not null or ua_hash is not null`, old.Add(time.Second))
	}
	worker := upkeep.NewWorker(rollObserver{stores.Upkeep(w.Store), func() {
		if left := withVisitor(); len(left) != 1 {
			t.Errorf("days are replaced by sums before the purge: %v", left)
		}
	}}, slog.New(slog.DiscardHandler), func() time.Time { return now })
	day := now.AddDate(0, -13, -2)
	if _, err := w.Store.EnsureClickPartitions(ctx, day, day); err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil { // creates the other partitions, before the table is in use
		t.Fatal(err)
	}
	for _, at := range []time.Time{young, old, day, now.AddDate(0, -14, 0)} {
		w.Insert("clicks", pgtest.Row{
			"workspace_id": affiliate.NewID[affiliate.Workspace](at), "id": affiliate.NewID[affiliate.Click](at), "clicked_at": at, "mode": "live",
			"program_id": affiliate.NewID[affiliate.Program](at), "participant_id": affiliate.NewID[affiliate.Participant](at), "referral_code": "pat",
			"received_at": at, "expires_at": at, "created_at": at, "consent": "granted", "is_bot": false,
			"ip_hash": []byte("a"), "ip_prefix": "203.0.113.0/24", "ua_hash": []byte("b"),
		})
		w.Insert("click_dead_letters", pgtest.Row{"id": affiliate.NewID[affiliate.Click](at), "reason": "malformed", "record": []byte{1}, "created_at": at})
	}
	state := func() string {
		return fmt.Sprint(
			w.Count(`select count(*) from clicks`), w.Count(`select coalesce(sum(clicks), 0) from click_days`), w.Count(`select count(*) from click_dead_letters`),
			withVisitor(),
		)
	}
	reader, err := w.SQL.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := reader.Exec(ctx, `select from clicks limit 1`); err != nil {
		t.Fatal(err)
	}
	if err := worker.Work(ctx, nil); err == nil || state() != "4 0 1 [true]" {
		t.Errorf("%s, %v", state(), err)
	}
	if err := reader.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := worker.Work(ctx, nil); err != nil || state() != "2 2 1 [true]" {
			t.Errorf("%s, %v", state(), err)
		}
	}
}

// The job creates weekly partitions of events and deliveries in advance, drops old ones
// and logs rows in the default partitions.
func TestWork_MaintainsEventPartitions(t *testing.T) {
	ctx := t.Context()
	now := time.Now().UTC()
	w := pgtest.Open(t, func() time.Time { return now })
	var log bytes.Buffer
	worker := upkeep.NewWorker(stores.Upkeep(w.Store), slog.New(slog.NewTextHandler(&log, nil)), w.Now)
	old := now.AddDate(0, 0, -50)
	if _, err := w.Store.EnsureEventPartitions(ctx, old, old); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := worker.Work(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "old events and deliveries were dropped"); n != 1 {
		t.Errorf("dropped %d times: %s", n, &log)
	}
	for _, table := range []string{"events", "webhook_deliveries"} {
		// There are partitions for the weeks of 7 days ago, of today and of 7 days ahead.
		if n := w.Count(`select count(*) from pg_class where relkind = 'r' and relname ~ ('^' || $1 || '_[0-9]{8}$')`, table); n != 3 {
			t.Errorf("%s has %d weekly partitions", table, n)
		}
	}
	log.Reset()
	w.Insert("events", pgtest.Row{
		"workspace_id": affiliate.NewID[affiliate.Workspace](now), "id": affiliate.NewID[affiliate.Event](now), "day": now.AddDate(0, 0, 20),
		"mode": "live", "type": "payout.paid", "body": []byte("{}"), "created_at": now,
	})
	if err := worker.Run(ctx); err != nil || !strings.Contains(log.String(), "events or deliveries are in a default partition") {
		t.Errorf("%v: %s", err, &log)
	}
}
