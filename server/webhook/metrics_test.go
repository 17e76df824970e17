package webhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server/webhook"
)

// lateQueue returns a fixed lateness.
type lateQueue struct {
	webhook.Queue
	lateness domain.Lateness
	err      error
	now      time.Time
}

func (q lateQueue) Lateness(_ context.Context, now, lateBefore time.Time) (domain.Lateness, error) {
	if !now.Equal(q.now) || now.Sub(lateBefore) != time.Minute {
		return domain.Lateness{}, errors.New("an endpoint is late after a minute")
	}
	return q.lateness, q.err
}

func TestGauges_ShowLateness(t *testing.T) {
	now := time.Now()
	due := now.Add(-100 * time.Second)
	clock := func() time.Time { return now }
	queue := lateQueue{lateness: domain.Lateness{Endpoints: 7, Late: 2, OldestDue: &due}, now: now}
	failures := `
		# HELP tributary_gauges_failed_total Scrapes in which a group of gauges is missing, because the database did not respond within a second, by group.
		# TYPE tributary_gauges_failed_total counter
		tributary_gauges_failed_total{group="webhooks"} `
	want := failures + `0
		# HELP tributary_webhook_endpoints Active endpoints.
		# TYPE tributary_webhook_endpoints gauge
		tributary_webhook_endpoints 7
		# HELP tributary_webhook_endpoints_late Active endpoints with a delivery that has been due for more than a minute. A slow receiver makes its own endpoint late.
		# TYPE tributary_webhook_endpoints_late gauge
		tributary_webhook_endpoints_late 2
		# HELP tributary_webhook_oldest_due_seconds Time since which the oldest delivery of an active endpoint has been due. 0 if none is due.
		# TYPE tributary_webhook_oldest_due_seconds gauge
		tributary_webhook_oldest_due_seconds 100
	`
	if err := testutil.CollectAndCompare(webhook.NewGauges(queue, clock), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	queue.err = errors.New("the connection was lost")
	if err := testutil.CollectAndCompare(webhook.NewGauges(queue, clock), strings.NewReader(failures+"1\n")); err != nil {
		t.Errorf("after a failure: %v", err)
	}
}
