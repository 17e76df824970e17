// Package servers finds or installs, starts and stops the private Postgres and
// Redis that `make run` and `make test` work on.
//
// Model: a server is one child process that works in one folder and listens on
// one port of 127.0.0.1. Its commands are taken from the machine; when they are
// missing and the caller is root on a machine with apt, Debian's packages are
// installed, their system services left stopped; the installation shows on
// standard error.
//
// Guaranteed: a started server answers on Server.URL; a folder has at most one
// server, and data that a durable server acknowledged is there at the next
// start; Ctrl-C in the terminal does not reach the server, so the owner stops
// its own work first and then calls Stop; on Linux a server ends when the
// process that started it dies, however it dies.
//
// Not promised: protection from other users of the same machine (anyone who
// reaches the loopback port is let in), a choice of version, Windows. This is
// for development and tests; production brings its own servers.
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
	// startTimeout bounds the time from launch to the first answer; it has to
	// cover recovery after a kill.
	startTimeout = time.Minute
	// pollEvery is how often a starting or stopping server is looked at.
	pollEvery = 10 * time.Millisecond
	// outputDelay bounds the wait for the output of a dead server's own children.
	outputDelay = 3 * time.Second
	// freePortAttempts bounds the retries when another program takes a free port
	// between choosing it and binding it.
	freePortAttempts = 5
)

// Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	// URL is what a client connects to: postgres://… or redis://….
	URL string
	// Pid is the process id of the server itself.
	Pid int

	name        string
	quit, force syscall.Signal
	process     *os.Process
	done        chan struct{}

	mu    sync.Mutex
	asked bool  // Stop or Kill was called
	err   error // set before done is closed
}

// Done is closed when the server's process has ended and its folder is free.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says after Done why the server ended: nil when Stop or Kill ended it, else
// its exit status and its last lines of output.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Stop ends the server gracefully: open connections are cut, everything
// acknowledged is written. When ctx ends first the server is forced down, which
// loses nothing that a durable server acknowledged, and Stop returns an error.
// Stopping a server that has ended returns Err.
func (s *Server) Stop(ctx context.Context) error {
	s.signal(s.quit)
	select {
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
	}
	s.signal(s.force)
	<-s.done
	return fmt.Errorf("%s did not stop in time and was forced down: %w", s.name, context.Cause(ctx))
}

// Kill ends the server with SIGKILL, as a crash would, and waits for its end.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	<-s.done
}

// signal goes through os.Process, which never reaches a later process that was
// given the same id.
func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	s.asked = true
	s.mu.Unlock()
	_ = s.process.Signal(sig) // fails only when the process has ended
}

// command is what launch starts.
type command struct {
	name        string // for messages
	argv        []string
	dir         string
	log         io.Writer
	lock        *os.File // on dir; closed when the process has ended
	quit, force syscall.Signal
}

// launch starts the process and returns without waiting for its first answer.
func launch(c command) (*Server, error) {
	out := &output{next: c.log}
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:noctx // the server outlives the context of its start
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = processAttributes(c.quit)
	cmd.WaitDelay = outputDelay

	s := &Server{name: c.name, quit: c.quit, force: c.force, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel signals a child when the thread that forked it ends, so this
		// goroutine keeps its thread as long as the server lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			s.process, s.Pid = cmd.Process, cmd.Process.Pid
		}
		started <- err
		if err == nil {
			s.ended(cmd.Wait(), out, c.lock)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.name, err), c.lock.Close())
	}
	return s, nil
}

func (s *Server) ended(err error, out *output, lock *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var exit *exec.ExitError
	forced := errors.As(err, &exit) && !exit.Exited()
	clean := err == nil || forced || errors.Is(err, exec.ErrWaitDelay)
	if !s.asked || !clean {
		if err == nil {
			err = errors.New("exit status 0")
		}
		s.err = fmt.Errorf("%s ended by itself: %w; its last lines:\n%s", s.name, err, out.tail())
	}
	// Before done, so that who waits for Done finds the folder free.
	if closeErr := lock.Close(); closeErr != nil {
		s.err = errors.Join(s.err, closeErr)
	}
	close(s.done)
}

// await returns when ready says so, and ends the server when it never does.
func (s *Server) await(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %s", startTimeout))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !ready() {
		select {
		case <-s.done:
			return s.Err()
		case <-ctx.Done():
			s.signal(s.force)
			<-s.done
			return fmt.Errorf("start %s: %w", s.name, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// output passes a server's lines on and keeps the last of them for the error
// that explains its end.
type output struct {
	next io.Writer // nil: kept only

	mu   sync.Mutex
	last []byte
}

const outputKept = 4096

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = append(o.last, p...)
	if over := len(o.last) - outputKept; over > 0 {
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
