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

	// What stands before the id in the answer to a report, and in the event of it.
	answerHead = `{"id":"`
	objectHead = `"object":{"id":"`
)

// told follows conversions from their 201 to the arrival of their event.
type told struct {
	*webhooks
	core  *process
	heard *heard
}

// measureArrival makes the rows of the way from a conversion's 201 to its event,
// and keeps the body of one for the rows that follow.
func (w *webhooks) measureArrival(ctx context.Context) error {
	core, err := w.startCore(ctx, w.database, w.as.settings()...)
	if err != nil {
		return err
	}
	defer core.stop()
	listening, stop := context.WithCancel(ctx)
	defer stop()
	t := told{webhooks: w, core: core, heard: &heard{}}
	if err := t.heard.listen(listening, w.as); err != nil {
		return err
	}
	if err := w.register(ctx, core, t.heard.url); err != nil {
		return core.fail(err)
	}
	// One through the front door shows what the bare client has to post.
	load := t.load()
	load.connections, load.measured = 1, 0
	if _, err := load.run(ctx); err != nil {
		return core.fail(err)
	}
	if err := w.readEvent(ctx); err != nil {
		return err
	}
	what := fmt.Sprintf("from a conversion's 201 to its event at %d/s", arrivalRate)
	got, err := w.takeTurns(ctx, what, t.follow, w.yardstick(t.post))
	if err != nil {
		return core.fail(err)
	}
	const yardstick = "one POST"
	w.compare("", what+", p50", yardstick, "", got[0], got[1], p50, millis)
	w.compare("", "  p99", yardstick, "", got[0], got[1], p99, millis)
	core.stop()
	return execute(ctx, w.database.url, "delete from webhook_endpoints")
}

func (t told) load() steady {
	return steady{
		address: t.core.address, connections: arrivalConnections, rate: arrivalRate, measured: arrivalRound, status: http.StatusCreated,
		request: t.shop.request,
	}
}

// follow reports conversions at a constant rate.
func (t told) follow(ctx context.Context) (sample, error) {
	var mu sync.Mutex
	var odd error
	since := make(map[string]time.Time)
	load := t.load()
	load.answered = func(answer []byte, at time.Time) {
		id, err := idBehind(answer, answerHead)
		mu.Lock()
		defer mu.Unlock()
		since[id], odd = at, errors.Join(odd, err)
	}
	if _, err := load.run(ctx); err != nil || odd != nil {
		return sample{}, errors.Join(err, odd)
	}
	return t.heard.took(ctx, since)
}

// post is the yardstick: the same body to the same receiver, at the same rate.
func (t told) post(ctx context.Context) (sample, error) {
	client := newBareClient(t.as, arrivalConnections)
	defer client.close()
	like, err := idBehind(t.body, objectHead)
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
		body := bytes.Replace(t.body, []byte(like), []byte(id), 1)
		sent := time.Now()
		if err := client.post(ctx, t.heard.url, affiliate.WireID(affiliate.NewID[affiliate.Event](sent)), body); err != nil {
			return sample{}, err
		}
		if due.Sub(began) >= warmUp {
			since[id] = sent
		}
	}
	return t.heard.took(ctx, since)
}

// idBehind is the id that follows a text.
func idBehind(text []byte, before string) (string, error) {
	const length = 36
	_, rest, ok := bytes.Cut(text, []byte(before))
	if !ok || len(rest) < length {
		return "", fmt.Errorf("no %s in %q", before, text)
	}
	return string(rest[:length]), nil
}

// register makes an endpoint of the shop's that follows conversions.
func (w *webhooks) register(ctx context.Context, core *process, url string) error {
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

// heard receives in this process, and keeps when what each delivery tells of came,
// by its id.
type heard struct {
	url string

	mu sync.Mutex
	at map[string]time.Time
}

// listen serves until ctx ends.
func (h *heard) listen(ctx context.Context, as *credentials) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h.url, h.at = "https://"+listener.Addr().String()+"/webhooks", make(map[string]time.Time)
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{as.pair}, MinVersion: tls.VersionTLS12},
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return nil
}

func (h *heard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	at := time.Now()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := idBehind(body, objectHead)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.at[id] = at
	h.mu.Unlock()
}

// missing tells whether one of these has not come.
func (h *heard) missing(ids map[string]time.Time) (id string, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range ids {
		if h.at[id].IsZero() {
			return id, true
		}
	}
	return "", false
}

// took is how long each took from when it is counted to its arrival; it waits for
// the last.
func (h *heard) took(ctx context.Context, since map[string]time.Time) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		id, is := h.missing(since)
		if !is {
			break
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return sample{}, fmt.Errorf("the event of conversion %s does not arrive: %w", id, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var took []time.Duration
	for id, at := range since {
		took = append(took, h.at[id].Sub(at))
	}
	slices.Sort(took)
	return sample{rate: arrivalRate, p50: quantile(took, 0.5), p99: quantile(took, 0.99)}, nil
}
