package directory_test

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

var scope = affiliate.Scope{Workspace: affiliate.NewID[affiliate.WorkspaceID](time.Now()), Mode: affiliate.ModeTest}

type fixture struct {
	client redis.UniversalClient
	writer *directory.Writer
	reader *directory.Reader
	clock  atomic.Int64 // nanoseconds that are added to the real time
}

func newFixture(t testing.TB, url string) *fixture {
	t.Helper()
	return newFixtureAt(t, clickstream.Endpoint{URL: url})
}

func newFixtureAt(t testing.TB, endpoint clickstream.Endpoint) *fixture {
	t.Helper()
	client, err := clickstream.Connect(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f := &fixture{client: client, writer: directory.NewWriter(client)}
	f.reader = directory.NewReader(client, func() time.Time { return time.Now().Add(time.Duration(f.clock.Load())) })
	return f
}

// markComplete makes the directory complete, although it has no entries.
func (f *fixture) markComplete(t testing.TB) {
	t.Helper()
	rebuild, err := f.writer.BeginRebuild(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if done, err := f.writer.MarkComplete(t.Context(), rebuild); err != nil || !done {
		t.Fatalf("MarkComplete returned %t, %v, want true", done, err)
	}
}

// onEachMaster calls action for the server, or for each master of a cluster.
func (f *fixture) onEachMaster(t testing.TB, action func(context.Context, redis.UniversalClient) error) {
	t.Helper()
	if cluster, ok := f.client.(*redis.ClusterClient); ok {
		check(t, cluster.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error { return action(ctx, master) }))
		return
	}
	check(t, action(t.Context(), f.client))
}

// code returns an active entry with the given attribution window in days.
func code(window int32) *edgev1.ReferralCodeEntry {
	return &edgev1.ReferralCodeEntry{ProgramId: []byte("p"), Active: true, AttributionWindowDays: window}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReader_MissingEntryIsUnknownUntilComplete(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	ctx := t.Context()
	if _, state := f.reader.ReferralCode(ctx, scope, "anna"); state != directory.Unknown {
		t.Errorf("in an incomplete directory, the state of a missing code is %v, want Unknown", state)
	}
	check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(1, scope, "Anna", code(30)) }))
	if entry, state := f.reader.ReferralCode(ctx, scope, "ANNA"); state != directory.Found || entry.AttributionWindowDays != 30 {
		t.Errorf("in an incomplete directory, the entry of an existing code is %v with the state %v, want the window 30", entry, state)
	}
	f.markComplete(t)
	if _, state := f.reader.ReferralCode(ctx, scope, "bert"); state != directory.Absent {
		t.Errorf("in the complete directory, the state of a missing code is %v, want Absent", state)
	}
	other := affiliate.Scope{Workspace: scope.Workspace, Mode: scope.Mode.Other()}
	if _, state := f.reader.ReferralCode(ctx, other, "anna"); state != directory.Absent {
		t.Errorf("in the other mode, the state of the code is %v, want Absent", state)
	}
}

func TestReader_FindsPublicAndSigningKeys(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	ctx, digest := t.Context(), sha256.Sum256([]byte("pk"))
	f.markComplete(t)
	check(t, put(ctx, f.writer, func(b *directory.Batch) {
		b.PutPublicKey(1, digest, &edgev1.PublicKeyEntry{WorkspaceId: scope.Workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST})
	}))
	if entry, state := f.reader.PublicKey(ctx, digest); state != directory.Found || entry.Mode != edgev1.Mode_MODE_TEST {
		t.Errorf("PublicKey returned %v, %v, want an entry in test mode", entry, state)
	}
	check(t, put(ctx, f.writer, func(b *directory.Batch) {
		b.PutSigningKeys(1, &edgev1.SigningKeys{Keys: []*edgev1.SigningKey{{Kid: "k"}}})
	}))
	if keys, state := f.reader.SigningKeys(ctx); state != directory.Found || keys.Keys[0].Kid != "k" {
		t.Errorf("SigningKeys returned %v, %v, want the key k", keys, state)
	}
}

// The newest list is read each time, so that a collector sees the list of a new core at once.
func TestReader_FindsNewestHashKeys(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	if _, state := f.reader.HashKeys(t.Context()); state != directory.Unknown {
		t.Errorf("in an empty directory, the state of the hash keys is %v, want Unknown", state)
	}
	for _, fingerprint := range []string{"a", "b"} {
		batch := f.writer.Batch()
		batch.PutHashKeys(int64(fingerprint[0]), &edgev1.HashKeys{Fingerprints: [][]byte{[]byte(fingerprint)}})
		check(t, batch.Flush(t.Context()))
		if keys, state := f.reader.HashKeys(t.Context()); state != directory.Found || string(keys.Fingerprints[0]) != fingerprint {
			t.Errorf("HashKeys returned %v, %v, want the fingerprint %s", keys, state, fingerprint)
		}
	}
}

