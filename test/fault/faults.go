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
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// errNotReached says that a fault waited in vain for what it needs. It changed
// nothing, and is no failure.
var errNotReached = errors.New("not reached")

// storm carries out a plan.
type storm struct {
	system  *system
	load    *load
	sales   *sales
	targets []target
	scale   scale
	began   time.Time
	log     *os.File

	mu   sync.Mutex
	done map[kind]int
	// missed counts the faults that were not reached.
	missed map[kind]int
	// overlaps counts faults that began while another lasted.
	overlaps, under int
	locks           map[string]*sync.Mutex
}

// run carries out the steps, each lane its own in their order, until the last is
// over or ctx ends; a fault that has begun is always lifted again.
func (s *storm) run(ctx context.Context, steps []step) error {
	s.done, s.missed, s.locks = make(map[kind]int), make(map[kind]int), make(map[string]*sync.Mutex)
	s.began = time.Now()
	var group sync.WaitGroup
	var faults [lanes]error
	for lane := range lanes {
		group.Go(func() {
			for _, one := range steps {
				if one.lane != lane {
					continue
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(s.began.Add(one.at))):
				}
				if err := s.do(one); err != nil {
					faults[lane] = fmt.Errorf("%s: %w", one, err)
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(faults[:]...)
}

func (s *storm) do(one step) error {
	victims := one.victims(s.scale.collectors)
	slices.Sort(victims) // two lanes that lock in one order do not wait for each other
	for _, name := range victims {
		lock := s.lock(name)
		lock.Lock()
		defer lock.Unlock()
	}
	s.mu.Lock()
	if s.under++; s.under > 1 {
		s.overlaps++
	}
	s.mu.Unlock()
	s.say("begins: %s", one)
	err := s.strike(one)
	s.say("is over: %s: %v", one, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	if errors.Is(err, errNotReached) {
		s.missed[one.kind]++
		return nil
	}
	s.done[one.kind]++
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

func (s *storm) say(format string, args ...any) {
	fmt.Fprintf(s.log, time.Now().UTC().Format("15:04:05.000 ")+format+"\n", args...)
}

// strike does one fault and lifts it.
func (s *storm) strike(one step) error {
	sys := s.system
	switch one.kind {
	case killCollector:
		sys.collectors[one.which].end(syscall.SIGKILL, one.lasts)
		time.Sleep(one.lasts) // the victim is ours as long as it is away
	case pauseCollector:
		sys.collectors[one.which].pause(one.lasts)
	case stopCollector:
		return s.stopCollector(one)
	case fillDisk:
		release, err := fill(sys.collectors[0].journal)
		if err != nil {
			return err
		}
		time.Sleep(one.lasts)
		return release()
	case killCore:
		s.killCore(one)
	case killSending:
		return s.killSending(one)
	case killCommitted:
		return s.killCommitted(one)
	case pauseCore:
		sys.core.pause(one.lasts)
	case stopCore:
		if !sys.core.end(syscall.SIGTERM, one.lasts) {
			return fmt.Errorf("it did not stop within %s", stopTimeout)
		}
		time.Sleep(one.lasts)
	case killRedis:
		return sys.redis.away(true, one.lasts)
	case pauseRedis:
		return sys.redis.pause(one.lasts)
	case stopRedis:
		return sys.redis.away(false, one.lasts)
	case stopPostgres:
		return sys.postgres.away(false, one.lasts)
	case dropBackends:
		return s.dropBackends()
	default:
		if one.kind.ofWire() {
			return s.strain(sys.wires[one.which], one)
		}
		return s.upsetRedis(one)
	}
	return nil
}

// killCore kills the core, which stays away for a while.
func (s *storm) killCore(one step) {
	s.system.core.end(syscall.SIGKILL, one.lasts)
	if s.scale.endLeases {
		s.endLeases()
	}
	time.Sleep(one.lasts)
}

// reach bounds how long a kill waits for its moment. The core may still have to wait
// for the lease of the one before it, 40 s.
const reach = 75 * time.Second

// gathers is for how long the receiver lets answers wait after the first: more sends
// get lost at once.
const gathers = 50 * time.Millisecond

// killSending kills the core while requests of it wait for their answers: what comes
// of these sends is told to nobody.
func (s *storm) killSending(one step) error {
	caught := s.system.receiver.hold()
	select {
	case <-caught:
	case <-time.After(reach):
		s.system.receiver.release(false)
		return errNotReached
	}
	time.Sleep(gathers)
	s.system.core.end(syscall.SIGKILL, one.lasts)
	s.system.receiver.release(true)
	if s.scale.endLeases {
		s.endLeases()
	}
	time.Sleep(one.lasts)
	return nil
}

// killCommitted kills the core at once when a sale was acknowledged: its event is
// committed, and about to be sent.
func (s *storm) killCommitted(one step) error {
	select {
	case <-s.sales.sold:
	case <-time.After(reach):
		return errNotReached
	}
	s.killCore(one)
	return nil
}

// endLeases ends those of a core that is dead. When the database is away they run
// out by themselves.
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
	s.say("leases ended: %v", err)
}

// stopCollector stops one gracefully under load.
func (s *storm) stopCollector(one step) error {
	at := s.load.collectors[one.which]
	at.leaving.Store(true)
	inTime := s.system.collectors[one.which].end(syscall.SIGTERM, one.lasts)
	time.Sleep(one.lasts) // what was sent before the end has failed by now
	at.leaving.Store(false)
	if !inTime {
		return fmt.Errorf("it did not stop within %s", stopTimeout)
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

// strain cuts a connection or makes it suffer.
func (s *storm) strain(wire *toxiproxy.Proxy, one step) error {
	if one.kind == wireDown {
		wire.Stop()
		time.Sleep(one.lasts)
		return wire.Start()
	}
	toxic, err := wire.Toxics.AddToxicJson(strings.NewReader(one.toxic))
	if err != nil {
		return err
	}
	time.Sleep(one.lasts)
	return wire.Toxics.RemoveToxic(context.Background(), toxic.Name)
}

// upsetRedis is what Redis does to its clients, or somebody to its data.
func (s *storm) upsetRedis(one step) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*serverTimeout)
	defer cancel()
	stream := s.system.stream
	switch one.kind {
	case stallRedis:
		return stream.Do(ctx, "client", "pause", one.lasts.Milliseconds(), "all").Err()
	case dropClients:
		for _, of := range []string{"normal", "pubsub"} {
			if err := stream.Do(ctx, "client", "kill", "type", of, "skipme", "yes").Err(); err != nil {
				return err
			}
		}
		return nil
	case fillRedis:
		if err := stream.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
			return err
		}
		time.Sleep(one.lasts)
		return stream.ConfigSet(ctx, "maxmemory", "0").Err()
	case flushCache:
		return s.system.cache.FlushDB(ctx).Err()
	case poison:
		return s.poison(ctx, one)
	case deleteStream:
		return s.whenStored(ctx, "DEL")
	case trimStream:
		return s.whenStored(ctx, "XTRIM")
	default:
		return fmt.Errorf("nobody knows how to do %q", one.kind)
	}
}

// poison puts entries into the stream that hold what cannot be stored between
// what can.
func (s *storm) poison(ctx context.Context, one step) error {
	r := rand.New(rand.NewPCG(one.seed, 0)) // #nosec G404 -- a storm has to be repeatable
	for range 1 + r.IntN(4) {
		batch, records := brew(r, s.targets, time.Now())
		err := s.system.stream.Do(ctx, "xadd", clickstream.Key(0), "*", "b", batch, "n", len(records)).Err()
		for n := range records {
			records[n].Acknowledged = err == nil
		}
		s.load.history.plant(records)
		if err != nil {
			return fmt.Errorf("append poison: %w", err)
		}
	}
	return nil
}

// emptied does ARGV[1] to the stream KEYS[1] if every entry of it was delivered
// to every group and acknowledged, which ingestion does after it has stored it.
var emptied = redis.NewScript(`
local function field(list, name)
  for i = 1, #list, 2 do
    if list[i] == name then return list[i + 1] end
  end
end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local last = field(redis.call('XINFO', 'STREAM', KEYS[1]), 'last-generated-id')
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
if #groups == 0 then return 0 end
for _, group in ipairs(groups) do
  if field(group, 'pending') ~= 0 or field(group, 'last-delivered-id') ~= last then return 0 end
end
if ARGV[1] == 'DEL' then
  redis.call('DEL', KEYS[1])
else
  redis.call('XTRIM', KEYS[1], 'MAXLEN', 0)
end
return 1
`)

// emptiesWithin bounds how long clients are held back at a time for the stream to be
// stored to its end.
const emptiesWithin = 3 * time.Second

// whenStored takes the stream away at an instant at which nothing in it is
// missing from the table. Clients hold their next attempt back until then; what
// they have sent, and what collectors replay, comes on. A replay after an outage
// may take about as long as the outage, so there are several tries.
func (s *storm) whenStored(ctx context.Context, command string) error {
	for giveUp := time.Now().Add(s.scale.outage); ; {
		done, err := s.takeAway(ctx, command)
		if done || err != nil {
			return err
		}
		if time.Now().After(giveUp) {
			return errNotReached
		}
		time.Sleep(s.scale.hold)
	}
}

func (s *storm) takeAway(ctx context.Context, command string) (done bool, err error) {
	s.load.calm.Lock()
	defer s.load.calm.Unlock()
	for giveUp := time.Now().Add(emptiesWithin); !done && err == nil && time.Now().Before(giveUp); time.Sleep(2 * time.Millisecond) {
		done, err = emptied.Run(ctx, s.system.stream, []string{clickstream.Key(0)}, command).Bool()
	}
	return done, err
}
