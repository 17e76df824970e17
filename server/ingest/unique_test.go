package ingest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/storage/visitors"
)

func (s *stream) visitors(url string) *visitors.Visitors {
	s.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url})
	check(s, err)
	s.Cleanup(func() { _ = client.Close() })
	return visitors.New(client)
}

// visit returns a click of the visitor with the given IP address. The click was received
// offsetMillis milliseconds after a fixed time.
func visit(address string, offsetMillis int64, change ...func(*edgev1.Click)) *edgev1.Click {
	return newClick(append(change, func(c *edgev1.Click) {
		c.IpHash, c.UaHash, c.Consent = []byte(address), []byte("agent"), edgev1.Consent_CONSENT_GRANTED
		c.WorkspaceId, c.ReceivedAtMs = bytes.Repeat([]byte{1}, 16), 1767323045000+offsetMillis
	})...)
}

// unique returns for each click whether it is stored as unique.
func (s *stream) unique(clicks ...*edgev1.Click) (unique []bool) {
	s.Helper()
	for _, c := range clicks {
		unique = append(unique, s.stored(c).IsUnique)
	}
	return unique
}

// The process crashes after it marked the unique clicks and before the commit. The next
// process reads the entry again, and also a click of the same visitor with an earlier
// time. The click that was marked before the crash must stay the unique click.
func TestIngester_CrashBeforeTheCommitKeepsTheSameUniqueClick(t *testing.T) {
	s := newStream(t, redistest.New(t))
	first, second := visit("a", 1), visit("a", 2)
	s.append(first, second)
	ctx, crash := context.WithCancel(t.Context())
	var commits atomic.Int64
	db := s.OpenHooked(func(sql string, _ []any) error {
		if sql != "commit" {
			return nil
		}
		switch commits.Add(1) {
		case 1:
			crash()
			return errors.New("connection lost")
		case 2: // the process does not crash
			return errors.New("connection lost")
		}
		return nil
	})
	crashing, _ := s.ingester("one", db)
	crashing.deps.Visitors = s.visitors(s.url)
	entries, err := crashing.deps.Reader.Next(t.Context(), 0)
	check(t, err)
	crashing.process(ctx, entries)
	if clicks := s.clicks(); clicks != 0 || s.pending() != 1 {
		t.Fatalf("%d clicks committed, %d entries pending; want 0 and 1", clicks, s.pending())
	}

	late, other := visit("a", 0), visit("b", 0)
	s.append(late, other)
	restarted, _ := s.ingester("one", db)
	restarted.deps.Visitors = s.visitors(s.url)
	defer run(restarted)()
	pgtest.Eventually(t, "all clicks are stored and all entries are acknowledged", func() bool { return s.clicks() == 4 && s.pending() == 0 })
	if got := s.unique(late, first, second, other); got[0] || !got[1] || got[2] || !got[3] {
		t.Errorf("the clicks are unique: %t, want only the second and the last to be unique", got)
	}
}

// The check for unique clicks needs the workspace. A collector that could not resolve a
// click sends it without a workspace, so the ingester must resolve the click first.
func TestIngester_MarksUnresolvedClicksAsUnique(t *testing.T) {
	s := newStream(t, redistest.New(t))
	key, anna := s.newSource()
	unresolved := visit("a", 0)
	unresolved.WorkspaceId, unresolved.ProgramId, unresolved.ParticipantId, unresolved.PublicKey = nil, nil, nil, key.Reveal()
	resolved := visit("a", 1, func(c *edgev1.Click) { c.ProgramId = anna.Program.UUID[:] })
	resolved.WorkspaceId = anna.Scope.Workspace.UUID[:]
	s.append(unresolved, resolved)
	ingester, _ := s.ingester("one", s.DB)
	ingester.deps.Visitors = s.visitors(s.url)
	defer run(ingester)()
	pgtest.Eventually(t, "both clicks are stored", func() bool { return s.clicks() == 2 })
	if got := s.unique(unresolved, resolved); !got[0] || got[1] {
		t.Errorf("the clicks are unique: %t, want only the first to be unique", got)
	}
}

func TestIngester_StoresClicksWhileVisitorsAreUnreachable(t *testing.T) {
	s := newStream(t, redistest.New(t))
	unreachable := redistest.Start(t)
	ingester, _ := s.ingester("one", s.DB)
	ingester.deps.Visitors = s.visitors(unreachable.URL)
	unreachable.Kill9()
	clicks := []*edgev1.Click{visit("a", 0), visit("b", 0), visit("c", 0, func(c *edgev1.Click) { c.IsBot = true })}
	s.append(clicks...)
	defer run(ingester)()
	pgtest.Eventually(t, "all clicks are stored and all entries are acknowledged", func() bool { return s.clicks() == 3 && s.pending() == 0 })
	if got := s.unique(clicks...); slices.Contains(got, true) {
		t.Errorf("the clicks are unique: %t, want none to be unique", got)
	}
	if unknown := testutil.ToFloat64(ingester.metrics.uniqueUnknown); unknown != 2 {
		t.Errorf("%v clicks are counted as not checked, want the 2 that are not from bots", unknown)
	}
}