func testNewestVersionRemains(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, endpoint)
	ctx := t.Context()
	f.markComplete(t)
	// Comparing these versions as floating point numbers or as text would give wrong
	// results.
	versions := []int64{1, 9, 10, 999_999_999, 1_000_000_000, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<63 - 2, 1<<63 - 1}
	for round := range 20 {
		name := string(rune('a' + round))
		for _, i := range rand.Perm(len(versions)) {
			check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(versions[i], scope, name, code(int32(i))) }))
		}
		if entry, state := f.reader.ReferralCode(ctx, scope, name); state != directory.Found || int(entry.AttributionWindowDays) != len(versions)-1 {
			t.Fatalf("round %d: the entry is %v with the state %v, want the window %d", round, entry, state, len(versions)-1)
		}
	}
}

func TestBatch_DeletionHasAVersionAndExpires(t *testing.T) {
	for name, batch := range map[string]func(*directory.Writer) *directory.Batch{
		"Batch": (*directory.Writer).Batch, "Changes": (*directory.Writer).Changes,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, redistest.New(t))
			ctx := t.Context()
			deletion := batch(f.writer)
			deletion.DeleteReferralCode(5, scope, "anna")
			deletion.DeleteLink(5, "Anna000key")
			check(t, deletion.Flush(ctx))
			check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(4, scope, "anna", code(30)) }))
			check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(4, "Anna000key", link("https://a.example/")) }))
			if _, state := f.reader.ReferralCode(ctx, scope, "anna"); state != directory.Absent {
				t.Errorf("after a deletion and a write with an older version, the state is %v, want Absent", state)
			}
			keys, err := f.client.Keys(ctx, "*").Result()
			check(t, err)
			if len(keys) != 2 {
				t.Errorf("the keys are %q, want a code and a link", keys)
			}
			for _, key := range keys {
				if left := f.client.TTL(ctx, key).Val(); left <= 0 || left > time.Minute {
					t.Errorf("%s expires after %s, want up to a minute", key, left)
				}
			}
			check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(6, scope, "anna", code(30)) }))
			if _, state := f.reader.ReferralCode(ctx, scope, "anna"); state != directory.Found {
				t.Errorf("after a deletion and a write with a newer version, the state is %v, want Found", state)
			}
			for _, key := range keys {
				if left := f.client.TTL(ctx, key).Val(); strings.Contains(key, "anna") && left != -1 {
					t.Errorf("after the newer write, %s expires after %s, want never", key, left)
				}
			}
		})
	}
}

func TestReader_CachesFoundEntriesFor30Seconds(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	ctx := t.Context()
	window := func() int32 {
		t.Helper()
		entry, state := f.reader.ReferralCode(ctx, scope, "anna")
		if state != directory.Found {
			t.Fatalf("ReferralCode returned the state %v, want Found", state)
		}
		return entry.AttributionWindowDays
	}
	check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(1, scope, "anna", code(30)) }))
	if got := window(); got != 30 {
		t.Fatalf("the window is %d, want 30", got)
	}
	check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(2, scope, "anna", code(60)) }))
	if got := window(); got != 30 {
		t.Errorf("after a change, the window is %d, want 30 from the cache", got)
	}
	f.clock.Store(int64(31 * time.Second))
	if got := window(); got != 60 {
		t.Errorf("after 31 s, the window is %d, want 60", got)
	}
}

// The reader of this test is not subscribed to changes. It must still find new and
// activated entries at once, because readers do not cache absent and inactive entries.
func TestReader_FindsNewEntriesAtOnce(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	ctx, digest := t.Context(), sha256.Sum256([]byte("pk"))
	f.markComplete(t)
	inactive := &edgev1.ReferralCodeEntry{ProgramId: []byte("p")}
	for name, c := range map[string]struct {
		write    func() error
		isUsable func() bool
	}{
		"a new code": {
			func() error {
				return put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(1, scope, "anna", code(30)) })
			},
			func() bool { _, state := f.reader.ReferralCode(ctx, scope, "anna"); return state == directory.Found },
		},
		"an activated code": {
			func() error {
				return put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(2, scope, "bert", code(30)) })
			},
			func() bool { entry, _ := f.reader.ReferralCode(ctx, scope, "bert"); return entry.GetActive() },
		},
		"a new link": {
			func() error {
				return put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(1, "0000000000", link("https://a.example/")) })
			},
			func() bool { _, state := f.reader.Link(ctx, "0000000000"); return state == directory.Found },
		},
		"an activated link": {
			func() error {
				return put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(2, "1111111111", link("https://a.example/")) })
			},
			func() bool { entry, _ := f.reader.Link(ctx, "1111111111"); return entry.GetActive() },
		},
		"a new key": {
			func() error {
				return put(ctx, f.writer, func(b *directory.Batch) { b.PutPublicKey(1, digest, &edgev1.PublicKeyEntry{}) })
			},
			func() bool { _, state := f.reader.PublicKey(ctx, digest); return state == directory.Found },
		},
	} {
		check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(1, scope, "bert", inactive) }))
		check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(1, "1111111111", &edgev1.LinkEntry{}) }))
		if c.isUsable() {
			t.Errorf("%s is usable before the write", name)
		}
		check(t, c.write())
		if !c.isUsable() {
			t.Errorf("%s is not usable after the write", name)
		}
	}
}

