package directory_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func link(target string) *edgev1.LinkEntry {
	return &edgev1.LinkEntry{WorkspaceId: scope.Workspace.UUID[:], ReferralCode: "anna", TargetUrl: target, Active: true}
}

// target returns the target URL of a link and the state of the look-up.
func (f *fixture) target(t testing.TB, key string) (string, directory.State) {
	t.Helper()
	entry, state := f.reader.Link(t.Context(), key)
	return entry.GetTargetUrl(), state
}

func testLinks(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, endpoint)
	ctx := t.Context()
	if _, state := f.target(t, "Anna000key"); state != directory.Unknown {
		t.Errorf("in an incomplete directory, the state of a missing link is %v, want Unknown", state)
	}
	check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
	if target, state := f.target(t, "Anna000key"); state != directory.Found || target != "https://a.example/" {
		t.Errorf("in an incomplete directory, an existing link has the target %q and the state %v, want https://a.example/ and Found", target, state)
	}
	f.markComplete(t)
	if _, state := f.target(t, "anna000key"); state != directory.Absent {
		t.Errorf("the state of the key in lower case is %v, want Absent", state)
	}
	// The reader must not cache that a link is absent.
	check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(2, "anna000key", link("https://b.example/")) }))
	if target, state := f.target(t, "anna000key"); state != directory.Found || target != "https://b.example/" {
		t.Errorf("after the write, the link has the target %q and the state %v, want https://b.example/ and Found", target, state)
	}
	// A link and a referral code with the same text are different entries.
	if _, state := f.reader.ReferralCode(ctx, scope, "Anna000key"); state != directory.Absent {
		t.Errorf("the state of a code with the text of a link's key is %v, want Absent", state)
	}
}

func TestWriter_NewestVersionOfLinkRemains(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	ctx := t.Context()
	f.markComplete(t)
	for round := range 10 {
		key := string(rune('a'+round)) + "000000000"
		for _, version := range rand.Perm(6) {
			batch := f.writer.Batch()
			switch {
			case version == 5:
				batch.DeleteLink(5, key)
			case version%2 == 0:
				batch.PutLink(int64(version), key, link("https://a.example/"))
			default:
				check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(int64(version), key, link("https://b.example/")) }))
			}
			check(t, batch.Flush(ctx))
		}
		if _, state := f.target(t, key); state != directory.Absent {
			t.Fatalf("round %d: the state is %v, want Absent, because the deletion has the highest version", round, state)
		}
		batch := f.writer.Batch()
		batch.PutLink(7, key, link("https://c.example/"))
		batch.DeleteLink(6, key)
		check(t, batch.Flush(ctx))
		fresh := directory.NewReader(f.client, time.Now)
		if entry, state := fresh.Link(ctx, key); state != directory.Found || entry.TargetUrl != "https://c.example/" {
			t.Fatalf("round %d: after a newer write, the entry is %v with the state %v, want the target https://c.example/", round, entry, state)
		}
	}
}

func testSubscribedReaderDropsChangedLink(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, endpoint)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.reader.Run(ctx) })
	defer running.Wait()
	defer cancel()
	f.markComplete(t)
	awaitLink := func(wantTarget string, wantState directory.State) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			target, state := f.target(t, "Anna000key")
			if state == wantState && target == wantTarget {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("after 20 s, the link has the target %q and the state %v, want %q and %v", target, state, wantTarget, wantState)
			}
		}
	}
	awaitLink("", directory.Absent)
	check(t, put(ctx, f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
	awaitLink("https://a.example/", directory.Found)
	batch := f.writer.Batch()
	batch.PutLink(2, "Anna000key", link("https://b.example/"))
	check(t, batch.Flush(ctx))
	awaitLink("https://b.example/", directory.Found)
	deletion := f.writer.Changes()
	deletion.DeleteLink(3, "Anna000key")
	check(t, deletion.Flush(ctx))
	awaitLink("", directory.Absent)
}

func TestReader_FindsCachedLinkWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	f := newFixture(t, server.URL)
	f.markComplete(t)
	check(t, put(t.Context(), f.writer, func(b *directory.Batch) { b.PutLink(1, "Anna000key", link("https://a.example/")) }))
	if _, state := f.target(t, "Anna000key"); state != directory.Found {
		t.Fatalf("the state of the link is %v, want Found", state)
	}
	server.Kill9()
	if _, state := f.target(t, "Anna000key"); state != directory.Found {
		t.Errorf("without Redis, the state of a cached link is %v, want Found", state)
	}
	if _, state := f.target(t, "0000000000"); state != directory.Unknown {
		t.Errorf("without Redis, the state of a link that is not cached is %v, want Unknown", state)
	}
}
