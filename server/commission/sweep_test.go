package commission_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	"github.com/tributary-hq/tributary/server/commission"
)

func TestSweep_RunsAsPeriodicJob(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	id := m.commission(m.somePartner(), map[string]any{"auto_approve_at": w.now(), "hold_until": w.now()})
	workers := river.NewWorkers()
	river.AddWorker(workers, commission.NewSweepWorker(stores.Commission(w.Store), slog.New(slog.DiscardHandler), w.now))
	w.StartWorkers(&river.Config{
		Queues:       map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
		Workers:      workers,
		PeriodicJobs: []*river.PeriodicJob{commission.SweepJob()},
	})
	for deadline := time.Now().Add(30 * time.Second); w.Count(`select count(*) from commissions where status = 'approved'`) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no sweep in 30 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if path := w.path(id); path != "pending approved" {
		t.Error(path)
	}
	if n := w.Count(`select count(*) from river.river_job where kind = 'approve_due_commissions' and max_attempts <> 1`); n != 0 {
		t.Error("a sweep job would be retried")
	}
}

func TestSweep_LogsFailedCommission(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.somePartner()
	due := map[string]any{"auto_approve_at": w.now()}
	bad, good := m.commission(p, due), m.commission(p, due)
	// The approval fails because its history line already exists.
	w.Insert("commission_history", map[string]any{
		"workspace_id": m.scope.Workspace, "commission_id": bad, "seq": 2, "at": w.now(), "actor": "x", "to_status": "x", "amount_cents": 1,
	})
	var log bytes.Buffer
	if err := commission.NewSweepWorker(stores.Commission(w.Store), slog.New(slog.NewTextHandler(&log, nil)), w.now).Work(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if path := w.path(good); path != "pending approved" {
		t.Error(path)
	}
	if out := log.String(); !strings.Contains(out, "failed=1") || !strings.Contains(out, bad.String()) || !strings.Contains(out, "approved=1") {
		t.Error(out)
	}
	w.Store.Close()
	if err := commission.NewSweepWorker(stores.Commission(w.Store), slog.New(slog.DiscardHandler), w.now).Work(t.Context(), nil); err == nil {
		t.Error("a sweep without a database succeeded")
	}
}
