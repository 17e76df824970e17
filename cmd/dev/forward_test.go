package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// testReceiver is a webhook receiver. It responds to the first requests with statuses, in
// this order, and to all later requests with 204.
type testReceiver struct {
	mu       sync.Mutex
	statuses []int
	received []receivedWebhook
}

type receivedWebhook struct {
	path   string
	header http.Header
	body   []byte
}

func (r *testReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = append(r.received, receivedWebhook{req.URL.Path, req.Header, body})
	status := http.StatusNoContent
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	w.WriteHeader(status)
}

func (r *testReceiver) webhooks() []receivedWebhook {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received
}

// forwardAndResend runs the walkthrough while a listener forwards webhooks to a receiver.
// The receiver rejects the first webhook. Then the function sends this webhook again with
// `dev resend`.
func forwardAndResend(t *testing.T, dir string, walkthrough func()) {
	t.Helper()
	receiver := &testReceiver{statuses: []int{http.StatusInternalServerError}}
	server := httptest.NewServer(receiver)
	defer server.Close()
	listening := startListener(t, dir, "--events", "commission.approved", "--forward-to", server.URL+"/hooks")
	listening.waitFor(t, regexp.MustCompile(`^Forwarding to `+regexp.QuoteMeta(server.URL)+`/hooks$`))
	secret := listening.waitFor(t, regexp.MustCompile(`^Signing secret: (whsec_\S+)$`))[1]
	walkthrough()
	failed := listening.waitFor(t, regexp.MustCompile(`  commission\.approved  (evt_[0-9a-f]{32})  attempt 1  → 500 \(\d+ ms\)$`))
	id := failed[1]

	var printed strings.Builder
	if err := resend(t.Context(), filepath.Join(dir, folderName), id, &printed); err != nil || printed.String() != "Sent "+id+" again.\n" {
		t.Errorf("resend(%s) printed %q and returned %v", id, printed.String(), err)
	}
	listening.waitFor(t, regexp.MustCompile(`  commission\.approved  `+id+`  attempt 2  → 204 \(\d+ ms\)$`))
	listening.end(t, os.Interrupt)

	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	got := receiver.webhooks()
	if len(got) != 2 {
		t.Fatalf("the receiver got %d requests, want 2", len(got))
	}
	for _, request := range got {
		if err := webhook.Verify(request.body, request.header); err != nil || request.path != "/hooks" || request.header.Get("Webhook-Id") != id {
			t.Errorf("the receiver got the webhook %s at %s with the verification error %v; want %s at /hooks, verified", request.header.Get("Webhook-Id"), request.path, err, id)
		}
	}
	if err := resend(t.Context(), filepath.Join(dir, folderName), "evt_"+strings.Repeat("0", 32), io.Discard); err == nil || !strings.Contains(err.Error(), "no running listener has received") {
		t.Errorf("resend of an unknown event returned %v, want an error that no running listener has received it", err)
	}
}

// deliverToOwnReceiver starts an HTTPS receiver with a certificate from `dev cert`,
// registers it as an endpoint, and checks that a test ping arrives.
func deliverToOwnReceiver(t *testing.T, dir string, values map[string]string) {
	t.Helper()
	out := t.TempDir()
	if err := writeReceiverCertificate(filepath.Join(dir, folderName), []string{"--out", out}, io.Discard); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(out, "receiver.pem"), filepath.Join(out, "receiver.key"))
	if err != nil {
		t.Fatal(err)
	}
	receiver := &testReceiver{}
	server := httptest.NewUnstartedServer(receiver)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	merchant := login(t, values)
	var created endpoint
	fields := map[string]any{"url": server.URL + "/own", "subscriptions": []string{"payout.paid"}}
	if err := merchant.call(t.Context(), http.MethodPost, webhooksPath, fields, &created); err != nil {
		t.Fatal(err)
	}
	if err := merchant.call(t.Context(), http.MethodPost, webhooksPath+"/"+created.ID+"/test-ping", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := receiver.webhooks(); len(got) != 1 || got[0].path != "/own" {
		t.Errorf("the receiver got the webhooks %v, want one ping at /own", got)
	}
	if err := deleteEndpoint(t.Context(), merchant, created.ID); err != nil {
		t.Fatal(err)
	}
}

func TestForwarder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := mustLoadAuthority(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), time.Now())
	mux := http.NewServeMux()
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for path, want := range map[string]struct {
		status     int
		retryAfter string
		text       string
	}{
		"/ok":     {status: http.StatusOK, text: `^200 \(\d+ ms\)$`},
		"/busy":   {status: http.StatusServiceUnavailable, retryAfter: "30", text: `^503 \(\d+ ms\)$`},
		"/moved":  {status: http.StatusFound, text: `^302 \(\d+ ms\)$`},
		"/broken": {status: http.StatusBadGateway, text: `^no response: EOF$`},
	} {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			t.Parallel()
			f, err := newForwarder(server.URL+path, authority)
			if err != nil {
				t.Fatal(err)
			}
			got := f.send(context.Background(), http.Header{}, []byte("{}"))
			if got.status != want.status || got.retryAfter != want.retryAfter || !regexp.MustCompile(want.text).MatchString(got.String()) {
				t.Errorf("send to %s = status %d, Retry-After %q, text %q; want %d, %q, %q", path, got.status, got.retryAfter, got, want.status, want.retryAfter, want.text)
			}
		})
	}
}

func TestNewForwarder_RejectsInvalidAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := mustLoadAuthority(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), time.Now())
	for _, address := range []string{"127.0.0.1:3000", "ftp://127.0.0.1/", "http://", "/hooks"} {
		if _, err := newForwarder(address, authority); err == nil || !strings.Contains(err.Error(), "--forward-to must be") {
			t.Errorf("newForwarder(%q) returned %v, want an error about --forward-to", address, err)
		}
	}
}

func TestCommand_RejectsUnknownArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"start"}, {"run", "x"}, {"reset", "x"}, {"resend"}, {"resend", "a", "b"}, {"listen", "x"}, {"listen", "--subscribe", "*"}, {"cert", "--for", "x"}} {
		if err := command(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "usage: ") {
			t.Errorf("command(%q) returned %v, want the usage", args, err)
		}
	}
	var out bytes.Buffer
	if err := command(t.Context(), []string{"help"}, &out); err != nil || !strings.Contains(out.String(), "--forward-to") {
		t.Errorf("command(help) printed %q and returned %v, want the usage", out.String(), err)
	}
}
