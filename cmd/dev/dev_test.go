package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/tools/servers"
)

// playDev makes this test binary run the command.
const playDev = "TRIBUTARY_DEV_TEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(playDev) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	startsWithin = 3 * time.Minute // other tests run at the same time
	stopsWithin  = time.Minute
)

// plainEnv returns the environment without variables of this project, with free ports and a
// limit that many starts in a minute do not reach.
func plainEnv(extra ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		return strings.HasPrefix(line, "TRIBUTARY_") || strings.HasPrefix(line, "DEMO_")
	})
	for _, port := range ports {
		env = append(env, port.name+"=127.0.0.1:0")
	}
	return append(append(env, "TRIBUTARY_LIMIT_AUTH=1000"), extra...)
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := servers.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func devCommand(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(env), playDev+"=1")
	return cmd
}

// running is a dev process that has printed its walk.
type running struct {
	cmd    *exec.Cmd
	walk   string
	stderr *strings.Builder
	ended  chan struct{}

	mu     sync.Mutex
	stdout strings.Builder
}

func start(t *testing.T, dir string, env []string) *running {
	t.Helper()
	r := &running{cmd: devCommand(t, dir, env), stderr: &strings.Builder{}, ended: make(chan struct{})}
	r.cmd.Stderr = r.stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	walked := make(chan string, 1)
	go func() {
		var lines []string
		inWalk := false
		for scan := bufio.NewScanner(out); scan.Scan(); {
			line := scan.Text()
			r.mu.Lock()
			r.stdout.WriteString(line + "\n")
			r.mu.Unlock()
			switch {
			case line == walkHeading:
				inWalk = true
			case inWalk && line != "":
				lines = append(lines, line)
			case inWalk && len(lines) > 0:
				inWalk = false
				walked <- strings.Join(lines, "\n") + "\n"
			}
		}
		_ = r.cmd.Wait() // the process state has the result
		close(r.ended)
	}()
	select {
	case r.walk = <-walked:
		return r
	case <-r.ended:
		t.Fatalf("dev ended before it was ready: %v\n%s\n%s", r.cmd.ProcessState, r.printed(), r.stderr)
	case <-time.After(startsWithin):
		t.Fatalf("dev is not ready after %s:\n%s", startsWithin, r.printed())
	}
	return nil
}

func (r *running) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stdout.String()
}

// wait returns the exit code.
func (r *running) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.ended:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(stopsWithin):
		t.Fatalf("dev does not stop; it printed:\n%s", r.printed())
		return -1
	}
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 0 {
		t.Fatalf("exit code %d after Ctrl-C:\n%s", code, r.stderr)
	}
}

// take runs the printed walk and fails the test unless it ends with an approved commission.
func (r *running) take(t *testing.T, shell string) {
	t.Helper()
	cmd := exec.Command(shell, "-c", r.walk)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), `"currency":"USD"`) ||
		!strings.Contains(string(out), "\n\"status\":\"approved\"\n") {
		t.Fatalf("the walk in %s: %v\n%s\n%s", shell, err, out, r.printed())
	}
}

func variables(t *testing.T, dir string) map[string]string {
	t.Helper()
	values, err := readVariables(filepath.Join(dir, folderName, "env"))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// get returns a page of the metrics port.
func get(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url) //nolint:gosec // an address of this test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	var text strings.Builder
	if _, err := bufio.NewReader(reply.Body).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", url, reply.StatusCode, text.String())
	}
	return text.String()
}

