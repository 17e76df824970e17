package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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

	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/tools/servers"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// asCommand is an environment variable. If it is set, the test binary runs as the command
// dev.
const asCommand = "TRIBUTARY_DEV_TEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	startTimeout = 3 * time.Minute // other tests run at the same time
	stopTimeout  = time.Minute
)

// testEnv returns the environment of this process without the variables of this project.
// All ports are free ports. The rate limits for logins and for forms are so high that many
// starts within a minute do not reach them.
func testEnv(extra ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		return strings.HasPrefix(line, "TRIBUTARY_") || strings.HasPrefix(line, "DEMO_")
	})
	for _, port := range ports {
		env = append(env, port.name+"=127.0.0.1:0")
	}
	return append(append(env, "TRIBUTARY_LIMIT_AUTH=1000", "TRIBUTARY_LIMIT_LANDING=1000"), extra...)
}

func makeTempDir(t *testing.T) string {
	t.Helper()
	dir, err := servers.MemoryDir()
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
	cmd.Env = append(slices.Clone(env), asCommand+"=1")
	return cmd
}

// demoProcess is a process of `dev run` that has printed the walkthrough. The walkthrough
// is a list of shell commands that lead from a click to an approved commission.
type demoProcess struct {
	cmd         *exec.Cmd
	walkthrough string
	stderr      *strings.Builder
	ended       chan struct{}

	mu     sync.Mutex
	stdout strings.Builder
}

func start(t *testing.T, dir string, env []string) *demoProcess {
	t.Helper()
	r := &demoProcess{cmd: devCommand(t, dir, env), stderr: &strings.Builder{}, ended: make(chan struct{})}
	r.cmd.Stderr = r.stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	walkthroughs := make(chan string, 1)
	go func() {
		var lines []string
		inWalkthrough := false
		for scan := bufio.NewScanner(out); scan.Scan(); {
			line := scan.Text()
			r.mu.Lock()
			r.stdout.WriteString(line + "\n")
			r.mu.Unlock()
			switch {
			case line == walkthroughHeading:
				inWalkthrough = true
			case inWalkthrough && line != "":
				lines = append(lines, line)
			case inWalkthrough && len(lines) > 0:
				inWalkthrough = false
				walkthroughs <- strings.Join(lines, "\n") + "\n"
			}
		}
		_ = r.cmd.Wait() // ProcessState holds the result
		close(r.ended)
	}()
	select {
	case r.walkthrough = <-walkthroughs:
		return r
	case <-r.ended:
		t.Fatalf("dev exited before it was ready: %v\n%s\n%s", r.cmd.ProcessState, r.output(), r.stderr)
	case <-time.After(startTimeout):
		t.Fatalf("dev is not ready after %s:\n%s", startTimeout, r.output())
	}
	return nil
}

func (r *demoProcess) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stdout.String()
}

// wait waits until the process has exited and returns its exit code.
func (r *demoProcess) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.ended:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(stopTimeout):
		t.Fatalf("dev has not exited after %s:\n%s", stopTimeout, r.output())
		return -1
	}
}

func (r *demoProcess) stop(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t); code != 0 {
		t.Fatalf("exit code %d after Ctrl-C:\n%s", code, r.stderr)
	}
}

// runWalkthrough runs the printed commands in a shell. The test fails unless the last
// command prints an approved commission.
func (r *demoProcess) runWalkthrough(t *testing.T, shell string) {
	t.Helper()
	cmd := exec.Command(shell, "-c", r.walkthrough)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), `"currency":"USD"`) ||
		!strings.Contains(string(out), "\n\"status\":\"approved\"\n") {
		t.Fatalf("the walkthrough in %s: got %v, want an approved commission in USD:\n%s\n%s", shell, err, out, r.output())
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

// get returns the body of a successful GET request.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url) //nolint:gosec // an address of this test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var text strings.Builder
	if _, err := bufio.NewReader(response.Body).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %d, want 200: %s", url, response.StatusCode, text.String())
	}
	return text.String()
}

