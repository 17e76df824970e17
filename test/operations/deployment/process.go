//go:build operations

// Package deployment starts the programs of the service on real servers, for the tests of
// the operations manual, and uses them through the public API as a shop would.
package deployment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/service"
)

const (
	startTimeout = 30 * time.Second
	// stopTimeout is the maximum time of a graceful shutdown.
	stopTimeout = 45 * time.Second
	// logTail is the number of bytes of a log that a failed test prints.
	logTail = 3000
)

// Process is a running program of the service.
type Process struct {
	name, log string
	process   *os.Process
	done      chan struct{}
	err       error // set before done is closed
}

// Start starts a program. Its output goes to a file in dir. When the test ends, the
// program is killed, and the end of its output is printed if the test has failed. Settings
// of the service in the environment of the test are removed.
func Start(t testing.TB, dir string, settings []string, name string, args ...string) *Process {
	t.Helper()
	return StartCommand(t, dir, service.Environ(settings...), name, append([]string{process.Binary(t, name)}, args...)...)
}

// StartCommand is like Start for any command and environment. name is for messages.
func StartCommand(t testing.TB, dir string, env []string, name string, argv ...string) *Process {
	t.Helper()
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // the program runs until the test ends
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = service.ChildAttributes()
	p := &Process{name: name, log: log.Name(), done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel kills the child when the thread that started the child ends, so this
		// goroutine locks its thread.
		runtime.LockOSThread()
		err := cmd.Start()
		p.process = cmd.Process
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
		_ = log.Close()
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the output of %s ends with:\n%s", name, p.tail())
		}
	})
	return p
}

// AwaitReady waits until a GET request to the URL returns 200. It fails the test if the
// process ends before.
func (p *Process) AwaitReady(t testing.TB, url string) {
	t.Helper()
	Await(t, p.name+" is ready", func() error {
		select {
		case <-p.done:
			t.Fatalf("%s has exited: %v\n%s", p.name, p.err, p.tail())
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		return nil
	})
}

// Stop stops the process with SIGTERM and fails the test if this is not graceful.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	_ = p.process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if p.err != nil {
			t.Errorf("%s ended with %v\n%s", p.name, p.err, p.tail())
		}
	case <-time.After(stopTimeout):
		t.Errorf("%s does not stop", p.name)
	}
}

// Kill ends the process with SIGKILL, like a crash.
func (p *Process) Kill() {
	_ = p.process.Kill()
	<-p.done
}

// Interrupt stops the process with SIGINT and waits until it has ended.
func (p *Process) Interrupt() {
	_ = p.process.Signal(syscall.SIGINT)
	<-p.done
}

// WantExit waits until the process has ended with an error, and checks its output.
func (p *Process) WantExit(t testing.TB, output string) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(startTimeout):
		t.Fatalf("%s runs, want an exit with %q", p.name, output)
	}
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || !strings.Contains(p.tail(), output) {
		t.Errorf("%s ended with %v, want an error with %q; its output:\n%s", p.name, p.err, output, p.tail())
	}
}

func (p *Process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-logTail):]))
}

// Await calls check repeatedly until it returns nil. It fails the test if this takes too
// long.
func Await(t testing.TB, description string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s this does not hold: %s: %v", startTimeout, description, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
