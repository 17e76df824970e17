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

func TestDirectoryOnEachKindOfRedis(t *testing.T) {
	t.Parallel()
	withEndpoint := func(test func(*testing.T, clickstream.Endpoint)) func(*testing.T, string, string) {
		return func(t *testing.T, url, kind string) {
			t.Helper()
			test(t, clickstream.Endpoint{URL: url, Kind: clickstream.Kind(kind)})
		}
	}
	redistest.OnEachKind(
		t,
		redistest.Behaviour{Name: "newest version remains", Test: withEndpoint(testNewestVersionRemains)},
		redistest.Behaviour{Name: "subscribed reader drops changed code", Test: withEndpoint(testSubscribedReaderDropsChangedCode)},
		redistest.Behaviour{Name: "subscribed reader drops changed link", Test: withEndpoint(testSubscribedReaderDropsChangedLink)},
		redistest.Behaviour{Name: "links", Test: withEndpoint(testLinks)},
		redistest.Behaviour{Name: "rebuild is not complete after a loss", Test: withEndpoint(testRebuildIsNotCompleteAfterLoss)},
		redistest.Behaviour{Name: "batch after a script flush", Test: withEndpoint(testBatchAfterScriptFlush)},
	)
}

func testBatchAfterScriptFlush(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, endpoint)
	ctx := t.Context()
	f.markComplete(t)
	if endpoint.Kind != clickstream.Single { // the single server is shared with other tests
		f.onEachMaster(t, func(ctx context.Context, server redis.UniversalClient) error { return server.ScriptFlush(ctx).Err() })
	}
	batch := f.writer.Batch()
	for i := range 1000 {
		batch.PutReferralCode(1, scope, "code"+strconv.Itoa(i), code(int32(i)))
	}
	check(t, batch.Flush(ctx))
	for i := range 1000 {
		if entry, state := f.reader.ReferralCode(ctx, scope, "code"+strconv.Itoa(i)); state != directory.Found || entry.AttributionWindowDays != int32(i) {
			t.Fatalf("the entry of code %d is %v with the state %v, want the window %d", i, entry, state, i)
		}
	}
}

// The cluster node with the keys of the directory is killed and restarted. While the node
// is down, the state of an entry that is not cached must be Unknown. After the restart,
// the reader must receive changes again.
func TestReader_ReceivesChangesAfterNodeRestart(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	f := newFixtureAt(t, clickstream.Endpoint{URL: c.URL, Kind: clickstream.Cluster})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.reader.Run(ctx) })
	defer running.Wait()
	defer cancel()
	f.markComplete(t)
	awaitChange := func(version int64, window int32) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			// Repeat the write until the node runs and its circuit breaker is closed.
			err := put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(version, scope, "anna", code(window)) })
			entry, state := f.reader.ReferralCode(ctx, scope, "anna")
			if err == nil && state == directory.Found && entry.AttributionWindowDays == window {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("after 20 s, the reader finds %v with the state %v, want the window %d; the last write returned %v", entry, state, window, err)
			}
		}
	}
	awaitChange(1, 30)
	owner := c.Owner("{directory}:complete")
	owner.Kill9()
	if _, state := f.reader.ReferralCode(ctx, scope, "bert"); state != directory.Unknown {
		t.Errorf("while the node is dead, the state is %v, want Unknown", state)
	}
	owner.Restart()
	awaitChange(2, 60)
	awaitChange(3, 90)
}
