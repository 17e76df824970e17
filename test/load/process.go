package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/servers"
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

const edgeReadyPath = "/v1/health/ready"

// startCollector starts a collector that uses the given logical database of Redis. It
// returns when the collector is ready.
func (b *bench) startCollector(ctx context.Context, database int) (*process, error) {
	p, err := b.launchCollector(ctx, database)
	return awaitEdge(ctx, p, err)
}

// launchCollector starts a collector without waiting for it.
func (b *bench) launchCollector(ctx context.Context, database int) (*process, error) {
	redisURL, err := b.redisURL(database)
	if err != nil {
		return nil, err
	}
	return b.launchEdge(ctx, "collector", "collector", redisURL)
}

// startNaive starts test/load/naive, which uses the collector's Redis. options are
// appended to the URL of its Redis clients.
func (b *bench) startNaive(ctx context.Context, name, options string) (*process, error) {
	redisURL, err := b.redisURL(collectorRedis)
	if err != nil {
		return nil, err
	}
	// cmd/collector sets these values in its code.
	p, err := b.launchEdge(ctx, name, "naive", redisURL+options, "GOGC=800", "GOMEMLIMIT=256MiB")
	return awaitEdge(ctx, p, err)
}

// launchEdge starts a binary with the collector's settings and with extra settings.
func (b *bench) launchEdge(ctx context.Context, name, binary, redisURL string, extra ...string) (*process, error) {
	addresses, err := servers.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	return b.start(ctx, name, addresses[0], append([]string{
		"TRIBUTARY_REDIS_URL=" + redisURL,
		"TRIBUTARY_COLLECTOR_LISTEN=" + addresses[0],
		"TRIBUTARY_METRICS_LISTEN=" + addresses[1],
		"TRIBUTARY_ALLOW_HTTP=true",
		"TRIBUTARY_HASH_KEY=" + hashKey,
		"TRIBUTARY_LIMIT_TRACKING=" + strconv.Itoa(noLimit), "TRIBUTARY_LIMIT_TRACKING_ADDRESS=" + strconv.Itoa(noLimit),
		// There is no load balancer that must detect the shutdown.
		"TRIBUTARY_SHUTDOWN_DELAY=0s",
	}, extra...), b.file(binary))
}

// awaitEdge takes the results of launchEdge. If launchErr is not nil, it returns this
// error. Otherwise it waits until the process is ready.
func awaitEdge(ctx context.Context, p *process, launchErr error) (*process, error) {
	if launchErr != nil {
		return nil, launchErr
	}
	if err := p.ready(ctx, edgeReadyPath); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// sendClick registers a click and returns the response.
func sendClick(ctx context.Context, address, key string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+clicksPath, bytes.NewReader([]byte(clickBody)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("a click got status %d: %s", response.StatusCode, text)
	}
	return string(text), err
}

// launchBare starts test/load/bare, the server with which the benchmarks compare the
// service. It does not wait until the server is ready. The server responds to each click
// with a copy of responseTemplate, a response of the collector, in which it replaces the
// click id.
func (b *bench) launchBare(ctx context.Context, responseTemplate string) (*process, error) {
	addresses, err := servers.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	return b.start(ctx, "bare", addresses[0], nil, b.file("bare"), addresses[0], responseTemplate)
}

// startBare starts test/load/bare and returns when it is ready.
func (b *bench) startBare(ctx context.Context, response string) (*process, error) {
	p, err := b.launchBare(ctx, response)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, healthPath); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// startCore starts a core with the gateway in the same process. extra contains additional
// settings.
func (b *bench) startCore(ctx context.Context, db *database, extra ...string) (*process, error) {
	addresses, err := servers.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	redisURL, err := b.redisURL(coreRedis)
	if err != nil {
		return nil, err
	}
	limit := strconv.Itoa(noLimit)
	p, err := b.start(ctx, "core", addresses[0], append([]string{
		"TRIBUTARY_DATABASE_URL=" + db.url,
		"TRIBUTARY_REDIS_URL=" + redisURL,
		"TRIBUTARY_API_LISTEN=" + addresses[0],
		"TRIBUTARY_GRPC_LISTEN=" + addresses[1],
		"TRIBUTARY_METRICS_LISTEN=" + addresses[2],
		"TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_SHUTDOWN_DELAY=0s", "TRIBUTARY_REGISTRATION_MERCHANT=open",
		"TRIBUTARY_JWT_KEYS=load:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"TRIBUTARY_ENCRYPTION_KEYS=load:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32)),
		"TRIBUTARY_HASH_KEY=" + hashKey,
		"TRIBUTARY_LIMIT_CONVERSIONS=" + limit,
		"TRIBUTARY_LIMIT_AUTH=" + limit,
		"TRIBUTARY_LIMIT_GENERAL=" + limit,
		"TRIBUTARY_LIMIT_INVITES=" + limit,
	}, extra...), b.file("core"), "serve", "--gateway")
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, "/api/v1/health/ready"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// These constants are fields of /proc/<pid>/status (see proc(5)): the current and the
// peak resident memory of a process.
const (
	currentMemory = "VmRSS"
	peakMemory    = "VmHWM"
)

// resetPeak resets the peak memory of a process, so that the peak does not include the
// start of the process or the calculation of a password hash. It returns the current
// memory in bytes.
func resetPeak(pid int) (float64, error) {
	const resetHWM = "5" // proc(5): sets VmHWM to VmRSS
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte(resetHWM), 0); err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return memoryOf(pid, peakMemory)
}

// memoryOf returns a memory field of a process in bytes.
func memoryOf(pid int, which string) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, which+":"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kilobytes * 1024, err
		}
	}
	return 0, fmt.Errorf("memory: no %s", which)
}
