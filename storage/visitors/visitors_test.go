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
	received           = time.Now()
	workspace, another = affiliate.NewID[affiliate.Workspace](received), affiliate.NewID[affiliate.Workspace](received)
)

// click is one of a visitor, received some seconds after the others.
func click(after int, change ...func(*affiliate.Click)) *affiliate.Click {
	c := &affiliate.Click{
		ID: affiliate.NewID[affiliate.Click](received), Scope: affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}, ReferralCode: "anna",
		ReceivedAt: received.Add(time.Duration(after) * time.Second), Consent: affiliate.ConsentGranted, IPHash: []byte("0123456"), UAHash: []byte("agent"),
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// mark asks for one batch.
func mark(t *testing.T, v *Visitors, clicks ...*affiliate.Click) {
	t.Helper()
	if unknown := v.MarkUnique(t.Context(), clicks); unknown != 0 {
		t.Fatalf("of %d clicks %d are unknown", len(clicks), unknown)
	}
}

func TestTheFirstClickOfAVisitorIsUnique(t *testing.T) {
	client := connect(t, redistest.New(t))
	v := New(client)
	different := map[string]func(*affiliate.Click){
		"the same visitor":  func(*affiliate.Click) {},
		"another workspace": func(c *affiliate.Click) { c.Scope.Workspace = another },
		"another mode":      func(c *affiliate.Click) { c.Scope.Mode = affiliate.ModeTest },
		"another address":   func(c *affiliate.Click) { c.IPHash = []byte("012345") },
		"another agent":     func(c *affiliate.Click) { c.UAHash = []byte("sagent") },
		"no agent":          func(c *affiliate.Click) { c.UAHash = nil },
		"another code":      func(c *affiliate.Click) { c.ReferralCode = "bert" },
		// The same bytes, parted elsewhere.
		"address and agent": func(c *affiliate.Click) { c.IPHash, c.UAHash = []byte("0123456a"), []byte("gent") },
	}
	mark(t, v, click(0))
	for name, change := range different {
		first, second := click(1, change), click(2, change)
		mark(t, v, first)
		mark(t, v, second)
		if want := name != "the same visitor"; first.Unique != want || second.Unique {
			t.Errorf("%s: unique are %t, %t", name, first.Unique, second.Unique)
		}
	}
	if kept := len(stored(t, client)); kept != len(different) {
		t.Errorf("%d visitors are kept", kept)
	}
}

func TestBotsAndVisitorsWhoCannotBeToldApartAreNeverUnique(t *testing.T) {
	client := connect(t, redistest.New(t))
	clicks := []*affiliate.Click{
		click(0, func(c *affiliate.Click) { c.IsBot = true }),
		click(0, func(c *affiliate.Click) { c.Consent = affiliate.ConsentDenied }),
		click(0, func(c *affiliate.Click) { c.Consent, c.IPHash, c.UAHash = affiliate.ConsentDenied, nil, nil }),
		click(0, func(c *affiliate.Click) { c.IPHash = nil }),
		click(0, func(c *affiliate.Click) { c.IPHash = []byte{} }),
	}
	mark(t, New(client), clicks...)
	if slices.ContainsFunc(clicks, func(c *affiliate.Click) bool { return c.Unique }) {
		t.Error("one is unique")
	}
	if keys := client.DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("%d keys", keys)
	}
}

func TestTheEarliestOfABatchIsUnique(t *testing.T) {
	v := New(connect(t, redistest.New(t)))
	clicks := []*affiliate.Click{click(3), click(1), click(2)}
	mark(t, v, clicks...)
	if clicks[0].Unique || !clicks[1].Unique || clicks[2].Unique {
		t.Errorf("unique are %t, %t, %t", clicks[0].Unique, clicks[1].Unique, clicks[2].Unique)
	}
}

// A click that was unique is so again after a crash, whatever it is read with: an
// earlier one that came later changes nothing.
func TestAClickIsToldTheSameAgain(t *testing.T) {
	v := New(connect(t, redistest.New(t)))
	first := click(5)
	mark(t, v, first)
	repeated, twin, earlier, later := *first, *first, click(1), click(9)
	repeated.Unique, twin.Unique = false, false
	mark(t, v, earlier, &repeated, later, &twin)
	if !repeated.Unique || !twin.Unique || earlier.Unique || later.Unique {
		t.Errorf("unique are %t, %t, not %t, %t", repeated.Unique, twin.Unique, earlier.Unique, later.Unique)
	}
	// Nor does it keep what a click says of itself.
	later.Unique = true
	mark(t, v, later)
	if later.Unique {
		t.Error("a later click stays unique")
	}
}

func TestOneClickOfAVisitorIsUniqueWhoeverAsks(t *testing.T) {
	url := redistest.New(t)
	const processes, visitors, each = 4, 50, 12
	clicks := make([]affiliate.Click, 0, visitors*each)
	for n := range visitors * each {
		clicks = append(clicks, *click(n/visitors, func(c *affiliate.Click) { c.IPHash = []byte{byte(n % visitors)} }))
	}
	// Every process asks for all of them, in batches and an order of its own.
	answers := make([][]affiliate.Click, processes)
	var asking sync.WaitGroup
	for p := range answers {
		answers[p] = slices.Clone(clicks)
		v, order := New(connect(t, url)), rand.Perm(len(clicks))
		asking.Go(func() {
			for batch := range slices.Chunk(order, 7) {
				var asked []*affiliate.Click
				for _, n := range batch {
					asked = append(asked, &answers[p][n])
				}
				// A slow machine may leave a question without its answer: it is put again.
				for v.MarkUnique(context.Background(), asked) > 0 {
				}
			}
		})
	}
	asking.Wait()
	unique := map[byte]int{}
	for n := range clicks {
		for p := range answers {
			if answers[p][n].Unique != answers[0][n].Unique {
				t.Fatalf("click %d is unique for one process and not for another", n)
			}
		}
		if answers[0][n].Unique {
			unique[clicks[n].IPHash[0]]++
		}
	}
	for visitor := range byte(visitors) {
		if unique[visitor] != 1 {
			t.Errorf("%d unique clicks of visitor %d", unique[visitor], visitor)
		}
	}
}

func TestWithoutRedisNothingIsUniqueAndItIsSaid(t *testing.T) {
	for name, away := range map[string]func(*redistest.Server){
		"it hangs":   (*redistest.Server).Pause,
		"it is gone": (*redistest.Server).Kill9,
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			v := New(connect(t, server.URL))
			mark(t, v, click(0))
			away(server)
			clicks := []*affiliate.Click{
				click(1, func(c *affiliate.Click) { c.ReferralCode = "bert" }), click(2, func(c *affiliate.Click) { c.ReferralCode = "bert" }),
				click(3, func(c *affiliate.Click) { c.ReferralCode = "carla" }), click(4, func(c *affiliate.Click) { c.IsBot = true }),
			}
			if unknown := v.MarkUnique(t.Context(), clicks); unknown != 3 {
				t.Errorf("%d are unknown, want 3: the bot is none", unknown)
			}
			if slices.ContainsFunc(clicks, func(c *affiliate.Click) bool { return c.Unique }) {
				t.Error("one is unique")
			}
			if name == "it hangs" {
				server.Resume()
			}
		})
	}
}
