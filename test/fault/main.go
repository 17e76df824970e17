// Command fault runs the system and makes its components fail. It tests that no
// acknowledged click or conversion is lost or stored twice, and that every event reaches
// the webhook endpoints that subscribe to it. One run is called a storm.
//
//	make fault                      a storm of two minutes with a new seed
//	make fault SEED=7 FOR=10m       a storm of ten minutes with the seed 7
//
// New faults begin during the time FOR. Each kind of fault occurs at least once, so a storm
// takes at least two minutes. `make fault` first runs two long tests, and ends if one fails:
//
//   - TestStream_StormOfReconnections of server/notification: 50 clients open and close
//     notification streams at random while 1,000 notifications are created. Other runs of
//     the test have 20 clients and 200 notifications.
//   - TestApply_OrderAndRepetitionDoNotMatter of server/processor: the events of 200 random
//     histories of customers at Stripe are shuffled, repeated and lost before a resync,
//     which takes about five minutes. Other runs of the test have six histories.
//
// TestStorm_Short is a storm of a few seconds with the race detector and a new seed, or
// with the seed FAULT_SEED.
//
// The command starts real processes on the loopback interface: a durable Postgres, two
// durable Redis, the core, a gateway, and three collectors with a journal each. The last
// collector and the second Redis are another region, at a distance of 100 ms from the core.
// This collector distributes its clicks over four streams, although the core is configured
// with one. If the command runs as root and may mount, the first collector's journal is on a
// disk of 4 MiB, which the plan fills. Otherwise the output says so.
// Proxies (toxiproxy) connect each collector to the Redis of its region, the core to each
// Redis, and the core to Postgres. A connection through a proxy is called a wire.
//
//	clients ──▶ collectors ──▶ toxiproxy ──▶ Redis ◀── toxiproxy ◀── core ──▶ toxiproxy ──▶ Postgres
//	   │                                                                                       │
//	   └── history of requests and responses ──▶ checker ◀── rows, dead letters, click counts ─┘
//
//	sellers ──▶ gateway ──▶ core ──▶ receiver
//	   │                                │
//	   └── sale reports ────────────────┴── webhooks ──▶ checker ◀── conversions, events, deliveries
//
// Clients register clicks during the whole storm. For half of the clicks, the client
// chooses the click id and repeats the request until it is acknowledged. At the same time
// the command causes faults: it kills, stops and pauses processes, cuts connections, cuts
// the other region off, fills disks and memory, and deletes the click stream. A region that
// is cut off must continue to accept clicks. The seed determines the plan of
// the faults. Up to two faults are active at the same time. At the end all faults are
// removed. The clients continue until each collector works again and each kind of request
// has succeeded. When all clicks and events are processed, the checker compares the
// history with the database.
//
// Sellers report sales to the core, some with a promo code and some with the id of a
// recent click. The core stores each sale as a conversion. A seller repeats each report
// until the status is 201, or 409 because an earlier report was stored. The receiver gets
// the webhooks and is never stopped. It serves three webhook endpoints of two workspaces
// over HTTPS, with a certificate from an authority that is created for the storm. Two
// kinds of fault wait for a certain moment before they kill the core: one waits until the
// core waits for a response of the receiver, the other waits for the 201 of a conversion.
// A core holds a lease for each endpoint to which it sends. A killed core does not
// release its leases, and the next core must wait until they expire. A short storm has no
// time for this, so it deletes the leases from the database.
//
// The checker reports these violations for clicks:
//
//   - missing: the click id was acknowledged (status 200 or 201, or 302 with a click id)
//     but is neither in the table clicks nor in click_dead_letters.
//   - duplicated: a click id has more than one row in both tables together, or a request
//     that was sent once has two rows.
//   - unexplained: no request can have stored the row. A request without a response may
//     have stored one row. The sub id of the row identifies the request.
//   - mismatched: the participant or the sub id of a row differs from the request, or the
//     click was received before the request began or after it ended.
//   - stored as bots: a click was stored as a bot's click, although all clients send the
//     headers of a browser.
//   - unique twice: two clicks with the same code, address and user agent were stored as
//     unique. This is not checked if a fault has flushed the cache, because the cache
//     contains the known visitors.
//   - dead-lettered: a valid click is among the dead letters.
//   - wrong responses: the response to a valid click has a status that is never correct,
//     such as 404 or 500.
//   - known links that did not redirect: a collector responded to a visitor of a short link
//     with 503, although its process had redirected a visitor of the link before.
//   - renamed: the response has a different click id than the request.
//   - cut off by a graceful stop: a collector that was stopping gracefully closed the
//     connection before it sent the response.
//   - counts: the API's click count of a participant differs from the number of its rows.
//
// Conversions are also checked for missing, duplicated, unexplained and mismatched rows,
// and for these violations:
//
//   - unacknowledged: a report did not get a 201 or 409 even after the storm.
//   - wrong responses: the status is not 201, 409 or 503, or the first report of a sale
//     got a 409.
//
// The checker also checks every event in the database:
//
//   - missing: an endpoint that subscribes to the event's type did not receive the event,
//     or an endpoint received no event for an acknowledged conversion.
//   - duplicated: two events with different webhook-ids arrived for one conversion.
//     Webhooks that are sent again with the same webhook-id are allowed and counted.
//   - unexplained: an endpoint received a webhook-id that is not the id of an event for
//     this endpoint.
//   - changed: the body is not identical to the stored body.
//   - forged: the reference library of Standard Webhooks rejects the signature.
//   - deliveries: the table of deliveries does not have exactly one row for the event and
//     the endpoint, or the status of the row is not delivered.
//   - lost sends not repeated: the core was killed before it got the response to a
//     webhook, and the webhook was not sent again.
//
// At the end `core check` verifies the ledger. The command exits with code 1 if there is
// any violation, or if the clicks and events are not processed within the time limits. In
// this case it prints the name of a folder, which it does not delete: history.jsonl has all
// requests with their responses and all webhooks, faults.log has all faults, and logs/ has
// the output of the processes. The journals and the data of the servers are there too.
//
// The command does not test two cases: the loss of a machine's memory (the kernel still
// writes the data of a killed process to disk), and a Redis that loses acknowledged
// writes. A run with the same seed has the same plan of faults, but the faults do not
// occur at exactly the same moments of the processes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/servers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runFromEnvironment(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		stop()
		os.Exit(1)
	}
}

