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

// testReceiver is a developer's receiver. It responds with the statuses in turn, and with
// 204 after the last.
type testReceiver struct {
	mu       sync.Mutex
	statuses []int
	got      []receivedWebhook
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
	r.got = append(r.got, receivedWebhook{req.URL.Path, req.Header, body})
	status := http.StatusNoContent
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	w.WriteHeader(status)
}

func (r *testReceiver) webhooks() []receivedWebhook {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// forwardAndResend forwards the webhooks of a walk to a receiver that fails once, and has
// the failed one sent again.
func forwardAndResend(t *testing.T, dir string, walk func()) {
	t.Helper()
	receiver := &testReceiver{statuses: []int{http.StatusInternalServerError}}
	server := httptest.NewServer(receiver)
	defer server.Close()
	listening := startListener(t, dir, "--events", "commission.approved", "--forward-to", server.URL+"/hooks")
	listening.waitFor(t, regexp.MustCompile(`^Forwarding to `+regexp.QuoteMeta(server.URL)+`/hooks$`))
	secret := listening.waitFor(t, regexp.MustCompile(`^Signing secret: (whsec_\S+)$`))[1]
	walk()
	failed := listening.waitFor(t, regexp.MustCompile(`  commission\.approved  (evt_[0-9a-f]{32})  attempt 1  → 500 \(\d+ ms\)$`))
	id := failed[1]

	var printed strings.Builder
	if err := resend(t.Context(), filepath.Join(dir, folderName), id, &printed); err != nil || printed.String() != "Sent "+id+" again.\n" {
		t.Errorf("resend: got %q, %v", printed.String(), err)
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
			t.Errorf("got %s with id %s: %v", request.path, request.header.Get("Webhook-Id"), err)
		}
	}
	if err := resend(t.Context(), filepath.Join(dir, folderName), "evt_"+strings.Repeat("0", 32), io.Discard); err == nil || !strings.Contains(err.Error(), "no running listener has received") {
		t.Errorf("resend of an unknown event: got %v", err)
	}
}

// deliverToOwnReceiver registers an https receiver with a certificate of dev cert and has
// the service call it.
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
	var mine endpoint
	fields := map[string]any{"url": server.URL + "/own", "subscriptions": []string{"payout.paid"}}
	if err := merchant.call(t.Context(), http.MethodPost, webhooksPath, fields, &mine); err != nil {
		t.Fatal(err)
	}
	if err := merchant.call(t.Context(), http.MethodPost, webhooksPath+"/"+mine.ID+"/test-ping", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := receiver.webhooks(); len(got) != 1 || got[0].path != "/own" {
		t.Errorf("the receiver got %d webhooks, want the ping", len(got))
	}
	if err := deleteEndpoint(t.Context(), merchant, mine.ID); err != nil {
		t.Fatal(err)
	}
}

func TestForwarder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := authorityAt(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), time.Now())
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
				t.Errorf("got %d, Retry-After %q, %q", got.status, got.retryAfter, got)
			}
		})
	}
}

func TestForwarder_RefusesAMalformedAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := authorityAt(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), time.Now())
	for _, address := range []string{"127.0.0.1:3000", "ftp://127.0.0.1/", "http://", "/hooks"} {
		if _, err := newForwarder(address, authority); err == nil || !strings.Contains(err.Error(), "--forward-to must be") {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

func TestCommand_RefusesUnknownArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"start"}, {"run", "x"}, {"reset", "x"}, {"resend"}, {"resend", "a", "b"}, {"listen", "x"}, {"listen", "--subscribe", "*"}, {"cert", "--for", "x"}} {
		if err := command(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "usage: ") {
			t.Errorf("%q: got %v, want the usage", args, err)
		}
	}
	var out bytes.Buffer
	if err := command(t.Context(), []string{"help"}, &out); err != nil || !strings.Contains(out.String(), "--forward-to") {
		t.Errorf("help: got %q, %v", out.String(), err)
	}
}
