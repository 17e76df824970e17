// Command withservers runs a command with a private Postgres and a private Redis. It
// stops the servers and deletes their data when the command ends.
//
//	go run ./tools/withservers -- go test ./...
//
// The addresses of the servers are in TRIBUTARY_TEST_DATABASE_URL and
// TRIBUTARY_TEST_REDIS_URL of the command's environment. If one of these variables is
// already set, it keeps its value and the server is not started. TRIBUTARY_DATABASE_URL
// and TRIBUTARY_REDIS_URL are not used, so tests never touch the data of a running
// Tributary.
//
// The command uses the standard input and output of withservers. withservers passes
// SIGINT and SIGTERM on to the command and exits with the command's exit code. The
// servers do not protect their data against a crash, and store it in memory if enough
// memory is free. With -durable they write to disk as in production, for measurements and
// for tests that kill the servers.
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

	// stopTimeout limits the graceful shutdown of both servers.
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

// run starts the servers, runs the command and returns its exit code. An error means that
// withservers itself has failed.
func run(argv []string, durable bool) (code int, err error) {
	// Register for signals before anything is started, so that a signal never leaves a
	// server or the folder behind.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)

	s := &privateServers{durable: durable}
	defer func() { err = errors.Join(err, s.stop()) }()
	if stopped, err := s.start(signals); stopped != nil || err != nil {
		return exitCode(stopped), err
	}

	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // the command ends on signals
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
			// The command has already received the terminal's Ctrl-C; a second SIGINT is
			// harmless. A signal that was sent only to this process must be passed on.
			_ = cmd.Process.Signal(sig) // fails only if the command has ended
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 1, err
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return exitCode(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// exitCode returns the exit code that shells use for an end by a signal.
func exitCode(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 1
}

// privateServers contains the servers that this run started.
type privateServers struct {
	durable bool
	dir     string
	env     []string

	mu      sync.Mutex
	running []*servers.Server
}

// start starts the servers whose variable is not set, both at the same time. If a signal
// ends the wait, start returns the signal.
func (p *privateServers) start(signals <-chan os.Signal) (os.Signal, error) {
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
	// The output of the servers is discarded, because it would hide the command's
	// output. An error contains the last lines of its server.
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
				cancel() // the other server is not needed any more
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

func (p *privateServers) stop() error {
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