func runFromEnvironment(ctx context.Context) error {
	seed, err := parseSeed(os.Getenv("SEED"))
	if err != nil {
		return err
	}
	length := 2 * time.Minute
	if text := os.Getenv("FOR"); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("FOR: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := servers.TempDir()
	if err != nil {
		return err
	}
	return config{
		seed: seed, binaries: filepath.Dir(self), dir: dir, out: os.Stdout, shutdownDelay: 3 * time.Second,
		scale: scale{
			length: length, everyKind: true, outage: time.Minute, maxPause: 5 * time.Second, maxRestart: 3 * time.Second, maxOther: 4 * time.Second,
			collectors: 3, clients: 16, sellers: 4,
		},
	}.run(ctx)
}

// parseSeed parses text. It returns a random seed if text is empty.
func parseSeed(text string) (uint64, error) {
	if text == "" {
		return uint64(rand.Uint32()), nil // #nosec G404 -- not for security
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the seed %q is not a number: %w", text, err)
	}
	return seed, nil
}

// config is the configuration of one storm.
type config struct {
	seed          uint64
	binaries      string // the folder of collector and core
	dir           string // removed at the end if there are no violations
	out           io.Writer
	shutdownDelay time.Duration
	scale         scale
}

// run runs the storm and the checker, and prints the report.
func (c config) run(ctx context.Context) (err error) {
	fmt.Fprintf(os.Stderr, "fault: seed %d, in %s\n", c.seed, c.dir)
	sys := &system{dir: c.dir, binaries: c.binaries, shutdownDelay: c.shutdownDelay}
	defer func() {
		err = errors.Join(err, sys.stop(err != nil))
		if err != nil {
			err = fmt.Errorf("%w\nseed %d; history, logs and journals are in %s", err, c.seed, c.dir)
			return
		}
		err = os.RemoveAll(c.dir)
	}()
	if err := sys.start(ctx, c.scale.collectors); err != nil {
		return err
	}
	s, err := c.prepare(ctx, sys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.log.Close(), s.load.history.close()) }()
	r := &report{seed: c.seed, storm: s}
	if err := c.runStorm(ctx, s, r); err != nil {
		return err
	}
	t, err := s.readTables(ctx)
	if err != nil {
		return err
	}
	h := s.load.history
	var starts [][]int64
	for _, collector := range sys.collectors {
		starts = append(starts, collector.starts())
	}
	r.verdict = checkClicks(history{
		attempts: h.attempts, planted: h.planted, targets: s.targets, starts: starts, end: time.Now().UnixMilli(), cacheFlushed: s.completed[flushCache] > 0,
	}, t)
	if r.sales, err = s.checkSales(ctx); err != nil {
		return err
	}
	if missed := s.missingKills(); c.scale.everyKind && len(missed) > 0 {
		r.others = append(r.others, finding{"kills that did not happen", missed})
	}
	if err := run(ctx, c.out, service.Environ("TRIBUTARY_DATABASE_URL="+sys.postgres.url), sys.binary("core"), "check"); err != nil {
		r.others = append(r.others, finding{"ledger check", []string{err.Error()}})
	}
	if panics := s.findPanics(); len(panics) > 0 {
		r.others = append(r.others, finding{"panics", panics})
	}
	r.print(c.out)
	if found := r.findings(); len(found) > 0 {
		return fmt.Errorf("%d kinds of violations", len(found))
	}
	return nil
}

