// Command fault proves that no acknowledged click or conversion is lost, and none
// doubled, and that every event reaches the webhook endpoints that follow it, while
// everything that can break breaks.
//
//	make fault                      two minutes of storm, another one each time
//	make fault SEED=7 FOR=10m       ten minutes of the storm with this number
//
// It runs real processes on the loopback: a durable Postgres, a durable Redis,
// the core, and three collectors with a journal each, the first of them on a disk
// of 4 MiB when root runs this. Proxies stand between the collectors and Redis,
// and between the core and Redis and Postgres.
//
//	clients ──▶ collectors ──▶ toxiproxy ──▶ Redis ◀── toxiproxy ◀── core ──▶ toxiproxy ──▶ Postgres
//	   │                                                                                       │
//	   └── history: every request and its answer ──▶ checker ◀── rows, dead letters, counts ───┘
//
//	sellers ──▶ core ──▶ receiver: every sale and its answer, every webhook ──▶ checker ◀── rows
//
// Clients register clicks all the time, half of them under ids of their own that
// they repeat until they are acknowledged. Meanwhile a plan that follows from the
// seed kills, stops, cuts, fills, floods and empties; two faults may overlap. Then
// the faults are lifted, the load ends, and when nothing is on its way any more
// the history is held against the database.
//
// Sellers report conversions to the core, by promo codes and by clicks of a moment
// ago, each until it is answered 201, or 409 when a report before was. The receiver
// is alive all the time: three endpoints of two workspaces, over HTTPS with a
// certificate of an authority made for the run. Two of the faults wait for their
// moment: the core is killed while the receiver lets it wait for answers, and right
// after the 201 of a sale. A core that follows a killed one waits for its lease,
// for which a short storm has no time: it ends the leases of the dead.
//
// Of clicks nothing may be:
//
//   - missing: an id that was acknowledged (200, 201, or 302 with a click id) and
//     is neither in clicks nor in click_dead_letters;
//   - doubled: an id with more than one row in both together, or a request that
//     nobody repeated with two rows;
//   - invented: a row that no request asked for. A request without an answer may
//     have made one row; its sub id tells which request that was;
//   - mistaken: a row of another participant or sub id than was asked for, or
//     received before the request began or after it ended;
//   - taken for bots: a click of the load, which are all browsers', stored as a bot's;
//   - unique again: two unique clicks of one code, address and agent. After the fault
//     that flushes the cache, where the service remembers visitors, this is not looked at;
//   - buried: a good click among the dead letters;
//   - wrong: an answer that a good click never gets, such as 404 or 500;
//   - renamed: an answer under another id than the request proposed;
//   - cut off: a connection ended unanswered by a collector that stops gracefully;
//   - counts: clicks of a participant, as the API tells them, that are not its rows.
//
// Of conversions nothing may be missing, doubled, invented or mistaken, as of clicks,
// nor
//
//   - left open: a report that is not answered 201 or 409 even after the storm;
//   - wrong: another answer than 201, 409 and 503, or a 409 to a first report.
//
// And of events, all that the database has of a workspace:
//
//   - missing: an event that did not arrive at an endpoint that follows its type, or
//     an acknowledged conversion of which it was not told;
//   - doubled: a conversion that was told under two webhook-ids. Repetitions under one
//     are allowed, and counted;
//   - invented: an arrival under a webhook-id that is no event for the endpoint;
//   - changed: a body that is not byte for byte the stored one;
//   - forged: a signature that the reference library of Standard Webhooks refuses;
//   - deliveries: not exactly one row for each event and endpoint, or not delivered;
//   - lost sends not repeated: the sender was killed before the answer, and the event
//     did not come again.
//
// `core check` has the last word. Any of these, or a system that does not come to
// rest within two minutes, is exit code 1; the folder with the history, the logs
// and the journals stays then.
//
// What it does not show: the loss of a machine's memory (a killed process leaves
// its writes with the kernel), and Redis that loses what it acknowledged. The
// seed repeats the plan, not the moments at which processes are hit.
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
	seed, err := seedOf(os.Getenv("SEED"))
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
	return storms{
		seed: seed, binaries: filepath.Dir(self), dir: dir, out: os.Stdout, shutdownDelay: 3 * time.Second,
		scale: scale{
			length: length, whole: true, outage: time.Minute, pause: 5 * time.Second, restart: 3 * time.Second, hold: 4 * time.Second,
			collectors: 3, clients: 16, sellers: 4,
		},
	}.run(ctx)
}

