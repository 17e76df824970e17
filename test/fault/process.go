package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// restartAfter is the pause before a process that ended by itself is started
	// again, as whoever runs the service would have it.
	restartAfter = 300 * time.Millisecond
	// stopTimeout bounds a graceful end; the collector and the core promise 20 s.
	stopTimeout = 25 * time.Second
)

// service is a process of ours that is kept running: when it ends it is started
// again with the same settings. Its log goes on in one file.
type service struct {
	name string
	argv []string
	env  []string
	log  string

	mu      sync.Mutex
	process *os.Process
	ended   chan struct{} // closed when process has ended
	asked   bool          // this end was asked for
	away    time.Duration // how long it stays away then
	over    bool          // it is not started again
	gone    chan struct{} // closed when it runs no more
	// starts counts all, byItself the ends that nobody asked for.
	starts, byItself int
}

// environ is our environment without the settings of the service in it.
func environ(settings ...string) []string {
	var env []string
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "TRIBUTARY_") {
			env = append(env, line)
		}
	}
	return append(env, settings...)
}

// keep starts the process and keeps it running until stop.
func (s *service) keep() error {
	s.gone = make(chan struct{})
	started := make(chan error, 1) // of the first start
	go func() {
		// The kernel kills a child when the thread that forked it ends, so this
		// goroutine keeps its thread, and takes it along when it is over.
		runtime.LockOSThread()
		defer close(s.gone)
		for {
			cmd, err := s.start()
			select {
			case started <- err:
			default:
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "fault: %s does not start: %v\n", s.name, err)
				return
			}
			_ = cmd.Wait() // how it ended is in its log
			away, again := s.after()
			if !again {
				return
			}
			time.Sleep(away)
		}
	}()
	return <-started
}

func (s *service) start() (*exec.Cmd, error) {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.argv[0], s.argv[1:]...) //nolint:noctx // it lives until it is stopped or killed
	cmd.Env = s.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, errors.New("it is over")
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.process, s.ended, s.asked = cmd.Process, make(chan struct{}), false
	s.starts++
	return cmd, nil
}

// after is what follows an end: how long it stays away, and whether it comes back.
func (s *service) after() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ended)
	if s.over {
		return 0, false
	}
	if !s.asked {
		s.byItself++
		return restartAfter, true
	}
	return s.away, true
}

// end sends a signal that ends the process, which then stays away for a while,
// and waits for its end. It says whether that came in time; a process that takes
// longer is killed.
func (s *service) end(sig syscall.Signal, away time.Duration) bool {
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.asked, s.away = true, away
	s.mu.Unlock()
	_ = process.Signal(sig) // fails only when it has ended
	select {
	case <-ended:
		return true
	case <-time.After(stopTimeout):
		_ = process.Kill()
		<-ended
		return false
	}
}

// pause lets the process stand still.
func (s *service) pause(lasts time.Duration) {
	s.mu.Lock()
	process := s.process
	s.mu.Unlock()
	_ = process.Signal(syscall.SIGSTOP)
	time.Sleep(lasts)
	_ = process.Signal(syscall.SIGCONT)
}

// ends says how often the process began, and ended without being asked to.
func (s *service) ends() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d starts, %d ends by itself", s.starts, s.byItself)
}

// stop ends the process for good.
func (s *service) stop() error {
	s.mu.Lock()
	s.over = true
	running := s.process != nil
	s.mu.Unlock()
	if !running {
		return nil
	}
	inTime := s.end(syscall.SIGTERM, 0)
	<-s.gone
	if !inTime {
		return fmt.Errorf("%s did not stop within %s", s.name, stopTimeout)
	}
	return nil
}

// run runs a command of ours to its end.
func run(ctx context.Context, out io.Writer, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}

// The ports of a storm lie below those that the kernel gives to outgoing
// connections: a port whose server is away must not be taken by one of them.
const (
	lowestPort = 11_000
	ports      = 9_000
)

// freePorts are so many different ports of the loopback that nobody listens on.
func freePorts(ctx context.Context, n int) (free []int, err error) {
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			err = errors.Join(err, listener.Close())
		}
	}()
	for range 100 * n {
		port := lowestPort + rand.IntN(ports) // #nosec G404 -- any will do
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", local(port))
		if err != nil {
			continue
		}
		held = append(held, listener)
		if free = append(free, port); len(free) == n {
			return free, nil
		}
	}
	return nil, errors.New("no free port")
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