// checkSales stops the core, so that the database no longer changes. Then it compares
// the conversions that sellers reported, and the webhooks that endpoints received, with
// the database.
func (s *storm) checkSales(ctx context.Context) (*salesVerdict, error) {
	if err := s.system.core.stop(); err != nil {
		return nil, err
	}
	t, err := s.readOutbox(ctx)
	if err != nil {
		return nil, err
	}
	endpoints, arrivals := s.system.receiver.received()
	return checkSales(salesHistory{sales: s.load.history.sales, targets: s.targets, endpoints: endpoints, arrivals: arrivals}, t), nil
}

// missingKills returns the kinds of fault that must kill the core at a certain moment,
// but did not occur because this moment never came. Without these faults the storm does
// not test that events survive a killed core.
func (s *storm) missingKills() []string {
	var missed []string
	for _, k := range []kind{killWhileSending, killAfterCommit} {
		if s.completed[k] == 0 {
			missed = append(missed, string(k))
		}
	}
	return missed
}

// prepare creates merchants and partners in the system, and prepares the load.
func (c config) prepare(ctx context.Context, sys *system) (*storm, error) {
	targets, err := openShops(ctx, sys.api, sys.receiver)
	if err != nil {
		return nil, err
	}
	if err := loadWorkspaces(ctx, sys.postgres.url, targets); err != nil {
		return nil, err
	}
	history, err := newRecorder(sys.file("history.jsonl"))
	if err != nil {
		return nil, err
	}
	log, err := os.Create(sys.file("faults.log"))
	if err != nil {
		return nil, errors.Join(err, history.close())
	}
	s := &storm{system: sys, targets: targets, scale: c.scale, log: log}
	s.scale.hasSmallDisk = sys.smallDiskErr == nil
	s.load = &load{targets: targets, history: history, avoidFor: c.shutdownDelay + 2*time.Second}
	s.sales = &sales{api: sys.api.Address, load: s.load, history: history}
	sys.receiver.setWorkspaces(targets, history)
	for _, collector := range sys.collectors {
		s.load.collectors = append(s.load.collectors, &edge{address: collector.address})
	}
	// The edge directory may still be incomplete, because an API call returns at the
	// latest 100 ms after its commit, even if the directory is not updated yet.
	err = await(ctx, "every collector finds every target in the edge directory", func(ctx context.Context) error {
		for _, collector := range sys.collectors {
			for _, t := range targets {
				if err := t.checkResolved(ctx, collector.address); err != nil {
					return err
				}
			}
		}
		return s.directoryUpdated(ctx)
	})
	return s, err
}

// runStorm runs the load and the plan of faults. It returns when all clicks and events
// are processed.
func (c config) runStorm(ctx context.Context, s *storm, r *report) error {
	s.load.start(c.seed, s.scale.clients)
	s.sales.start(c.seed, s.scale.sellers)
	progress, stopProgress := context.WithCancel(ctx)
	go s.printProgress(progress)
	err := s.run(ctx, plan(c.seed, s.scale))
	r.duration = time.Since(s.startedAt)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.awaitRecovery(ctx)
	}
	stopProgress()
	s.load.end()
	if err != nil {
		return err
	}
	ended := time.Now()
	if err := s.settle(ctx); err != nil {
		return err
	}
	r.settleTime = time.Since(ended)
	return nil
}

// printProgress prints the number of attempts every ten seconds.
func (s *storm) printProgress(ctx context.Context) {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			attempts, acked := s.load.history.progress()
			fmt.Fprintf(os.Stderr, "fault: %s: %d attempts, %d acknowledged\n", time.Since(s.startedAt).Round(time.Second), attempts, acked)
		}
	}
}
