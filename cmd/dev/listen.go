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
	// listenerDescription is the description of the endpoints of listeners.
	listenerDescription = "dev listen"
	webhooksPath        = "/api/v1/webhooks"

	// maxWebhookBytes limits the body of a webhook. An event has at most 20 kB.
	maxWebhookBytes = 64 << 10
	// receiveTimeout limits one request to a listener.
	receiveTimeout = 15 * time.Second
	// deregisterTimeout limits the removal of the endpoint at the end.
	deregisterTimeout = 10 * time.Second
	// probeTimeout limits the check whether another listener runs.
	probeTimeout = time.Second
)

var errNotRunning = errors.New("the demo is not running: start it with make run")

// listenForWebhooks registers a listener with the demo that runs in the folder at path.
// The listener prints each webhook, or forwards it, until ctx ends.
func listenForWebhooks(ctx context.Context, path string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("listen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	events := flags.String("events", "*", "")
	forwardTo := flags.String("forward-to", "", "")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w\n%w", err, errUsage)
	}
	if flags.NArg() > 0 {
		return errUsage
	}
	l := &listener{path: path, out: out, registered: make(chan struct{})}
	merchant, err := loginToDemo(ctx, path)
	if err != nil {
		return err
	}
	authority, err := readAuthority(filepath.Join(path, authorityName), filepath.Join(path, authorityKeyName))
	if err != nil {
		return fmt.Errorf("certificate authority of make run: %w", err)
	}
	if *forwardTo != "" {
		if l.forward, err = newForwarder(*forwardTo, authority); err != nil {
			return err
		}
	}
	server, err := l.serve(ctx, authority)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	if err := removeAbandonedEndpoints(ctx, merchant, authority); err != nil {
		return err
	}
	// Ctrl-C must not interrupt the registration: the new endpoint would remain.
	if err := l.register(context.WithoutCancel(ctx), merchant, strings.Split(*events, ",")); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-l.failed:
	}
	// The server still runs while the endpoint is removed, so deliveries under way arrive.
	return errors.Join(err, l.remove(context.WithoutCancel(ctx)))
}

// loginToDemo returns a client of the demo's merchant in test mode.
func loginToDemo(ctx context.Context, path string) (caller, error) {
	values, err := readVariables(filepath.Join(path, "env"))
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

// listener is a webhook receiver that prints or forwards each webhook.
type listener struct {
	path string
	url  string
	// forward sends webhooks on to the developer's receiver; nil: they are printed.
	forward *forwarder
	// failed receives the error that ended the server.
	failed chan error

	// registered is closed when id and secret are set. A delivery may arrive before the
	// response to the registration.
	registered chan struct{}
	id         string
	secret     *standardwebhooks.Webhook

	mu  sync.Mutex // guards out, so that one webhook is printed at a time
	out io.Writer
}

// serve starts the HTTPS server of the listener on a free port of loopback.
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
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{certificate.pair}, MinVersion: tls.VersionTLS12},
	}
	go func() { l.failed <- server.ServeTLS(port, "", "") }()
	return server, nil
}

// endpoint is a webhook endpoint of the merchant.
type endpoint struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Description string `json:"description"`
}

// listenerEndpoints returns the endpoints of all listeners.
func listenerEndpoints(ctx context.Context, merchant caller) ([]endpoint, error) {
	var list struct {
		Data []endpoint `json:"data"`
	}
	if err := merchant.call(ctx, http.MethodGet, webhooksPath+"?pageSize=100", nil, &list); err != nil {
		return nil, err
	}
	var found []endpoint
	for _, e := range list.Data {
		if e.Description == listenerDescription {
			found = append(found, e)
		}
	}
	return found, nil
}

// removeAbandonedEndpoints deletes the endpoints of listeners that were killed. A listener
// still runs if it shows a certificate of the authority.
func removeAbandonedEndpoints(ctx context.Context, merchant caller, authority tls.Certificate) error {
	endpoints, err := listenerEndpoints(ctx, merchant)
	if err != nil {
		return err
	}
	probe := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: probeTimeout},
		Config:    &tls.Config{RootCAs: trusting(authority), MinVersion: tls.VersionTLS12},
	}
	for _, e := range endpoints {
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

// deleteEndpoint deletes an endpoint. An endpoint that does not exist is no error.
func deleteEndpoint(ctx context.Context, merchant caller, id string) error {
	err := merchant.call(ctx, http.MethodDelete, webhooksPath+"/"+id, nil, nil)
	if refused(err, "WEBHOOK_NOT_FOUND") {
		return nil
	}
	return err
}

// register creates the listener's endpoint.
func (l *listener) register(ctx context.Context, merchant caller, subscriptions []string) error {
	var created struct {
		endpoint
		SigningSecret string `json:"signingSecret"`
	}
	err := merchant.call(ctx, http.MethodPost, webhooksPath,
		map[string]any{"url": l.url, "subscriptions": subscriptions, "description": listenerDescription}, &created)
	if err != nil {
		return err
	}
	l.id = created.ID
	if l.secret, err = standardwebhooks.NewWebhook(created.SigningSecret); err != nil {
		return errors.Join(err, l.remove(ctx))
	}
	l.print("Listening for %s in test mode. Ctrl-C stops.\n", strings.Join(subscriptions, ", "))
	if l.forward != nil {
		l.print("Forwarding to %s\n", l.forward.url)
	}
	l.print("Signing secret: %s\n\n", created.SigningSecret)
	close(l.registered)
	return nil
}

// remove deletes the endpoint. It logs in again because the first access token may have
// expired. If the demo has stopped, the next listener deletes the endpoint.
func (l *listener) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deregisterTimeout)
	defer cancel()
	merchant, err := loginToDemo(ctx, l.path)
	if err == nil {
		err = deleteEndpoint(ctx, merchant, l.id)
	}
	if errors.Is(err, errNotRunning) {
		l.print("The demo has stopped. The next dev listen removes this endpoint, %s.\n", l.id)
		return nil
	}
	return err
}

// ServeHTTP receives one webhook. It responds with 400 to a webhook that does not verify,
// with the receiver's status to a forwarded webhook, and otherwise with 204.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWebhookBytes))
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
		// The sender is unknown, so its values are quoted and its body is not printed.
		l.print("%s  invalid signature  %q  attempt %q: %v\n\n", clock(), id, attempt, err)
		http.Error(w, "invalid signature", http.StatusBadRequest)
		return
	}
	line := fmt.Sprintf("%s  %s  %s  attempt %s", clock(), eventType(body), id, attempt)
	if l.forward == nil {
		l.print("%s\n%s\n\n", line, indented(body))
		w.WriteHeader(http.StatusNoContent)
		return
	}
	result := l.forward.send(r.Context(), r.Header, body)
	l.print("%s  → %s\n", line, result)
	if result.retryAfter != "" {
		w.Header().Set("Retry-After", result.retryAfter)
	}
	w.WriteHeader(result.status)
}

func eventType(body []byte) string {
	var event struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(body, &event)
	return event.Type
}

func indented(body []byte) string {
	var pretty bytes.Buffer
	if json.Indent(&pretty, body, "", "  ") != nil {
		return string(body)
	}
	return pretty.String()
}

func clock() string { return time.Now().Format("15:04:05.000") }

func (l *listener) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, format, args...)
}
