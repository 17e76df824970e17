// Command load measures the speed of the service relative to the limits of the machine.
// It prints a table. Each row compares the service with a yardstick: a simple reference
// program or reference load that is measured in the same run. The ratio of the two is the
// result. Ratios can be compared between machines, absolute values cannot. No row passes or
// fails.
//
//	make bench                                 all parts, about half an hour
//	make bench PARTS='collector conversions'   some of collector, ingestion, clicks, conversions, gateway, lists, commissions, analytics, notifications, streams, webhooks, processor
//	make bench BASE=<commit>                   compare the CPU time of the service with that commit; see test/load/compare
//
// The command needs Linux (for the CPU times in /proc), pgbench, and a durable Postgres
// and a durable Redis that nothing else uses. Their addresses are in
// TRIBUTARY_TEST_DATABASE_URL and TRIBUTARY_TEST_REDIS_URL. tools/withservers -durable
// starts such servers.
//
// # What is measured
//
// The service runs as in production: cmd/collector and cmd/core (with the gateway in the
// same process) are separate processes with environment settings. All checks and log
// lines are active. The load comes from this process.
//
//   - collector: clicks over persistent connections. The collector responds after Redis
//     has acknowledged the click. Redis flushes its log once a second (everysec) or
//     before each acknowledgement (always, as in production). The yardstick is
//     test/load/bare, a net/http handler that reads the same body, creates a UUIDv7 and
//     returns a response of the same length. In rows C1 to C3 a connection sends the next
//     click as soon as a response arrives. In row C6 clicks are sent at a constant rate,
//     and the latency is measured from the moment at which the request was due. Rows C4
//     and C5 measure the advantage of group commit, which means that the collector writes
//     several clicks with one command. Their yardstick is test/load/naive, the same
//     collector with one XADD for each click. A variant of test/load/naive has so many
//     Redis connections that no click waits for a connection. More rows compare the bytes
//     per click in Redis's memory and log. The last rows compare a collector without load
//     with test/load/bare: the size of the binary, the time until it first responds that
//     it is ready, and its memory, both idle and with 1,000 open connections that sent ten
//     clicks each.
//   - ingestion: the service stores clicks in batches of 5,000. In row I1 the clicks come
//     from memory. Row I2 begins with clicks in the stream and ends when they are
//     committed and acknowledged. The yardstick copies the same rows in the same batches
//     into a second database over one connection. Row I3 repeats I2 through a proxy that
//     delays each response of Redis by 150 ms, as if the stream were on another continent.
//     Its yardstick is I2.
//   - clicks: the time from a click's 2xx response to its row, at 1,000 clicks a second
//     through a collector and a core. The time of a commit is not recorded anywhere, so
//     this process reads the ids from the responses and queries the table until all rows
//     exist. The yardstick is the time of one INSERT of a click with its commit, over
//     one connection, measured while no clicks arrive.
//   - conversions: new conversions. V1 and V2 call the service in this process, without
//     HTTP, credentials and rate limits. V3 sends POST /api/v1/conversions. The yardstick
//     of V1 and V3 is pgbench with all statements that one conversion causes. The
//     yardstick of V2 is pgbench with only the look-up and the inserts of the conversion,
//     the commission and the events.
//   - gateway: a route that does not use the database. The yardstick is net/http with
//     encoding/json.
//   - lists: a page or a search in a workspace that has a hundred times as many
//     participants and links as a second workspace. The yardstick is the second
//     workspace.
//   - commissions: a page with its total, and statistics, in a workspace that has eleven
//     times as many commissions as a second workspace (L1, L2). The database contains a
//     hundred workspaces. The yardstick is the second workspace. More rows measure the CSV export of the
//     large workspace, compared with psql's COPY of the same query (E1), and the memory
//     of the core during the export (E2).
//   - analytics: the reports about a year, of a workspace with ten times as many clicks as
//     a second workspace (A1). The yardstick is the second workspace. Both have the same
//     numbers of conversions, participants and values. The part inserts the sums directly,
//     and checks a number of each response before it measures the row. Then the service
//     in this process adds clicks that ingestion has stored to the sums (A2). Its yardstick
//     is the rate at which ingestion stores such clicks. In a further row each click has
//     another sub id, so that the service replaces values all the time.
//   - notifications: a page of the feed and the number of unread notifications (N1, N2),
//     in a workspace that has a thousand times as many notifications as a second
//     workspace. The yardstick is the second workspace. Totals stop at 10,000, so a count
//     of the large feed reads ten times as many rows.
//   - streams: the memory of a core for each of 500 open streams of notifications. Its
//     yardstick is the memory for each of as many connections that stay open after one
//     request. Then the time from a conversion's 201 to the notification about it in each
//     of the 500 streams, which show the same workspace. Its yardstick is a workspace with
//     one stream. Notifications that are created within a tenth of a second are
//     distributed together, so both sides include up to this time.
//   - webhooks: a backlog of pending deliveries for ten endpoints. A core starts and
//     sends all of them to test/load/bare, which receives them over TLS in a separate
//     process. The measured time begins with the 3,000th arrival and ends with the last.
//     The yardstick of W1 is an http.Client in this process that posts the same signed
//     bodies to the same receiver, with as many requests in flight. The yardstick of W2
//     is River, which completes the same number of empty jobs in a separate database. One
//     row is the time per delivery with a backlog of a million deliveries. Its yardstick
//     is a backlog of a thousand. The last rows are the time from a conversion's 201 to
//     the arrival of its event. A core receives 100 conversions a second, and this
//     process receives the events. The yardstick is one POST of the same body.
//   - processor: signed events of Stripe. Each is a checkout that makes a conversion. S1 is
//     the response to an event. Its yardstick is pgbench, which inserts the same event and a
//     job in one transaction. S2 is the latency of a conversion that another client reports
//     while 10,000 events are applied. Its yardstick is the latency without events. The part
//     fails if an event is lost.
//
// # How to read the table
//
// The two sides of a row are the service and its yardstick. They are measured alternately
// in short rounds. The ratio of a row is the median of the ratios of the rounds, because
// the speed of a shared machine can change by a quarter within minutes. The table also
// shows the lowest and the highest ratio. A wide range means that the machine was busy
// with other work; then repeat the run. BENCH_ROUNDS (default 5) is the number of rounds;
// a run with one round only shows that the benchmark works.
// SCALE (default 1) multiplies the number of rows that each part creates in the database.
//
// # Limits of the method
//
//   - The load generator and the servers share the cores of the machine. So requests per
//     second compare whole systems, and a cheaper load generator would change the ratio.
//     CPU time per request is only the server process's time and is valid for other
//     machines too. The CPU time of Redis has its own rows. The cost of a flush depends
//     on the disk.
//   - A collector reserves a part of a key's rate limit in Redis before it uses it. The
//     limit is so high here that it does this once a second for each key. With many keys
//     that have little traffic it would send more of these requests per click. They are
//     included in Redis's CPU time and log. The collector has no journal and no country
//     file.
//   - The naive collector still uses the collector's batcher, with so many shards that
//     each batch has one click. This costs two goroutine switches that an XADD in the
//     handler would not need. With the default of ten Redis connections per processor,
//     and many requests at once, it may wait for a connection instead of Redis. The rows
//     "a Redis connection each" avoid this.
//   - The memory of a click in Redis is measured in whole blocks. A stream entry of more
//     than 4 KiB has a block of its own, and the allocator rounds its size up.
//   - At a constant rate the latencies of both sides include about 0.1 ms until the
//     machine has woken this process. p99 also includes other activity of the machine.
//   - Memory is the resident set size (RSS), which includes garbage that the Go runtime
//     has not collected. The collector collects garbage rarely (GOGC=800); test/load/bare
//     has Go's default (GOGC=100). A starting process is polled every half millisecond, and its binary is in
//     the page cache.
//   - The time of a click's row is the time when the query that finds it returns. This is
//     later than the commit by up to the time of one query, two to four milliseconds (the
//     run prints the average). The queries also take CPU time from the measured processes.
//   - Ingestion uses two workers, so it may be faster than one connection that copies.
//   - The sums of a year of clicks are inserted once. Real sums are updated many times in a
//     day, so their table has more free space, and a report reads more pages. Reports of
//     many values are requested over one connection, which leaves a core of the machine
//     idle.
//   - The core also runs the jobs that the conversions create. It runs them more slowly
//     than they arrive. pgbench creates no jobs, and the core is paused while pgbench
//     runs.
//   - A delivery counts when it arrives. The outcome of the last deliveries is stored
//     after that (the run prints how much later). The receiver responds at once. Its cost
//     of TLS is part of both sides of W1. The sender keeps at most ten connections open
//     per host and port. The ten endpoints have different ports, so a hundred connections
//     stay open.
//   - River uses 100, 300 or 1,000 workers. A test round before the measurement finds the
//     fastest number. River fetches jobs as often as it can. Neither River's commits nor the
//     commits of delivery outcomes wait for the disk.
//   - In the row that compares a backlog of a million with a backlog of a thousand, this
//     process inserts as many deliveries as arrive, 500 at a time, so that both backlogs
//     keep their size. It then reports a conversion, whose event wakes up the core's
//     sender. Both sides have this cost, which moves their ratio closer to 1. If a machine
//     sends a thousand deliveries before the next ones are inserted, the small backlog is
//     empty for a moment. Then the large backlog looks faster than it is.
//   - An event may arrive before the 201 of its conversion. Its time is then negative.
//     The posts of the yardstick are sent one at a time, while the machine is almost
//     idle.
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

// part is a group of measurements that can be selected by name.
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
	{"analytics", measureAnalytics},
	{"notifications", measureNotifications},
	{"streams", measureStreams},
	{"webhooks", measureWebhooks},
	{"processor", measureProcessor},
}

// bench is one run.
type bench struct {
	rounds, scale int
	// dir is deleted at the end. It contains binaries and logs.
	dir             string
	postgres, redis string
	table           []row
	// turns is nil if this program was not started by test/load/compare.
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
		return fmt.Errorf("no servers: run `make bench`, or set %s and %s", databaseName, redisName)
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
			// Print the rows of the parts that succeeded.
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
			return nil, fmt.Errorf("%q is not a part; the parts are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}

// positive returns the positive integer in an environment variable, or defaultValue if
// the variable is not set.
func positive(name string, defaultValue int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return defaultValue, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s must be an integer of at least 1", name)
	}
	return n, nil
}

// say prints progress to standard error. Standard output contains only the table.
func (b *bench) say(format string, args ...any) {
	name := "load"
	if b.turns != nil {
		name = b.turns.side
	}
	fmt.Fprintf(os.Stderr, name+": "+format+"\n", args...)
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }
