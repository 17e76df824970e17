// Command load measures the service against the machine's own limits. It prints
// a table whose every row is a ratio: what the service does, over what a yardstick
// does in the same run.
//
//	make bench                                 everything, some twenty minutes
//	make bench PARTS='collector conversions'   some of collector, ingestion, clicks, conversions, gateway, lists, commissions, webhooks
//	make bench BASE=<commit>                   the service's CPU time before and after; see test/load/compare
//
// It needs a Postgres and a Redis of its own, both durable, in
// TRIBUTARY_TEST_DATABASE_URL and TRIBUTARY_TEST_REDIS_URL, as tools/withservers
// -durable starts them; Linux, for its accounts of CPU time; and pgbench.
//
// What is measured. The parts run as they are deployed: cmd/collector and
// cmd/core (with the gateway inside) are processes of their own, configured by
// their environment, with every check and log line in the path; the load comes
// from this process.
//
//   - collector: clicks over kept connections, each answered after Redis has
//     acknowledged it, which flushes its log once a second (everysec) or before
//     every answer (always, as deployed); the yardstick is test/load/bare, a
//     net/http handler that reads the same body, makes a UUIDv7 and answers as many
//     bytes: as fast as answers come (C1, C2, C3), and at a constant rate, where a
//     latency counts from the moment at which the request was due (C6). What group
//     commit gives is held against test/load/naive, the same collector with an XADD
//     for each click (C4, C5, and the bytes that a click takes in Redis's memory and
//     log), and once more against that with so many Redis connections that no click
//     waits for one. Last, what a collector weighs against test/load/bare: the binary
//     as make build makes it, the time to its first ready, and its memory, idle and
//     with 1,000 connections that stay open after ten clicks each.
//   - ingestion: rows stored in batches of 5,000, from memory (I1) and from the
//     stream to committed and acknowledged (I2); the yardstick copies the same
//     rows in the same batches into a twin of the table over one connection.
//   - clicks: from a click's 2xx to its row, at 1,000 clicks a second through a
//     collector and a core. Nobody writes down when a row is committed, so this
//     process reads the ids of the answers and looks for their rows until all are
//     there. The yardstick is an INSERT of one such row, committed, over one
//     connection, while no click comes in.
//   - conversions: POST /api/v1/conversions, new ones each; the yardstick is
//     pgbench with the same statements that one conversion causes (V3). The same
//     reports without HTTP, credentials and limits, by calls of the service in this
//     process, against that (V1) and against the look-up, conversion, commission
//     and events alone (V2).
//   - gateway: a route that does not touch the database; the yardstick is
//     net/http with encoding/json.
//   - lists: a page or a search in a workspace with a hundred times as many
//     participants and links as another has; the yardstick is the other.
//   - commissions: page with total, and stats, in a workspace with eleven times as
//     many commissions as another has, among a hundred workspaces (L1, L2); the
//     yardstick is the other. The CSV of the large one, against psql's COPY of the
//     same query (E1), and what it does to the memory of the core (E2).
//   - webhooks: deliveries that wait in the database, for ten endpoints, which a core
//     that starts behind them works off; test/load/bare receives them in a process of
//     its own, over TLS, and counts from the 3,000th to the last. The yardsticks: a
//     http.Client in this process, which posts the same bodies, signed, to the same
//     receiver with as many requests in flight (W1), and River, which completes as
//     many jobs that do nothing, in a database of its own (W2). The time of a delivery
//     while a million wait; the yardstick is that while a thousand do. And from a
//     conversion's 201 to the arrival of its event, at 100 conversions a second
//     through a core, received in this process; the yardstick is one POST of such a
//     body.
//
// How to read it. A row's two sides take turns in short rounds and its ratio is
// the median of the rounds' ratios, because a shared machine drifts by a quarter
// within minutes; beside it stand the lowest and the highest. A wide range means
// that the machine was busy with something else: run it again. BENCH_ROUNDS
// (default 5) is the number of rounds, SCALE (default 1) multiplies the rows
// that are moved.
//
// How it misleads.
//
//   - Everything shares the machine's cores, the load too: requests per second are
//     a ratio of whole systems, and a cheaper load generator would lower it. CPU
//     per request is the server process's own and carries over to another machine;
//     what Redis spends has a row of its own. Only the machine's disk decides what
//     a flush costs.
//   - The collector's limit is raised so far that a key asks for its share once a
//     second; with many quiet keys it asks more often. These questions are in
//     Redis's CPU time and log. It has no journal and no country file.
//   - The naive mode hands its clicks through the collector's batcher, over so many
//     lines that each is alone: two switches between goroutines that an XADD in the
//     handler would not need. With its client's usual ten Redis connections a
//     processor and many requests at once it may wait for a connection rather than
//     for Redis; the rows with a connection each leave that out.
//   - A click's memory in Redis goes by whole blocks: a stream entry of more than
//     4 KiB has one to itself, which the allocator rounds up.
//   - At a constant rate this process's own wake-up, a tenth of a millisecond, is in
//     the latencies of both sides, and in p99 whatever else the machine does.
//   - Memory is what the kernel counts (RSS), and what the Go runtime may yet
//     collect is in it: the collector collects seldom (GOGC=800), bare as often as
//     Go does by itself. A start is asked about every half millisecond, and its
//     binary is in the page cache.
//   - A click's row is seen when the look that finds it has come back: up to one
//     look too late, two to four milliseconds (the run prints the average), and the
//     looks take CPU time from those who are measured.
//   - Ingestion works with two workers, so it may beat one connection that copies.
//   - The conversions' jobs are worked by the same core as fast as it can, which is
//     slower than they come in; pgbench leaves nothing to do, and the core stands
//     still meanwhile.
//   - A delivery counts when it arrives; what came of the last of them is stored
//     behind that (the run prints how long). The receiver answers at once, and what TLS costs it is in
//     both sides of W1. Each endpoint has a port of its own, so that a hundred
//     connections are kept: endpoints of one host share ten.
//   - River has whichever of 100, 300 and 1,000 workers was the fastest in one round
//     before, and fetches as often as it can. Neither its commits nor those of
//     deliveries' outcomes wait for the disk.
//   - Both backlogs keep their depth because this process inserts as many as arrive,
//     500 at a time, and reports a conversion behind them, of which the core hears; that
//     costs both the same and brings their ratio nearer to 1. On a machine that delivers
//     a thousand before the next are there, the shallow one runs empty for a moment,
//     which makes the deep one look better.
//   - An event may arrive before its 201 does, which counts as less than nothing. The
//     posts of the yardstick go one at a time, with next to nothing beside them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	databaseName = "TRIBUTARY_TEST_DATABASE_URL"
	redisName    = "TRIBUTARY_TEST_REDIS_URL"
)

