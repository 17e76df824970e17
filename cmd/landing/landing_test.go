package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/cmd/version"
	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/mail/mailtest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// asCommand is an environment variable. If it is set, the test binary runs as the landing
// service.
const asCommand = "TRIBUTARY_TEST_AS_LANDING"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// waitLimit is longer than any wait of a test that passes.
const waitLimit = time.Minute

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// environ returns an environment with a database and the given lines.
func environ(database string, lines ...string) []string {
	return append([]string{
		asCommand + "=1", "TRIBUTARY_LANDING_DATABASE_URL=" + database, "TRIBUTARY_HASH_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"TRIBUTARY_LANDING_LISTEN=127.0.0.1:0", "TRIBUTARY_LANDING_METRICS_LISTEN=127.0.0.1:0", "TRIBUTARY_ALLOW_HTTP=true",
		"TRIBUTARY_TRUSTED_PROXIES=127.0.0.1", "TRIBUTARY_LIMIT_TIMEOUT=1s", "GORACE=" + os.Getenv("GORACE"),
	}, lines...)
}

// execute runs a command of the landing service, checks its exit code and returns its
// output on stdout and stderr.
func execute(t *testing.T, code int, env []string, args ...string) (out, notes string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...) //nolint:gosec // this test binary
	cmd.Env = env
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exitErr *exec.ExitError
	if err != nil && !errors.As(err, &exitErr) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("the exit code of %q is %d, want %d\n%s%s", args, got, code, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

// process is a running landing service.
type process struct {
	cmd          *exec.Cmd
	url, metrics string
	logs         chan string // all lines, closed when the process ends
}

func start(t *testing.T, env []string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), logs: make(chan string, 1000)} //nolint:gosec // this test binary
	p.cmd.Env = env
	stderr, err := p.cmd.StderrPipe()
	check(t, err)
	check(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() {
		defer close(p.logs)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.logs <- lines.Text()
		}
	}()
	deadline := time.After(waitLimit)
	var seen []string
	for {
		select {
		case line, open := <-p.logs:
			if !open {
				t.Fatalf("the process ended before it was ready:\n%s", strings.Join(seen, "\n"))
			}
			seen = append(seen, line)
			var entry struct{ Msg, Address, Metrics string }
			_ = json.Unmarshal([]byte(line), &entry)
			if entry.Msg == "landing is listening" {
				p.url, p.metrics = "http://"+entry.Address, "http://"+entry.Metrics
				return p
			}
		case <-deadline:
			t.Fatalf("the process is not ready:\n%s", strings.Join(seen, "\n"))
		}
	}
}

// stop stops the process with SIGTERM and returns its exit code.
func (p *process) stop(t *testing.T) int {
	t.Helper()
	check(t, p.cmd.Process.Signal(syscall.SIGTERM))
	for range p.logs { // until the process has closed its standard error
	}
	_ = p.cmd.Wait() // ProcessState has the result
	return p.cmd.ProcessState.ExitCode()
}

// get returns the status and the body of a response.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url) //nolint:gosec // an address of this test
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(body)
}

func post(t *testing.T, url, body string) int {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body)) //nolint:gosec // an address of this test
	check(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

const form = `{"email":"ada@example.com","elapsedMs":2000,"name":"Ada","message":"A message for the team."}`

func TestServe_FormsMailAndShutdown(t *testing.T) {
	t.Parallel()
	database, server := pgtest.New(t), mailtest.NewServer(t, mailtest.Options{})
	env := environ(database, "TRIBUTARY_SMTP_URL="+server.URL(), "TRIBUTARY_MAIL_FROM=no-reply@example.com", "TRIBUTARY_OPERATOR_EMAIL=Team <team@example.com>",
		"WAITLIST_BASE=10", "TRIBUTARY_WAITLIST_TOTAL=50")
	if _, notes := execute(t, 1, env); !strings.Contains(notes, "run `landing migrate` first") {
		t.Errorf("without the schema the service printed %q, want `landing migrate`", notes)
	}
	execute(t, 0, env, "migrate")
	p := start(t, env)
	if status := post(t, p.url+"/api/public/waitlist", form); status != 201 {
		t.Errorf("the waitlist responded with %d, want 201", status)
	}
	if status := post(t, p.url+"/api/public/contact", form); status != 201 {
		t.Errorf("the contact form responded with %d, want 201", status)
	}
	if got := server.WaitMessages(1)[0]; got.To[0] != "team@example.com" || got.Header.Get("Reply-To") != `"Ada" <ada@example.com>` {
		t.Errorf("the mail is to %v with the headers %v", got.To, got.Header)
	}
	for url, want := range map[string]string{
		p.url + "/api/public/waitlist/waitlist-count": `{"taken":11,"total":50}`,
		p.url + "/api/v1/health/ready":                `"ok"`,
		p.metrics + "/readyz":                         "ok\n",
		p.metrics + "/metrics":                        "\ntributary_landing_signups_total 1\n",
	} {
		if status, body := get(t, url); status != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s = %d %.200s, want %q", url, status, body, want)
		}
	}
	if code := p.stop(t); code != 0 {
		t.Errorf("the exit code after SIGTERM is %d, want 0", code)
	}
}

