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
	// restartAfter is the pause before a process that ended by itself is started
	// again, as whoever runs the service would have it.
	restartAfter = 300 * time.Millisecond
	// stopTimeout bounds a graceful end; the collector and the core promise 20 s.
	stopTimeout = 25 * time.Second
)

// process is one of ours that is kept running: when it ends it is started again
// with the same settings. Its log goes on in one file.
type process struct {
	name string
	argv []string
	env  []string
	log  string

	mu      sync.Mutex
	running *os.Process
	ended   chan struct{} // closed when running has ended
	asked   bool          // this end was asked for
	away    time.Duration // how long it stays away then
	over    bool          // it is not started again
	gone    chan struct{} // closed when it runs no more
	// starts counts all, byItself the ends that nobody asked for.
	starts, byItself int
}

// keep starts the process and keeps it running until stop.
func (p *process) keep() error {
	p.gone = make(chan struct{})
	started := make(chan error, 1) // of the first start
	go func() {
		// The kernel kills a child when the thread that forked it ends, so this
		// goroutine keeps its thread, and takes it along when it is over.
		runtime.LockOSThread()
		defer close(p.gone)
		for {
			cmd, err := p.start()
			select {
			case started <- err:
			default:
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "fault: %s does not start: %v\n", p.name, err)
				return
			}
			_ = cmd.Wait() // how it ended is in its log
			away, again := p.after()
			if !again {
				return
			}
			time.Sleep(away)
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
	cmd := exec.Command(p.argv[0], p.argv[1:]...) //nolint:noctx // it lives until it is stopped or killed
	cmd.Env = p.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = service.ChildAttributes()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, errors.New("it is over")
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.running, p.ended, p.asked = cmd.Process, make(chan struct{}), false
	p.starts++
	return cmd, nil
}

// after is what follows an end: how long it stays away, and whether it comes back.
func (p *process) after() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ended)
	if p.over {
		return 0, false
	}
	if !p.asked {
		p.byItself++
		return restartAfter, true
	}
	return p.away, true
}

// end sends a signal that ends the process, which then stays away for a while,
// and waits for its end. It says whether that came in time; a process that takes
// longer is killed.
func (p *process) end(sig syscall.Signal, away time.Duration) bool {
	p.mu.Lock()
	running, ended := p.running, p.ended
	p.asked, p.away = true, away
	p.mu.Unlock()
	_ = running.Signal(sig) // fails only when it has ended
	select {
	case <-ended:
		return true
	case <-time.After(stopTimeout):
		_ = running.Kill()
		<-ended
		return false
	}
}

// pause lets the process stand still.
func (p *process) pause(lasts time.Duration) {
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	_ = running.Signal(syscall.SIGSTOP)
	time.Sleep(lasts)
	_ = running.Signal(syscall.SIGCONT)
}

// ends says how often the process began, and ended without being asked to.
func (p *process) ends() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d starts, %d ends by itself", p.starts, p.byItself)
}

// stop ends the process for good.
func (p *process) stop() error {
	p.mu.Lock()
	p.over = true
	began := p.running != nil
	p.mu.Unlock()
	if !began {
		return nil
	}
	inTime := p.end(syscall.SIGTERM, 0)
	<-p.gone
	if !inTime {
		return fmt.Errorf("%s did not stop within %s", p.name, stopTimeout)
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