func TestReader_RequestsAfterWriteFindEntry(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	f.markComplete(t)
	for round := range 20 {
		name := "code" + strconv.Itoa(round)
		var written, missed atomic.Bool
		var requests sync.WaitGroup
		for range 20 {
			requests.Go(func() {
				for {
					wasWritten := written.Load()
					_, state := f.reader.ReferralCode(t.Context(), scope, name)
					if state == directory.Found {
						return
					}
					if wasWritten {
						missed.Store(true)
						return
					}
				}
			})
		}
		check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutReferralCode(1, scope, name, code(30)) }))
		written.Store(true)
		requests.Wait()
		if missed.Load() {
			t.Fatalf("round %d: a request after the write did not find the entry", round)
		}
	}
}

func testSubscribedReaderDropsChangedCode(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, endpoint)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.reader.Run(ctx) })
	defer running.Wait()
	defer cancel()
	f.markComplete(t)

	awaitWindow := func(want int32) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			entry, state := f.reader.ReferralCode(ctx, scope, "anna")
			if state == directory.Found && entry.AttributionWindowDays == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("after 20 s, the reader finds %v with the state %v, want the window %d", entry, state, want)
			}
		}
	}
	check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(1, scope, "anna", code(30)) }))
	awaitWindow(30)
	check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutReferralCode(2, scope, "anna", code(60)) }))
	awaitWindow(60)
	batch := f.writer.Batch()
	batch.PutReferralCode(3, scope, "anna", code(90))
	check(t, batch.Flush(ctx))
	awaitWindow(90)

	// The reader does not receive messages while its subscription is interrupted.
	// Therefore it must drop its whole cache after it has subscribed again.
	f.onEachMaster(t, func(ctx context.Context, server redis.UniversalClient) error {
		return server.Do(ctx, "client", "kill", "type", "pubsub").Err()
	})
	check(t, f.client.Eval(ctx, `return redis.call('DEL', KEYS[1])`, []string{"{directory}:code:" + scope.Workspace.String() + ":test:anna"}).Err())
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, state := f.reader.ReferralCode(ctx, scope, "anna"); state == directory.Absent {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the reader did not drop its cache after it had subscribed again")
		}
	}
}

func testRebuildIsNotCompleteAfterLoss(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, endpoint)
	ctx := t.Context()
	rebuild, err := f.writer.BeginRebuild(ctx)
	check(t, err)
	batch := f.writer.Batch()
	for i := range 2500 {
		batch.PutReferralCode(1, scope, string(rune('a'+i%26))+time.Duration(i).String(), code(30))
	}
	check(t, batch.Flush(ctx))
	f.onEachMaster(t, func(ctx context.Context, server redis.UniversalClient) error { return server.FlushDB(ctx).Err() })
	if done, err := f.writer.MarkComplete(ctx, rebuild); err != nil || done {
		t.Fatalf("MarkComplete of a flushed directory returned %t, %v, want false", done, err)
	}
	if complete, err := f.writer.Complete(ctx); err != nil || complete {
		t.Fatalf("Complete returned %t, %v after the flush, want false", complete, err)
	}
	second, err := f.writer.BeginRebuild(ctx)
	check(t, err)
	if done, _ := f.writer.MarkComplete(ctx, rebuild); done {
		t.Fatal("a rebuild was completed after a newer rebuild had begun")
	}
	if done, err := f.writer.MarkComplete(ctx, second); err != nil || !done {
		t.Fatalf("MarkComplete of the newer rebuild returned %t, %v, want true", done, err)
	}
	if complete, err := f.writer.Complete(ctx); err != nil || !complete {
		t.Fatalf("Complete returned %t, %v after the newer rebuild, want true", complete, err)
	}
}

func TestBatch_FlushAfterScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	f := newFixture(t, server.URL)
	ctx := t.Context()
	check(t, f.client.ScriptFlush(ctx).Err())
	batch := f.writer.Batch()
	batch.PutReferralCode(1, scope, "anna", code(30))
	batch.DeleteReferralCode(1, scope, "bert")
	check(t, batch.Flush(ctx))
	if _, state := f.reader.ReferralCode(ctx, scope, "anna"); state != directory.Found {
		t.Errorf("after Flush, the state of the code is %v, want Found", state)
	}

	server.Kill9()
	if _, state := f.reader.ReferralCode(ctx, scope, "anna"); state != directory.Found {
		t.Errorf("without Redis, the state of a cached entry is %v, want Found", state)
	}
	if _, state := f.reader.ReferralCode(ctx, scope, "carla"); state != directory.Unknown {
		t.Errorf("without Redis, the state of an entry that is not cached is %v, want Unknown", state)
	}
}

// put writes entries to the directory and publishes the change.
func put(ctx context.Context, writer *directory.Writer, add func(*directory.Batch)) error {
	batch := writer.Changes()
	add(batch)
	return batch.Flush(ctx)
}
