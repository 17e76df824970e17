package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	// listenerDescription marks the endpoints of listeners.
	listenerDescription = "dev listen"
	webhooksPath        = "/api/v1/webhooks"

	// receivedBody bounds a body; that of an event has 20 kB at most.
	receivedBody = 64 << 10
	// receiveTimeout bounds one request to a listener.
	receiveTimeout = 15 * time.Second
	// leaveWithin bounds the end of a listener.
	leaveWithin = 10 * time.Second
	// probeTimeout bounds the look at whether another listener lives.
	probeTimeout = time.Second
)

var errNotRunning = errors.New("the demo is not running: start it with make run")

// receive prints the events of the demo that runs at path, as a receiver of webhooks
// gets them, until ctx ends.
func receive(ctx context.Context, path string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("listen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	subscribe := flags.String("subscribe", "*", "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errors.Join(err, errors.New(usage))
	}
	l := &listener{path: path, out: out, registered: make(chan struct{})}
	merchant, err := l.login(ctx)
	if err != nil {
		return err
	}
	authority, err := readAuthority(filepath.Join(path, authorityName), filepath.Join(path, authorityKeyName))
	if err != nil {
		return fmt.Errorf("what make run made for listeners: %w", err)
	}
	server, err := l.serve(ctx, authority)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }() // nobody waits for an answer any more
	if err := removeLeftOvers(ctx, merchant, authority); err != nil {
		return err
	}
	// Ctrl-C in between must not leave an endpoint whose id nobody has read.
	if err := l.register(context.WithoutCancel(ctx), merchant, strings.Split(*subscribe, ",")); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-l.failed:
	}
	// What is on its way while the endpoint ends still finds somebody.
	return errors.Join(err, l.leave(context.WithoutCancel(ctx)))
}

// listener is a receiver of webhooks that prints what it gets.
type listener struct {
	path string
	url  string
	// failed has why it serves no more.
	failed chan error

	// registered is closed when id and secret are there: a delivery may come before
	// the answer that has them.
	registered chan struct{}
	id         string
	secret     *standardwebhooks.Webhook

	mu  sync.Mutex // one event at a time on out
	out io.Writer
}

// login makes the demo's merchant out of what the running demo has written down.
func (l *listener) login(ctx context.Context) (caller, error) {
	values, err := readVariables(filepath.Join(l.path, "env"))
	if err != nil {
		return caller{}, err
	}
	api := caller{url: values["TRIBUTARY_API_URL"]}
	if api.url == "" {
		return caller{}, errNotRunning
	}
	var s session
	err = api.call(ctx, http.MethodPost, "/api/v1/auth/merchant/login",
		map[string]string{"email": values[merchantEmailName], "password": values[merchantPasswordName]}, &s)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return caller{}, errNotRunning
	}
	return api.as(s.AccessToken).in(demoModes[0]), err
}

// serve takes deliveries on a free port of loopback.
func (l *listener) serve(ctx context.Context, authority tls.Certificate) (*http.Server, error) {
	certificate, err := certify(authority, time.Now())
	if err != nil {
		return nil, err
	}
	free, err := servers.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	port, err := (&net.ListenConfig{}).Listen(ctx, "tcp", free[0])
	if err != nil {
		return nil, err
	}
	l.url = "https://" + free[0] + "/"
	l.failed = make(chan error, 1)
	server := &http.Server{
		Handler:      l,
		ReadTimeout:  receiveTimeout,
		WriteTimeout: receiveTimeout,
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { l.failed <- server.ServeTLS(port, "", "") }()
	return server, nil
}

// endpoint is one of the merchant's.
type endpoint struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Description string `json:"description"`
}

// removeLeftOvers deletes the endpoints of listeners that were killed. One that
// answers under the authority lives, in another terminal.
func removeLeftOvers(ctx context.Context, merchant caller, authority tls.Certificate) error {
	var list struct {
		Data []endpoint `json:"data"`
	}
	if err := merchant.call(ctx, http.MethodGet, webhooksPath+"?pageSize=100", nil, &list); err != nil {
		return err
	}
	probe := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: probeTimeout},
		Config:    &tls.Config{RootCAs: trusting(authority), MinVersion: tls.VersionTLS12},
	}
	for _, e := range list.Data {
		if e.Description != listenerDescription {
			continue
		}
		at, err := url.Parse(e.URL)
		if err != nil {
			return err
		}
		if conn, err := probe.DialContext(ctx, "tcp", at.Host); err == nil {
			_ = conn.Close()
			continue
		}
		if err := deleteEndpoint(ctx, merchant, e.ID); err != nil {
			return err
		}
	}
	return nil
}

// deleteEndpoint is done when it is gone already.
func deleteEndpoint(ctx context.Context, merchant caller, id string) error {
	err := merchant.call(ctx, http.MethodDelete, webhooksPath+"/"+id, nil, nil)
	if refused(err, "WEBHOOK_NOT_FOUND") {
		return nil
	}
	return err
}

// register makes the listener an endpoint of the merchant's.
func (l *listener) register(ctx context.Context, merchant caller, subscriptions []string) error {
	var made struct {
		endpoint
		SigningSecret string `json:"signingSecret"`
	}
	err := merchant.call(ctx, http.MethodPost, webhooksPath,
		map[string]any{"url": l.url, "subscriptions": subscriptions, "description": listenerDescription}, &made)
	if err != nil {
		return err
	}
	l.id = made.ID
	if l.secret, err = standardwebhooks.NewWebhook(made.SigningSecret); err != nil {
		return errors.Join(err, l.leave(ctx))
	}
	l.print("Listening for %s of test mode at %s. Ctrl-C stops it.\n\n", strings.Join(subscriptions, ", "), l.url)
	close(l.registered)
	return nil
}

// leave deletes the endpoint. The first login may have expired; a demo that has
// stopped in the meantime keeps the endpoint until the next listener finds it.
func (l *listener) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	merchant, err := l.login(ctx)
	if err == nil {
		err = deleteEndpoint(ctx, merchant, l.id)
	}
	if errors.Is(err, errNotRunning) {
		l.print("The demo has stopped. The next dev listen removes this endpoint, %s.\n", l.id)
		return nil
	}
	return err
}

// ServeHTTP takes one delivery: 204 when it is the service's, 400 when it is not.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, receivedBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-l.registered:
	case <-r.Context().Done():
		return
	}
	id, attempt := r.Header.Get("Webhook-Id"), cmp.Or(r.Header.Get("Webhook-Attempt"), "?")
	if err := l.secret.Verify(body, r.Header); err != nil {
		// Anybody's words: quoted, and none of the body.
		l.print("%s  invalid signature  %q  attempt %q: %v\n\n", clock(), id, attempt, err)
		http.Error(w, "invalid signature", http.StatusBadRequest)
		return
	}
	l.print("%s", shown(id, attempt, body))
	w.WriteHeader(http.StatusNoContent)
}

// shown is how a delivery is printed.
func shown(id, attempt string, body []byte) string {
	var event struct {
		Type string `json:"type"`
	}
	var pretty bytes.Buffer
	if json.Unmarshal(body, &event) != nil || json.Indent(&pretty, body, "", "  ") != nil {
		pretty.Write(body)
	}
	return fmt.Sprintf("%s  %s  %s  attempt %s\n%s\n\n", clock(), event.Type, id, attempt, &pretty)
}

func clock() string { return time.Now().Format("15:04:05.000") }

func (l *listener) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, format, args...)
}
