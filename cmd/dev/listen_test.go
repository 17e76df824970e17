package main

import (
	"bufio"
	"bytes"
	"errors"
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

// listenerProcess is a running process of `dev listen`.
type listenerProcess struct {
	cmd    *exec.Cmd
	lines  chan string // closed when the process has ended
	output strings.Builder
}

// startListener starts a listener for the demo in dir and waits until the listener is
// registered.
func startListener(t *testing.T, dir string, args ...string) *listenerProcess {
	t.Helper()
	p := &listenerProcess{
		cmd:   devCommand(t, dir, testEnv(), append([]string{"listen"}, args...)...),
		lines: make(chan string, 10_000),
	}
	read, write := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = write, write
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() {
		_ = p.cmd.Wait() // ProcessState holds the result
		_ = write.Close()
	}()
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(read); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	p.waitFor(t, regexp.MustCompile(`^Listening for `))
	return p
}

// waitFor reads lines of the output until a line matches, and returns the submatches.
func (p *listenerProcess) waitFor(t *testing.T, want *regexp.Regexp) []string {
	t.Helper()
	timeout := time.After(startTimeout)
	for {
		select {
		case line, ok := <-p.lines:
			p.output.WriteString(line + "\n")
			if !ok {
				t.Fatalf("the listener has exited and no line matches %q:\n%s", want, p.output.String())
			}
			if found := want.FindStringSubmatch(line); found != nil {
				return found
			}
		case <-timeout:
			t.Fatalf("after %s no line matches %q:\n%s", startTimeout, want, p.output.String())
		}
	}
}

// end sends a signal to the process, waits until it has exited, and returns its whole
// output.
func (p *listenerProcess) end(t *testing.T, signal os.Signal) string {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	for line := range p.lines {
		p.output.WriteString(line + "\n")
	}
	if signal == os.Interrupt && p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit code %d after Ctrl-C:\n%s", p.cmd.ProcessState.ExitCode(), p.output.String())
	}
	return p.output.String()
}

// verifiedEvent returns an expression for the line that a listener prints for the first
// attempt of a verified webhook.
func verifiedEvent(name string) *regexp.Regexp {
	return regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3}  ` + regexp.QuoteMeta(name) + `  evt_[0-9a-f]{32}  attempt 1$`)
}

// runWalkthroughWithListeners runs the walkthrough while two listeners run. It stops the
// first listener and returns the second. It also checks that the endpoint of a listener
// that was killed is deleted.
func (r *demoProcess) runWalkthroughWithListeners(t *testing.T, dir string, values map[string]string) *listenerProcess {
	t.Helper()
	startListener(t, dir).end(t, os.Kill)
	if got := descriptions(t, values); !slices.Equal(got, []string{listenerDescription}) {
		t.Errorf("after a listener was killed the endpoints are %q, want the endpoint of this listener", got)
	}
	fields := map[string]any{"url": "https://127.0.0.1:8443/", "subscriptions": []string{"payout.paid"}, "description": "mine"}
	var created endpoint
	if err := login(t, values).call(t.Context(), http.MethodPost, webhooksPath, fields, &created); err != nil {
		t.Fatal(err)
	}
	all, payouts := startListener(t, dir), startListener(t, dir, "--events", "payout.*,program.updated")
	r.runWalkthrough(t, "bash")
	all.waitFor(t, verifiedEvent("commission.approved"))
	all.waitFor(t, regexp.MustCompile(`^  "type": "commission.approved",$`))
	if got := descriptions(t, values); !slices.Equal(got, []string{listenerDescription, listenerDescription, "mine"}) {
		t.Errorf("while two listeners run the endpoints are %q, want the two listeners and the merchant's endpoint", got)
	}
	if output := all.end(t, os.Interrupt); strings.Contains(output, "invalid") {
		t.Errorf("the listener could not verify some webhooks:\n%s", output)
	}
	if got := descriptions(t, values); !slices.Equal(got, []string{listenerDescription, "mine"}) {
		t.Errorf("after one listener has stopped the endpoints are %q, want the other listener and the merchant's endpoint", got)
	}
	if err := deleteEndpoint(t.Context(), login(t, values), created.ID); err != nil {
		t.Fatal(err)
	}
	return payouts
}

// descriptions returns the descriptions of the merchant's endpoints, sorted.
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

func TestListen_WithoutDemoFails(t *testing.T) {
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
		if err := listenForWebhooks(t.Context(), dir, nil, io.Discard); !errors.Is(err, errNotRunning) {
			t.Errorf("listenForWebhooks in %s returned %v, want %v", dir, err, errNotRunning)
		}
	}
}

func TestListener_PrintsVerifiedWebhooks(t *testing.T) {
	t.Parallel()
	secret := webhook.NewSecret()
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
		age    time.Duration // of the signature
		want   int
		line   string
		rest   string
	}{
		"a valid signature":       {secret, body, 0, http.StatusNoContent, "  link.created  evt_1  attempt 3", pretty},
		"a body that is not JSON": {secret, "what?", 0, http.StatusNoContent, "    evt_1  attempt 3", "what?"},
		"another secret":          {webhook.NewSecret(), body, 0, http.StatusBadRequest, `  invalid signature  "evt_1"  attempt "3": unable to verify payload, err: no matching signature found`, ""},
		"an old timestamp":        {secret, body, time.Hour, http.StatusBadRequest, `  invalid signature  "evt_1"  attempt "3": unable to verify payload, err: message timestamp too old`, ""},
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
			// The signature is created here, because a parallel test can wait for minutes
			// before it starts.
			at := time.Now().Add(-test.age)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(test.body))
			req.Header.Set("Webhook-Id", "evt_1")
			req.Header.Set("Webhook-Attempt", "3")
			req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
			req.Header.Set("Webhook-Signature", webhook.Sign([]webhook.Secret{test.secret}, "evt_1", at, []byte(test.body)))
			response := httptest.NewRecorder()
			l.ServeHTTP(response, req)
			line, rest, _ := strings.Cut(out.String(), "\n")
			if response.Code != test.want || line[len("15:04:05.000"):] != test.line || strings.TrimSpace(rest) != test.rest {
				t.Errorf("the listener responded with %d, want %d; it printed\n%s\nwant the line %q and after it\n%s", response.Code, test.want, out.String(), test.line, test.rest)
			}
		})
	}
}

// A demo that other machines can reach must not send webhooks to the machine on which it
// runs.
func TestEnvironment_AllowsWebhooksToLoopbackOnlyInPrivateDemo(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{"127.0.0.1:8080": loopback, "0.0.0.0:8080": ""} {
		if got := environment([]string{"TRIBUTARY_API_LISTEN=" + listen}, nil, nil)[webhookAllowName]; got != want {
			t.Errorf("with the API at %s webhooks may be sent to %q, want %q", listen, got, want)
		}
	}
}
