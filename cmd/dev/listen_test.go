package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// hearing is a dev listen.
type hearing struct {
	cmd   *exec.Cmd
	lines chan string // closed when it has ended
	said  strings.Builder
}

// hear starts a listener beside the demo in dir and returns when it listens.
func hear(t *testing.T, dir string, args ...string) *hearing {
	t.Helper()
	h := &hearing{
		cmd:   devCommand(t, dir, plainEnv(), append([]string{"listen"}, args...)...),
		lines: make(chan string, 10_000),
	}
	read, write := io.Pipe()
	h.cmd.Stdout, h.cmd.Stderr = write, write
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill() })
	go func() {
		_ = h.cmd.Wait() // the process state says how it ended
		_ = write.Close()
	}()
	go func() {
		defer close(h.lines)
		for scan := bufio.NewScanner(read); scan.Scan(); {
			h.lines <- scan.Text()
		}
	}()
	h.until(t, regexp.MustCompile(`^Listening for `))
	return h
}

// until reads to the line that is wanted.
func (h *hearing) until(t *testing.T, want *regexp.Regexp) {
	t.Helper()
	late := time.After(startsWithin)
	for {
		select {
		case line, more := <-h.lines:
			h.said.WriteString(line + "\n")
			if !more {
				t.Fatalf("it ended without a line like %q:\n%s", want, h.said.String())
			}
			if want.MatchString(line) {
				return
			}
		case <-late:
			t.Fatalf("no line like %q:\n%s", want, h.said.String())
		}
	}
}

// end ends it and returns what it said in all.
func (h *hearing) end(t *testing.T, signal os.Signal) string {
	t.Helper()
	if err := h.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	for line := range h.lines {
		h.said.WriteString(line + "\n")
	}
	if signal == os.Interrupt && h.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit code %d after Ctrl-C:\n%s", h.cmd.ProcessState.ExitCode(), h.said.String())
	}
	return h.said.String()
}

// heard tells whether events of a type were printed, verified, at their first
// attempt.
func heard(name string) *regexp.Regexp {
	return regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3}  ` + regexp.QuoteMeta(name) + `  evt_[0-9a-f]{32}  attempt 1$`)
}

// listenToWalk takes the walk beside two listeners and returns the second, which
// listens on. One that was killed before has left its endpoint behind.
func (r *running) listenToWalk(t *testing.T, dir string, values map[string]string) *hearing {
	t.Helper()
	hear(t, dir).end(t, os.Kill)
	if got := descriptions(t, values); !slices.Equal(got, []string{listenerDescription}) {
		t.Errorf("endpoints behind a listener that was killed: %q", got)
	}
	merchants := map[string]any{"url": "https://127.0.0.1:8443/", "subscriptions": []string{"payout.paid"}, "description": "mine"}
	var mine endpoint
	if err := login(t, values).call(t.Context(), http.MethodPost, webhooksPath, merchants, &mine); err != nil {
		t.Fatal(err)
	}
	all, payouts := hear(t, dir), hear(t, dir, "--subscribe", "payout.*,program.updated")
	r.take(t, "bash")
	all.until(t, heard("commission.approved"))
	all.until(t, regexp.MustCompile(`^  "type": "commission.approved",$`))
	if got := descriptions(t, values); !slices.Equal(got, []string{listenerDescription, listenerDescription, "mine"}) {
		t.Errorf("endpoints beside two listeners: %q", got)
	}
	if said := all.end(t, os.Interrupt); strings.Contains(said, "invalid") {
		t.Errorf("not all of it was verified:\n%s", said)
	}
	if got := descriptions(t, values); !slices.Equal(got, []string{listenerDescription, "mine"}) {
		t.Errorf("endpoints when one of two has left: %q", got)
	}
	if err := deleteEndpoint(t.Context(), login(t, values), mine.ID); err != nil {
		t.Fatal(err)
	}
	return payouts
}

// descriptions are those of the merchant's endpoints, in order.
func descriptions(t *testing.T, values map[string]string) []string {
	t.Helper()
	var list struct {
		Data []endpoint `json:"data"`
	}
	if err := login(t, values).call(t.Context(), http.MethodGet, webhooksPath, nil, &list); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range list.Data {
		found = append(found, e.Description)
	}
	slices.Sort(found)
	return found
}

func TestListenSaysThatNoDemoRuns(t *testing.T) {
	t.Parallel()
	empty, stopped := t.TempDir(), t.TempDir()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	err = writeVariables(filepath.Join(stopped, "env"), "", []variable{{"TRIBUTARY_API_URL", "http://" + port.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(empty, folderName), empty, stopped} {
		if err := receive(t.Context(), dir, nil, io.Discard); err != errNotRunning { //nolint:errorlint // one clear line
			t.Errorf("%v", err)
		}
	}
}

func TestListenerPrintsWhatItVerified(t *testing.T) {
	t.Parallel()
	secret, now := webhook.NewSecret(), time.Now()
	const body = `{"id":"evt_1","type":"link.created","data":{"object":{"url":"https://shop.example/?a=1&b=2"}}}`
	const pretty = `{
  "id": "evt_1",
  "type": "link.created",
  "data": {
    "object": {
      "url": "https://shop.example/?a=1&b=2"
    }
  }
}`
	for name, test := range map[string]struct {
		secret webhook.Secret
		body   string
		at     time.Time
		want   int
		line   string
		rest   string
	}{
		"signed":         {secret, body, now, http.StatusNoContent, "  link.created  evt_1  attempt 3", pretty},
		"no JSON":        {secret, "what?", now, http.StatusNoContent, "    evt_1  attempt 3", "what?"},
		"another secret": {webhook.NewSecret(), body, now, http.StatusBadRequest, `  invalid signature  "evt_1"  attempt "3": unable to verify payload, err: no matching signature found`, ""},
		"old":            {secret, body, now.Add(-time.Hour), http.StatusBadRequest, `  invalid signature  "evt_1"  attempt "3": unable to verify payload, err: message timestamp too old`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verifier, err := standardwebhooks.NewWebhook(secret.Text())
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			l := &listener{out: &out, secret: verifier, registered: make(chan struct{})}
			close(l.registered)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(test.body))
			req.Header.Set("Webhook-Id", "evt_1")
			req.Header.Set("Webhook-Attempt", "3")
			req.Header.Set("Webhook-Timestamp", strconv.FormatInt(test.at.Unix(), 10))
			req.Header.Set("Webhook-Signature", webhook.Sign([]webhook.Secret{test.secret}, "evt_1", test.at, []byte(test.body)))
			answer := httptest.NewRecorder()
			l.ServeHTTP(answer, req)
			line, rest, _ := strings.Cut(out.String(), "\n")
			if answer.Code != test.want || line[len("15:04:05.000"):] != test.line || strings.TrimSpace(rest) != test.rest {
				t.Errorf("%d, want %d:\n%s", answer.Code, test.want, out.String())
			}
		})
	}
}

// A demo that others can reach must not call its own machine for them.
func TestWebhooksReachThisMachineOnlyInAPrivateDemo(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{"127.0.0.1:8080": loopback, "0.0.0.0:8080": ""} {
		if got := environment([]string{"TRIBUTARY_API_LISTEN=" + listen}, nil, nil)[webhookAllowName]; got != want {
			t.Errorf("at %s webhooks may reach %q, want %q", listen, got, want)
		}
	}
}