func TestRunWalkRestartReset(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	r := start(t, dir, plainEnv())
	first := variables(t, dir)
	sourcedAlike(t, filepath.Join(dir, folderName, "env"), first)
	for _, name := range []string{"env", "secrets", "servers", authorityKeyName} {
		if info, err := os.Stat(filepath.Join(dir, folderName, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info, err)
		}
	}
	listening := r.takeWalkWithListeners(t, dir, first)
	forwardAndResend(t, dir, func() { r.take(t, "sh") })
	deliverToOwnReceiver(t, dir, first)
	buyInTheShop(t, first)
	metrics := get(t, first["TRIBUTARY_METRICS_URL"]+"/metrics")
	for _, name := range []string{"tributary_core_", "tributary_ingest_", "tributary_collector_"} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("no %s… among the metrics", name)
		}
	}
	get(t, first["TRIBUTARY_METRICS_URL"]+"/readyz")

	for _, args := range [][]string{{}, {"reset"}} {
		out, err := devCommand(t, dir, plainEnv(), args...).CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), fmt.Sprintf("process %d", r.cmd.Process.Pid)) {
			t.Errorf("dev %v beside a running one: %v\n%s", args, err, out)
		}
	}
	r.stop(t)
	if said := listening.end(t, os.Interrupt); !strings.Contains(said, "The demo has stopped.") {
		t.Errorf("a listener that outlives the demo does not say so:\n%s", said)
	}
	addresses := []string{databaseURLName, redisURLName}
	for _, name := range addresses {
		if err := hold(t, first[name]).Close(); err != nil {
			t.Error(err)
		}
	}

	// A killed run does not prevent the next one.
	r = start(t, dir, plainEnv())
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.wait(t)

	// The shell has sourced .dev/env before the start.
	var sourced []string
	for name, value := range first {
		sourced = append(sourced, name+"="+value)
	}
	r = start(t, dir, plainEnv(sourced...))
	second := variables(t, dir)
	for _, name := range slices.Concat(demoNames, addresses) {
		if first[name] != second[name] {
			t.Errorf("%s was %q, is %q after a restart", name, first[name], second[name])
		}
	}
	r.take(t, "bash")
	if n := commissions(t, second); n != 4 {
		t.Errorf("got %d commissions, want 4: two walks, a visit to the shop, and a walk after the restart", n)
	}

	shutDown(t, second[redisURLName])
	if code := r.wait(t); code != 1 || !strings.Contains(r.stderr.String(), "redis ended by itself") {
		t.Errorf("exit code %d when Redis had gone:\n%s", code, r.stderr)
	}
	if out, err := devCommand(t, dir, plainEnv(), "reset").CombinedOutput(); err != nil {
		t.Errorf("reset: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, folderName)); !os.IsNotExist(err) {
		t.Errorf("after reset: %v", err)
	}
}

// shutDown stops the Redis at an address.
func shutDown(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", hostOf(t, address))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("SHUTDOWN NOSAVE\r\n")); err != nil {
		t.Fatal(err)
	}
}

// sourcedAlike fails the test unless shells and readVariables read the same values.
func sourcedAlike(t *testing.T, file string, want map[string]string) {
	t.Helper()
	for _, shell := range []string{"sh", "bash"} {
		cmd := exec.Command(shell, "-c", `. "$1" && env`, shell, file)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", shell, err)
		}
		for _, v := range (system{}).variables(want) {
			line := v.name + "=" + want[v.name]
			if want[v.name] == "" || !strings.Contains("\n"+string(out), "\n"+line+"\n") {
				t.Errorf("%s has no line %q", shell, line)
			}
		}
	}
}

func login(t *testing.T, values map[string]string) caller {
	t.Helper()
	api := caller{url: values["TRIBUTARY_API_URL"]}
	var s session
	err := api.call(t.Context(), http.MethodPost, "/api/v1/auth/merchant/login",
		map[string]string{"email": values[merchantEmailName], "password": values[merchantPasswordName]}, &s)
	if err != nil {
		t.Fatal(err)
	}
	return api.as(s.AccessToken).in("test")
}

func commissions(t *testing.T, values map[string]string) int {
	t.Helper()
	var list struct {
		Total int `json:"total"`
	}
	if err := login(t, values).call(t.Context(), http.MethodGet, "/api/v1/commissions", nil, &list); err != nil {
		t.Fatal(err)
	}
	return list.Total
}

