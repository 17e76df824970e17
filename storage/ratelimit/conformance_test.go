package ratelimit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestLimitsOnEachKindOfRedis(t *testing.T) {
	on := func(test func(*testing.T, redis.UniversalClient)) func(*testing.T, string, string) {
		return func(t *testing.T, url, kind string) {
			t.Helper()
			client, err := clickstream.Connect(clickstream.Endpoint{URL: url, Kind: clickstream.Kind(kind)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			test(t, client)
		}
	}
	redistest.OnEachKind(
		t,
		redistest.Behaviour{Name: "limiters share a limit", Test: on(limitersShareALimit)},
		redistest.Behaviour{Name: "leases share a limit", Test: on(leasesShareALimit)},
	)
}

// Enough subjects for each node of a cluster to have some.
const subjects = 8

func limitersShareALimit(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	c, zone := newClock(), Zone{Name: "test", Limit: 50}
	var next atomic.Int64
	options := Options{Timeout: patience, Now: c.now}
	limiters := []*Limiter{NewLimiter(client, options), NewLimiter(client, options)}
	holds(t, zone, 0, func(subject string) bool {
		return limiters[next.Add(1)%2].Allow(t.Context(), zone, subject).Allowed
	})
}

func leasesShareALimit(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	c, zone := newClock(), Zone{Name: "test", Limit: 250}
	var next atomic.Int64
	leases := make([]*Lease, 4)
	for i := range leases {
		leases[i] = NewLease(client, Options{Timeout: patience, Now: c.now})
	}
	holds(t, zone, 3*block(zone.Limit), func(subject string) bool {
		return leases[next.Add(1)%4].Take(t.Context(), zone, subject).Allowed
	})
}

// holds asks for twice the limit of each subject at the same time; at most unused may be
// left over.
func holds(t *testing.T, zone Zone, unused int64, allow func(subject string) bool) {
	t.Helper()
	for i := range subjects {
		subject := fmt.Sprint("subject", i)
		var admitted atomic.Int64
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range zone.Limit / 4 {
					if allow(subject) {
						admitted.Add(1)
					}
				}
			})
		}
		group.Wait()
		if n := admitted.Load(); n < zone.Limit-unused || n > zone.Limit {
			t.Errorf("%s: %d of %d admitted", subject, n, zone.Limit)
		}
	}
}
