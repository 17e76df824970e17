package ratelimit

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/storage/redistest"
)

// world is a home region and other regions, each with its own Redis, with a common clock.
type world struct {
	clock   *clock
	zone    Zone
	clients []redis.UniversalClient // clients[0] is the Redis of the home region
	leases  []*Lease
	cores   [][]*Exchange // by region (the first is nil) and core
	reached []time.Time   // by region: the last complete round
	// cutOff is the last time at which a region was cut off.
	cutOff   time.Time
	admitted []time.Time
	subject  string
}

const worldCores = 2

func newWorld(clients []redis.UniversalClient, limit int64) *world {
	w := &world{
		clock: newClock(), zone: Zone{Name: "regions", Limit: limit, Regional: true}, clients: clients,
		cores: make([][]*Exchange, len(clients)), reached: make([]time.Time, len(clients)),
	}
	w.cutOff = w.clock.now().Add(-time.Hour)
	for i, client := range clients {
		w.leases = append(w.leases, NewLease(client, Options{Timeout: longTimeout, Now: w.clock.now}))
		w.reached[i] = w.clock.now()
		for range worldCores {
			if i > 0 {
				w.cores[i] = append(w.cores[i], NewExchange(ExchangeConfig{
					Region: strconv.Itoa(i), Home: clients[0], Away: client, Regions: len(clients), Limit: limit, Now: w.clock.now,
				}))
			}
		}
	}
	w.look()
	return w
}

// look tells the collectors what their region is. In Redis, connectedKey expires with the
// real clock. Here its lifetime is measured with the clock of the test. A collector reads
// the key up to followInterval later.
func (w *world) look() {
	for i, lease := range w.leases {
		silent := w.clock.now().Sub(w.reached[i])
		connected := silent < connectedLifetime+followInterval
		if i > 0 && silent >= connectedLifetime {
			w.cutOff = w.clock.now()
		}
		lease.region.Store(&region{regions: int64(len(w.clients)), home: i == 0, connected: connected})
	}
}

// take sends a request in a region and records it if it was admitted.
func (w *world) take(region int) bool {
	w.look()
	allowed := w.leases[region].Take(context.Background(), w.zone, w.subject).Allowed
	if allowed {
		w.admitted = append(w.admitted, w.clock.now())
	}
	return allowed
}

// round makes a round of a core.
func (w *world) round(t testing.TB, region, core int) {
	t.Helper()
	w.leases[region].writeMarks(context.Background())
	// The other core takes over: its lock has expired.
	w.clients[0].Del(context.Background(), "{limits}:exchange:"+strconv.Itoa(region))
	if err := w.cores[region][core].round(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.reached[region] = w.clock.now()
}

// inWindow returns the number of admitted requests in the last 60 seconds.
func (w *world) inWindow() int64 {
	from := w.clock.now().Add(-time.Minute)
	w.admitted = slices.DeleteFunc(w.admitted, func(at time.Time) bool { return !at.After(from) })
	return int64(len(w.admitted))
}

// bound returns the largest allowed number of requests in the last 60 seconds. If a region
// was cut off a short time ago, its requests from then may still count.
func (w *world) bound() int64 {
	if w.clock.now().Sub(w.cutOff) > 75*time.Second {
		return w.zone.Limit
	}
	regions := int64(len(w.clients))
	return w.zone.Limit + (regions-1)*(w.zone.Limit/regions)
}

func regionClients(t testing.TB, n int) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, n)
	for i := range clients {
		clients[i] = connect(t, redistest.New(t))
	}
	return clients
}

