package visitors

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func connect(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	return connectTo(t, url, string(clickstream.Single))
}

func connectTo(t testing.TB, url, kind string) redis.UniversalClient {
	t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: url, Kind: clickstream.Kind(kind)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var (
	baseTime                  = time.Now()
	workspace, otherWorkspace = affiliate.NewID[affiliate.WorkspaceID](baseTime), affiliate.NewID[affiliate.WorkspaceID](baseTime)
)

// click returns a new click that was received the given number of seconds after baseTime.
// All clicks have the same visitor unless a change function sets other values.
func newClick(seconds int, change ...func(*click.Click)) *click.Click {
	c := &click.Click{
		ID: affiliate.NewID[affiliate.ClickID](baseTime), Scope: affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}, ReferralCode: "anna",
		ReceivedAt: baseTime.Add(time.Duration(seconds) * time.Second), Consent: click.ConsentGranted, IPHash: []byte("0123456"), UAHash: []byte("agent"),
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// mark calls MarkUnique for a batch of clicks. The test fails if a result is unknown.
func mark(t *testing.T, v *Visitors, clicks ...*click.Click) {
	t.Helper()
	if unknown := v.MarkUnique(t.Context(), clicks); unknown != 0 {
		t.Fatalf("MarkUnique has no result for %d of %d clicks", unknown, len(clicks))
	}
}

func TestMarkUnique_FirstClickOfVisitor(t *testing.T) {
	client := connect(t, redistest.New(t))
	v := New(client)
	visitors := map[string]func(*click.Click){
		"same visitor":      func(*click.Click) {},
		"another workspace": func(c *click.Click) { c.Workspace = otherWorkspace },
		"another mode":      func(c *click.Click) { c.Mode = affiliate.ModeTest },
		"another address":   func(c *click.Click) { c.IPHash = []byte("012345") },
		"another agent":     func(c *click.Click) { c.UAHash = []byte("sagent") },
		"no agent":          func(c *click.Click) { c.UAHash = nil },
		"another code":      func(c *click.Click) { c.ReferralCode = "bert" },
		// The same bytes in total, with another boundary between address and agent.
		"another boundary": func(c *click.Click) { c.IPHash, c.UAHash = []byte("0123456a"), []byte("gent") },
	}
	mark(t, v, newClick(0))
	for name, change := range visitors {
		first, second := newClick(1, change), newClick(2, change)
		mark(t, v, first)
		mark(t, v, second)
		if want := name != "same visitor"; first.Unique != want || second.Unique {
			t.Errorf("%s: Unique is %t for the first click and %t for the second, want %t and false", name, first.Unique, second.Unique, want)
		}
	}
	if n := len(storedVisitors(t, client)); n != len(visitors) {
		t.Errorf("%d visitors are stored, want %d", n, len(visitors))
	}
}

func TestMarkUnique_IgnoresBotsAndUnidentifiableVisitors(t *testing.T) {
	client := connect(t, redistest.New(t))
	clicks := []*click.Click{
		newClick(0, func(c *click.Click) { c.IsBot = true }),
		newClick(0, func(c *click.Click) { c.Consent = click.ConsentDenied }),
		newClick(0, func(c *click.Click) { c.Consent, c.IPHash, c.UAHash = click.ConsentDenied, nil, nil }),
		newClick(0, func(c *click.Click) { c.IPHash = nil }),
		newClick(0, func(c *click.Click) { c.IPHash = []byte{} }),
	}
	mark(t, New(client), clicks...)
	if slices.ContainsFunc(clicks, func(c *click.Click) bool { return c.Unique }) {
		t.Error("the click of a bot or of an unidentifiable visitor is unique")
	}
	if keys := client.DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("Redis has %d keys, want none", keys)
	}
}

func TestMarkUnique_EarliestClickOfBatch(t *testing.T) {
	v := New(connect(t, redistest.New(t)))
	clicks := []*click.Click{newClick(3), newClick(1), newClick(2)}
	mark(t, v, clicks...)
	if clicks[0].Unique || !clicks[1].Unique || clicks[2].Unique {
		t.Errorf("Unique is %t, %t, %t, want only the earliest click to be unique", clicks[0].Unique, clicks[1].Unique, clicks[2].Unique)
	}
}

// After a crash, MarkUnique is called again for the same click, perhaps in a batch with
// other clicks. The result must be the same, even if the batch contains an earlier click.
func TestMarkUnique_RepeatedCallHasSameResult(t *testing.T) {
	v := New(connect(t, redistest.New(t)))
	first := newClick(5)
	mark(t, v, first)
	repeated, duplicate, earlier, later := *first, *first, newClick(1), newClick(9)
	repeated.Unique, duplicate.Unique = false, false
	mark(t, v, earlier, &repeated, later, &duplicate)
	if !repeated.Unique || !duplicate.Unique || earlier.Unique || later.Unique {
		t.Errorf("Unique is %t and %t for the two copies of the first click, want true; %t for the earlier and %t for the later click, want false", repeated.Unique, duplicate.Unique, earlier.Unique, later.Unique)
	}
	// MarkUnique must also reset the field of a click that is not unique.
	later.Unique = true
	mark(t, v, later)
	if later.Unique {
		t.Error("a click that is not unique keeps Unique true")
	}
}

func TestMarkUnique_OneClickPerVisitorInParallelProcesses(t *testing.T) {
	url := redistest.New(t)
	const processes, visitors, clicksPerVisitor = 4, 50, 12
	clicks := make([]click.Click, 0, visitors*clicksPerVisitor)
	for n := range visitors * clicksPerVisitor {
		clicks = append(clicks, *newClick(n/visitors, func(c *click.Click) { c.IPHash = []byte{byte(n % visitors)} }))
	}
	// Every process marks all clicks, in batches and in a random order.
	results := make([][]click.Click, processes)
	var running sync.WaitGroup
	for p := range results {
		results[p] = slices.Clone(clicks)
		v, order := New(connect(t, url)), rand.Perm(len(clicks))
		running.Go(func() {
			for indexes := range slices.Chunk(order, 7) {
				var batch []*click.Click
				for _, n := range indexes {
					batch = append(batch, &results[p][n])
				}
				// On a slow machine, a call may time out. Repeat the call until it
				// succeeds.
				for v.MarkUnique(context.Background(), batch) > 0 {
				}
			}
		})
	}
	running.Wait()
	unique := map[byte]int{}
	for n := range clicks {
		for p := range results {
			if results[p][n].Unique != results[0][n].Unique {
				t.Fatalf("for click %d, Unique is %t in process 0 and %t in process %d", n, results[0][n].Unique, results[p][n].Unique, p)
			}
		}
		if results[0][n].Unique {
			unique[clicks[n].IPHash[0]]++
		}
	}
	for visitor := range byte(visitors) {
		if unique[visitor] != 1 {
			t.Errorf("visitor %d has %d unique clicks, want 1", visitor, unique[visitor])
		}
	}
}

func TestMarkUnique_WithoutRedisCountsUnknownClicks(t *testing.T) {
	for name, fail := range map[string]func(*redistest.Server){
		"Redis hangs":   (*redistest.Server).Pause,
		"Redis is dead": (*redistest.Server).Kill9,
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			v := New(connect(t, server.URL))
			mark(t, v, newClick(0))
			fail(server)
			clicks := []*click.Click{
				newClick(1, func(c *click.Click) { c.ReferralCode = "bert" }), newClick(2, func(c *click.Click) { c.ReferralCode = "bert" }),
				newClick(3, func(c *click.Click) { c.ReferralCode = "carla" }), newClick(4, func(c *click.Click) { c.IsBot = true }),
			}
			if unknown := v.MarkUnique(t.Context(), clicks); unknown != 3 {
				t.Errorf("%d clicks are unknown, want 3, because clicks of bots are not counted", unknown)
			}
			if slices.ContainsFunc(clicks, func(c *click.Click) bool { return c.Unique }) {
				t.Error("without Redis, a click is unique")
			}
			if name == "Redis hangs" {
				server.Resume()
			}
		})
	}
}
