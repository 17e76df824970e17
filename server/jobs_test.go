package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestJobFailures(t *testing.T) {
	registry := prometheus.NewRegistry()
	failures := NewJobFailures(registry, []string{"default", "mail"})
	for _, series := range []string{"tributary_jobs_failed_total", "tributary_jobs_discarded_total"} {
		if n, err := testutil.GatherAndCount(registry, series); err != nil || n != 2 {
			t.Errorf("%s has %d time series at the start and the error %v, want 2", series, n, err)
		}
	}
	for _, tc := range []struct {
		name                 string
		attempt, maxAttempts int
		discarded            float64
	}{
		{"a first attempt", 1, 8, 0},
		{"the last of several attempts", 8, 8, 1},
		{"the only attempt", 1, 1, 0},
	} {
		for outcome, handle := range map[string]func(*rivertype.JobRow){
			"error": func(job *rivertype.JobRow) { failures.HandleError(t.Context(), job, errors.New("failed")) },
			"panic": func(job *rivertype.JobRow) { failures.HandlePanic(t.Context(), job, "failed", "") },
		} {
			failed, discarded := testutil.ToFloat64(failures.failed.WithLabelValues("mail")), testutil.ToFloat64(failures.discarded.WithLabelValues("mail"))
			handle(&rivertype.JobRow{Kind: "send_mail", Queue: "mail", Attempt: tc.attempt, MaxAttempts: tc.maxAttempts})
			failed = testutil.ToFloat64(failures.failed.WithLabelValues("mail")) - failed
			discarded = testutil.ToFloat64(failures.discarded.WithLabelValues("mail")) - discarded
			if failed != 1 || discarded != tc.discarded {
				t.Errorf("%s of %s counted %v failed and %v discarded jobs, want 1 and %v", outcome, tc.name, failed, discarded, tc.discarded)
			}
		}
	}
	if n := testutil.ToFloat64(failures.failed.WithLabelValues("default")); n != 0 {
		t.Errorf("%v jobs of another queue were counted", n)
	}
}

func TestJobGauges(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	clock := func() time.Time { return now }
	f := pgtest.Open(t, clock)
	insert := func(queue, state string, jobs int, at time.Time) {
		f.Exec(`
			insert into river.river_job (args, kind, max_attempts, queue, state, priority, scheduled_at)
			select '{}', 'test', 5, $1, $2::text::river.river_job_state, 1, $3 from generate_series(1, $4::integer)`, queue, state, at, jobs)
	}
	insert("default", "available", 2, now.Add(-90*time.Second))
	insert("mail", "available", 1, now.Add(time.Second))
	insert("mail", "retryable", 3, now)
	queues := []string{"default", "export", "mail"}
	failures := `
		# HELP tributary_gauges_failed_total Scrapes in which a group of gauges is missing, because the database did not respond within a second, by group.
		# TYPE tributary_gauges_failed_total counter
		tributary_gauges_failed_total{group="jobs"} `
	want := failures + `0
		# HELP tributary_jobs_oldest_waiting_seconds Time since the oldest job that waits for a worker could run, by queue. 0 if none waits.
		# TYPE tributary_jobs_oldest_waiting_seconds gauge
		tributary_jobs_oldest_waiting_seconds{queue="default"} 90
		tributary_jobs_oldest_waiting_seconds{queue="export"} 0
		tributary_jobs_oldest_waiting_seconds{queue="mail"} 0
		# HELP tributary_jobs_retrying Jobs that have failed and wait for their next attempt, by queue. At most 1,000 of a queue are counted.
		# TYPE tributary_jobs_retrying gauge
		tributary_jobs_retrying{queue="default"} 0
		tributary_jobs_retrying{queue="export"} 0
		tributary_jobs_retrying{queue="mail"} 3
	`
	if err := testutil.CollectAndCompare(NewJobGauges(f.DB, queues, clock), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	broken := f.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "river_job") {
			return errors.New("the connection was lost")
		}
		return nil
	})
	if err := testutil.CollectAndCompare(NewJobGauges(broken, queues, clock), strings.NewReader(failures+"1\n")); err != nil {
		t.Errorf("after a failure: %v", err)
	}
}