// part is what can be asked for by name.
type part struct {
	name    string
	measure func(context.Context, *bench) error
}

var parts = []part{
	{"collector", measureCollector},
	{"ingestion", measureIngestion},
	{"clicks", measureVisible},
	{"conversions", measureConversions},
	{"gateway", measureGateway},
	{"lists", measureLists},
	{"commissions", measureCommissions},
	{"webhooks", measureWebhooks},
}

// bench is one run.
type bench struct {
	rounds, scale int
	// dir is forgotten at the end; binaries and logs are in it.
	dir             string
	postgres, redis string
	table           []row
	// turns is nil unless test/load/compare started this program.
	turns *turns
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	chosen, err := choose(args)
	if err != nil {
		return err
	}
	b := &bench{postgres: os.Getenv(databaseName), redis: os.Getenv(redisName), turns: newTurns()}
	if b.postgres == "" || b.redis == "" {
		return fmt.Errorf("no servers to measure on: run `make bench`, or set %s and %s", databaseName, redisName)
	}
	if b.rounds, err = positive("BENCH_ROUNDS", 5); err != nil {
		return err
	}
	if b.scale, err = positive("SCALE", 1); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "tributary-load-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	machine, err := describeMachine(ctx, b)
	if err != nil {
		return err
	}
	b.say("building")
	if err := b.build(ctx); err != nil {
		return err
	}
	for _, p := range chosen {
		err := b.settleRedis(ctx)
		if err == nil {
			err = p.measure(ctx, b)
		}
		if err != nil {
			// What was measured before is still worth its time.
			return errors.Join(b.printTable(machine), fmt.Errorf("%s: %w", p.name, err))
		}
	}
	if b.turns != nil {
		return b.turns.end()
	}
	return b.printTable(machine)
}

func (b *bench) printTable(machine string) error {
	if b.turns != nil {
		return nil
	}
	return printTable(os.Stdout, b.table, machine)
}

func choose(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts, nil
	}
	var chosen []part
	for _, name := range names {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			known := make([]string, len(parts))
			for i, p := range parts {
				known[i] = p.name
			}
			return nil, fmt.Errorf("%q is no part; there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}

func positive(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s must be an integer of at least 1", name)
	}
	return n, nil
}

// say prints progress to standard error. Standard output has the table alone.
func (b *bench) say(format string, args ...any) {
	name := "load"
	if b.turns != nil {
		name = b.turns.side
	}
	fmt.Fprintf(os.Stderr, name+": "+format+"\n", args...)
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }
