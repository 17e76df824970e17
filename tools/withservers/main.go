// Command withservers runs a command beside a private Postgres and a private
// Redis, which end and are forgotten with it:
//
//	go run ./tools/withservers -- go test ./...
//
// The command finds them in TRIBUTARY_TEST_DATABASE_URL and
// TRIBUTARY_TEST_REDIS_URL. A name that is set already is left as it is and its
// server is not started. TRIBUTARY_DATABASE_URL and TRIBUTARY_REDIS_URL are never
// looked at: tests do not touch the data that somebody runs Tributary on.
//
// The command has our standard input and output, gets SIGINT and SIGTERM passed
// on, and its exit code is ours. The servers keep nothing safe, and work in memory
// where there is room; with -durable they write to disk as production does, for
// measurements and for tests that kill them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	databaseURL = "TRIBUTARY_TEST_DATABASE_URL"
	redisURL    = "TRIBUTARY_TEST_REDIS_URL"

	// stopTimeout bounds the graceful end of both servers.
	stopTimeout = 20 * time.Second
)

func main() {
	durable := flag.Bool("durable", false, "write to disk as production does")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: withservers [-durable] -- command [argument...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	code, err := run(flag.Args(), *durable)
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservers:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run returns the command's exit code. An error says what went wrong beside it.
func run(argv []string, durable bool) (code int, err error) {
	// Taken before anything is started, so that no signal leaves a server or the
	// folder behind.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)

	s := &private{durable: durable}
	defer func() { err = errors.Join(err, s.stop()) }()
	if stopped, err := s.start(signals); stopped != nil || err != nil {
		return exitOf(stopped), err
	}

	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // signals end it, no context
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), s.env...)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			// The terminal's Ctrl-C has reached the command already; a second one is
			// harmless, and a signal sent to us alone must arrive.
			_ = cmd.Process.Signal(sig) // fails only when the command has ended
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 1, err
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return exitOf(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// exitOf is the code by which shells report an end by a signal.
func exitOf(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 1
}

// private is what this run has started.
type private struct {
	durable bool
	dir     string
	env     []string

	mu      sync.Mutex
	running []*servers.Server
}

// start starts the servers that the environment does not name, both at once.
// When a signal ends the wait it returns that signal.
func (p *private) start(signals <-chan os.Signal) (os.Signal, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	folder := servers.MemoryDir
	if p.durable {
		folder = servers.TempDir
	}
	var err error
	if p.dir, err = folder(); err != nil {
		return nil, err
	}
	// The servers' own lines would bury the command's; an error brings the last
	// lines of its server with it.
	starts := map[string]func() (*servers.Server, error){
		databaseURL: func() (*servers.Server, error) {
			return servers.StartPostgres(ctx, servers.PostgresConfig{Dir: filepath.Join(p.dir, "postgres"), Durable: p.durable})
		},
		redisURL: func() (*servers.Server, error) {
			return servers.StartRedis(ctx, servers.RedisConfig{Dir: filepath.Join(p.dir, "redis"), Durable: p.durable})
		},
	}
	failed := make(chan error, len(starts))
	var wg sync.WaitGroup
	for name, start := range starts {
		if os.Getenv(name) != "" {
			continue
		}
		wg.Go(func() {
			s, err := start()
			if err != nil {
				failed <- err
				cancel() // the other start is in vain
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.running = append(p.running, s)
			p.env = append(p.env, name+"="+s.URL)
		})
	}
	ready := make(chan struct{})
	go func() { wg.Wait(); close(ready) }()
	select {
	case sig := <-signals:
		cancel()
		<-ready
		return sig, nil
	case <-ready:
	}
	select {
	case err := <-failed:
		return nil, err
	default:
		return nil, nil //nolint:nilnil // neither a signal nor an error
	}
}

func (p *private) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var err error
	for _, s := range p.running {
		err = errors.Join(err, s.Stop(ctx))
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}
