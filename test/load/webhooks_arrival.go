package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/test/service"
)

const (
	arrivalRound       = 5 * time.Second
	arrivalRate        = 100
	arrivalConnections = 16

	// responsePrefix is the text before the conversion's id in the response to a report.
	// eventPrefix is the text before this id in the event.
	responsePrefix = `{"id":"`
	eventPrefix    = `"object":{"id":"`
)

// eventTimer measures the time from a conversion's 201 to the arrival of its event.
type eventTimer struct {
	*webhooks
	core   *process
	events *eventReceiver
}

// measureArrival measures the rows about the time from a conversion's 201 to its event.
// It also stores the body of one event, which the later measurements use.
func (w *webhooks) measureArrival(ctx context.Context) error {
	core, err := w.startCore(ctx, w.database, w.credentials.settings()...)
	if err != nil {
		return err
	}
	defer core.stop()
	listening, stop := context.WithCancel(ctx)
	defer stop()
	t := eventTimer{webhooks: w, core: core, events: &eventReceiver{}}
	if err := t.events.serve(listening, w.credentials); err != nil {
		return err
	}
	if err := w.registerEndpoint(ctx, core, t.events.url); err != nil {
		return core.fail(err)
	}
	// Report one conversion through the API. The yardsticks post copies of its event.
	load := t.load()
	load.connections, load.measured = 1, 0
	if _, err := load.run(ctx); err != nil {
		return core.fail(err)
	}
	if err := w.readEvent(ctx); err != nil {
		return err
	}
	what := fmt.Sprintf("from a conversion's 201 to its event at %d/s", arrivalRate)
	got, err := w.takeTurns(ctx, what, t.timeEvents, w.yardstick(t.postAtRate))
	if err != nil {
		return core.fail(err)
	}
	const yardstickName = "one POST"
	w.compare("", what+", p50", yardstickName, "", got[0], got[1], p50, millis)
	w.compare("", "  p99", yardstickName, "", got[0], got[1], p99, millis)
	core.stop()
	return execute(ctx, w.database.url, "delete from webhook_endpoints")
}

func (t eventTimer) load() steady {
	return steady{
		address: t.core.address, connections: arrivalConnections, rate: arrivalRate, measured: arrivalRound, status: http.StatusCreated,
		request: t.shop.appendReport,
	}
}

// timeEvents reports conversions at a constant rate and measures the arrival of their
// events.
func (t eventTimer) timeEvents(ctx context.Context) (sample, error) {
	var mu sync.Mutex
	var parseErr error
	since := make(map[string]time.Time)
	load := t.load()
	load.onResponse = func(response []byte, at time.Time) {
		id, err := idAfter(response, responsePrefix)
		mu.Lock()
		defer mu.Unlock()
		since[id], parseErr = at, errors.Join(parseErr, err)
	}
	if _, err := load.run(ctx); err != nil || parseErr != nil {
		return sample{}, errors.Join(err, parseErr)
	}
	return t.events.latencies(ctx, since)
}

// postAtRate is the yardstick. It posts the body of one event, each time with a new
// conversion id, to the receiver at the rate at which timeEvents reports conversions.
func (t eventTimer) postAtRate(ctx context.Context) (sample, error) {
	client := newBareClient(t.credentials, arrivalConnections)
	defer client.close()
	copiedID, err := idAfter(t.body, eventPrefix)
	if err != nil {
		return sample{}, err
	}
	since := make(map[string]time.Time)
	began := time.Now()
	for n := range int((warmUp + arrivalRound).Seconds() * arrivalRate) {
		due := began.Add(time.Duration(n) * time.Second / arrivalRate)
		if err := sleep(ctx, time.Until(due)); err != nil {
			return sample{}, err
		}
		id := uuid.NewString()
		body := bytes.Replace(t.body, []byte(copiedID), []byte(id), 1)
		sent := time.Now()
		if err := client.post(ctx, t.events.url, affiliate.WireID(affiliate.NewID[affiliate.EventID](sent)), body); err != nil {
			return sample{}, err
		}
		if due.Sub(began) >= warmUp {
			since[id] = sent
		}
	}
	return t.events.latencies(ctx, since)
}

// idAfter returns the id that follows the first occurrence of prefix in a text.
func idAfter(text []byte, prefix string) (string, error) {
	const length = 36
	_, rest, ok := bytes.Cut(text, []byte(prefix))
	if !ok || len(rest) < length {
		return "", fmt.Errorf("no %s in %q", prefix, text)
	}
	return string(rest[:length]), nil
}

// registerEndpoint registers a webhook endpoint of the shop that subscribes to
// conversions.
func (w *webhooks) registerEndpoint(ctx context.Context, core *process, url string) error {
	api := service.API{Address: core.address}
	var merchant session
	err := api.Call(ctx, http.MethodPost, "/auth/merchant/login", "", object{
		"email": "merchant@example.com", "password": "a long enough password",
	}, &merchant)
	if err != nil {
		return err
	}
	var made object
	return api.Call(ctx, http.MethodPost, webhooksPath, merchant.AccessToken, object{
		"url": url, "subscriptions": []string{string(affiliate.EventConversionCreated)},
	}, &made)
}

// eventReceiver is a webhook receiver in this process. arrivedAt maps the id of each
// conversion to the time at which its event arrived.
type eventReceiver struct {
	url string

	mu        sync.Mutex
	arrivedAt map[string]time.Time
}

// serve serves until ctx ends.
func (h *eventReceiver) serve(ctx context.Context, creds *credentials) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h.url, h.arrivedAt = "https://"+listener.Addr().String()+"/webhooks", make(map[string]time.Time)
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{creds.pair}, MinVersion: tls.VersionTLS12},
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return nil
}

func (h *eventReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	at := time.Now()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := idAfter(body, eventPrefix)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.arrivedAt[id] = at
	h.mu.Unlock()
}

// missing returns the id of a conversion whose event has not arrived. found is false if
// all events have arrived.
func (h *eventReceiver) missing(ids map[string]time.Time) (id string, found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range ids {
		if h.arrivedAt[id].IsZero() {
			return id, true
		}
	}
	return "", false
}

// latencies waits for the events of all conversions in since, which maps the id of a
// conversion to the time of its response. It returns the quantiles of the time from the
// response to the event.
func (h *eventReceiver) latencies(ctx context.Context, since map[string]time.Time) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	for {
		id, found := h.missing(since)
		if !found {
			break
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return sample{}, fmt.Errorf("the event of conversion %s did not arrive: %w", id, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var took []time.Duration
	for id, at := range since {
		took = append(took, h.arrivedAt[id].Sub(at))
	}
	slices.Sort(took)
	return sample{rate: arrivalRate, p50: quantile(took, 0.5), p99: quantile(took, 0.99)}, nil
}
