package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
	// noLimit is a rate limit that no run reaches.
	noLimit = "1000000000"
)

// replicas is the number of processes of each program.
const replicas = 2

// system is two cores, two gateways and two collectors behind a proxy, and a new database.
type system struct {
	dir         string
	database    string // the URL of the database
	environment []string
	// gateway and collector are addresses of the proxy.
	gateway, collector string
	proxy              *proxy
	instances          []*instance // cores, then gateways, then collectors
}

// instance is a process of the system. It is replaced by a process of another version with
// the same settings.
type instance struct {
	name     string // core 1
	argv     []string
	settings []string
	metrics  string // the address of the metrics port
	running  *process
}

type process struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // set before done is closed
}

func newSystem(ctx context.Context, dir string) (*system, error) {
	database, redis := os.Getenv("TRIBUTARY_TEST_DATABASE_URL"), os.Getenv("TRIBUTARY_TEST_REDIS_URL")
	if database == "" || redis == "" {
		return nil, errors.New("no servers: run `make schema`")
	}
	target, err := url.Parse(database)
	if err != nil {
		return nil, errors.New("TRIBUTARY_TEST_DATABASE_URL is not a URL")
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "create database tributary_upgrade")
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, err
	}
	target.Path = "/tributary_upgrade"
	s := &system{dir: dir, database: target.String()}
	// Each instance has a served port and a metrics port, each program a port of the proxy.
	addresses, err := servers.FreeAddresses(2*3*replicas + 4)
	if err != nil {
		return nil, err
	}
	take := func() string { address := addresses[0]; addresses = addresses[1:]; return address }
	s.proxy = &proxy{statistics: take()}
	var frontends []string
	for _, program := range []struct {
		name, mode, listen string
		argv               []string
	}{
		{"core", "tcp", "TRIBUTARY_GRPC_LISTEN", []string{"core", "serve"}},
		{"gateway", "http", "TRIBUTARY_API_LISTEN", []string{"gateway"}},
		{"collector", "http", "TRIBUTARY_COLLECTOR_LISTEN", []string{"collector"}},
	} {
		frontend := take()
		frontends = append(frontends, frontend)
		group := proxied{name: program.name, mode: program.mode, address: frontend}
		for n := range replicas {
			address, metrics := take(), take()
			s.instances = append(s.instances, &instance{
				name: fmt.Sprintf("%s %d", program.name, n+1), argv: program.argv, metrics: metrics,
				settings: []string{program.listen + "=" + address, "TRIBUTARY_METRICS_LISTEN=" + metrics},
			})
			group.servers = append(group.servers, server{address, metrics})
		}
		s.proxy.groups = append(s.proxy.groups, group)
	}
	s.gateway, s.collector = frontends[1], frontends[2]
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	s.environment = service.Environ(
		"TRIBUTARY_DATABASE_URL="+target.String(), "TRIBUTARY_REDIS_URL="+redis, "TRIBUTARY_GRPC_ADDR="+frontends[0],
		"TRIBUTARY_SHUTDOWN_DELAY=1s", "TRIBUTARY_REGISTRATION_MERCHANT=open",
		"TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_TRUSTED_PROXIES=127.0.0.1", "TRIBUTARY_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8",
		"TRIBUTARY_JWT_KEYS=k:"+key, "TRIBUTARY_ENCRYPTION_KEYS=k:"+key, "TRIBUTARY_HASH_KEY="+key,
		"TRIBUTARY_LIMIT_CONVERSIONS="+noLimit, "TRIBUTARY_LIMIT_AUTH="+noLimit, "TRIBUTARY_LIMIT_GENERAL="+noLimit, "TRIBUTARY_LIMIT_INVITES="+noLimit,
		"TRIBUTARY_LIMIT_TRACKING="+noLimit, "TRIBUTARY_LIMIT_TRACKING_ADDRESS=0",
	)
	return s, nil
}

// migrate runs `core migrate` with the binaries in a folder.
func (s *system) migrate(ctx context.Context, binaries string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "core"), "migrate")
	cmd.Env = s.environment
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("core migrate: %w\n%s", err, out)
	}
	return nil
}

// start starts the proxy and all instances, and returns when they are ready.
func (s *system) start(ctx context.Context, binaries string) error {
	for _, i := range s.instances {
		if err := s.startInstance(ctx, i, binaries); err != nil {
			return err
		}
		if i.argv[0] == "core" && i == s.instances[replicas-1] {
			// Gateways are ready when they reach a core through the proxy.
			if err := s.startProxy(ctx); err != nil {
				return err
			}
		}
	}
	return s.awaitProxy(ctx)
}