func TestRun_KeepsDataUntilReset(t *testing.T) {
	t.Parallel()
	dir := makeTempDir(t)
	r := start(t, dir, testEnv())
	first := variables(t, dir)
	checkSourcedValues(t, filepath.Join(dir, folderName, "env"), first)
	for _, name := range []string{"env", "secrets", "servers", authorityKeyName} {
		if info, err := os.Stat(filepath.Join(dir, folderName, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("os.Stat(%s) = %v, %v; want mode 0600", name, info, err)
		}
	}
	checkFeedsAndLog(t, first)
	listening := r.runWalkthroughWithListeners(t, dir, first)
	forwardAndResend(t, dir, func() { r.runWalkthrough(t, "sh") })
	deliverToOwnReceiver(t, dir, first)
	t.Run("shop", func(t *testing.T) { buyInTheShop(t, first) })
	t.Run("portal", func(t *testing.T) { buyThroughThePortal(t, first) })
	t.Run("forms", func(t *testing.T) { fillInForms(t, first) })
	triggerStripe(t, dir, first)
	metrics := get(t, first["TRIBUTARY_METRICS_URL"]+"/metrics")
	for _, name := range []string{"tributary_core_", "tributary_ingest_", "tributary_collector_", "tributary_landing_"} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("no metric starts with %s", name)
		}
	}
	get(t, first["TRIBUTARY_METRICS_URL"]+"/readyz")
	get(t, first["TRIBUTARY_MAIL_SINK_URL"]+"/api/messages")
	for _, want := range []string{first["TRIBUTARY_MAIL_SINK_URL"], first["TRIBUTARY_SHOP_URL"] + landingPath, first["TRIBUTARY_LANDING_URL"]} {
		if !strings.Contains(r.output(), want) {
			t.Errorf("the output does not contain %s:\n%s", want, r.output())
		}
	}

	for _, args := range [][]string{{}, {"reset"}} {
		out, err := devCommand(t, dir, testEnv(), args...).CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), fmt.Sprintf("process %d", r.cmd.Process.Pid)) {
			t.Errorf("dev %v while another process runs: got %v, want an error of one line that names process %d:\n%s", args, err, r.cmd.Process.Pid, out)
		}
	}
	r.stop(t)
	if output := listening.end(t, os.Interrupt); !strings.Contains(output, "The demo has stopped.") {
		t.Errorf("a listener that stops after the demo does not print that the demo has stopped:\n%s", output)
	}
	// The ports of the private servers are free again.
	serverNames := []string{databaseURLName, redisURLName, stripeURLName}
	for _, name := range serverNames {
		if err := listenAt(t, first[name]).Close(); err != nil {
			t.Error(err)
		}
	}

	// A process that was killed does not prevent the next start.
	r = start(t, dir, testEnv())
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.wait(t)
	waitForStripeToEnd(t, first)

	// Start in an environment that has the variables of .dev/env, like a shell that has
	// sourced this file.
	var sourced []string
	for name, value := range first {
		sourced = append(sourced, name+"="+value)
	}
	r = start(t, dir, testEnv(sourced...))
	second := variables(t, dir)
	for _, name := range slices.Concat(demoNames, serverNames) {
		// The stand-in for Stripe has no endpoint of the first run, so the secret is new. The address
		// of the programme's page has another port.
		if keep := name != stripeSecretName && name != programPageName; keep != (first[name] == second[name]) {
			t.Errorf("after a restart %s is %q, before it was %q", name, second[name], first[name])
		}
	}
	r.runWalkthrough(t, "bash")
	if n := commissions(t, second); n != 11 {
		t.Errorf("got %d commissions, want 11: from three walkthroughs, five purchases in the shop, and three sales at Stripe", n)
	}
	triggerStripe(t, dir, second)

	stopRedis(t, second[redisURLName])
	if code := r.wait(t); code != 1 || !strings.Contains(r.stderr.String(), "redis ended by itself") {
		t.Errorf("exit code %d after Redis has stopped, want 1 and an error about Redis:\n%s", code, r.stderr)
	}
	if out, err := devCommand(t, dir, testEnv(), "reset").CombinedOutput(); err != nil {
		t.Errorf("dev reset: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, folderName)); !os.IsNotExist(err) {
		t.Errorf("after dev reset os.Stat(%s) returned %v, want that the folder does not exist", folderName, err)
	}
}

