// Package receivers_test starts the example receivers as separate processes and sends
// them the requests that the service would send.
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
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// startTimeout is the time limit for each step of installing, building and starting a
// receiver.
const startTimeout = 3 * time.Minute

// startReceiver starts a receiver that uses the secret, and returns its URL.
func startReceiver(t *testing.T, dir, secret string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "PORT=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A receiver that does not print its address in time is killed. ReadString then
	// returns, because the output of the process ends.
	timer := time.AfterFunc(startTimeout, func() { _ = cmd.Process.Kill() })
	output := bufio.NewReader(out)
	firstLine, _ := output.ReadString('\n')
	timer.Stop()
	outputEnded := make(chan struct{})
	go func() {
		defer close(outputEnded)
		_, _ = io.Copy(io.Discard, output)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-outputEnded
		_ = cmd.Wait()
	})
	address, found := strings.CutPrefix(strings.TrimSpace(firstLine), "listening on ")
	if !found {
		_ = cmd.Process.Kill()
		<-outputEnded
		_ = cmd.Wait()
		t.Fatalf("%v did not print its address; first line %q, stderr:\n%s", command, firstLine, stderr.String())
	}
	return "http://" + address
}

// runCommand runs a command and waits until it has ended.
func runCommand(t *testing.T, dir string, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}

// receivers has for each language a function that starts the example receiver and
// returns its URL.
var receivers = map[string]func(t *testing.T, secret string) string{
	"go": func(t *testing.T, secret string) string {
		t.Helper()
		binary := filepath.Join(t.TempDir(), "receiver")
		runCommand(t, "go", "go", "build", "-o", binary, ".")
		return startReceiver(t, "", secret, binary)
	},
	"js": func(t *testing.T, secret string) string {
		t.Helper()
		for _, name := range []string{"node", "npm"} {
			if _, err := exec.LookPath(name); err != nil {
				t.Fatalf("the example in JavaScript needs %s: install Node.js with npm (Debian: apt-get install nodejs npm)", name)
			}
		}
		// npm installs into a temporary directory, so that the working tree stays
		// unchanged.
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
		runCommand(t, dir, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
		return startReceiver(t, dir, secret, "node", "server.mjs")
	},
}

func TestReceivers_AcceptOnlyValidSignatures(t *testing.T) {
	t.Parallel()
	secret, other := webhook.NewSecret(), webhook.NewSecret()
	id, body := event(t)
	tooLong := bytes.Repeat([]byte(" "), 65<<10)
	tests := map[string]struct {
		secrets []webhook.Secret
		age     time.Duration // of the signature; negative if it is from the future
		signed  []byte        // body that is signed; the body of an event if nil
		body    []byte        // body that is sent; the signed body if nil
		id      string        // id that is sent; the signed id if empty
		want    int
	}{
		"signed":                               {secrets: []webhook.Secret{secret}, want: http.StatusNoContent},
		"rotated, receiver has the new secret": {secrets: []webhook.Secret{secret, other}, want: http.StatusNoContent},
		"rotated, receiver has the old secret": {secrets: []webhook.Secret{other, secret}, want: http.StatusNoContent},
		"four minutes old":                     {secrets: []webhook.Secret{secret}, age: 4 * time.Minute, want: http.StatusNoContent},
		"six minutes old":                      {secrets: []webhook.Secret{secret}, age: 6 * time.Minute, want: http.StatusBadRequest},
		"six minutes in the future":            {secrets: []webhook.Secret{secret}, age: -6 * time.Minute, want: http.StatusBadRequest},
		"another secret":                       {secrets: []webhook.Secret{other}, want: http.StatusBadRequest},
		"no signature":                         {want: http.StatusBadRequest},
		"another body":                         {secrets: []webhook.Secret{secret}, body: bytes.Replace(body, []byte("approved"), []byte("rejected"), 1), want: http.StatusBadRequest},
		"same JSON with other white space":     {secrets: []webhook.Secret{secret}, body: append([]byte(" "), body...), want: http.StatusBadRequest},
		"too long":                             {secrets: []webhook.Secret{secret}, signed: tooLong, want: http.StatusBadRequest},
		"another id":                           {secrets: []webhook.Secret{secret}, id: "evt_0", want: http.StatusBadRequest},
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
				at := time.Now().Add(-test.age)
				signature := webhook.Sign(test.secrets, id, at, signed)
				if got := post(t, url, cmp.Or(test.id, id), signature, at, sent); got != test.want {
					t.Errorf("%s: status %d, want %d", name, got, test.want)
				}
			}
		})
	}
}

// event returns the id and the body of an event. The body contains characters of more
// than one byte.
func event(t *testing.T) (id string, body []byte) {
	t.Helper()
	e := affiliate.NewEvent(
		affiliate.Scope{Workspace: affiliate.WorkspaceID{UUID: uuid.New()}, Mode: affiliate.ModeTest},
		affiliate.EventParticipantApproved, time.Now(),
		participant.Object{PartnerName: "Zoë & 妹妹 <z@press.example>", Status: participant.Approved, Version: 2}, nil)
	body, err := e.Body()
	if err != nil {
		t.Fatal(err)
	}
	return e.WireID(), body
}

// post sends a body in the same way as the service, and returns the status of the
// response.
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
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// The documentation contains excerpts of the source code of the receivers. They must be
// exact copies.
func TestDocumentation_ExcerptsMatchSourceCode(t *testing.T) {
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
				t.Errorf("%s does not contain this excerpt of the documentation:\n%s", file, block)
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
