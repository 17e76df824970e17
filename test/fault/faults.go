package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// errNotTriggered means that a fault waited for a certain moment that did not come. The
// fault has changed nothing, and the storm continues.
var errNotTriggered = errors.New("the fault was not triggered")

// storm runs the steps of a plan.
type storm struct {
	system    *system
	load      *load
	sales     *sales
	targets   []target
	scale     scale
	startedAt time.Time
	log       *os.File

	mu        sync.Mutex
	completed map[kind]int
	// notTriggered counts the faults that returned errNotTriggered.
	notTriggered map[kind]int
	// cutOffClicks counts the clicks that a region acknowledged while it was cut off.
	cutOffClicks int
	// overlaps counts the faults that began while another fault was active. active is the
	// number of active faults.
	overlaps, active int
	locks            map[string]*sync.Mutex
}

// run runs the steps of a plan. The lanes run in parallel. The steps of a lane run one
// after the other, until a step returns an error. run returns when all lanes have ended,
// or when ctx ends. A fault that has begun is always removed again.
func (s *storm) run(ctx context.Context, steps []step) error {
	s.completed, s.notTriggered, s.locks = make(map[kind]int), make(map[kind]int), make(map[string]*sync.Mutex)
	s.startedAt = time.Now()
	var group sync.WaitGroup
	var faults [lanes]error
	for lane := range lanes {
		group.Go(func() {
			for _, st := range steps {
				if st.lane != lane {
					continue
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(s.startedAt.Add(st.at))):
				}
				if err := s.runStep(st); err != nil {
					faults[lane] = fmt.Errorf("%s: %w", st, err)
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(faults[:]...)
}

func (s *storm) runStep(st step) error {
	victims := st.components(s.scale.collectors)
	slices.Sort(victims) // all lanes lock in the same order, which prevents a deadlock
	for _, name := range victims {
		lock := s.lock(name)
		lock.Lock()
		defer lock.Unlock()
	}
	s.mu.Lock()
	if s.active++; s.active > 1 {
		s.overlaps++
	}
	s.mu.Unlock()
	s.logf("begin: %s", st)
	err := s.inject(st)
	s.logf("end: %s: %v", st, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	if errors.Is(err, errNotTriggered) {
		s.notTriggered[st.kind]++
		return nil
	}
	s.completed[st.kind]++
	return err
}

func (s *storm) lock(name string) *sync.Mutex {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[name] == nil {
		s.locks[name] = &sync.Mutex{}
	}
	return s.locks[name]
}

func (s *storm) logf(format string, args ...any) {
	fmt.Fprintf(s.log, time.Now().UTC().Format("15:04:05.000 ")+format+"\n", args...)
}

// inject causes one fault and removes it again.
func (s *storm) inject(st step) error {
	sys := s.system
	switch st.kind {
	case killCollector:
		sys.collectors[st.index].terminate(syscall.SIGKILL, st.duration)
		time.Sleep(st.duration) // runStep holds the lock of the collector, so that no other fault affects it while it is down
	case pauseCollector:
		sys.collectors[st.index].pause(st.duration)
	case stopCollector:
		return s.stopCollector(st)
	case fillDisk:
		release, err := fill(sys.collectors[0].journal)
		if err != nil {
			return err
		}
		time.Sleep(st.duration)
		return release()
	case killCore:
		s.killCore(st)
	case killWhileSending:
		return s.killWhileSending(st)
	case killAfterCommit:
		return s.killAfterCommit(st)
	case pauseCore:
		sys.core.pause(st.duration)
	case stopCore:
		if !sys.core.terminate(syscall.SIGTERM, st.duration) {
			return fmt.Errorf("the process did not stop within %s", stopTimeout)
		}
		time.Sleep(st.duration)
	case killRedis:
		return sys.redis.restart(true, st.duration)
	case pauseRedis:
		return sys.redis.pause(st.duration)
	case stopRedis:
		return sys.redis.restart(false, st.duration)
	case stopPostgres:
		return sys.postgres.restart(false, st.duration)
	case dropBackends:
		return s.dropBackends()
	case cutOffRegion:
		return s.cutOffRegion(st)
	default:
		if st.kind.affectsWire() {
			return s.disturbConnection(sys.wires[st.index], st)
		}
		return s.disturbRedis(st)
	}
	return nil
}

// killCore kills the core. The core starts again after st.duration.
func (s *storm) killCore(st step) {
	s.system.core.terminate(syscall.SIGKILL, st.duration)
	if s.scale.endLeases {
		s.endLeases()
	}
	time.Sleep(st.duration)
}

// triggerTimeout is the maximum time that a fault waits for its moment. A core holds a
// lease for each endpoint to which it sends webhooks. triggerTimeout is longer than a
// lease (40 s), because a new core sends nothing until the leases of the killed core have
// expired.
const triggerTimeout = 75 * time.Second

// collectTime is the time from the first response that the receiver holds back until the
// core is killed. In this time more requests arrive at the receiver, so that the core
// loses several responses at once.
const collectTime = 50 * time.Millisecond

// killWhileSending kills the core while it waits for responses of the receiver. So the
// core cannot store whether these webhooks were delivered.
func (s *storm) killWhileSending(st step) error {
	held := s.system.receiver.hold()
	select {
	case <-held:
	case <-time.After(triggerTimeout):
		s.system.receiver.release(false)
		return errNotTriggered
	}
	time.Sleep(collectTime)
	s.system.core.terminate(syscall.SIGKILL, st.duration)
	s.system.receiver.release(true)
	if s.scale.endLeases {
		s.endLeases()
	}
	time.Sleep(st.duration)
	return nil
}

// killAfterCommit kills the core immediately after a sale was acknowledged. At that
// moment the event is committed but usually not sent.
func (s *storm) killAfterCommit(st step) error {
	select {
	case <-s.sales.saleAcknowledged:
	case <-time.After(triggerTimeout):
		return errNotTriggered
	}
	s.killCore(st)
	return nil
}

// endLeases deletes the leases of a killed core. If the database is not available, the
// leases expire instead.
func (s *storm) endLeases() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.system.postgres.url)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	const end = `update webhook_endpoints set sender = null, sender_until = null where sender is not null`
	_, err = conn.Exec(ctx, end)
	s.logf("leases deleted: %v", err)
}

// stopCollector stops a collector gracefully under load.
func (s *storm) stopCollector(st step) error {
	collector := s.load.collectors[st.index]
	collector.stopping.Store(true)
	inTime := s.system.collectors[st.index].terminate(syscall.SIGTERM, st.duration)
	time.Sleep(st.duration) // wait until requests that were sent before the exit have failed
	collector.stopping.Store(false)
	if !inTime {
		return fmt.Errorf("the process did not stop within %s", stopTimeout)
	}
	return nil
}

func (s *storm) dropBackends() error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.system.postgres.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	const drop = `select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
	_, err = conn.Exec(ctx, drop)
	return err
}

// disturbConnection interrupts a connection, or adds a toxic to its proxy. A toxic is a
// disturbance that toxiproxy simulates.
func (s *storm) disturbConnection(wire *toxiproxy.Proxy, st step) error {
	if st.kind == wireDown {
		wire.Stop()
		time.Sleep(st.duration)
		return wire.Start()
	}
	toxic, err := wire.Toxics.AddToxicJson(strings.NewReader(st.toxic))
	if err != nil {
		return err
	}
	time.Sleep(st.duration)
	return wire.Toxics.RemoveToxic(context.Background(), toxic.Name)
}

// cutOffRegion interrupts the connection from the core to the other region for st.duration,
// and until the region has accepted a click.
func (s *storm) cutOffRegion(st step) error {
	wire, far := s.system.wires[s.scale.collectors+wireCoreFarRedis], farCollector(s.scale.collectors)
	wire.Stop()
	began := time.Now()
	time.Sleep(st.duration)
	var clicks int
	err := await(context.Background(), "a region that is cut off accepts clicks", func(context.Context) error {
		clicks = 0
		for _, a := range s.load.history.since(began) {
			if a.Collector == far && a.Start >= began.UnixMilli() && a.Outcome == acknowledged && !a.WithoutDirectory {
				clicks++
			}
		}
		if clicks == 0 {
			return errors.New("no click was acknowledged")
		}
		return nil
	})
	s.mu.Lock()
	s.cutOffClicks += clicks
	s.mu.Unlock()
	return errors.Join(err, wire.Start())
}

// disturbRedis causes a fault of Redis or of its data.
func (s *storm) disturbRedis(st step) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*serverTimeout)
	defer cancel()
	stream := s.system.stream
	switch st.kind {
	case stallRedis:
		return stream.Do(ctx, "client", "pause", st.duration.Milliseconds(), "all").Err()
	case dropClients:
		for _, clientType := range []string{"normal", "pubsub"} {
			if err := stream.Do(ctx, "client", "kill", "type", clientType, "skipme", "yes").Err(); err != nil {
				return err
			}
		}
		return nil
	case fillRedis:
		if err := stream.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
			return err
		}
		time.Sleep(st.duration)
		return stream.ConfigSet(ctx, "maxmemory", "0").Err()
	case flushCache:
		return s.system.cache.FlushDB(ctx).Err()
	case poison:
		return s.poison(ctx, st)
	case deleteStream:
		return s.removeStreamWhenStored(ctx, "DEL")
	case trimStream:
		return s.removeStreamWhenStored(ctx, "XTRIM")
	default:
		return fmt.Errorf("unknown kind of fault %q", st.kind)
	}
}

// poison appends batches to the click stream. Each batch contains valid records and one
// record that cannot be stored.
func (s *storm) poison(ctx context.Context, st step) error {
	r := rand.New(rand.NewPCG(st.seed, 0)) // #nosec G404 -- a storm has to be repeatable
	for range 1 + r.IntN(4) {
		batch, records := poisonBatch(r, s.targets, time.Now())
		err := s.system.stream.Do(ctx, "xadd", clickstream.Key(0), "*", "b", batch, "n", len(records)).Err()
		for n := range records {
			records[n].Acknowledged = err == nil
		}
		s.load.history.addPlanted(records)
		if err != nil {
			return fmt.Errorf("append poison: %w", err)
		}
	}
	return nil
}
