package main

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

	"github.com/tributary-hq/tributary/test/service"
)

const (
	// restartAfter is the pause before a process that exited unexpectedly is started
	// again. A service manager would also wait.
	restartAfter = 300 * time.Millisecond
	// stopTimeout is the maximum time of a graceful shutdown. The collector and the core
	// guarantee to exit within 20 s.
	stopTimeout = 25 * time.Second
)

// process is a supervised process. When it exits, it is started again with the same
// settings. All runs of the process write to the same log file.
type process struct {
	name string
	argv []string
	env  []string
	log  string

	mu             sync.Mutex
	running        *os.Process
	ended          chan struct{} // closed when the process in the field running has exited
	endRequested   bool          // the storm has requested that the running process ends
	downtime       time.Duration // the pause before the next start after a requested end
	stopped        bool          // the process must not be started again
	supervisorDone chan struct{} // closed when the goroutine that restarts the process has returned
	// startedAt contains the time of each start. unexpectedEnds counts how often the process
	// exited although the storm had not requested it.
	startedAt      []time.Time
	unexpectedEnds int
}

// supervise starts the process. It restarts the process when it exits, until stop is
// called.
func (p *process) supervise() error {
	p.supervisorDone = make(chan struct{})
	started := make(chan error, 1) // result of the first start
	go func() {
		// The kernel kills the child when the thread that started the child ends. So this
		// goroutine keeps its thread until the child has exited.
		runtime.LockOSThread()
		defer close(p.supervisorDone)
		for {
			cmd, err := p.start()
			select {
			case started <- err:
			default:
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "fault: cannot start %s: %v\n", p.name, err)
				return
			}
			_ = cmd.Wait() // the log file contains the reason of the exit
			pause, again := p.nextStart()
			if !again {
				return
			}
			time.Sleep(pause)
		}
	}()
	return <-started
}

func (p *process) start() (*exec.Cmd, error) {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.argv[0], p.argv[1:]...) //nolint:noctx // the process runs until it is stopped or killed
	cmd.Env = p.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = service.ChildAttributes()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, errors.New("the process was stopped")
	}
	now := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.running, p.ended, p.endRequested = cmd.Process, make(chan struct{}), false
	p.startedAt = append(p.startedAt, now)
	return cmd, nil
}

// nextStart must be called after the process has exited. It returns the pause before the
// next start. The second result is false if the process must not be started again.
func (p *process) nextStart() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ended)
	if p.stopped {
		return 0, false
	}
	if !p.endRequested {
		p.unexpectedEnds++
		return restartAfter, true
	}
	return p.downtime, true
}

// terminate sends a signal that ends the process, and waits until the process has exited.
// The process is started again after the given pause. If the process does not exit within
// stopTimeout, terminate kills it and returns false.
func (p *process) terminate(sig syscall.Signal, pause time.Duration) bool {
	p.mu.Lock()
	running, ended := p.running, p.ended
	p.endRequested, p.downtime = true, pause
	p.mu.Unlock()
	_ = running.Signal(sig) // fails only if the process has already ended
	select {
	case <-ended:
		return true
	case <-time.After(stopTimeout):
		_ = running.Kill()
		<-ended
		return false
	}
}

// pause stops the process with SIGSTOP and continues it after the given time.
func (p *process) pause(duration time.Duration) {
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	_ = running.Signal(syscall.SIGSTOP)
	time.Sleep(duration)
	_ = running.Signal(syscall.SIGCONT)
}

// summary returns a text with the number of starts and the number of unexpected ends.
func (p *process) summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d starts, %d unexpected ends", len(p.startedAt), p.unexpectedEnds)
}

// starts returns the time of each start, in Unix milliseconds.
func (p *process) starts() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	times := make([]int64, len(p.startedAt))
	for n, at := range p.startedAt {
		times[n] = at.UnixMilli()
	}
	return times
}

// stop ends the process and does not start it again.
func (p *process) stop() error {
	p.mu.Lock()
	p.stopped = true
	started := p.running != nil
	p.mu.Unlock()
	if !started {
		return nil
	}
	inTime := p.terminate(syscall.SIGTERM, 0)
	<-p.supervisorDone
	if !inTime {
		return fmt.Errorf("%s did not stop within %s", p.name, stopTimeout)
	}
	return nil
}

// run runs a command and waits until it ends.
func run(ctx context.Context, out io.Writer, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}
