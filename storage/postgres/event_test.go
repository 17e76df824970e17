package postgres_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Of a hundred days, the statements open those of their clicks, and there probe
// the key.
func TestConvertedClicksAreFoundInTheirPartitions(t *testing.T) {
	t.Parallel()
	store, conn := clickFixture(t)
	ctx := t.Context()
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	if _, err := store.EnsureClickPartitions(ctx, day.AddDate(0, 0, -50), day.AddDate(0, 0, 50)); err != nil {
		t.Fatal(err)
	}
	workspace := affiliate.NewID[affiliate.Workspace](day)
	var ids []affiliate.ClickID
	var times []time.Time
	for back := range 4 {
		// So many that reading a day costs more than probing it.
		if _, err := conn.Exec(ctx, `
			insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
			select $1, gen_random_uuid(), $2::timestamptz + n * interval '1 second', 'test', $1, $1, 'pat', $2, $2, $2, 'unknown', false
			from generate_series(1, 60000) as n`, workspace, day.AddDate(0, 0, -back)); err != nil {
			t.Fatal(err)
		}
		if back%2 == 0 {
			for n := range 32 {
				at := day.AddDate(0, 0, -back).Add(time.Duration(n) * 40 * time.Minute)
				ids, times = append(ids, affiliate.NewID[affiliate.Click](at)), append(times, at)
			}
		}
	}
	if _, err := conn.Exec(ctx, `analyze clicks`); err != nil {
		t.Fatal(err)
	}
	for what, statement := range map[string]struct {
		sql  string
		args []any
	}{
		"lock":  {postgres.LockConvertedSQL, []any{workspace, ids, times}},
		"stamp": {postgres.StampConvertedSQL, []any{workspace, ids, times, times}},
	} {
		rows, _ := conn.Query(ctx, "explain (costs off) "+statement.sql, append([]any{pgx.QueryExecModeCacheDescribe}, statement.args...)...)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		opened := map[string]bool{}
		for _, table := range regexp.MustCompile(`\b(clicks_\d+)\b`).FindAllStringSubmatch(plan, -1) {
			opened[table[1]] = true
		}
		if len(opened) != 2 || !opened["clicks_20260310"] || !opened["clicks_20260308"] {
			t.Errorf("%s opens %v:\n%s", what, opened, plan)
		}
		probe := regexp.MustCompile(`Index Scan using clicks_\w+_key on clicks_\w+ \w+\n\s+Index Cond: .*\(id = k\.id\) AND \(clicked_at = k\.clicked_at\)`)
		if n := len(probe.FindAllString(plan, -1)); n != 2 {
			t.Errorf("%s: %d probes:\n%s", what, n, plan)
		}
	}
}

// One job stamps and marks in one transaction: of one that fails neither stays.
func TestStampsAndMarksAreOne(t *testing.T) {
	store, conn := clickFixture(t)
	ctx := t.Context()
	clicks := clicksOf(affiliate.NewID[affiliate.Workspace](time.Now()), 1)
	if err := store.StoreClicks(ctx, clicks); err != nil {
		t.Fatal(err)
	}
	c, at := clicks[0], clicks[0].ClickedAt.Add(time.Hour)
	event := affiliate.NewID[affiliate.Event](at)
	if _, err := conn.Exec(ctx, `insert into events (workspace_id, id, mode, type, body, created_at) values ($1, $2, 'live', 'conversion.created', '{}', $3)`,
		c.Scope.Workspace, event, at); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`create function fail() returns trigger language plpgsql as $$ begin raise 'no'; end $$`,
		`create trigger fail before update on events for each row execute function fail()`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	mark := func() error {
		_, err := store.MarkDispatched(ctx, c.Scope.Workspace, []affiliate.EventID{event}, []affiliate.ConvertedClick{{Event: event, Click: c.ID, At: at}}, at)
		return err
	}
	state := func() string {
		var stamped, marked bool
		if err := conn.QueryRow(ctx, `select converted_at is not null, dispatched_at is not null from clicks, events`).Scan(&stamped, &marked); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(stamped, marked)
	}
	if err := mark(); err == nil || state() != "false false" {
		t.Errorf("%v, %s", err, state())
	}
	if _, err := conn.Exec(ctx, `drop trigger fail on events`); err != nil {
		t.Fatal(err)
	}
	if err := mark(); err != nil || state() != "true true" {
		t.Errorf("%v, %s", err, state())
	}
}