// The test makes random requests in three regions, random rounds of two cores for each
// region, rounds that stop in the middle, and grants that arrive late. While all regions are
// connected, no period of 60 s may contain more admitted requests than the limit. If regions
// are cut off, it may not contain more than the stated bound.
func TestExchange_MatchesOracle(t *testing.T) {
	clients := regionClients(t, 3)
	rapid.Check(t, func(rt *rapid.T) {
		regions := rapid.IntRange(2, 3).Draw(rt, "regions")
		w := newWorld(clients[:regions], rapid.SampledFrom([]int64{30, 200}).Draw(rt, "limit"))
		w.subject = strconv.FormatInt(lastSubject.Add(1), 10)
		var late []func()
		region := func(from int) int { return rapid.IntRange(from, regions-1).Draw(rt, "region") }
		rounds := func(n int) {
			for range n {
				w.clock.advance(roundInterval)
				for at := 1; at < regions; at++ {
					w.round(t, at, 0)
				}
			}
		}
		click := func(at, n int) {
			for range n {
				if !w.take(at) {
					return
				}
				if w.inWindow() > w.bound() {
					rt.Fatalf("%d requests were admitted in 60 s, want at most %d", w.inWindow(), w.bound())
				}
			}
		}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"wait", "wait", "round", "rounds", "fill", "part", "late", "clicks", "clicks"}).Draw(rt, "act") {
			case "wait":
				w.clock.advance(time.Duration(rapid.OneOf(rapid.Int64Range(0, 300), rapid.SampledFrom([]int64{999, 4000, 5900, 6100, 30_000, 55_000, 60_000, 73_000})).Draw(rt, "ms")) * time.Millisecond)
				w.look()
			case "round":
				w.round(t, region(1), rapid.IntRange(0, worldCores-1).Draw(rt, "core"))
			case "rounds":
				rounds(rapid.IntRange(1, 20).Draw(rt, "rounds"))
			case "fill":
				// The requests come from one region until it needs more lent tokens.
				at := region(0)
				for range 40 {
					click(at, 1+int(w.zone.Limit)/40)
					rounds(1)
				}
			case "part":
				x, windows := w.settled(t)
				if rapid.Bool().Draw(rt, "lend") {
					ok(t, x.lend(t.Context(), windows, w.clock.now().Unix()-leaseSpan, w.clock.now().Add(maxBehind).Unix()))
					late = append(late, func() { ok(t, x.grant(context.Background(), windows)) })
				}
			case "late":
				for _, grant := range late {
					grant()
				}
				late = nil
			case "clicks":
				click(region(0), rapid.SampledFrom([]int{1, 10, 1000}).Draw(rt, "clicks"))
			}
		}
	})
}

// Each case is a sequence in which an Exchange without one of its rules would admit too many
// requests. There are two regions and the limit is 200.
func TestExchange_RareSequences(t *testing.T) {
	clients := regionClients(t, 2)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, w *world)
	}{
		{"a grant arrives after the tokens were given back", func(t *testing.T, w *world) {
			t.Helper()
			w.fill(t)
			w.wait(t, 60*time.Second)
			core, windows := w.part(t)
			w.wait(t, 4*time.Second) // the requests of the region leave the window
			w.takeAll(0)
			ok(t, core.grant(t.Context(), windows))
			w.takeAll(1)
		}},
		{"the row of a region is written after that of a later round", func(t *testing.T, w *world) {
			t.Helper()
			w.takeAll(1)
			x, windows := w.settled(t)
			w.clock.advance(roundInterval)
			w.fill(t)
			ok(t, x.lend(t.Context(), windows, w.clock.now().Unix()-leaseSpan, w.clock.now().Add(maxBehind).Unix()))
			w.takeAll(0)
			w.takeAll(1)
		}},
		{"the home region uses its last tokens while a region has unused ones", func(t *testing.T, w *world) {
			t.Helper()
			w.takeAll(1)
			w.wait(t, roundInterval)
			w.takeAll(0)
			w.part(t) // the grant is lost
			w.takeAll(0)
			w.takeAll(1)
		}},
		{"a region that is cut off uses its lent tokens as late as possible", func(t *testing.T, w *world) {
			t.Helper()
			w.fill(t)
			w.wait(t, 57500*time.Millisecond)
			w.clock.advance(4900 * time.Millisecond)
			w.takeAll(1)
			w.clock.advance(58 * time.Second)
			w.takeAll(0)
		}},
		{"a region is connected again and has old lent tokens", func(t *testing.T, w *world) {
			t.Helper()
			w.fill(t)
			w.wait(t, 30*time.Second)
			w.clock.advance(80 * time.Second)
			w.takeAll(0)
			w.round(t, 1, 1)
			w.takeAll(1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(clients, 200)
			w.subject = strconv.FormatInt(lastSubject.Add(1), 10)
			c.run(t, w)
			if got := w.inWindow(); got > w.bound() {
				t.Errorf("%d requests were admitted in 60 s, want at most %d", got, w.bound())
			}
		})
	}
}

