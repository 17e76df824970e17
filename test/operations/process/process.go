// Package process builds the binaries of the service and runs them and other programs in
// tests, as an operator would. Each process writes its log to a file of the test.
package process

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/commits"
)

const (
	// readyTimeout is the longest time from the start of a process until it is ready.
	readyTimeout = 30 * time.Second
	// stopTimeout is longer than any process of the service needs to stop.
	stopTimeout = 45 * time.Second
	pollEvery   = 20 * time.Millisecond
	// logTail is the number of bytes of a log that a failed test prints.
	logTail = 3000
)

// built builds the binaries from the working tree, at most once in each test program, and
// returns their folder. If they are current, the Go command does not link them again.
var built = sync.OnceValues(func() (string, error) {
	root, err := commits.Git(context.Background(), "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, "bin", "operations")
	return folder, commits.Build(context.Background(), root, folder, "./cmd/core", "./cmd/gateway", "./cmd/collector", "./cmd/landing")
})

// Binary returns the path of a binary that is built from the working tree: core, gateway,
// collector or landing.
func Binary(t testing.TB, name string) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// Process is a process that a test started. It ends with the test.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // set before done is closed
}

// Start starts a program of the service with the given settings. Other settings of the
// service are removed from its environment. When the test ends, the program must stop
// without an error if it still runs.
func Start(t testing.TB, settings []string, argv ...string) *Process {
	t.Helper()
	p := StartCommand(t, service.Environ(settings...), filepath.Base(argv[0]), argv...)
	t.Cleanup(func() { p.Stop(t) })
	return p
}

// StartCommand starts any program with the given environment. The program is killed when the
// test ends. name is for messages.
func StartCommand(t testing.TB, env []string, name string, argv ...string) *Process {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), name+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{name: name, log: log.Name(), done: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = service.ChildAttributes()
	started := make(chan error, 1)
	go func() {
		// The kernel kills the child when the thread that started the child ends, so this
		// goroutine locks its thread.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			_ = log.Close()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start the %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.Kill(t)
		if t.Failed() {
			t.Logf("the log of the %s ends with:\n%s", name, p.tail(t))
		}
	})
	return p
}

// Run runs a program with the given settings until it ends, and returns its output. If the
// program fails, the test fails.
func Run(t testing.TB, settings []string, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = service.Environ(settings...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// Pid returns the id of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("signal %s to the %s: %v", signal, p.name, err)
	}
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop stops the process with SIGTERM and waits until it has ended. It does nothing if the
// process has already ended.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if p.Ended() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has just ended
	select {
	case <-p.done:
		if p.err != nil {
			t.Errorf("the %s: %v", p.name, p.err)
		}
	case <-time.After(stopTimeout):
		t.Errorf("the %s did not stop within %s", p.name, stopTimeout)
		p.Kill(t)
	}
}

// Kill ends the process with SIGKILL and waits until it has ended.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill the %s: %v", p.name, err)
	}
	<-p.done
}

// Interrupt stops the process with SIGINT and waits until it has ended.
func (p *Process) Interrupt(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGINT)
	<-p.done
}

// WantExit waits until the process has ended with an error, and checks the end of its log.
func (p *Process) WantExit(t testing.TB, output string) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(readyTimeout):
		t.Fatalf("the %s runs, want an exit with %q", p.name, output)
	}
	var exit *exec.ExitError
	if log := p.tail(t); !errors.As(p.err, &exit) || !strings.Contains(log, output) {
		t.Errorf("the %s ended with %v, want an error with %q; its log:\n%s", p.name, p.err, output, log)
	}
}

// Log returns what the process has written to its standard output and standard error.
func (p *Process) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (p *Process) tail(t testing.TB) string {
	t.Helper()
	log := strings.TrimSpace(p.Log(t))
	return log[max(0, len(log)-logTail):]
}

// AwaitReady waits until a GET request to the URL returns status 200. The test fails if the
// process ends before.
func (p *Process) AwaitReady(t testing.TB, url string) {
	t.Helper()
	Eventually(t, readyTimeout, "the "+p.name+" is ready", func() bool {
		if p.Ended() {
			t.Fatalf("the %s has ended: %v\n%s", p.name, p.err, p.tail(t))
		}
		return Status(t.Context(), url) == http.StatusOK
	})
}

// Status returns the status of the response to a GET request, or 0 if there is no response.
func Status(ctx context.Context, url string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// Await calls check repeatedly until it returns nil. The test fails if this takes too long.
func Await(t testing.TB, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(readyTimeout); time.Now().Before(deadline); time.Sleep(pollEvery) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("not within %s: %s: %v", readyTimeout, what, err)
}

// Eventually waits until a condition holds. The test fails if this takes longer than limit.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
