package stats_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/stats"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// pendingStore is a Store with a number of remaining deltas. Each batch takes a second.
type pendingStore struct {
	deltas  int64
	batches int
	clock   time.Time
	err     error
}

func (w *pendingStore) FoldStats(_ context.Context, limit int) (int64, error) {
	w.batches++
	w.clock = w.clock.Add(time.Second)
	folded := min(w.deltas, int64(limit))
	w.deltas -= folded
	return folded, w.err
}

func TestWork_RunsUntilNoDeltaRemains(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name    string
		store   pendingStore
		batches int
		left    int64
		warning bool
	}{
		{"no deltas", pendingStore{}, 1, 0, false},
		{"a few", pendingStore{deltas: 3}, 1, 0, false},
		{"exactly one batch", pendingStore{deltas: 20_000}, 2, 0, false},
		{"several batches", pendingStore{deltas: 100_001}, 6, 0, false},
		{"more than one run can process", pendingStore{deltas: 31 * 20_000}, 30, 20_000, true},
		{"failing store", pendingStore{deltas: 50_000, err: broken}, 1, 30_000, false},
	} {
		var log bytes.Buffer
		store := &tc.store
		worker := stats.New(store, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return store.clock })
		err := worker.Work(t.Context(), nil)
		if !errors.Is(err, tc.store.err) || tc.store.batches != tc.batches || tc.store.deltas != tc.left || (log.Len() > 0) != tc.warning {
			t.Errorf("%s: %d batches, %d left, %v, log %q", tc.name, tc.store.batches, tc.store.deltas, err, log.String())
		}
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
	if event.Job.Kind != (affiliate.FoldStats{}).Kind() || event.Job.State != rivertype.JobStateCompleted || event.Job.MaxAttempts != 1 {
		t.Errorf("%s of kind %s, %d attempts", event.Job.State, event.Job.Kind, event.Job.MaxAttempts)
	}
	if strings.Contains(log.String(), "ERROR") {
		t.Error(log.String())
	}
}
