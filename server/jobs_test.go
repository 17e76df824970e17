package server

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/riverqueue/river/rivertype"
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
