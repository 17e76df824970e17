// Package servers finds or installs, starts and stops the private Postgres and Redis of
// `make run` and `make test`, and PgBouncer for tests.
//
// A server is one child process with its own folder and its own port on 127.0.0.1. The
// package uses the server commands of the machine. If they are missing and the caller is
// root on a machine with apt, it installs Debian's packages without starting their system
// services. The output of the installation goes to standard error.
//
// Guarantees:
//
//   - A started server accepts connections at Server.URL.
//   - A folder has at most one server.
//   - Data that a durable server acknowledged exists after the next start.
//   - Ctrl-C in the terminal does not reach the server. So the owner can stop its own
//     work first and then call Stop.
//   - On Linux a server ends when the process that started it ends, even if that process
//     is killed.
//
// The package does not protect the servers from other users of the machine: everybody who
// can connect to the loopback port is accepted. The caller cannot choose the version of a
// server. Windows is not supported. The package is for development and tests; production
// uses its own servers.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout limits the time from the start of the process until it accepts
	// connections. It includes recovery after a kill.
	startTimeout = time.Minute
	// pollEvery is the pause between two checks of a starting or stopping server.
	pollEvery = 10 * time.Millisecond
	// outputDelay limits the wait for the output of the children of a server that has
	// ended.
	outputDelay = 3 * time.Second
	// freePortAttempts limits the retries if another program takes a free port before
	// the server listens on it.
	freePortAttempts = 5
)

// Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	// URL is the address for clients: postgres://…, redis://… or rediss://….
	URL string
	// Pid is the process id of the server itself.
	Pid int

	name                    string
	stopSignal, forceSignal syscall.Signal
	process                 *os.Process
	done                    chan struct{}

	mu            sync.Mutex
	stopRequested bool  // Stop or Kill was called
	err           error // set before done is closed
}

// Done is closed when the server's process has ended and its folder is free.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why the server ended, after Done is closed. It is nil if Stop or Kill
// ended the server. Otherwise it contains the exit status and the last lines of output.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Stop ends the server gracefully: it closes open connections and writes all
// acknowledged data. If ctx ends first, Stop forces the server to end and returns an
// error. A durable server loses no acknowledged data then. If the server has already
// ended, Stop returns Err.
func (s *Server) Stop(ctx context.Context) error {
	s.signal(s.stopSignal)
	select {
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
	}
	s.signal(s.forceSignal)
	<-s.done
	return fmt.Errorf("%s did not stop in time and was forced to end: %w", s.name, context.Cause(ctx))
}

// Kill ends the server with SIGKILL, like a crash, and waits until it has ended.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	<-s.done
}

// signal sends a signal with os.Process, which never signals a later process with the
// same id.
func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	s.stopRequested = true
	s.mu.Unlock()
	_ = s.process.Signal(sig) // fails only if the process has ended
}

// command describes a process for launch.
type command struct {
	name                    string // for messages
	argv                    []string
	dir                     string
	log                     io.Writer
	lock                    *os.File // on dir; closed when the process has ended
	stopSignal, forceSignal syscall.Signal
}

// launch starts the process. It does not wait until the server accepts connections.
func launch(c command) (*Server, error) {
	out := &output{next: c.log}
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:noctx // the server outlives the context of its start
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = processAttributes(c.stopSignal)
	cmd.WaitDelay = outputDelay

	s := &Server{name: c.name, stopSignal: c.stopSignal, forceSignal: c.forceSignal, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel signals the child when the thread that started it ends. So this
		// goroutine locks its thread until the server has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			s.process, s.Pid = cmd.Process, cmd.Process.Pid
		}
		started <- err
		if err == nil {
			s.handleExit(cmd.Wait(), out, c.lock)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.name, err), c.lock.Close())
	}
	return s, nil
}

func (s *Server) handleExit(err error, out *output, lock *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var exit *exec.ExitError
	forced := errors.As(err, &exit) && !exit.Exited()
	clean := err == nil || forced || errors.Is(err, exec.ErrWaitDelay)
	if !s.stopRequested || !clean {
		if err == nil {
			err = errors.New("exit status 0")
		}
		s.err = fmt.Errorf("%s ended by itself: %w; its last lines:\n%s", s.name, err, out.tail())
	}
	// The lock is released before done is closed, so that the folder is free after Done.
	if closeErr := lock.Close(); closeErr != nil {
		s.err = errors.Join(s.err, closeErr)
	}
	close(s.done)
}

// await waits until ready returns true. If this takes longer than startTimeout, await
// ends the server.
func (s *Server) await(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !ready() {
		select {
		case <-s.done:
			return s.Err()
		case <-ctx.Done():
			s.signal(s.forceSignal)
			<-s.done
			return fmt.Errorf("start %s: %w", s.name, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// output writes the output of a server to next. It also stores the end of the output for
// error messages.
type output struct {
	next io.Writer // optional

	mu   sync.Mutex
	last []byte
}

const maxOutputKept = 4096

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = append(o.last, p...)
	if over := len(o.last) - maxOutputKept; over > 0 {
		o.last = append(o.last[:0], o.last[over:]...)
	}
	if o.next == nil {
		return len(p), nil
	}
	return o.next.Write(p)
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.last))
}
