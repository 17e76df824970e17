package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/dispatch"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestAttributedConversionsStampTheirClickOnce(t *testing.T) {
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

	now := time.Date(2026, 5, 6, 7, 8, 9, 123e6, time.UTC)
	scope := affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](now), Mode: affiliate.ModeTest}
	click := affiliate.NewID[affiliate.Click](now)
	if _, err := conn.Exec(ctx, `
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code,
		  received_at, expires_at, created_at, consent, is_bot)
		values ($1, $2, $3, 'test', gen_random_uuid(), gen_random_uuid(), 'code', $3, $3, $3, 'unknown', false)`,
		scope.Workspace, click, now); err != nil {
		t.Fatal(err)
	}
	converted := func() *time.Time {
		t.Helper()
		var at *time.Time
		if err := conn.QueryRow(ctx, `select converted_at from clicks`).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	event := func(at time.Time, attributed bool) affiliate.EventID {
		t.Helper()
		e := affiliate.NewEvent(scope, affiliate.EventConversionCreated, at, map[string]any{
			"attributed": attributed, "attribution": map[string]any{"click_id": click},
		}, nil)
		body, err := e.Body()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, `insert into events (workspace_id, id, mode, type, body, created_at) values ($1, $2, 'test', $3, $4, $5)`,
			scope.Workspace, e.ID, e.Name, body, e.At); err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	worker := dispatch.NewWorker(store, func() time.Time { return now.Add(time.Hour) })
	work := func(ids ...affiliate.EventID) {
		t.Helper()
		for range 2 { // a job may run again
			if err := worker.Work(ctx, &river.Job[affiliate.DispatchEvents]{Args: affiliate.DispatchEvents{Workspace: scope.Workspace, Events: ids}}); err != nil {
				t.Fatal(err)
			}
		}
	}

	work(event(now.Add(time.Second), false))
	if at := converted(); at != nil {
		t.Errorf("an unattributed conversion stamped the click: %v", at)
	}
	later := event(now.Add(3*time.Second), true)
	earlier := event(now.Add(2*time.Second), true)
	work(later)
	work(earlier)
	if at := converted(); at == nil || !at.Equal(now.Add(2*time.Second)) {
		t.Errorf("converted at %v, want the first conversion's time", at)
	}
	// A conversion may have found its click where ingestion had not been yet.
	ahead := affiliate.NewID[affiliate.Click](now.Add(time.Minute))
	click = ahead
	args := affiliate.DispatchEvents{Workspace: scope.Workspace, Events: []affiliate.EventID{event(now.Add(time.Minute), true)}}
	var snoozed *river.JobSnoozeError
	if err := worker.Work(ctx, &river.Job[affiliate.DispatchEvents]{Args: args}); !errors.As(err, &snoozed) {
		t.Errorf("a click that is not stored yet: %v, want a snooze", err)
	}
	if n, err := store.RequeueEvents(ctx, now.Add(2*time.Minute), 10); err != nil || n != 1 {
		t.Errorf("requeued %d, %v, want the event that was left behind", n, err)
	}
	if _, err := conn.Exec(ctx, `update clicks set id = $1, clicked_at = $2`, ahead, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	work(args.Events...)
	var left int
	if err := conn.QueryRow(ctx, `select count(*) from events where dispatched_at is null`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d events left in the outbox, %v", left, err)
	}
}