// The processes count together.
func TestServe_ProcessesShareLimit(t *testing.T) {
	t.Parallel()
	env := environ(pgtest.New(t), "TRIBUTARY_CACHE_REDIS_URL="+redistest.New(t))
	execute(t, 0, env, "migrate")
	a, b := start(t, env), start(t, env)
	statuses := map[int]int{}
	for _, p := range []*process{a, b, a, b, a, b, a} {
		statuses[post(t, p.url+"/api/public/waitlist", "{")]++
	}
	if statuses[400] != 5 || statuses[429] != 2 {
		t.Errorf("the statuses are %v, want five 400 and two 429", statuses)
	}
}

func TestServe_WithoutRedisAndMail(t *testing.T) {
	t.Parallel()
	env := environ(pgtest.New(t), "TRIBUTARY_REDIS_URL=redis://127.0.0.1:1")
	execute(t, 0, env, "migrate")
	p := start(t, env)
	for i := range 6 {
		want := 201
		if i == 5 {
			want = 429
		}
		if status := post(t, p.url+"/api/public/contact", form); status != want {
			t.Errorf("message %d: %d, want %d", i+1, status, want)
		}
	}
	out, _ := execute(t, 0, env, "contacts")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 5 || !strings.Contains(lines[0], `"name":"Ada","email":"ada@example.com","message":"A message for the team.","mailedAt":null}`) {
		t.Errorf("`landing contacts` printed\n%s\nwant five messages", out)
	}
}

func TestContacts_PrintsPagesWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	env := environ(pgtest.New(t))
	execute(t, 0, env, "migrate")
	database := strings.TrimPrefix(env[1], "TRIBUTARY_LANDING_DATABASE_URL=")
	s, err := store.Open(t.Context(), database, nil)
	check(t, err)
	defer s.Close()
	at := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	for _, name := range []string{"First", "Second \x1b[31m \u009b31m \x7f é\n"} {
		check(t, s.AddContactMessage(t.Context(), store.ContactMessage{ID: uuid.Must(uuid.NewV7()), CreatedAt: at, Name: name, Email: "a@example.com", Message: "0123456789"}))
	}
	first, _ := execute(t, 0, env, "contacts", "--limit", "1")
	if want := `"createdAt":"2026-11-27T10:00:00Z","name":"Second \u001b[31m \u009b31m \u007f é\n","email":"a@example.com","message":"0123456789","mailedAt":null}` + "\n"; !strings.HasSuffix(first, want) {
		t.Errorf("the first page is %q, want that it ends with %q", first, want)
	}
	var m store.ContactMessage
	check(t, json.Unmarshal([]byte(first), &m))
	second, _ := execute(t, 0, env, "contacts", "--before", m.ID.String())
	if strings.Count(second, "\n") != 1 || !strings.Contains(second, `"name":"First"`) {
		t.Errorf("the second page is %q, want the first message", second)
	}
}

func TestInvalidArguments_PrintUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"serv"}, {"--help"}, {"migrate", "now"}, {"contacts", "all"}, {"contacts", "--limit", "0"}, {"contacts", "--before", "x"}} {
		if _, notes := execute(t, 2, environ("postgres://127.0.0.1:1/x"), args...); !strings.Contains(notes, "usage: landing") {
			t.Errorf("landing %q printed %q, want the usage", args, notes)
		}
	}
}

func TestVersion_PrintsVersionAndCommit(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"version"}, &out); err != nil || out.String() != version.String()+"\n" {
		t.Errorf("run(version) printed %q and returned %v, want %q", &out, err, version.String()+"\n")
	}
}