// stopRedis stops the Redis server at an address.
func stopRedis(t *testing.T, address string) {
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

// checkSourcedValues checks the environment of sh and bash after they have sourced the
// file. want maps the names of variables to their expected values.
func checkSourcedValues(t *testing.T, file string, want map[string]string) {
	t.Helper()
	for _, shell := range []string{"sh", "bash"} {
		cmd := exec.Command(shell, "-c", `. "$1" && env`, shell, file)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("source the file in %s: %v", shell, err)
		}
		for _, v := range (systemAddresses{}).variables(want) {
			line := v.name + "=" + want[v.name]
			if want[v.name] == "" || !strings.Contains("\n"+string(out), "\n"+line+"\n") {
				t.Errorf("after %s has sourced the file, its environment has no line %q", shell, line)
			}
		}
	}
}

// login returns a client with a session of the demo merchant in test mode.
func login(t *testing.T, values map[string]string) apiClient {
	t.Helper()
	return loginAs(t, values, "merchant", values[merchantEmailName], values[merchantPasswordName])
}

func loginAs(t *testing.T, values map[string]string, kind, email, password string) apiClient {
	t.Helper()
	api := apiClient{url: values["TRIBUTARY_API_URL"]}
	var s session
	err := api.call(t.Context(), http.MethodPost, "/api/v1/auth/"+kind+"/login", map[string]string{"email": email, "password": password}, &s)
	if err != nil {
		t.Fatal(err)
	}
	return api.withCredential(s.AccessToken).withMode("test")
}

// total returns the number of elements in a list.
func total(t *testing.T, api apiClient, path string) int {
	t.Helper()
	var list struct {
		Total int `json:"total"`
	}
	if err := api.call(t.Context(), http.MethodGet, path, nil, &list); err != nil {
		t.Fatal(err)
	}
	return list.Total
}

func commissions(t *testing.T, values map[string]string) int {
	t.Helper()
	return total(t, login(t, values), "/api/v1/commissions")
}

// checkFeedsAndLog checks that the demo's merchant and partner have notifications, and
// that the notification log has an entry.
func checkFeedsAndLog(t *testing.T, values map[string]string) {
	t.Helper()
	merchant := login(t, values)
	partner := loginAs(t, values, "partner", values[partnerEmailName], values[partnerPasswordName])
	for path, api := range map[string]apiClient{
		"/api/v1/notifications":              merchant,
		"/api/v1/partner/notifications":      partner,
		"/api/v1/workspace/notification-log": merchant,
	} {
		pgtest.Eventually(t, path+" of the demo has an element", func() bool { return total(t, api, path) > 0 })
	}
}

func TestRun_RestoresDemoOnExternalServers(t *testing.T) {
	t.Parallel()
	dir := makeTempDir(t)
	redisURL := redistest.New(t)
	stripeServer := httptest.NewServer(newStripe(t))
	t.Cleanup(stripeServer.Close)
	stripe := stripeURLName + "=" + stripeServer.URL
	env := testEnv(databaseURLName+"="+pgtest.New(t), redisURLName+"="+redisURL, stripe)
	r := start(t, dir, env)
	first := variables(t, dir)

	// Suspend the partner and pause the programme. The next start must reactivate both.
	merchant := login(t, first)
	base := "/api/v1/programs/" + first[programIDName]
	participant := onlyParticipant(t, merchant, base)
	for method, path := range map[string]string{
		http.MethodPatch: base + "/partners/" + participant.ID + "/suspend",
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
	r.runWalkthrough(t, "bash")
	var reset struct {
		Deleted privacy.DeletedTestData `json:"deleted"`
	}
	err := login(t, variables(t, dir)).call(t.Context(), http.MethodDelete, "/api/v1/workspace/test-data", nil, &reset)
	if err != nil || reset.Deleted.Programs != 2 || reset.Deleted.Commissions == 0 {
		t.Fatalf("the deletion of the test data returned %+v, %v, want two programmes and commissions", reset, err)
	}
	r.stop(t)
	for _, want := range []string{"programme was paused", "partner was suspended"} {
		if !strings.Contains(r.output(), want) {
			t.Errorf("the output does not contain %q:\n%s", want, r.output())
		}
	}

	// The next start creates the deleted programmes again, with the same accounts and keys.
	r = start(t, dir, env)
	r.runWalkthrough(t, "bash")
	second := variables(t, dir)
	if second[programIDName] == first[programIDName] || second[merchantEmailName] != first[merchantEmailName] || second[secretKeyName("test")] != first[secretKeyName("test")] {
		t.Errorf("after the deletion of the test data, the variables are %v, want a new programme of the same merchant", second)
	}
	r.stop(t)

	// Delete the passwords and keep the database.
	if err := os.Remove(filepath.Join(dir, folderName, "env")); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir, env)
	third := variables(t, dir)
	for _, name := range []string{merchantEmailName, partnerEmailName, programIDName, secretKeyName("live")} {
		if third[name] == first[name] {
			t.Errorf("%s is still %q after the passwords were deleted", name, third[name])
		}
	}
	r.runWalkthrough(t, "bash")
	r.stop(t)
	if !strings.Contains(r.output(), "created a new demo merchant, "+third[merchantEmailName]) {
		t.Errorf("the output does not name the new demo merchant:\n%s", r.output())
	}

	// Use an empty database and keep the passwords. Redis still has the keys and referral
	// codes of the old database.
	env = testEnv(databaseURLName+"="+pgtest.New(t), redisURLName+"="+redisURL, stripe)
	r = start(t, dir, env)
	r.runWalkthrough(t, "bash")
	r.stop(t)
	if !strings.Contains(r.output(), "created it again") {
		t.Errorf("the output does not report that the demo was created again:\n%s", r.output())
	}

	for _, name := range []string{postgresName, redisName} {
		if _, err := os.Stat(filepath.Join(dir, folderName, name)); !os.IsNotExist(err) {
			t.Errorf("os.Stat(%s) returned %v, want that the run has created no private server", name, err)
		}
	}
}

