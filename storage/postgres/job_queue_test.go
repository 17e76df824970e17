package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestJobQueueStats_ReadsFewRowsFromIndex(t *testing.T) {
	pgtest.Slow(t)
	f := newFixture(t)
	insert := func(queue, state string, jobs int, at time.Time) {
		f.Exec(`
			insert into river.river_job (args, kind, max_attempts, queue, state, priority, scheduled_at, finalized_at)
			select '{}', 'test', 5, $1, $2::text::river.river_job_state, 1 + n % 4, $3::timestamptz + n * interval '1 second',
				case when $2 in ('completed', 'discarded') then now() end
			from generate_series(1, $4::integer) n`, queue, state, at, jobs)
	}
	now := f.Now()
	insert("default", "available", 20_000, now.Add(-time.Hour))
	insert("default", "completed", 20_000, now.Add(-24*time.Hour))
	insert("mail", "retryable", 20_000, now)
	insert("mail", "scheduled", 10, now.Add(-time.Minute))
	insert("export", "retryable", 3, now)
	f.VacuumAnalyze("river.river_job")

	queues := []string{"default", "export", "mail", "processor"}
	got, err := f.DB.JobQueueStats(t.Context(), queues)
	if err != nil {
		t.Fatal(err)
	}
	byQueue := map[string]affiliate.JobQueueStats{}
	for _, stats := range got {
		byQueue[stats.Queue] = stats
	}
	if oldest := byQueue["default"].OldestWaiting; len(got) != 4 || oldest == nil || !oldest.Equal(now.Add(-time.Hour+time.Second)) || byQueue["default"].Retrying != 0 {
		t.Errorf("the queue default is %+v, want a job that waits since %s", byQueue["default"], now.Add(-time.Hour+time.Second))
	}
	for queue, retrying := range map[string]int64{"mail": 1000, "export": 3, "processor": 0} {
		if stats := byQueue[queue]; stats.OldestWaiting != nil || stats.Retrying != retrying {
			t.Errorf("the queue %s is %+v, want %d retrying jobs and none that waits", queue, stats, retrying)
		}
	}

	plan := f.Plan(postgres.SelectJobQueuesSQL, queues)
	if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") || strings.Count(plan, "river_job_prioritized_fetching_index") != 2 {
		t.Errorf("the statement reads more than it needs:\n%s", plan)
	}
}

// River fetches jobs with the clock of Postgres. So a job is due at the time of its
// transaction in Postgres, whatever the clock of the process is.
func TestEnqueue_SetsTimesByClockOfPostgres(t *testing.T) {
	f := newFixture(t)
	err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		if err := tx.Enqueue(t.Context(), notification.SendMail{}); err != nil {
			return err
		}
		var jobs int
		err := tx.QueryRow(t.Context(), `select count(*) from river.river_job where scheduled_at = now() and created_at = now() and state = 'available'`).Scan(&jobs)
		if err == nil && jobs != 1 {
			t.Errorf("%d jobs have the time of the transaction, want 1", jobs)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
