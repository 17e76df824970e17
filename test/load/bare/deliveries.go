package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// arrivals contains the times at which deliveries arrived, in ascending order.
type arrivals struct {
	mu    sync.Mutex
	times []time.Time
}

// serveDeliveries receives webhooks over TLS at the given endpoint addresses. At
// queryAddress it serves the arrival times of the webhooks, without TLS.
func serveDeliveries(ctx context.Context, queryAddress, certificate, key string, endpoints []string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	var a arrivals
	queries := &http.Server{Handler: a.handler(), ReadHeaderTimeout: time.Minute}
	webhooks := &http.Server{
		Handler: http.HandlerFunc(a.receive), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	end := func() { _ = errors.Join(queries.Close(), webhooks.Close()) }
	defer end()
	defer context.AfterFunc(ctx, end)()
	ended := make(chan error, len(endpoints)+1)
	for _, endpoint := range endpoints {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", endpoint)
		if err != nil {
			return err
		}
		go func() { ended <- webhooks.ServeTLS(listener, "", "") }()
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", queryAddress)
	if err != nil {
		return err
	}
	go func() { ended <- queries.Serve(listener) }()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (a *arrivals) receive(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	at := time.Now()
	a.mu.Lock()
	a.times = append(a.times, at)
	a.mu.Unlock()
}

// handler returns the handler of the arrival times. GET /arrivals/{n} waits until n
// deliveries have arrived. It returns the time from the first to the n-th delivery, and
// the number of deliveries at the time of the response. DELETE /arrivals deletes all
// recorded arrivals.
func (a *arrivals) handler() http.Handler {
	const pause = time.Millisecond
	mux := http.NewServeMux()
	mux.HandleFunc("GET /arrivals/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil || n < 1 {
			http.NotFound(w, r)
			return
		}
		for {
			if sinceFirst, count, ok := a.nth(n); ok {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(struct {
					SinceFirst time.Duration
					Count      int
				}{sinceFirst, count})
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(pause):
			}
		}
	})
	mux.HandleFunc("DELETE /arrivals", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		a.times = a.times[:0]
		a.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET "+healthPath, health)
	return mux
}

func (a *arrivals) nth(n int) (sinceFirst time.Duration, count int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.times) < n {
		return 0, 0, false
	}
	return a.times[n-1].Sub(a.times[0]), len(a.times), true
}
