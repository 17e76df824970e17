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
	withClient := func(test func(*testing.T, redis.UniversalClient)) func(*testing.T, string, string) {
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
		redistest.Behaviour{Name: "limiters share a limit", Test: withClient(testLimitersShareLimit)},
		redistest.Behaviour{Name: "leases share a limit", Test: withClient(testLeasesShareLimit)},
	)
}

// subjectCount is the number of subjects. It is large enough that each node of a cluster
// has some of them.
const subjectCount = 8

func testLimitersShareLimit(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	c, zone := newClock(), Zone{Name: "test", Limit: 50}
	var next atomic.Int64
	options := Options{Timeout: longTimeout, Now: c.now}
	limiters := []*Limiter{NewLimiter(client, options), NewLimiter(client, options)}
	checkLimit(t, zone, 0, func(subject string) bool {
		return limiters[next.Add(1)%2].Allow(t.Context(), zone, subject).Allowed
	})
}

func testLeasesShareLimit(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	c, zone := newClock(), Zone{Name: "test", Limit: 250}
	var next atomic.Int64
	leases := make([]*Lease, 4)
	for i := range leases {
		leases[i] = NewLease(client, Options{Timeout: longTimeout, Now: c.now})
	}
	checkLimit(t, zone, 3*blockSize(zone.Limit), func(subject string) bool {
		return leases[next.Add(1)%4].Take(t.Context(), zone, subject).Allowed
	})
}

// checkLimit sends twice as many requests as the limit for each subject, from several
// goroutines. The number of admitted requests must be between zone.Limit-maxUnused and
// zone.Limit.
func checkLimit(t *testing.T, zone Zone, maxUnused int64, allow func(subject string) bool) {
	t.Helper()
	for i := range subjectCount {
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
		if n := admitted.Load(); n < zone.Limit-maxUnused || n > zone.Limit {
			t.Errorf("%s: %d requests were admitted, want %d to %d", subject, n, zone.Limit-maxUnused, zone.Limit)
		}
	}
}
