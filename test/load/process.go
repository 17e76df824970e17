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
	// tick is the unit of CPU times in /proc/<pid>/stat. USER_HZ is 100 on every
	// architecture that Go supports.
	tick = 10 * time.Millisecond
)

// build compiles the measured binaries in the same way as for production.
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

// process is a server process that this run started.
type process struct {
	name    string
	address string
	pid     int
	log     string
	end     context.CancelFunc
	done    chan struct{}
	err     error // set before done is closed
}

// start starts a server that listens on address and writes its log to a file. The server
// gets the given settings, and no settings from the environment of this process.
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
		// The kernel kills the child when the thread that started the child ends, so this
		// goroutine locks its thread.
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

// ready waits until path returns status 200.
func (p *process) ready(ctx context.Context, path string) error {
	return p.awaitReady(ctx, path, 20*time.Millisecond)
}

// awaitReady requests path repeatedly until it returns status 200.
func (p *process) awaitReady(ctx context.Context, path string, pause time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
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
		select {
		case <-p.done:
			return p.fail(errors.Join(errors.New("the process ended unexpectedly"), p.err))
		case <-ctx.Done():
			return p.fail(fmt.Errorf("not ready within %s", startTimeout))
		case <-time.After(pause):
		}
	}
}

// fail adds the end of the process's log to an error.
func (p *process) fail(err error) error {
	const kept = 2000
	text, _ := os.ReadFile(p.log)
	if len(text) > kept {
		text = text[len(text)-kept:]
	}
	return fmt.Errorf("%s: %w\n%s", p.name, err, text)
}

// stop stops the process gracefully and waits until it has exited. It does nothing if the
// process has already exited.
func (p *process) stop() {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.resume() // a paused process would not receive SIGTERM
	p.end()
	<-p.done
}

// pause stops the process with SIGSTOP. The process continues after resume.
func (p *process) pause() error  { return syscall.Kill(p.pid, syscall.SIGSTOP) }
func (p *process) resume() error { return syscall.Kill(p.pid, syscall.SIGCONT) }

// cpuTime returns the CPU time of a process in user and kernel mode since its start.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("CPU time: %w", err)
	}
	// The second field is the command name in parentheses. It may contain spaces.
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("CPU time: /proc/%d/stat reads %q", pid, text)
	}
	user, userErr := strconv.ParseInt(fields[11], 10, 64)
	kernel, kernelErr := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+kernel) * tick, errors.Join(userErr, kernelErr)
}