func newStripe(t *testing.T) *stripeserver.Server {
	t.Helper()
	stripe, err := stripeserver.New()
	if err != nil {
		t.Fatal(err)
	}
	return stripe
}

func onlyParticipant(t *testing.T, merchant apiClient, base string) participant {
	t.Helper()
	var list struct {
		Data []participant `json:"data"`
	}
	if err := merchant.call(t.Context(), http.MethodGet, base+"/partners", nil, &list); err != nil || len(list.Data) != 1 {
		t.Fatalf("list the participants: got %v, %v; want one participant", list.Data, err)
	}
	return list.Data[0]
}

// listenAt listens on the host and port of a URL. The test fails if another program uses
// the port.
func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", hostOf(t, address))
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// hostOf returns the host and the port of a URL.
func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestAtSamePort_UsesAnotherPortIfTaken(t *testing.T) {
	t.Parallel()
	dir := makeTempDir(t)
	startAndStop := func(last string) string {
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
	first := startAndStop("")
	if again := startAndStop(first); again != first {
		t.Errorf("the address is %s after a restart, want %s as before", again, first)
	}
	taken := listenAt(t, first)
	defer func() { _ = taken.Close() }()
	if other := startAndStop(first); other == first {
		t.Errorf("the server has started at %s, where another program listens", other)
	}
}

func TestRun_ReportsPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), stopTimeout)
	defer cancel()
	dir := makeTempDir(t)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Dir = dir
	cmd.Env = testEnv("TRIBUTARY_COLLECTOR_LISTEN="+taken.Addr().String(), asCommand+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "set TRIBUTARY_COLLECTOR_LISTEN") {
		t.Errorf("dev with a port in use: got %v, want an error of one line that names TRIBUTARY_COLLECTOR_LISTEN:\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, folderName, postgresName)); !os.IsNotExist(err) {
		t.Errorf("os.Stat(%s) returned %v, want that no server was started", postgresName, err)
	}
}

func TestRun_StopsDuringStart(t *testing.T) {
	t.Parallel()
	dir := makeTempDir(t)
	cmd := devCommand(t, dir, testEnv())
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
	waitForOutput(t, filepath.Join(dir, folderName, redisName+".log"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("dev that was interrupted during its start returned %v, want exit code 0 and no errors:\n%s", err, stderr.String())
	}
}

// waitForOutput waits until a private server has written to its log file.
func waitForOutput(t *testing.T, log string) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(pollEvery) {
		info, err := os.Stat(log)
		if err == nil && info.Size() > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("os.Stat(%s) = %v, %v after %s; want a file that is not empty", log, info, err, startTimeout)
		}
	}
}
