package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind is what can be done to the system.
type kind string

const (
	killCollector  kind = "kill -9 of a collector"
	pauseCollector kind = "SIGSTOP of a collector"
	stopCollector  kind = "graceful stop of a collector"
	fillDisk       kind = "full disk of a journal"
	killCore       kind = "kill -9 of the core"
	pauseCore      kind = "SIGSTOP of the core"
	stopCore       kind = "graceful stop of the core"
	killSending    kind = "kill -9 of the core while it sends"
	killCommitted  kind = "kill -9 of the core after a commit"
	killRedis      kind = "kill -9 of Redis"
	pauseRedis     kind = "SIGSTOP of Redis"
	stopRedis      kind = "Redis stopped"
	stallRedis     kind = "Redis stalls its clients"
	dropClients    kind = "Redis drops its clients"
	fillRedis      kind = "Redis out of memory"
	flushCache     kind = "cache flushed"
	poison         kind = "poison in the stream"
	deleteStream   kind = "stream deleted with its group"
	trimStream     kind = "stream trimmed to nothing"
	stopPostgres   kind = "Postgres stopped"
	dropBackends   kind = "Postgres drops its clients"
	wireDown       kind = "connection down"
	wireLatency    kind = "connection latency"
	wireTimeout    kind = "connection timeout"
	wireReset      kind = "connection reset_peer"
	wireLimit      kind = "connection limit_data"
	wireSlicer     kind = "connection slicer"
	wireBandwidth  kind = "connection bandwidth"
)

var kinds = []kind{
	killCollector, pauseCollector, stopCollector, fillDisk, killCore, pauseCore, stopCore, killSending, killCommitted,
	killRedis, pauseRedis, stopRedis, stallRedis, dropClients, fillRedis, flushCache, poison, deleteStream, trimStream,
	stopPostgres, dropBackends,
	wireDown, wireLatency, wireTimeout, wireReset, wireLimit, wireSlicer, wireBandwidth,
}

// The wires are connections that go through a proxy: one from each collector to
// Redis, and then these.
const (
	wireCoreRedis = iota
	wireCorePostgres
	coreWires
)

// scale is how long things last.
type scale struct {
	// length is when the last fault begins.
	length time.Duration
	// whole: every kind happens at least once, however long that takes.
	whole bool
	// outage is how long Redis or Postgres stays away.
	outage time.Duration
	// pause bounds a SIGSTOP, restart a killed process' time away, hold everything
	// else that lasts.
	pause, restart, hold time.Duration
	collectors           int
	// clients is how many send clicks, sellers how many report sales, each one at a
	// time.
	clients, sellers int
	// endLeases lets the next core serve webhook endpoints at once when one was
	// killed; otherwise the lease of the killed one has to run out.
	endLeases bool
	// smallDisk: the first collector's journal is on a disk that can be filled.
	smallDisk bool
}

// lanes is how many faults may last at the same time.
const lanes = 2

// step is one fault of a storm.
type step struct {
	at   time.Duration // from the storm's beginning
	lane int
	kind kind
	// which collector, or which wire.
	which int
	// lasts is how long the fault lasts, or the killed process stays away.
	lasts time.Duration
	// toxic is toxiproxy's description of what a connection suffers.
	toxic string
	// seed is for what the fault draws itself.
	seed uint64
}

func (s step) String() string {
	text := string(s.kind)
	switch {
	case s.kind.ofCollector():
		text += fmt.Sprintf(" %d", s.which)
	case s.kind.ofWire():
		text += strings.TrimRight(fmt.Sprintf(" of wire %d %s", s.which, s.toxic), " ")
	}
	return fmt.Sprintf("%s, %s", text, s.lasts)
}

func (k kind) ofCollector() bool {
	return slices.Contains([]kind{killCollector, pauseCollector, stopCollector, fillDisk}, k)
}

func (k kind) ofWire() bool {
	return slices.Contains([]kind{wireDown, wireLatency, wireTimeout, wireReset, wireLimit, wireSlicer, wireBandwidth}, k)
}