// takeAll sends requests in a region until one is refused.
func (w *world) takeAll(region int) {
	w.clock.advance(refusalLifetime)
	for w.take(region) {
	}
}

// fill makes region 1 use as many tokens as it gets.
func (w *world) fill(t testing.TB) {
	t.Helper()
	for range 12 {
		w.takeAll(1)
		w.wait(t, roundInterval)
	}
}

// wait lets the time pass, with all rounds.
func (w *world) wait(t testing.TB, d time.Duration) {
	t.Helper()
	for range d / roundInterval {
		w.clock.advance(roundInterval)
		w.leases[1].sweep(t.Context())
		w.round(t, 1, 0)
	}
}

// settled makes the first part of a round.
func (w *world) settled(t testing.TB) (*Exchange, []exchanged) {
	t.Helper()
	x := *w.cores[1][0]
	x.headroom = map[string]int64{}
	x.version = max(x.version+1, versionAt(w.clock.now()))
	w.cores[1][0].version = x.version
	windows := []exchanged{{key: windowKey(nil, w.zone.Name, w.subject)}}
	ok(t, x.settle(t.Context(), windows, w.clock.now().Unix()-leaseSpan))
	return &x, windows
}

// part makes a round without its last part, the grant.
func (w *world) part(t testing.TB) (*Exchange, []exchanged) {
	t.Helper()
	x, windows := w.settled(t)
	ok(t, x.lend(t.Context(), windows, w.clock.now().Unix()-leaseSpan, w.clock.now().Add(maxBehind).Unix()))
	return x, windows
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each region sends a number of requests per second, for a minute, and the cores make four
// rounds in each second.
func TestExchange_RegionsGetWhatTheyNeed(t *testing.T) {
	clients := regionClients(t, 3)
	for _, c := range []struct {
		name      string
		perSecond [3]int
		want      [3]int64 // at least
	}{
		{"all requests at home", [3]int{30, 0, 0}, [3]int64{950, 0, 0}},
		{"all requests in another region", [3]int{0, 30, 0}, [3]int64{0, 900, 0}},
		{"few requests everywhere", [3]int{5, 5, 5}, [3]int64{300, 300, 300}},
		{"more requests than the limit everywhere", [3]int{30, 30, 30}, [3]int64{150, 150, 150}},
		{"many requests in one region, few in the others", [3]int{2, 30, 2}, [3]int64{50, 600, 50}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(clients, 1000)
			w.subject = strconv.FormatInt(lastSubject.Add(1), 10)
			var got [3]int64
			for range 60 * 4 {
				for region, n := range c.perSecond {
					for range n / 4 {
						if w.take(region) {
							got[region]++
						}
					}
					// The requests of the rest of the second.
					if n%4 > w.clock.now().Nanosecond()/int(roundInterval) && w.take(region) {
						got[region]++
					}
				}
				w.clock.advance(roundInterval)
				for _, lease := range w.leases {
					lease.sweep(t.Context())
				}
				w.round(t, 1, 0)
				w.round(t, 2, 0)
			}
			t.Logf("admitted: %v", got)
			for region, n := range got {
				if n < c.want[region] {
					t.Errorf("region %d admitted %d requests in a minute, want at least %d", region, n, c.want[region])
				}
			}
			if sum := got[0] + got[1] + got[2]; sum > 1000 {
				t.Errorf("%d requests were admitted, want at most 1000", sum)
			}
		})
	}
}