// seedOf reads a seed, or makes one.
func seedOf(text string) (uint64, error) {
	if text == "" {
		return uint64(rand.Uint32()), nil // #nosec G404 -- any will do
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the seed %q is no number: %w", text, err)
	}
	return seed, nil
}

// storms is what a run is told.
type storms struct {
	seed          uint64
	binaries      string // the folder of collector and core
	dir           string // removed at the end unless something was found
	out           io.Writer
	shutdownDelay time.Duration
	scale         scale
}

// run makes the storm and judges it.
func (c storms) run(ctx context.Context) (err error) {
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
	if err := c.blow(ctx, s, r); err != nil {
		return err
	}
	t, err := s.read(ctx)
	if err != nil {
		return err
	}
	h := s.load.history
	r.verdict = judge(history{
		attempts: h.attempts, planted: h.planted, targets: s.targets, end: time.Now().UnixMilli(), flushed: s.done[flushCache] > 0,
	}, t)
	if r.told, err = s.judgeTold(ctx); err != nil {
		return err
	}
	if missed := s.notReached(); c.scale.whole && len(missed) > 0 {
		r.more = append(r.more, finding{"kills that did not happen", missed})
	}
	if err := run(ctx, c.out, service.Environ("TRIBUTARY_DATABASE_URL="+sys.postgres.url), sys.binary("core"), "check"); err != nil {
		r.more = append(r.more, finding{"the books", []string{err.Error()}})
	}
	if panics := s.panics(); len(panics) > 0 {
		r.more = append(r.more, finding{"panics", panics})
	}
	r.print(c.out)
	if found := r.findings(); len(found) > 0 {
		return fmt.Errorf("%d kinds of violations", len(found))
	}
	return nil
}

// judgeTold ends the core, so that nothing moves any more, and compares what shops
// reported and what their endpoints got with the database.
func (s *storm) judgeTold(ctx context.Context) (*toldVerdict, error) {
	if err := s.system.core.stop(); err != nil {
		return nil, err
	}
	t, err := s.readOutbox(ctx)
	if err != nil {
		return nil, err
	}
	endpoints, arrivals := s.system.receiver.received()
	return judgeTold(told{sales: s.load.history.sales, targets: s.targets, endpoints: endpoints, arrivals: arrivals}, t), nil
}

// notReached are the kills without which a whole storm has not shown that events
// survive them.
func (s *storm) notReached() []string {
	var missed []string
	for _, k := range []kind{killSending, killCommitted} {
		if s.done[k] == 0 {
			missed = append(missed, string(k))
		}
	}
	return missed
}

// prepare fills the system with merchants and partners, and readies the load.
func (c storms) prepare(ctx context.Context, sys *system) (*storm, error) {
	targets, err := openShops(ctx, sys.api, sys.receiver)
	if err != nil {
		return nil, err
	}
	if err := nameWorkspaces(ctx, sys.postgres.url, targets); err != nil {
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
	s.scale.smallDisk = sys.noDisk == nil
	s.load = &load{targets: targets, history: history, stays: c.shutdownDelay + 2*time.Second}
	s.sales = &sales{api: sys.api.Address, load: s.load, history: history}
	sys.receiver.enroll(targets, history)
	for _, one := range sys.collectors {
		s.load.collectors = append(s.load.collectors, &edge{address: one.address})
	}
	// The edge directory may still be incomplete: a call waits at most 100 ms for it.
	err = await(ctx, "the edge knows every target", func(ctx context.Context) error {
		for _, one := range sys.collectors {
			for _, to := range targets {
				if err := to.known(ctx, one.address); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return s, err
}

// blow makes the load and the faults, and returns when all is quiet again.
func (c storms) blow(ctx context.Context, s *storm, r *report) error {
	s.load.start(c.seed, s.scale.clients)
	s.sales.start(c.seed, s.scale.sellers)
	telling, told := context.WithCancel(ctx)
	go s.tell(telling)
	err := s.run(ctx, plan(c.seed, s.scale))
	r.lasted = time.Since(s.began)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.recover(ctx)
	}
	told()
	s.load.end()
	if err != nil {
		return err
	}
	ended := time.Now()
	if err := s.settle(ctx); err != nil {
		return err
	}
	r.settled = time.Since(ended)
	return nil
}

// tell says now and then how far it is, for who waits.
func (s *storm) tell(ctx context.Context) {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			attempts, acked := s.load.history.progress()
			fmt.Fprintf(os.Stderr, "fault: %s: %d attempts, %d acknowledged\n", time.Since(s.began).Round(time.Second), attempts, acked)
		}
	}
}
