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
	// listenerDescription is the description of a webhook endpoint that `dev listen` has
	// registered.
	listenerDescription = "dev listen"
	webhooksPath        = "/api/v1/webhooks"

	// maxWebhookBytes is the maximum size of the body of a webhook. The largest event has
	// 20 kB.
	maxWebhookBytes = 64 << 10
	// receiveTimeout is the maximum time of one request to a listener.
	receiveTimeout = 15 * time.Second
	// deregisterTimeout is the maximum time for the deletion of the endpoint when the
	// listener stops.
	deregisterTimeout = 10 * time.Second
	// probeTimeout is the maximum time to check whether another listener runs.
	probeTimeout = time.Second
)

var errNotRunning = errors.New("the demo is not running: start it with make run")

// listenForWebhooks registers a listener as a webhook endpoint of the demo merchant. path
// is the data folder of the running demo. The listener prints or forwards each webhook
// until ctx ends.
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
	server, err := l.serve(authority)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	if err := removeAbandonedEndpoints(ctx, merchant, authority); err != nil {
		return err
	}
	// Ctrl-C must not interrupt the registration. Otherwise the new endpoint could remain
	// in the database.
	if err := l.register(context.WithoutCancel(ctx), merchant, strings.Split(*events, ",")); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-l.failed:
	}
	// The server of the listener still runs while the endpoint is deleted, so that
	// webhooks that the service is already sending can arrive.
	return errors.Join(err, l.remove(context.WithoutCancel(ctx)))
}

// loginToDemo returns a client of the demo's merchant in test mode.
func loginToDemo(ctx context.Context, path string) (apiClient, error) {
	values, err := readVariables(filepath.Join(path, "env"))
	if err != nil {
		return apiClient{}, err
	}
	api := apiClient{url: values["TRIBUTARY_API_URL"]}
	if api.url == "" {
		return apiClient{}, errNotRunning
	}
	var s session
	err = api.call(ctx, http.MethodPost, "/api/v1/auth/merchant/login",
		map[string]string{"email": values[merchantEmailName], "password": values[merchantPasswordName]}, &s)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return apiClient{}, errNotRunning
	}
	return api.withCredential(s.AccessToken).withMode(demoModes[0]), err
}

// listener is a webhook receiver that prints or forwards each webhook.
type listener struct {
	path string
	url  string
	// forward forwards webhooks to the developer's receiver. If it is nil, webhooks are
	// printed.
	forward *forwarder
	// failed receives the error if the server fails.
	failed chan error

	// registered is closed when id and secret are set. A webhook that arrives before the
	// response to the registration must wait for this.
	registered chan struct{}
	id         string
	secret     *standardwebhooks.Webhook

	mu  sync.Mutex // guards out; the lines of two webhooks must not be mixed
	out io.Writer
}

// serve starts the HTTPS server of the listener on a free port on loopback.
func (l *listener) serve(authority tls.Certificate) (*http.Server, error) {
	certificate, err := certify(authority, time.Now())
	if err != nil {
		return nil, err
	}
	port, err := servers.Listen()
	if err != nil {
		return nil, err
	}
	l.url = "https://" + port.Addr().String() + "/"
	l.failed = make(chan error, 1)
	server := &http.Server{
		Handler:      l,
		ReadTimeout:  receiveTimeout,
		WriteTimeout: receiveTimeout,
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{certificate.keyPair}, MinVersion: tls.VersionTLS12},
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
func listenerEndpoints(ctx context.Context, merchant apiClient) ([]endpoint, error) {
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

// removeAbandonedEndpoints deletes the endpoints of listeners that were killed. A
// listener still runs if a TLS handshake at its address returns a certificate that the
// authority has signed.
func removeAbandonedEndpoints(ctx context.Context, merchant apiClient, authority tls.Certificate) error {
	endpoints, err := listenerEndpoints(ctx, merchant)
	if err != nil {
		return err
	}
	probe := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: probeTimeout},
		Config:    &tls.Config{RootCAs: poolWith(authority), MinVersion: tls.VersionTLS12},
	}
	for _, e := range endpoints {
		address, err := url.Parse(e.URL)
		if err != nil {
			return err
		}
		if conn, err := probe.DialContext(ctx, "tcp", address.Host); err == nil {
			_ = conn.Close()
			continue
		}
		if err := deleteEndpoint(ctx, merchant, e.ID); err != nil {
			return err
		}
	}
	return nil
}

// deleteEndpoint deletes an endpoint. It returns no error if the endpoint does not exist.
func deleteEndpoint(ctx context.Context, merchant apiClient, id string) error {
	err := merchant.call(ctx, http.MethodDelete, webhooksPath+"/"+id, nil, nil)
	if hasCode(err, "WEBHOOK_NOT_FOUND") {
		return nil
	}
	return err
}

// register creates the listener's endpoint.
func (l *listener) register(ctx context.Context, merchant apiClient, subscriptions []string) error {
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

// remove deletes the endpoint of the listener. It logs in again, because the first access
// token may have expired. If the demo has stopped, the endpoint remains, and the next
// listener deletes it.
func (l *listener) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deregisterTimeout)
	defer cancel()
	merchant, err := loginToDemo(ctx, l.path)
	if err == nil {
		err = deleteEndpoint(ctx, merchant, l.id)
	}
	if errors.Is(err, errNotRunning) {
		l.print("The demo has stopped. The next dev listen deletes this endpoint, %s.\n", l.id)
		return nil
	}
	return err
}

// ServeHTTP receives one webhook. If the signature is invalid, it responds with 400. If the
// webhook is forwarded, it responds with the status of the receiver. If the webhook is printed,
// it responds with 204.
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
		// The request may come from any program. Therefore its header values are quoted,
		// and its body is not printed.
		l.print("%s  invalid signature  %q  attempt %q: %v\n\n", timeOfDay(), id, attempt, err)
		http.Error(w, "invalid signature", http.StatusBadRequest)
		return
	}
	line := fmt.Sprintf("%s  %s  %s  attempt %s", timeOfDay(), eventType(body), id, attempt)
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

func timeOfDay() string { return time.Now().Format("15:04:05.000") }

func (l *listener) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, format, args...)
}

// resend makes the service send an event again. The service sends the event to each
// running listener that has already received it.
func resend(ctx context.Context, path, event string, out io.Writer) error {
	merchant, err := loginToDemo(ctx, path)
	if err != nil {
		return err
	}
	endpoints, err := listenerEndpoints(ctx, merchant)
	if err != nil {
		return err
	}
	if len(endpoints) == 0 {
		return errors.New("no listener is running: start one with go run ./cmd/dev listen")
	}
	sent := 0
	for _, e := range endpoints {
		deliveries := webhooksPath + "/" + e.ID + "/deliveries"
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		err := merchant.call(ctx, http.MethodGet, deliveries+"?eventId="+url.QueryEscape(event), nil, &list)
		if err != nil && !hasCode(err, "NOT_FOUND") { // NOT_FOUND: the event is unknown
			return err
		}
		for _, delivery := range list.Data {
			if err := merchant.call(ctx, http.MethodPost, deliveries+"/"+delivery.ID+"/retry", nil, nil); err != nil {
				return err
			}
			sent++
		}
	}
	if sent == 0 {
		return fmt.Errorf("no running listener has received %s: only events since its start can be sent again", event)
	}
	_, err = fmt.Fprintf(out, "Sent %s again.\n", event)
	return err
}
