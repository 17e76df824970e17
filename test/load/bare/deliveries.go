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

// arrivals has when each delivery came, in their order.
type arrivals struct {
	mu sync.Mutex
	at []time.Time
}

// serveDeliveries receives webhooks over TLS at endpoints. At address it tells of
// them without TLS.
func serveDeliveries(ctx context.Context, address, certificate, key string, endpoints []string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	var a arrivals
	telling := &http.Server{Handler: a.tell(), ReadHeaderTimeout: time.Minute}
	receiving := &http.Server{
		Handler: http.HandlerFunc(a.receive), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	end := func() { _ = errors.Join(telling.Close(), receiving.Close()) }
	defer end()
	defer context.AfterFunc(ctx, end)()
	ended := make(chan error, len(endpoints)+1)
	for _, endpoint := range endpoints {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", endpoint)
		if err != nil {
			return err
		}
		go func() { ended <- receiving.ServeTLS(listener, "", "") }()
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	go func() { ended <- telling.Serve(listener) }()
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
	a.at = append(a.at, at)
	a.mu.Unlock()
}

// tell answers GET /arrivals/{n} when n deliveries have come, with how long behind
// the first the n-th did and how many have come by now. DELETE /arrivals forgets
// them all.
func (a *arrivals) tell() http.Handler {
	const pause = time.Millisecond
	mux := http.NewServeMux()
	mux.HandleFunc("GET /arrivals/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil || n < 1 {
			http.NotFound(w, r)
			return
		}
		for {
			if behind, count, ok := a.nth(n); ok {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(struct {
					Behind time.Duration
					Count  int
				}{behind, count})
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
		a.at = a.at[:0]
		a.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET "+healthPath, health)
	return mux
}

func (a *arrivals) nth(n int) (behind time.Duration, count int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.at) < n {
		return 0, 0, false
	}
	return a.at[n-1].Sub(a.at[0]), len(a.at), true
}
