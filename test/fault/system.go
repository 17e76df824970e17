package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	// cacheDatabase is the Redis database of the rate limits and the edge directory. The
	// click stream is in database 0 of the same Redis.
	cacheDatabase = 1
	// noLimit is a rate limit that a storm cannot reach.
	noLimit = "1000000000"
	// smallDiskSize is the size of the disk for the first collector's journal in bytes.
	// If Redis is stopped for a minute, the journal needs more space than this.
	smallDiskSize = 4 << 20
	// distance delays each response that the core gets from the other region. It is the
	// definition of a toxic, in milliseconds.
	distance = `{"name":"distance","type":"latency","stream":"downstream","toxicity":1,"attributes":{"latency":100,"jitter":20}}`
	// serverTimeout is the maximum time to start or stop Postgres or Redis.
	serverTimeout = time.Minute
	// farStreams is the number of streams of the collector in the other region. The core is
	// configured with one stream.
	farStreams = 4
	// authorityName is the file with the certificate authority that the core trusts for
	// webhooks.
	authorityName = "webhook-ca.pem"
)

// system contains all processes of the storm: the servers, the proxies in front of them,
// the core, the gateway and the collectors. The last collector is in another region than the core.
type system struct {
	dir        string // contains data, journals, logs and the history
	binaries   string
	postgres   *server
	redis      *server
	farRedis   *server            // the Redis of the other region
	wires      []*toxiproxy.Proxy // one from each collector to the Redis of its region, then those of the core
	core       *process
	gateway    *process
	collectors []*collector
	// receiver gets the webhooks of all merchants.
	receiver       *receiver
	api            service.API
	grpcAddress    string // of the core
	metricsAddress string // address of the core's health checks
	// stream, cache and farStream are direct connections to Redis, without a proxy.
	stream, cache, farStream *redis.Client
	// smallDiskErr is the error if the small disk for the first collector's journal could
	// not be mounted.
	smallDiskErr  error
	shutdownDelay time.Duration
}

// collector is one collector process.
type collector struct {
	*process
	address, metricsAddress string
	journal                 string
	onSmallDisk             bool
}

// server is Postgres or Redis. It keeps its port and its folder during the whole storm.
type server struct {
	launch  func(context.Context) (*servers.Server, error)
	address string
	// url does not change during the storm, so it is read without a lock.
	url     string
	running *servers.Server
}

func (s *server) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	var err error
	if s.running, err = s.launch(ctx); err == nil && s.url == "" {
		s.url = s.running.URL
	}
	return err
}

// restart stops the server, or kills it if kill is set. It starts the server again after
// the given downtime.
func (s *server) restart(kill bool, downtime time.Duration) error {
	if kill {
		s.running.Kill()
	} else if err := s.stop(); err != nil {
		return err
	}
	time.Sleep(downtime)
	return s.open()
}

func (s *server) stop() error {
	if s == nil || s.running == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	return s.running.Stop(ctx)
}

// pause stops the server with SIGSTOP and continues it after the given time.
func (s *server) pause(duration time.Duration) error {
	if err := syscall.Kill(s.running.Pid, syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(duration)
	return syscall.Kill(s.running.Pid, syscall.SIGCONT)
}

// start starts all processes. The caller must call stop even if start returns an error.
func (s *system) start(ctx context.Context, collectors int) error {
	for _, dir := range []string{"logs", "postgres", "redis", "far-redis"} {
		if err := os.Mkdir(s.file(dir), 0o711); err != nil {
			return err
		}
	}
	if err := s.startServers(ctx); err != nil {
		return err
	}
	if err := s.startWires(collectors); err != nil {
		return err
	}
	var err error
	if s.receiver, err = startReceiver(ctx, s.file(authorityName)); err != nil {
		return err
	}
	migrate := service.Environ("TRIBUTARY_DATABASE_URL=" + s.postgres.url)
	if err := run(ctx, os.Stderr, migrate, s.binary("core"), "migrate"); err != nil {
		return err
	}
	if err := s.startCore(ctx); err != nil {
		return err
	}
	if err := s.startGateway(ctx); err != nil {
		return err
	}
	for n := range collectors {
		if err := s.startCollector(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *system) startServers(ctx context.Context) error {
	addresses, err := servers.FreeAddresses(3)
	if err != nil {
		return err
	}
	portOf := func(address string) int { return int(netip.MustParseAddrPort(address).Port()) }
	redisAt := func(address, dir string) *server {
		return &server{address: address, launch: func(ctx context.Context) (*servers.Server, error) {
			return servers.StartRedis(ctx, servers.RedisConfig{Dir: s.file(dir), Port: portOf(address), Durable: true})
		}}
	}
	s.postgres = &server{address: addresses[0], launch: func(ctx context.Context) (*servers.Server, error) {
		return servers.StartPostgres(ctx, servers.PostgresConfig{Dir: s.file("postgres"), Port: portOf(addresses[0]), Durable: true})
	}}
	s.redis, s.farRedis = redisAt(addresses[1], "redis"), redisAt(addresses[2], "far-redis")
	if err := errors.Join(s.postgres.open(), s.redis.open(), s.farRedis.open()); err != nil {
		return err
	}
	direct := func(to *server, database int) *redis.Client {
		return redis.NewClient(&redis.Options{Addr: to.address, DB: database, MaxRetries: -1})
	}
	s.stream, s.cache, s.farStream = direct(s.redis, 0), direct(s.redis, cacheDatabase), direct(s.farRedis, 0)
	return nil
}

func (s *system) startWires(collectors int) error {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics use the global logger
	proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	// These ports are reserved, so that no other process uses them while a proxy is
	// down.
	addresses, err := servers.FreeAddresses(collectors + coreWires)
	if err != nil {
		return err
	}
	for n, address := range addresses {
		upstream := s.redis.address
		switch n {
		case farCollector(collectors), collectors + wireCoreFarRedis:
			upstream = s.farRedis.address
		case collectors + wireCorePostgres:
			upstream = s.postgres.address
		}
		proxy := toxiproxy.NewProxy(proxies, "wire "+strconv.Itoa(n), address, upstream)
		if err := proxy.Start(); err != nil {
			return err
		}
		s.wires = append(s.wires, proxy)
	}
	_, err = s.wires[collectors+wireCoreFarRedis].Toxics.AddToxicJson(strings.NewReader(distance))
	return err
}

// farCollector returns the index of the collector in the other region.
func farCollector(collectors int) int { return collectors - 1 }

// redisSettings returns the settings of a process that connects to Redis through a wire.
func (s *system) redisSettings(wire int) []string {
	address := "redis://" + s.wires[wire].Listen
	return []string{"TRIBUTARY_REDIS_URL=" + address + "/0", "TRIBUTARY_CACHE_REDIS_URL=" + address + "/" + strconv.Itoa(cacheDatabase)}
}

// testKey returns a fixed key of 32 bytes that all processes of the storm share.
func testKey(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

func (s *system) startCore(ctx context.Context) error {
	addresses, err := servers.FreeAddresses(2)
	if err != nil {
		return err
	}
	collectors := len(s.wires) - coreWires
	database, err := url.Parse(s.postgres.url)
	if err != nil {
		return err
	}
	database.Host = s.wires[collectors+wireCorePostgres].Listen
	s.grpcAddress, s.metricsAddress = addresses[0], addresses[1]
	s.core = &process{
		name: "core", log: s.file("logs/core.log"), argv: []string{s.binary("core"), "serve"},
		env: service.Environ(append(s.redisSettings(collectors+wireCoreRedis),
			"TRIBUTARY_DATABASE_URL="+database.String(),
			"TRIBUTARY_REGIONS=far=redis://"+s.wires[collectors+wireCoreFarRedis].Listen+"/0",
			"TRIBUTARY_LIMIT_TRACKING="+noLimit, "TRIBUTARY_LIMIT_TRACKING_ADDRESS=0",
			"TRIBUTARY_GRPC_LISTEN="+s.grpcAddress,
			"TRIBUTARY_METRICS_LISTEN="+s.metricsAddress,
			"TRIBUTARY_ALLOW_HTTP=true",
			"TRIBUTARY_SHUTDOWN_DELAY=0s", // no load balancer
			"TRIBUTARY_LINK_URL=https://go.example",
			"TRIBUTARY_REGISTRATION_MERCHANT=open",
			"TRIBUTARY_JWT_KEYS=storm:"+testKey("j"),
			"TRIBUTARY_ENCRYPTION_KEYS=storm:"+testKey("e"),
			"TRIBUTARY_HASH_KEY="+testKey("h"),
			"TRIBUTARY_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8",
			"TRIBUTARY_WEBHOOK_CA_FILE="+s.file(authorityName),
			"TRIBUTARY_LIMIT_AUTH="+noLimit,
			"TRIBUTARY_LIMIT_GENERAL="+noLimit,
			"TRIBUTARY_LIMIT_CONVERSIONS="+noLimit,
		)...),
	}
	if err := s.core.supervise(); err != nil {
		return err
	}
	return await(ctx, "the core is ready", func(ctx context.Context) error { return checkHealth(ctx, "http://"+s.metricsAddress+"/readyz") })
}

// startGateway starts a gateway, which must connect to the core again after each fault of the
// core.
func (s *system) startGateway(ctx context.Context) error {
	addresses, err := servers.FreeAddresses(2)
	if err != nil {
		return err
	}
	s.api = service.API{Address: addresses[0]}
	s.gateway = &process{
		name: "gateway", log: s.file("logs/gateway.log"), argv: []string{s.binary("gateway")},
		env: service.Environ(
			"TRIBUTARY_GRPC_ADDR="+s.grpcAddress,
			"TRIBUTARY_API_LISTEN="+s.api.Address,
			"TRIBUTARY_METRICS_LISTEN="+addresses[1],
			"TRIBUTARY_ALLOW_HTTP=true",
			"TRIBUTARY_SHUTDOWN_DELAY=0s", // no load balancer
		),
	}
	if err := s.gateway.supervise(); err != nil {
		return err
	}
	return await(ctx, "the gateway is ready", func(ctx context.Context) error {
		return checkHealth(ctx, "http://"+s.api.Address+"/api/v1/health/ready")
	})
}

func (s *system) startCollector(ctx context.Context, n int) error {
	addresses, err := servers.FreeAddresses(2)
	if err != nil {
		return err
	}
	c := &collector{address: addresses[0], metricsAddress: addresses[1], journal: s.file("journal-" + strconv.Itoa(n))}
	if err := os.Mkdir(c.journal, 0o700); err != nil {
		return err
	}
	if n == 0 {
		s.smallDiskErr = mountSmallDisk(c.journal, smallDiskSize)
		c.onSmallDisk = s.smallDiskErr == nil
	}
	settings := s.redisSettings(n)
	if n == farCollector(len(s.wires)-coreWires) {
		settings = []string{"TRIBUTARY_REDIS_URL=redis://" + s.wires[n].Listen + "/0", "TRIBUTARY_STREAM_SHARDS=" + strconv.Itoa(farStreams)}
	}
	name := "collector-" + strconv.Itoa(n)
	c.process = &process{
		name: name, log: s.file("logs/" + name + ".log"), argv: []string{s.binary("collector")},
		env: service.Environ(append(settings,
			"TRIBUTARY_COLLECTOR_LISTEN="+c.address,
			"TRIBUTARY_METRICS_LISTEN="+c.metricsAddress,
			"TRIBUTARY_JOURNAL_DIR="+c.journal,
			"TRIBUTARY_SHUTDOWN_DELAY="+s.shutdownDelay.String(),
			"TRIBUTARY_ALLOW_HTTP=true",
			"TRIBUTARY_HASH_KEY="+testKey("h"),
			"TRIBUTARY_LIMIT_TRACKING="+noLimit, "TRIBUTARY_LIMIT_TRACKING_ADDRESS=0",
		)...),
	}
	s.collectors = append(s.collectors, c)
	if err := c.supervise(); err != nil {
		return err
	}
	return await(ctx, name+" is ready", func(ctx context.Context) error { return checkHealth(ctx, "http://"+c.address+"/v1/health/ready") })
}

// stop stops everything that start has started. It does not delete the data folder. If
// keep is set, stop copies the journal from the small disk to the data folder before it
// unmounts the disk.
func (s *system) stop(keep bool) error {
	var faults []error
	for _, c := range s.collectors {
		faults = append(faults, c.stop())
	}
	for _, p := range []*process{s.core, s.gateway} {
		if p != nil {
			faults = append(faults, p.stop())
		}
	}
	faults = append(faults, s.receiver.stop())
	for _, wire := range s.wires {
		wire.Stop()
	}
	if s.stream != nil {
		faults = append(faults, s.stream.Close(), s.cache.Close(), s.farStream.Close())
	}
	faults = append(faults, s.redis.stop(), s.farRedis.stop(), s.postgres.stop())
	for _, c := range s.collectors {
		if c.onSmallDisk {
			if keep {
				faults = append(faults, os.CopyFS(c.journal+"-as-it-was", os.DirFS(c.journal)))
			}
			faults = append(faults, unmount(c.journal))
		}
	}
	return errors.Join(faults...)
}

func (s *system) file(name string) string   { return filepath.Join(s.dir, name) }
func (s *system) binary(name string) string { return filepath.Join(s.binaries, name) }

// build compiles the collector, the core and the gateway into dir.
func build(ctx context.Context, dir string) error {
	const module = "github.com/tributary-hq/tributary/cmd/"
	argv := append(append([]string{"go", "build"}, buildFlags...), "-o", dir+"/", module+"collector", module+"core", module+"gateway")
	return run(ctx, os.Stderr, os.Environ(), argv...)
}

// startTimeout is the maximum time for a process to start.
const startTimeout = 30 * time.Second

// await calls check repeatedly until it returns nil, for at most startTimeout.
// description says what await waits for.
func await(ctx context.Context, description string, check func(context.Context) error) error {
	return awaitWithin(ctx, startTimeout, description, check)
}

func awaitWithin(ctx context.Context, timeout time.Duration, description string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		err := check(attempt)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s this condition does not hold: %s: %w", timeout, description, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