// replace replaces one instance after the other by a process of another version. The proxy
// sends requests to the instance again before the next one is stopped.
func (s *system) replace(ctx context.Context, binaries string) error {
	for _, i := range s.instances {
		i.running.stop()
		<-i.running.done
		if i.running.err != nil {
			return errors.Join(fmt.Errorf("the %s did not stop cleanly: %w", i.name, i.running.err), s.tail(i.name))
		}
		if err := s.startInstance(ctx, i, binaries); err != nil {
			return err
		}
		if err := s.awaitProxy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startInstance starts an instance and waits until it is ready. A gateway that starts
// before the proxy is only started.
func (s *system) startInstance(ctx context.Context, i *instance, binaries string) error {
	p, err := s.launch(ctx, i.name, append([]string{filepath.Join(binaries, i.argv[0])}, i.argv[1:]...), i.settings)
	if err != nil {
		return err
	}
	i.running = p
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !isReady(ctx, "http://"+i.metrics+"/readyz") {
		select {
		case <-p.done:
			return errors.Join(fmt.Errorf("the %s has exited: %w", i.name, p.err), s.tail(i.name))
		default:
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return errors.Join(fmt.Errorf("the %s is not ready within %s", i.name, startTimeout), s.tail(i.name))
		}
	}
	return nil
}

// isReady reports whether a GET request to the URL returns 200.
func isReady(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// awaitStored waits until all acknowledged clicks are stored, and checks that each
// acknowledged sale is stored. clicks is the number of the clicks, orders are the ids of
// the sales.
func (s *system) awaitStored(ctx context.Context, clicks int64, orders []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var stored int
	if err := conn.QueryRow(ctx, "select count(*) from conversions where external_transaction_id = any($1)", orders).Scan(&stored); err != nil {
		return err
	}
	if stored != len(orders) {
		return fmt.Errorf("%d of %d acknowledged sales are stored", stored, len(orders))
	}
	say("%d acknowledged sales and %d acknowledged clicks", len(orders), clicks)
	for {
		var stored int64
		if err := conn.QueryRow(ctx, "select count(*) from clicks").Scan(&stored); err != nil {
			return err
		}
		if stored >= clicks {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("only %d of %d acknowledged clicks are stored", stored, clicks)
		}
	}
}

// launch starts a process. The process appends its output to a log file with its name.
func (s *system) launch(ctx context.Context, name string, argv, settings []string) (*process, error) {
	log, err := os.OpenFile(s.logPath(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{name: name, stop: stop, done: make(chan struct{})}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = slices.Concat(s.environment, settings)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = service.ChildAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	started := make(chan error, 1)
	go func() {
		// The kernel kills the child when the thread that started the child ends, so this
		// goroutine locks its thread.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err := cmd.Wait()
			if !errors.Is(err, context.Canceled) { // the process was stopped and ended with code 0
				p.err = err
			}
			_ = log.Close()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("start the %s: %w", p.name, err), log.Close())
	}
	return p, nil
}

// stop stops all processes, in the reverse order of their start.
func (s *system) stop() {
	for n := len(s.instances) - 1; n >= 0; n-- {
		stopProcess(s.instances[n].running)
	}
	stopProcess(s.proxy.running)
}

func stopProcess(p *process) {
	if p != nil {
		p.stop()
		<-p.done
	}
}

func (s *system) logPath(name string) string { return filepath.Join(s.dir, name+".log") }

// tail returns an error that contains the end of the log of a process.
func (s *system) tail(name string) error {
	const kept = 2000
	text, err := os.ReadFile(s.logPath(name))
	if err != nil {
		return err
	}
	return fmt.Errorf("the log of the %s ends with:\n%s", name, text[max(0, len(text)-kept):])
}

// logs returns an error if the log of a core contains errors. It finds errors of
// background work, which no response contains. It ignores calls that the client cancelled:
// the load does not read event streams to their end, and some earlier binaries log this. It
// also ignores that the job queue logs a transaction that a stopping core has cancelled.
func (s *system) logs() error {
	const (
		shown         = 5
		cancelledCall = "code = Canceled"
		cancelledJob  = `"error":"context canceled"`
	)
	var lines []string
	count := 0
	for _, core := range s.instances[:replicas] {
		text, err := os.ReadFile(s.logPath(core.name))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, cancelledCall) || strings.Contains(line, cancelledJob) {
				continue
			}
			if count++; count <= shown {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	if count > 0 {
		return fmt.Errorf("the cores logged %d errors, for example:\n%s", count, strings.Join(lines, "\n"))
	}
	return nil
}
