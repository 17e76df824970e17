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
	// noLimit is a limit of requests that no run reaches.
	noLimit = "1000000000"
)

// system is a core and a gateway of an earlier commit on a database of the run.
type system struct {
	dir, binaries string
	environment   []string
	// api and metrics are addresses: the gateway's, and those of both processes'
	// metrics.
	api     string
	metrics [2]string
	running []*process
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
		return nil, errors.New("no servers to run on: run `make schema`")
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
	addresses, err := servers.FreeAddresses(4)
	if err != nil {
		return nil, err
	}
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	return &system{
		dir: dir, binaries: binaries, api: addresses[0], metrics: [2]string{addresses[2], addresses[3]},
		environment: service.Environ(
			"TRIBUTARY_DATABASE_URL="+target.String(), "TRIBUTARY_REDIS_URL="+redis,
			"TRIBUTARY_API_LISTEN="+addresses[0], "TRIBUTARY_GRPC_LISTEN="+addresses[1], "TRIBUTARY_GRPC_ADDR="+addresses[1],
			"TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_TRUSTED_PROXIES=127.0.0.1", "TRIBUTARY_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8",
			"TRIBUTARY_JWT_KEYS=k:"+key, "TRIBUTARY_ENCRYPTION_KEYS=k:"+key, "TRIBUTARY_HASH_KEY="+key,
			"TRIBUTARY_LIMIT_CONVERSIONS="+noLimit, "TRIBUTARY_LIMIT_AUTH="+noLimit, "TRIBUTARY_LIMIT_GENERAL="+noLimit,
		),
	}, nil
}

// migrate runs `core migrate` of the binaries in a folder.
func (s *system) migrate(ctx context.Context, binaries string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "core"), "migrate")
	cmd.Env = s.environment
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("core migrate: %w\n%s", err, out)
	}
	return nil
}

// start starts core and gateway and returns when the gateway is ready.
func (s *system) start(ctx context.Context) error {
	for i, argv := range [][]string{{"core", "serve"}, {"gateway"}} {
		p, err := s.launch(ctx, s.metrics[i], argv...)
		if err != nil {
			s.stop()
			return err
		}
		s.running = append(s.running, p)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.api+"/api/v1/health/ready", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		for _, p := range s.running {
			select {
			case <-p.done:
				s.stop()
				return errors.Join(fmt.Errorf("the %s ended: %w", p.name, p.err), s.tail(p.name))
			default:
			}
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			s.stop()
			return errors.Join(fmt.Errorf("not ready within %s", startTimeout), s.tail("core"), s.tail("gateway"))
		}
	}
}

// launch starts a process that adds its output to a log of its name.
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
		// The kernel kills a child when the thread that started it ends.
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

// stop ends the processes, the gateway first, and waits for them.
func (s *system) stop() {
	for i := len(s.running) - 1; i >= 0; i-- {
		s.running[i].stop()
		<-s.running[i].done
	}
	s.running = nil
}

func (s *system) logPath(name string) string { return filepath.Join(s.dir, name+".log") }

// tail returns the end of a process's log as an error.
func (s *system) tail(name string) error {
	const kept = 2000
	text, err := os.ReadFile(s.logPath(name))
	if err != nil {
		return err
	}
	return fmt.Errorf("the log of the %s ends with:\n%s", name, text[max(0, len(text)-kept):])
}

// logs returns an error with the first error lines of the core's log, if there are
// any: work in the background fails without a response.
func (s *system) logs() error {
	const shown = 5
	text, err := os.ReadFile(s.logPath("core"))
	if err != nil {
		return err
	}
	var lines []string
	count := 0
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, `"level":"ERROR"`) {
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
