// Command load measures the service against the machine's own limits. It prints
// a table whose every row is a ratio: what the service does, over what a
// yardstick does that carries the same weight and nothing else.
//
//	make bench                                 everything, some four minutes
//	make bench PARTS='collector conversions'   some of collector, ingestion, conversions, gateway, lists, commissions
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
//     acknowledged it; the yardstick is a bare net/http handler that reads the
//     same body, makes a UUIDv7 and answers as many bytes.
//   - ingestion: rows stored in batches of 5,000, from memory (I1) and from the
//     stream to committed and acknowledged (I2); the yardstick copies the same
//     rows in the same batches into a twin of the table over one connection.
//   - conversions: POST /api/v1/conversions, new ones each; the yardstick is
//     pgbench with the same statements that one conversion causes (V3). The same
//     reports without HTTP, credentials and limits, by calls of the service in this
//     process, against that (V1) and against the look-up, conversion, commission
//     and job alone (V2).
//   - gateway: a route that does not touch the database; the yardstick is
//     net/http with encoding/json.
//   - lists: a page or a search in a workspace with a hundred times as many
//     participants and links as another has; the yardstick is the other.
//   - commissions: page with total, and stats, in a workspace with eleven times as
//     many commissions as another has, among a hundred workspaces (L1, L2); the
//     yardstick is the other. The CSV of the large one, against psql's COPY of the
//     same query (E1), and what it does to the memory of the core (E2).
//
// How to read it. A row's two sides take turns in short rounds and its ratio is
// the median of the rounds' ratios, because a shared machine drifts by a quarter
// within minutes; beside it stand the lowest and the highest. A wide range means
// that the machine was busy with something else: run it again. BENCH_ROUNDS
// (default 5) is the number of rounds, SCALE (default 1) multiplies the rows
// that are moved.
//
// How it misleads. Everything shares the machine's cores, the load too: requests
// per second are a ratio of whole systems, and a cheaper load generator would
// lower it. CPU per request is the server process's own and carries over to
// another machine; what Redis spends is not in it. The collector's limit is
// raised so far that a key asks for its share once a second; with many quiet
// keys it asks more often. Ingestion works with two workers, so it may beat one
// connection that copies. The conversions' jobs are worked by the same core as
// fast as it can, which is slower than they come in; pgbench only inserts its
// jobs, and the core stands still meanwhile. Only the machine's disk decides
// what a flush costs.
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
	{"conversions", measureConversions},
	{"gateway", measureGateway},
	{"lists", measureLists},
	{"commissions", measureCommissions},
}

// bench is one run.
type bench struct {
	rounds, scale int
	// dir is forgotten at the end; binaries and logs are in it.
	dir             string
	postgres, redis string
	table           []row
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
	if len(args) == 3 && args[0] == bareRole {
		return serveBare(ctx, args[1], args[2])
	}
	chosen, err := choose(args)
	if err != nil {
		return err
	}
	b := &bench{postgres: os.Getenv(databaseName), redis: os.Getenv(redisName)}
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
		if err := p.measure(ctx, b); err != nil {
			// What was measured before is still worth its time.
			return errors.Join(printTable(os.Stdout, b.table, machine), fmt.Errorf("%s: %w", p.name, err))
		}
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

// say tells the person who waits what is going on; the table alone goes to
// standard output.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "load: "+format+"\n", args...)
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }
