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

// system is a core, a gateway and a collector of an earlier commit, and a new database.
type system struct {
	dir, binaries string
	database      string // the URL of the database
	environment   []string
	// gateway and collector are the addresses of the public ports. metrics contains the
	// address of the metrics port of each process.
	gateway, collector string
	metrics            [3]string
	running            []*process
}

type process struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // set before done is closed
}

func newSystem(ctx context.Context, dir, binaries string) (*system, error) {
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
	addresses, err := servers.FreeAddresses(6)
	if err != nil {
		return nil, err
	}
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	return &system{
		dir: dir, binaries: binaries, database: target.String(),
		gateway: addresses[0], collector: addresses[2], metrics: [3]string(addresses[3:]),
		environment: service.Environ(
			"TRIBUTARY_DATABASE_URL="+target.String(), "TRIBUTARY_REDIS_URL="+redis,
			"TRIBUTARY_API_LISTEN="+addresses[0], "TRIBUTARY_GRPC_LISTEN="+addresses[1], "TRIBUTARY_GRPC_ADDR="+addresses[1],
			"TRIBUTARY_COLLECTOR_LISTEN="+addresses[2], "TRIBUTARY_SHUTDOWN_DELAY=0s",
			"TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_TRUSTED_PROXIES=127.0.0.1", "TRIBUTARY_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8",
			"TRIBUTARY_JWT_KEYS=k:"+key, "TRIBUTARY_ENCRYPTION_KEYS=k:"+key, "TRIBUTARY_HASH_KEY="+key,
			"TRIBUTARY_LIMIT_CONVERSIONS="+noLimit, "TRIBUTARY_LIMIT_AUTH="+noLimit, "TRIBUTARY_LIMIT_GENERAL="+noLimit,
			"TRIBUTARY_LIMIT_TRACKING="+noLimit,
		),
	}, nil
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

// start starts all processes and returns when the gateway and the collector are ready.
func (s *system) start(ctx context.Context) error {
	for i, argv := range [][]string{{"core", "serve"}, {"gateway"}, {"collector"}} {
		p, err := s.launch(ctx, s.metrics[i], argv...)
		if err != nil {
			s.stop()
			return err
		}
		s.running = append(s.running, p)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !isReady(ctx, "http://"+s.gateway+"/api/v1/health/ready") || !isReady(ctx, "http://"+s.collector+"/v1/health/ready") {
		for _, p := range s.running {
			select {
			case <-p.done:
				s.stop()
				return errors.Join(fmt.Errorf("the %s has exited: %w", p.name, p.err), s.tail(p.name))
			default:
			}
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			s.stop()
			return errors.Join(fmt.Errorf("not ready within %s", startTimeout), s.tail("core"), s.tail("gateway"), s.tail("collector"))
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

// awaitClicks waits until all acknowledged clicks are stored. acknowledged is their
// number.
func (s *system) awaitClicks(ctx context.Context, acknowledged int64) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for {
		var stored int64
		if err := conn.QueryRow(ctx, "select count(*) from clicks").Scan(&stored); err != nil {
			return err
		}
		if stored >= acknowledged {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("only %d of %d acknowledged clicks are stored", stored, acknowledged)
		}
	}
}

// launch starts a process. The process appends its output to a log file with its name.
func (s *system) launch(ctx context.Context, metrics string, argv ...string) (*process, error) {
	log, err := os.OpenFile(s.logPath(argv[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{name: argv[0], stop: stop, done: make(chan struct{})}
	cmd := exec.CommandContext(ctx, filepath.Join(s.binaries, argv[0]), argv[1:]...)
	cmd.Env = append(s.environment, "TRIBUTARY_METRICS_LISTEN="+metrics)
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
			p.err = cmd.Wait()
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

// stop stops the processes one after the other, in the reverse order of their start.
func (s *system) stop() {
	for i := len(s.running) - 1; i >= 0; i-- {
		s.running[i].stop()
		<-s.running[i].done
	}
	s.running = nil
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

// logs returns an error if the log of the core contains errors. It finds errors of
// background work, which no response contains. It ignores calls that the client cancelled:
// the load does not read event streams to their end, and some earlier binaries log this.
func (s *system) logs() error {
	const (
		shown     = 5
		cancelled = "code = Canceled"
	)
	text, err := os.ReadFile(s.logPath("core"))
	if err != nil {
		return err
	}
	var lines []string
	count := 0
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, cancelled) {
			continue
		}
		if count++; count <= shown {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if count > 0 {
		return fmt.Errorf("the core logged %d errors, for example:\n%s", count, strings.Join(lines, "\n"))
	}
	return nil
}
