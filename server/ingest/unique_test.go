package ingest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/storage/visitors"
)

func (s *stream) visitors(url string) *visitors.Visitors {
	s.t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url})
	check(s.t, err)
	s.t.Cleanup(func() { _ = client.Close() })
	return visitors.New(client)
}

// visit returns a click of the visitor with the given IP address. The click was received
// offsetMillis milliseconds after a fixed time.
func visit(address string, offsetMillis int64, change ...func(*edgev1.Click)) *edgev1.Click {
	return newClick(append(change, func(c *edgev1.Click) {
		c.IpHash, c.UaHash, c.Consent = []byte(address), []byte("agent"), edgev1.Consent_CONSENT_GRANTED
		c.WorkspaceId, c.ReceivedAtMs = make([]byte, 16), 1767323045000+offsetMillis
	})...)
}

// unique returns for each click whether it is stored as unique.
func (s *memoryStore) unique(t *testing.T, clicks ...*edgev1.Click) (unique []bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range clicks {
		id, _ := affiliate.IDFromBytes[affiliate.ClickID](c.Id)
		stored, ok := s.clicks[id]
		if !ok {
			t.Fatalf("%v is not stored", c)
		}
		unique = append(unique, stored.Unique)
	}
	return unique
}

// The process crashes after it marked the unique clicks and before the commit. The next
// process reads the entry again, and also a click of the same visitor with an earlier
// time. The click that was marked before the crash must stay the unique click.
func TestIngester_CrashBeforeTheCommitKeepsTheSameUniqueClick(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	first, second := visit("a", 1), visit("a", 2)
	s.append(first, second)
	crashing, _ := s.ingester("one", store)
	crashing.visitors = s.visitors(s.url)
	entries, err := crashing.reader.Next(t.Context(), 0)
	check(t, err)
	ctx, crash := context.WithCancel(t.Context())
	store.beforeStore = func(int, []click.Click) error { crash(); return errors.New("connection lost") }
	crashing.process(ctx, entries)
	if clicks, _ := store.count(); clicks != 0 || s.pending() != 1 {
		t.Fatalf("%d clicks committed, %d entries pending; want 0 and 1", clicks, s.pending())
	}

	late, other := visit("a", 0), visit("b", 0)
	s.append(late, other)
	// The second call of StoreClicks fails, although the process does not crash.
	store.beforeStore = func(call int, _ []click.Click) error {
		if call == 2 {
			return errors.New("connection refused")
		}
		return nil
	}
	restarted, _ := s.ingester("one", store)
	restarted.visitors = s.visitors(s.url)
	defer run(restarted)()
	pgtest.Eventually(t, "all clicks are stored and all entries are acknowledged", func() bool { n, _ := store.count(); return n == 4 && s.pending() == 0 })
	if got := store.unique(t, late, first, second, other); got[0] || !got[1] || got[2] || !got[3] {
		t.Errorf("the clicks are unique: %t, want only the second and the last to be unique", got)
	}
}

// The check for unique clicks needs the workspace. A collector that could not resolve a
// click sends it without a workspace, so the ingester must resolve the click first.
func TestIngester_MarksUnresolvedClicksAsUnique(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	key := account.NewKey(account.PublicKey, affiliate.ModeTest)
	now := time.Now()
	target := click.Target{
		Scope:   affiliate.Scope{Workspace: affiliate.NewID[affiliate.WorkspaceID](now), Mode: affiliate.ModeTest},
		Program: affiliate.NewID[affiliate.ProgramID](now), WindowDays: 7,
	}
	store.targets[click.Source{KeyDigest: key.Digest(), Code: "anna"}] = target
	unresolved := visit("a", 0)
	unresolved.WorkspaceId, unresolved.ProgramId, unresolved.ParticipantId, unresolved.PublicKey = nil, nil, nil, key.Reveal()
	resolved := visit("a", 1, func(c *edgev1.Click) { c.ProgramId = target.Program.UUID[:] })
	resolved.WorkspaceId = target.Scope.Workspace.UUID[:]
	s.append(unresolved, resolved)
	ingester, _ := s.ingester("one", store)
	ingester.visitors = s.visitors(s.url)
	defer run(ingester)()
	pgtest.Eventually(t, "both clicks are stored", func() bool { n, _ := store.count(); return n == 2 })
	if got := store.unique(t, unresolved, resolved); !got[0] || got[1] {
		t.Errorf("the clicks are unique: %t, want only the first to be unique", got)
	}
}

func TestIngester_StoresClicksWhileVisitorsAreUnreachable(t *testing.T) {
	s, store := newStream(t, redistest.New(t)), newMemoryStore()
	unreachable := redistest.Start(t)
	ingester, _ := s.ingester("one", store)
	ingester.visitors = s.visitors(unreachable.URL)
	unreachable.Kill9()
	clicks := []*edgev1.Click{visit("a", 0), visit("b", 0), visit("c", 0, func(c *edgev1.Click) { c.IsBot = true })}
	s.append(clicks...)
	defer run(ingester)()
	pgtest.Eventually(t, "all clicks are stored and all entries are acknowledged", func() bool { n, _ := store.count(); return n == 3 && s.pending() == 0 })
	if got := store.unique(t, clicks...); slices.Contains(got, true) {
		t.Errorf("the clicks are unique: %t, want none to be unique", got)
	}
	if unknown := testutil.ToFloat64(ingester.metrics.uniqueUnknown); unknown != 2 {
		t.Errorf("%v clicks are counted as not checked, want the 2 that are not from bots", unknown)
	}
}
