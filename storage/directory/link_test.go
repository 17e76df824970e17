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

func (f *fixture) target(t testing.TB, key string) (string, directory.State) {
	t.Helper()
	entry, state := f.reader.Link(t.Context(), key)
	return entry.GetTargetUrl(), state
}

func linksAreFoundAbsentOrUnknown(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, at)
	ctx := t.Context()
	if _, state := f.target(t, "Anna000key"); state != directory.Blind {
		t.Errorf("without the marker: %v", state)
	}
	check(t, f.writer.PutLink(ctx, 1, "Anna000key", link("https://a.example/")))
	if target, state := f.target(t, "Anna000key"); state != directory.Found || target != "https://a.example/" {
		t.Errorf("what is there is there, marker or not: %q %v", target, state)
	}
	f.complete(t)
	if _, state := f.target(t, "anna000key"); state != directory.Absent {
		t.Errorf("lower and upper case are two keys: %v", state)
	}
	// Absent links are read again each time.
	check(t, f.writer.PutLink(ctx, 2, "anna000key", link("https://b.example/")))
	if target, state := f.target(t, "anna000key"); state != directory.Found || target != "https://b.example/" {
		t.Errorf("after it was written: %q %v", target, state)
	}
	// A link and a code of the same text are two entries.
	if _, state := f.reader.ReferralCode(ctx, scope, "Anna000key"); state != directory.Absent {
		t.Errorf("a code of a link's key: %v", state)
	}
}

func TestTheNewestStateOfALinkWins(t *testing.T) {
	f := newFixture(t, redistest.New(t))
	ctx := t.Context()
	f.complete(t)
	for round := range 10 {
		key := string(rune('a'+round)) + "000000000"
		for _, version := range rand.Perm(6) {
			batch := f.writer.Batch()
			switch {
			case version == 5:
				check(t, f.writer.DeleteLink(ctx, 5, key))
			case version%2 == 0:
				batch.PutLink(int64(version), key, link("https://a.example/"))
			default:
				check(t, f.writer.PutLink(ctx, int64(version), key, link("https://b.example/")))
			}
			check(t, batch.Flush(ctx))
		}
		if _, state := f.target(t, key); state != directory.Absent {
			t.Fatalf("round %d ended with %v", round, state)
		}
		batch := f.writer.Batch()
		batch.PutLink(7, key, link("https://c.example/"))
		batch.DeleteLink(6, key)
		check(t, batch.Flush(ctx))
		fresh := directory.NewReader(f.client, time.Now)
		if entry, state := fresh.Link(ctx, key); state != directory.Found || entry.TargetUrl != "https://c.example/" {
			t.Fatalf("round %d, made again: %v %v", round, entry, state)
		}
	}
}

func aListeningReaderHearsOfALink(t *testing.T, at clickstream.Endpoint) {
	t.Helper()
	f := newFixtureAt(t, at)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.reader.Run(ctx) })
	defer running.Wait()
	defer cancel()
	f.complete(t)
	is := func(want string, wanted directory.State) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			target, state := f.target(t, "Anna000key")
			if state == wanted && target == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("never %q %v, but %q %v", want, wanted, target, state)
			}
		}
	}
	is("", directory.Absent)
	check(t, f.writer.PutLink(ctx, 1, "Anna000key", link("https://a.example/")))
	is("https://a.example/", directory.Found)
	batch := f.writer.Batch()
	batch.PutLink(2, "Anna000key", link("https://b.example/"))
	check(t, batch.Flush(ctx))
	is("https://b.example/", directory.Found)
	check(t, f.writer.DeleteLink(ctx, 3, "Anna000key"))
	is("", directory.Absent)
}

func TestACachedLinkOutlivesRedis(t *testing.T) {
	server := redistest.Start(t)
	f := newFixture(t, server.URL)
	f.complete(t)
	check(t, f.writer.PutLink(t.Context(), 1, "Anna000key", link("https://a.example/")))
	if _, state := f.target(t, "Anna000key"); state != directory.Found {
		t.Fatal(state)
	}
	server.Kill9()
	if _, state := f.target(t, "Anna000key"); state != directory.Found {
		t.Error("a cached link did not outlive Redis")
	}
	if _, state := f.target(t, "0000000000"); state != directory.Blind {
		t.Error("a link that is not cached cannot be absent without Redis")
	}
}
