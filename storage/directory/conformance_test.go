package directory_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestTheDirectoryOnEachKindOfRedis(t *testing.T) {
	t.Parallel()
	on := func(test func(*testing.T, clickstream.Endpoint)) func(*testing.T, string, string) {
		return func(t *testing.T, url, kind string) {
			t.Helper()
			test(t, clickstream.Endpoint{URL: url, Kind: clickstream.Kind(kind)})
		}
	}
	redistest.OnEachKind(
		t,
		redistest.Behaviour{Name: "the newest version wins", Test: on(newestVersionWinsInAnyOrder)},
		redistest.Behaviour{Name: "a change is heard of", Test: on(aListeningReaderHearsOfAChange)},
		redistest.Behaviour{Name: "a link is heard of", Test: on(aListeningReaderHearsOfALink)},
		redistest.Behaviour{Name: "links", Test: on(linksAreFoundAbsentOrUnknown)},
		redistest.Behaviour{Name: "a rebuild counts when nothing was lost", Test: on(rebuildCountsOnlyWhenNothingWasLostMeanwhile)},
		redistest.Behaviour{Name: "a batch meets a forgotten script", Test: on(aBatchMeetsAForgottenScript)},
	)
}

func aBatchMeetsAForgottenScript(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, at)
	ctx := t.Context()
	f.complete(t)
	if at.Kind != clickstream.Single { // whose server is shared with other tests
		f.everywhere(t, func(ctx context.Context, server redis.UniversalClient) error { return server.ScriptFlush(ctx).Err() })
	}
	batch := f.writer.Batch()
	for i := range 1000 {
		batch.PutReferralCode(1, scope, "code"+strconv.Itoa(i), code(int32(i)))
	}
	check(t, batch.Flush(ctx))
	for i := range 1000 {
		if entry, state := f.reader.ReferralCode(ctx, scope, "code"+strconv.Itoa(i)); state != directory.Found || entry.AttributionWindowDays != int32(i) {
			t.Fatalf("code %d: %v %v", i, entry, state)
		}
	}
}

// The node of a cluster that has the directory dies and comes back: what is cached
// goes on, the rest is unknown, and afterwards changes are heard of as before.
func TestChangesAreHeardAgainWhenTheirNodeIsBack(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	f := newFixtureAt(t, clickstream.Endpoint{URL: c.URL, Kind: clickstream.Cluster})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.reader.Run(ctx) })
	defer running.Wait()
	defer cancel()
	f.complete(t)
	heard := func(version int64, window int32) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			// Until it is back, and until its breaker lets a call through.
			err := f.writer.PutReferralCode(ctx, version, scope, "anna", code(window))
			entry, state := f.reader.ReferralCode(ctx, scope, "anna")
			if err == nil && state == directory.Found && entry.AttributionWindowDays == window {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("never heard of window %d: %v %v, %v", window, entry, state, err)
			}
		}
	}
	heard(1, 30)
	owner := c.Owner("{directory}:complete")
	owner.Kill9()
	if _, state := f.reader.ReferralCode(ctx, scope, "bert"); state != directory.Blind {
		t.Errorf("without its node: %v", state)
	}
	owner.Restart()
	heard(2, 60)
	heard(3, 90)
}
