package stats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/stats"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

func TestWork_RunsUntilNoDeltaRemains(t *testing.T) {
	const batch = 20_000
	for name, tc := range map[string]struct {
		deltas          int
		batchTime       time.Duration // of each batch
		err             error         // of each batch
		wantBatches     int
		wantLeft        int
		wantLoggedLines int
	}{
		"no deltas":                     {0, time.Second, nil, 1, 0, 0},
		"less than one batch":           {3, time.Second, nil, 1, 0, 0},
		"exactly one batch":             {batch, time.Second, nil, 2, 0, 0},
		"several batches":               {2*batch + 1, 14 * time.Second, nil, 3, 0, 0},
		"more than one run can process": {2*batch + 1, 15 * time.Second, nil, 2, 1, 1},
		"failing database":              {3, time.Second, errors.New("no database"), 1, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := pgtest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
			f := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive)
			jane := f.Join("Jane")
			f.Exec(`
				insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, currency, clicks)
				select $1, gen_random_uuid(), $2, $3, $4, '', 1 from generate_series(1, $5)`,
				f.Scope.Workspace, f.Scope.Mode, f.Program, jane.ID, tc.deltas)
			batches := 0
			db := f.OpenHooked(func(sql string, _ []any) error {
				if !strings.Contains(sql, "delete from stats_deltas") {
					return nil
				}
				batches++
				clock.Advance(tc.batchTime)
				return tc.err
			})
			var log bytes.Buffer
			if err := stats.New(db, slog.New(slog.NewTextHandler(&log, nil)), clock.Now).Work(t.Context(), nil); (err != nil) != (tc.err != nil) {
				t.Errorf("Work returned the error %v, want an error: %t", err, tc.err != nil)
			}
			if batches != tc.wantBatches {
				t.Errorf("Work added %d batches to the totals, want %d", batches, tc.wantBatches)
			}
			f.WantCount(tc.wantLeft, "remaining deltas", `select count(*) from stats_deltas`)
			f.WantCount(tc.deltas-tc.wantLeft, "clicks in the totals", `select coalesce(sum(clicks), 0) from participant_totals`)
			if got := strings.Count(log.String(), "\n"); got != tc.wantLoggedLines {
				t.Errorf("Work logged %d lines, want %d:\n%s", got, tc.wantLoggedLines, &log)
			}
		})
	}
}

// A River client accepts the job of PeriodicJob and runs it.
func TestPeriodicJob_RunsInTheQueue(t *testing.T) {
	db := pgtest.Open(t, time.Now).DB
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
	workers := river.NewWorkers()
	river.AddWorker(workers, stats.New(db, logger, time.Now))
	client, err := db.WorkerClient(&river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}, Workers: workers,
		PeriodicJobs: []*river.PeriodicJob{stats.PeriodicJob()}, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	done, cancel := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	defer cancel()
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	event := <-done
	if err := client.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(event.Job.Kind, " ", event.Job.State, ", at most ", event.Job.MaxAttempts, " attempts")
	if want := "fold_stats completed, at most 1 attempts"; got != want {
		t.Errorf("the job was %s, want %s", got, want)
	}
	if log.Len() != 0 {
		t.Errorf("the job logged errors:\n%s", &log)
	}
}
