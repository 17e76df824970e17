package stats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/server/stats"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// pendingStore is a Store that only counts the deltas that are not yet folded, that is,
// added to the totals. Each call of FoldStats takes one second.
type pendingStore struct {
	deltas int64
	calls  int // of FoldStats
	clock  pgtest.Clock
	err    error // of each call
}

func (s *pendingStore) FoldStats(_ context.Context, limit int) (int64, error) {
	s.calls++
	s.clock.Advance(time.Second)
	folded := min(s.deltas, int64(limit))
	s.deltas -= folded
	return folded, s.err
}

func TestWork_RunsUntilNoDeltaRemains(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		deltas          int64
		err             error
		wantCalls       int
		wantLeft        int64
		wantLoggedLines int
	}{
		"no deltas":                     {0, nil, 1, 0, 0},
		"less than one batch":           {3, nil, 1, 0, 0},
		"exactly one batch":             {20_000, nil, 2, 0, 0},
		"several batches":               {100_001, nil, 6, 0, 0},
		"more than one run can process": {31 * 20_000, nil, 30, 20_000, 1},
		"failing store":                 {50_000, broken, 1, 30_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			store := &pendingStore{deltas: tc.deltas, err: tc.err}
			worker := stats.New(store, slog.New(slog.NewTextHandler(&log, nil)), store.clock.Now)
			if err := worker.Work(t.Context(), nil); !errors.Is(err, tc.err) {
				t.Errorf("Work returned the error %v, want %v", err, tc.err)
			}
			if store.calls != tc.wantCalls || store.deltas != tc.wantLeft {
				t.Errorf("Work called FoldStats %d times and left %d deltas, want %d and %d", store.calls, store.deltas, tc.wantCalls, tc.wantLeft)
			}
			if got := strings.Count(log.String(), "\n"); got != tc.wantLoggedLines {
				t.Errorf("Work logged %d lines, want %d:\n%s", got, tc.wantLoggedLines, &log)
			}
		})
	}
}

// A River client accepts the job of PeriodicJob and runs it.
func TestPeriodicJob_RunsInTheQueue(t *testing.T) {
	store, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
	workers := river.NewWorkers()
	river.AddWorker(workers, stats.New(store, logger, time.Now))
	client, err := store.WorkerClient(&river.Config{
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
