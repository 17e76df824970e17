package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind is a kind of fault.
type kind string

const (
	killCollector    kind = "kill -9 of a collector"
	pauseCollector   kind = "SIGSTOP of a collector"
	stopCollector    kind = "graceful stop of a collector"
	fillDisk         kind = "full disk of a journal"
	killCore         kind = "kill -9 of the core"
	pauseCore        kind = "SIGSTOP of the core"
	stopCore         kind = "graceful stop of the core"
	killWhileSending kind = "kill -9 of the core while it sends"
	killAfterCommit  kind = "kill -9 of the core after a commit"
	killRedis        kind = "kill -9 of Redis"
	pauseRedis       kind = "SIGSTOP of Redis"
	stopRedis        kind = "Redis stopped"
	stallRedis       kind = "Redis stalls its clients"
	dropClients      kind = "Redis drops its clients"
	fillRedis        kind = "Redis out of memory"
	flushCache       kind = "cache flushed"
	poison           kind = "poison in the stream"
	deleteStream     kind = "stream deleted with its group"
	trimStream       kind = "stream trimmed to nothing"
	stopPostgres     kind = "Postgres stopped"
	dropBackends     kind = "Postgres drops its clients"
	cutOffRegion     kind = "region cut off"
	wireDown         kind = "connection down"
	wireLatency      kind = "connection latency"
	wireTimeout      kind = "connection timeout"
	wireReset        kind = "connection reset_peer"
	wireLimit        kind = "connection limit_data"
	wireSlicer       kind = "connection slicer"
	wireBandwidth    kind = "connection bandwidth"
)

var kinds = []kind{
	killCollector, pauseCollector, stopCollector, fillDisk, killCore, pauseCore, stopCore, killWhileSending, killAfterCommit,
	killRedis, pauseRedis, stopRedis, stallRedis, dropClients, fillRedis, flushCache, poison, deleteStream, trimStream,
	stopPostgres, dropBackends, cutOffRegion,
	wireDown, wireLatency, wireTimeout, wireReset, wireLimit, wireSlicer, wireBandwidth,
}

// A wire is a connection through a proxy. The first wires connect the collectors to the
// Redis of their region, one wire for each collector. The index of another wire is the
// number of collectors plus one of the following constants.
const (
	wireCoreRedis = iota
	wireCorePostgres
	wireCoreFarRedis // from the core to the Redis of the other region
	coreWires
)

// scale sets the size of the storm and the duration of its faults.
type scale struct {
	// length is the time in which faults begin, counted from the start of the storm.
	length time.Duration
	// everyKind means that the plan contains every kind of fault at least once, even if
	// the faults then take longer than length.
	everyKind bool
	// outage is how long Redis or Postgres is stopped, or the region cut off.
	outage time.Duration
	// maxPause is the maximum length of a SIGSTOP. maxRestart is the maximum time until
	// a killed process is started again. maxOther is the maximum length of all other
	// faults.
	maxPause, maxRestart, maxOther time.Duration
	collectors                     int
	// clients is the number of clients that send clicks. sellers is the number of
	// sellers that report sales.
	clients, sellers int
	// endLeases means that the storm deletes the leases of a killed core. Otherwise the
	// next core must wait until the leases expire before it can send webhooks.
	endLeases bool
	// hasSmallDisk means that the journal of the first collector is on a small disk,
	// which a fault can fill.
	hasSmallDisk bool
}

// lanes is the number of sequences of faults that run in parallel. It is also the maximum
// number of faults that are active at the same time.
const lanes = 2

// step is one fault of the plan.
type step struct {
	// at is the time from the start of the storm to the start of the fault.
	at   time.Duration
	lane int
	kind kind
	// index is the index of the collector or wire that the fault affects.
	index int
	// duration is the duration of the fault, or the time until a killed process starts
	// again.
	duration time.Duration
	// toxic is the JSON definition of a toxiproxy toxic, for faults of connections.
	toxic string
	// seed is the seed for random choices of the fault itself.
	seed uint64
}

func (s step) String() string {
	text := string(s.kind)
	switch {
	case s.kind.affectsCollector():
		text += fmt.Sprintf(" %d", s.index)
	case s.kind.affectsWire():
		text += strings.TrimRight(fmt.Sprintf(" of wire %d %s", s.index, s.toxic), " ")
	}
	return fmt.Sprintf("%s, %s", text, s.duration)
}