func TestDemoRecoversOnNamedServers(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	redisURL := redistest.New(t)
	env := plainEnv(databaseURLName+"="+pgtest.New(t), redisURLName+"="+redisURL)
	r := start(t, dir, env)
	first := variables(t, dir)

	// A developer may suspend the partner and pause the programme.
	merchant := login(t, first)
	base := "/api/v1/programs/" + first[programName]
	place := onlyParticipant(t, merchant, base)
	for method, path := range map[string]string{
		http.MethodPatch: base + "/partners/" + place.ID + "/suspend",
		http.MethodPost:  base + "/pause",
	} {
		var body any
		if method == http.MethodPatch {
			body = map[string]any{}
		}
		if err := merchant.call(t.Context(), method, path, body, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.stop(t)
	r = start(t, dir, env)
	r.take(t, "bash")
	r.stop(t)
	for _, want := range []string{"programme was paused", "partner was suspended"} {
		if !strings.Contains(r.printed(), want) {
			t.Errorf("it does not say %q:\n%s", want, r.printed())
		}
	}

	// The passwords are lost, the database is not.
	if err := os.Remove(filepath.Join(dir, folderName, "env")); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir, env)
	fresh := variables(t, dir)
	for _, name := range []string{merchantEmailName, partnerEmailName, programName, secretKeyName("live")} {
		if fresh[name] == first[name] {
			t.Errorf("%s is %q still", name, fresh[name])
		}
	}
	r.take(t, "bash")
	r.stop(t)
	if !strings.Contains(r.printed(), "created a new demo merchant, "+fresh[merchantEmailName]) {
		t.Errorf("it does not say so:\n%s", r.printed())
	}

	// The database is lost, the passwords are not. Redis still has the keys and codes of
	// the lost database.
	env = plainEnv(databaseURLName+"="+pgtest.New(t), redisURLName+"="+redisURL)
	r = start(t, dir, env)
	r.take(t, "bash")
	r.stop(t)
	if !strings.Contains(r.printed(), "created it again") {
		t.Errorf("it does not say so:\n%s", r.printed())
	}

	for _, name := range []string{postgresName, redisName} {
		if _, err := os.Stat(filepath.Join(dir, folderName, name)); !os.IsNotExist(err) {
			t.Errorf("there is a private %s: %v", name, err)
		}
	}
}

func onlyParticipant(t *testing.T, merchant caller, base string) participant {
	t.Helper()
	var list struct {
		Data []participant `json:"data"`
	}
	if err := merchant.call(t.Context(), http.MethodGet, base+"/partners", nil, &list); err != nil || len(list.Data) != 1 {
		t.Fatalf("participants: %v, %v", list.Data, err)
	}
	return list.Data[0]
}

// hold listens at a server's address, which must be free.
func hold(t *testing.T, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", hostOf(t, address))
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// hostOf returns host and port of a URL.
func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestServerMovesWhenItsPortIsTaken(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	server := func(last string) string {
		s, err := atSamePort(last, func(port int) (*servers.Server, error) {
			return servers.StartRedis(t.Context(), servers.RedisConfig{Dir: dir, Port: port})
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		return s.URL
	}
	first := server("")
	if again := server(first); again != first {
		t.Errorf("%s after a restart, %s before it", again, first)
	}
	taken := hold(t, first)
	defer func() { _ = taken.Close() }()
	if moved := server(first); moved == first {
		t.Errorf("%s belongs to another program", moved)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), stopsWithin)
	defer cancel()
	dir := tempDir(t)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Dir = dir
	cmd.Env = plainEnv("TRIBUTARY_COLLECTOR_LISTEN="+taken.Addr().String(), playDev+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "set TRIBUTARY_COLLECTOR_LISTEN") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, folderName, postgresName)); !os.IsNotExist(err) {
		t.Errorf("a server was started all the same: %v", err)
	}
}

func TestInterruptedWhileStarting(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	cmd := devCommand(t, dir, plainEnv())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	time.Sleep(300 * time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}
