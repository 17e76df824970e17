package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/test/service"
)

const (
	module = "github.com/tributary-hq/tributary"

	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
	// tick is the unit of /proc/<pid>/stat: USER_HZ, 100 a second on every
	// architecture that Go builds for.
	tick = 10 * time.Millisecond
)

// build makes the binaries that are measured, the way they are deployed.
func (b *bench) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.dir+"/",
		module+"/cmd/collector", module+"/cmd/core", module+"/test/load/bare", module+"/test/load/naive")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	return nil
}

// process is a server that this run has started.
type process struct {
	name    string
	address string
	pid     int
	log     string
	end     context.CancelFunc
	done    chan struct{}
	err     error // set before done is closed
}

// start starts a server that will listen on address and writes its log to a
// file. Nothing of our own environment's settings reaches it.
func (b *bench) start(ctx context.Context, name, address string, settings []string, argv ...string) (*process, error) {
	ctx, end := context.WithCancel(ctx)
	p := &process{name: name, address: address, log: b.file(name + ".log"), end: end, done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		end()
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = service.Environ(settings...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = service.ChildAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	started := make(chan error, 1)
	go func() {
		// The kernel kills a child when the thread that forked it ends.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		end()
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// ready waits until path answers 200.
func (p *process) ready(ctx context.Context, path string) error {
	return p.knock(ctx, path, 20*time.Millisecond)
}

// knock asks for path, with pauses, until it answers 200.
func (p *process) knock(ctx context.Context, path string, pause time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return p.fail(errors.Join(errors.New("it ended by itself"), p.err))
		case <-ctx.Done():
			return p.fail(fmt.Errorf("not ready within %s", startTimeout))
		case <-time.After(pause):
		}
	}
}

// fail adds the last of the log to an error.
func (p *process) fail(err error) error {
	const kept = 2000
	text, _ := os.ReadFile(p.log)
	if len(text) > kept {
		text = text[len(text)-kept:]
	}
	return fmt.Errorf("%s: %w\n%s", p.name, err, text)
}

// stop ends the process gracefully and waits for its end, unless it has ended.
func (p *process) stop() {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.resume() // one that stands still would not hear of it
	p.end()
	<-p.done
}

// pause lets the process stand still until resume.
func (p *process) pause() error  { return syscall.Kill(p.pid, syscall.SIGSTOP) }
func (p *process) resume() error { return syscall.Kill(p.pid, syscall.SIGCONT) }

// cpuTime is what a process has spent in user and kernel mode since its start.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("CPU time: %w", err)
	}
	// The second field is the command in parentheses, which may hold anything.
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("CPU time: /proc/%d/stat reads %q", pid, text)
	}
	user, userErr := strconv.ParseInt(fields[11], 10, 64)
	kernel, kernelErr := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+kernel) * tick, errors.Join(userErr, kernelErr)
}