func (k kind) affectsCollector() bool {
	return slices.Contains([]kind{killCollector, pauseCollector, stopCollector, fillDisk}, k)
}

func (k kind) affectsWire() bool {
	return slices.Contains([]kind{wireDown, wireLatency, wireTimeout, wireReset, wireLimit, wireSlicer, wireBandwidth}, k)
}

// components returns the components that no other fault may affect while this fault is
// active.
func (s step) components(collectors int) []string {
	wire := func(n int) string { return fmt.Sprintf("wire %d", n) }
	switch {
	case s.kind.affectsCollector():
		return []string{fmt.Sprintf("collector %d", s.index)}
	case s.kind.affectsWire():
		return []string{wire(s.index)}
	}
	switch s.kind {
	case killCore, pauseCore, stopCore:
		return []string{"core"}
	case killWhileSending, killAfterCommit:
		// The core sends and commits only while the database is available.
		return []string{"core", "postgres", wire(collectors + wireCorePostgres)}
	case stopPostgres, dropBackends:
		return []string{"postgres"}
	case cutOffRegion:
		// The region itself works, so that it accepts clicks.
		far := farCollector(collectors)
		return []string{wire(collectors + wireCoreFarRedis), wire(far), fmt.Sprintf("collector %d", far)}
	case deleteStream, trimStream:
		// A stream may be deleted only after ingestion has stored all its entries.
		return []string{"core", "postgres", "redis", wire(collectors + wireCoreRedis), wire(collectors + wireCorePostgres)}
	default:
		return []string{"redis"}
	}
}

// plan returns the steps of a storm. It creates them in rounds: each round contains every
// kind of fault once, in random order. A step begins a short pause after the previous
// step of its lane has ended. The same seed and scale always lead to the same plan.
func plan(seed uint64, s scale) []step {
	r := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- a storm must be repeatable
	var steps []step
	var free [lanes]time.Duration
	var busy [lanes][]string
	for round := 0; ; round++ {
		deck := slices.Clone(kinds)
		r.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		if !s.everyKind && round == 0 {
			// A short storm has only a few faults. killWhileSending must be one of them.
			n := slices.Index(deck, killWhileSending)
			deck[0], deck[n] = deck[n], deck[0]
		}
		for len(deck) > 0 {
			lane := 0
			if free[1] < free[0] {
				lane = 1
			}
			at := free[lane] + between(r, s.maxOther/20, s.maxOther/3)
			if at >= s.length && (round > 0 || !s.everyKind) {
				return steps
			}
			next := step{at: at, lane: lane}
			// Take the first kind in the deck that affects no component of the fault in
			// the other lane. If there is no such kind, wait until the other lane is
			// free.
			taken := -1
			for n, k := range deck {
				drawn := draw(r, k, s)
				drawn.at, drawn.lane = at, lane
				if free[1-lane] <= at || !overlap(drawn.components(s.collectors), busy[1-lane]) {
					next, taken = drawn, n
					break
				}
			}
			if taken < 0 {
				free[lane] = free[1-lane]
				continue
			}
			deck = slices.Delete(deck, taken, taken+1)
			if next.kind == fillDisk && !s.hasSmallDisk {
				continue
			}
			steps = append(steps, next)
			free[lane], busy[lane] = at+next.duration, next.components(s.collectors)
		}
	}
}

func draw(r *rand.Rand, k kind, s scale) step {
	drawn := step{kind: k, seed: r.Uint64()}
	switch k {
	case killCollector, pauseCollector, stopCollector:
		drawn.index = r.IntN(s.collectors)
	default:
		if k.affectsWire() {
			drawn.index = r.IntN(s.collectors + coreWires)
		}
	}
	drawn.duration = between(r, s.maxOther/4, s.maxOther)
	switch k {
	case stopRedis, stopPostgres, cutOffRegion:
		drawn.duration = s.outage
	case pauseCollector, pauseCore, pauseRedis:
		drawn.duration = between(r, s.maxPause/4, s.maxPause)
	case killCollector, killCore, killWhileSending, killAfterCommit, killRedis, stopCollector, stopCore:
		drawn.duration = between(r, min(200*time.Millisecond, s.maxRestart), s.maxRestart)
	default:
	}
	drawn.toxic = drawToxic(r, k)
	return drawn
}

// drawToxic returns the JSON definition of a random toxic of the kind k. It returns "" if
// k is not a kind of toxic.
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
	return slices.ContainsFunc(a, func(component string) bool { return slices.Contains(b, component) })
}
