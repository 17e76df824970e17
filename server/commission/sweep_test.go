package commission_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestSweep_RunsAsPeriodicJob(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	c := f.NewCommission(f.Join("Pat"), func(c *commission.Commission) { c.AutoApproveAt = new(f.Now()) })
	workers := river.NewWorkers()
	river.AddWorker(workers, commissionservice.NewSweepWorker(f.DB, slog.New(slog.DiscardHandler), f.clock.Now))
	f.StartWorkers(&river.Config{
		Queues:       map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
		Workers:      workers,
		PeriodicJobs: []*river.PeriodicJob{commissionservice.SweepJob()},
	})
	pgtest.Eventually(t, "a job approves the commission", func() bool {
		got, err := f.on(c).get()
		return err == nil && got.GetStatus() == affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED
	})
	f.requireStatuses(c, "pending approved")
	if n := f.Count(`select count(*) from river.river_job where kind = 'approve_due_commissions' and max_attempts <> 1`); n != 0 {
		t.Errorf("%d sweep jobs would be retried, want none", n)
	}
}

func TestSweep_LogsFailedCommission(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Pat")
	due := func(c *commission.Commission) { c.AutoApproveAt = new(f.Now()) }
	failing, approved := f.NewCommission(p, due), f.NewCommission(p, due)
	// The approval fails because its history entry already exists.
	f.Insert("commission_history", pgtest.Row{
		"workspace_id": f.Scope.Workspace, "commission_id": failing.ID, "seq": 2, "at": f.Now(), "actor": "x", "to_status": "x", "amount_cents": 1,
	})
	var log bytes.Buffer
	worker := commissionservice.NewSweepWorker(f.DB, slog.New(slog.NewTextHandler(&log, nil)), f.clock.Now)
	if err := worker.Work(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	f.requireStatuses(approved, "pending approved")
	for _, want := range []string{"approved=1", "failed=1", failing.ID.String()} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log is %q, want it to contain %s", log.String(), want)
		}
	}
}

func TestSweep_FailsWithoutDatabase(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	f.DB.Close()
	if err := f.sweep(); err == nil {
		t.Error("a sweep without a database succeeded")
	}
}