// victims are what no other fault touches while this one lasts.
func (s step) victims(collectors int) []string {
	wire := func(n int) string { return fmt.Sprintf("wire %d", n) }
	switch {
	case s.kind.ofCollector():
		return []string{fmt.Sprintf("collector %d", s.which)}
	case s.kind.ofWire():
		return []string{wire(s.which)}
	}
	switch s.kind {
	case killCore, pauseCore, stopCore:
		return []string{"core"}
	case killSending, killCommitted:
		// Nothing is sent or committed without the database.
		return []string{"core", "postgres", wire(collectors + wireCorePostgres)}
	case stopPostgres, dropBackends:
		return []string{"postgres"}
	case deleteStream, trimStream:
		// Only a stream that is stored to its end may go.
		return []string{"core", "postgres", "redis", wire(collectors + wireCoreRedis), wire(collectors + wireCorePostgres)}
	default:
		return []string{"redis"}
	}
}

// plan draws a storm: the kinds in a new order each time round, each as soon as a
// lane is free. The same seed and scale give the same plan.
func plan(seed uint64, s scale) []step {
	r := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- a storm has to be repeatable
	var steps []step
	var free [lanes]time.Duration
	var busy [lanes][]string
	for round := 0; ; round++ {
		deck := slices.Clone(kinds)
		r.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		if !s.whole && round == 0 {
			// The few faults of a short storm are to have it among them.
			n := slices.Index(deck, killSending)
			deck[0], deck[n] = deck[n], deck[0]
		}
		for len(deck) > 0 {
			lane := 0
			if free[1] < free[0] {
				lane = 1
			}
			at := free[lane] + between(r, s.hold/20, s.hold/3)
			if at >= s.length && (round > 0 || !s.whole) {
				return steps
			}
			next := step{at: at, lane: lane}
			// The first of the deck that the other lane leaves room for; when there is
			// none, the lane waits for the other.
			taken := -1
			for n, k := range deck {
				drawn := draw(r, k, s)
				drawn.at, drawn.lane = at, lane
				if free[1-lane] <= at || !overlap(drawn.victims(s.collectors), busy[1-lane]) {
					next, taken = drawn, n
					break
				}
			}
			if taken < 0 {
				free[lane] = free[1-lane]
				continue
			}
			deck = slices.Delete(deck, taken, taken+1)
			if next.kind == fillDisk && !s.smallDisk {
				continue
			}
			steps = append(steps, next)
			free[lane], busy[lane] = at+next.lasts, next.victims(s.collectors)
		}
	}
}

func draw(r *rand.Rand, k kind, s scale) step {
	drawn := step{kind: k, seed: r.Uint64()}
	switch k {
	case killCollector, pauseCollector, stopCollector:
		drawn.which = r.IntN(s.collectors)
	default:
		if k.ofWire() {
			drawn.which = r.IntN(s.collectors + coreWires)
		}
	}
	drawn.lasts = between(r, s.hold/4, s.hold)
	switch k {
	case stopRedis, stopPostgres:
		drawn.lasts = s.outage
	case pauseCollector, pauseCore, pauseRedis:
		drawn.lasts = between(r, s.pause/4, s.pause)
	case killCollector, killCore, killSending, killCommitted, killRedis, stopCollector, stopCore:
		drawn.lasts = between(r, min(200*time.Millisecond, s.restart), s.restart)
	default:
	}
	drawn.toxic = drawToxic(r, k)
	return drawn
}

// drawToxic describes what a connection suffers, for toxiproxy.
func drawToxic(r *rand.Rand, k kind) string {
	type number = struct {
		name      string
		low, high int
	}
	var name string
	var numbers []number
	switch k {
	case wireLatency:
		name, numbers = "latency", []number{{"latency", 20, 1200}, {"jitter", 0, 300}}
	case wireTimeout:
		name, numbers = "timeout", []number{{"timeout", 200, 3000}}
	case wireReset:
		name, numbers = "reset_peer", []number{{"timeout", 0, 200}}
	case wireLimit:
		name, numbers = "limit_data", []number{{"bytes", 100, 20_000}}
	case wireSlicer:
		name, numbers = "slicer", []number{{"average_size", 40, 400}, {"size_variation", 10, 30}, {"delay", 50, 2000}}
	case wireBandwidth:
		name, numbers = "bandwidth", []number{{"rate", 2, 60}}
	default:
		return ""
	}
	stream := "upstream"
	if r.IntN(2) == 0 {
		stream = "downstream"
	}
	attributes := make([]string, len(numbers))
	for n, number := range numbers {
		attributes[n] = fmt.Sprintf("%q:%d", number.name, number.low+r.IntN(number.high-number.low))
	}
	return fmt.Sprintf(`{"name":"storm","type":%q,"stream":%q,"toxicity":1,"attributes":{%s}}`, name, stream, strings.Join(attributes, ","))
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(r.Int64N(int64(high-low)+1))).Round(time.Millisecond)
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}
