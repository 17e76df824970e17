// Package receivers_test runs the examples of receivers, as processes of their own,
// and sends them what the service sends.
package receivers_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// startsWithin bounds what it takes to install, build and start a receiver.
const startsWithin = 3 * time.Minute

// run starts a receiver of a secret and returns its URL.
func run(t *testing.T, dir, secret string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "PORT=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// One that says nothing is ended, and with it the wait below.
	late := time.AfterFunc(startsWithin, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	first, _ := lines.ReadString('\n')
	late.Stop()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, lines)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	address, found := strings.CutPrefix(strings.TrimSpace(first), "listening on ")
	if !found {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
		t.Fatalf("%v does not listen: %q\n%s", command, first, said.String())
	}
	return "http://" + address
}

// do runs a command to its end.
func do(t *testing.T, dir string, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startsWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}

// receivers start one of each example.
var receivers = map[string]func(t *testing.T, secret string) string{
	"go": func(t *testing.T, secret string) string {
		t.Helper()
		binary := filepath.Join(t.TempDir(), "receiver")
		do(t, "go", "go", "build", "-o", binary, ".")
		return run(t, "", secret, binary)
	},
	"js": func(t *testing.T, secret string) string {
		t.Helper()
		for _, name := range []string{"node", "npm"} {
			if _, err := exec.LookPath(name); err != nil {
				t.Fatalf("the example in JavaScript needs %s: install Node.js with npm (Debian: apt-get install nodejs npm)", name)
			}
		}
		// What npm installs does not belong into the checkout.
		dir := t.TempDir()
		for _, name := range []string{"package.json", "package-lock.json", "server.mjs"} {
			body, err := os.ReadFile(filepath.Join("js", name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		do(t, dir, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
		return run(t, dir, secret, "node", "server.mjs")
	},
}

func TestReceiversTakeWhatTheServiceSignedAndNothingElse(t *testing.T) {
	t.Parallel()
	secret, other := webhook.NewSecret(), webhook.NewSecret()
	id, body := event(t)
	tooLong := bytes.Repeat([]byte(" "), 65<<10)
	now := time.Now()
	tests := map[string]struct {
		secrets []webhook.Secret
		at      time.Time
		signed  []byte // empty: the body of an event
		body    []byte // empty: as it was signed
		id      string // empty: as it was signed
		want    int
	}{
		"signed":                        {secrets: []webhook.Secret{secret}, at: now, want: http.StatusNoContent},
		"rotated, the new one is known": {secrets: []webhook.Secret{secret, other}, at: now, want: http.StatusNoContent},
		"rotated, the old one is known": {secrets: []webhook.Secret{other, secret}, at: now, want: http.StatusNoContent},
		"four minutes old":              {secrets: []webhook.Secret{secret}, at: now.Add(-4 * time.Minute), want: http.StatusNoContent},
		"six minutes old":               {secrets: []webhook.Secret{secret}, at: now.Add(-6 * time.Minute), want: http.StatusBadRequest},
		"of the future":                 {secrets: []webhook.Secret{secret}, at: now.Add(6 * time.Minute), want: http.StatusBadRequest},
		"another secret":                {secrets: []webhook.Secret{other}, at: now, want: http.StatusBadRequest},
		"no signature":                  {at: now, want: http.StatusBadRequest},
		"another body":                  {secrets: []webhook.Secret{secret}, at: now, body: bytes.Replace(body, []byte("approved"), []byte("rejected"), 1), want: http.StatusBadRequest},
		"the same JSON, other bytes":    {secrets: []webhook.Secret{secret}, at: now, body: append([]byte(" "), body...), want: http.StatusBadRequest},
		"too long":                      {secrets: []webhook.Secret{secret}, at: now, signed: tooLong, want: http.StatusBadRequest},
		"under another id":              {secrets: []webhook.Secret{secret}, at: now, id: "evt_0", want: http.StatusBadRequest},
	}
	for name, start := range receivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, secret.Text())
			for name, test := range tests {
				signed := body
				if test.signed != nil {
					signed = test.signed
				}
				sent := signed
				if test.body != nil {
					sent = test.body
				}
				signature := webhook.Sign(test.secrets, id, test.at, signed)
				if got := post(t, url, cmp.Or(test.id, id), signature, test.at, sent); got != test.want {
					t.Errorf("%s: %d, want %d", name, got, test.want)
				}
			}
		})
	}
}

// event is a body as it is sent, with letters of more than one byte.
func event(t *testing.T) (id string, body []byte) {
	t.Helper()
	e := affiliate.NewEvent(
		affiliate.Scope{Workspace: affiliate.WorkspaceID{UUID: uuid.New()}, Mode: affiliate.ModeTest},
		affiliate.EventParticipantApproved, time.Now(),
		affiliate.ParticipantObject{PartnerName: "Zoë & 妹妹 <z@press.example>", Status: affiliate.ParticipantApproved, Version: 2}, nil)
	body, err := e.Body()
	if err != nil {
		t.Fatal(err)
	}
	return e.WireID(), body
}

// post sends a body as the service does and returns the status.
func post(t *testing.T, url, id, signature string, at time.Time, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature)
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	return reply.StatusCode
}

// The excerpts in the documentation are parts of the receivers.
func TestExcerptsAreThoseOfTheReceivers(t *testing.T) {
	t.Parallel()
	guide := read(t, "../merchant/webhooks.md")
	for language, file := range map[string]string{"go": "go/main.go", "js": "js/server.mjs"} {
		source := read(t, file)
		blocks := 0
		for rest := guide; ; blocks++ {
			_, after, found := strings.Cut(rest, "```"+language+" excerpt\n")
			if !found {
				break
			}
			var block string
			block, rest, _ = strings.Cut(after, "```")
			if !strings.Contains(source, block) {
				t.Errorf("%s does not have\n%s", file, block)
			}
		}
		if blocks == 0 {
			t.Errorf("the documentation has no excerpt of %s", file)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
