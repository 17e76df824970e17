package webhook_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// An endpoint is late if a delivery has been due for a minute. If the database does not
// respond, a scrape has no gauges.
func TestGauges_ShowLateness(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	clock := func() time.Time { return now }
	f := pgtest.Open(t, clock)
	for _, shop := range []struct {
		endpoints int
		due       time.Duration // age of the only delivery to each endpoint; 0 for none
	}{{1, 100 * time.Second}, {1, time.Minute}, {2, time.Minute - time.Millisecond}, {3, 0}} {
		s := f.NewShop(affiliate.ModeLive)
		for range shop.endpoints {
			s.NewEndpoint(s.Scope)
		}
		if shop.due > 0 {
			publish(s, now.Add(-shop.due))
		}
	}
	var broken atomic.Bool
	db := f.OpenHooked(func(string, []any) error {
		if broken.Load() {
			return errors.New("the connection was lost")
		}
		return nil
	})
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
	if err := testutil.CollectAndCompare(webhook.NewGauges(db, clock), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	broken.Store(true)
	if err := testutil.CollectAndCompare(webhook.NewGauges(db, clock), strings.NewReader(failures+"1\n")); err != nil {
		t.Errorf("after a failure: %v", err)
	}
}
