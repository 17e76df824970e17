package upkeep_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/server/upkeep"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestPartitionsStandAWeekAhead(t *testing.T) {
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
	worker := upkeep.NewWorker(store, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
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
		t.Errorf("an alarm without a cause: %s", &log)
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
		t.Error("a click without a partition raised no alarm")
	}
}
