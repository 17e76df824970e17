// Command bare is a minimal HTTP server. The benchmarks compare the servers of the
// service with it:
//
//	bare ADDRESS RESPONSE
//	bare ADDRESS deliveries CERTIFICATE KEY ENDPOINT...
//
// In the first form it reads each click and returns RESPONSE with a new click id.
// RESPONSE is a response of the collector. The health route returns JSON from
// encoding/json.
//
// In the second form it receives webhooks over TLS at each ENDPOINT and immediately
// returns 200. At ADDRESS it serves the times at which the webhooks arrived.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// idLength is the length of a UUID in text form.
const idLength = 36

const healthPath = "/api/v1/health"

func main() {
	deliveries := len(os.Args) > 5 && os.Args[2] == "deliveries"
	if len(os.Args) != 3 && !deliveries {
		fmt.Fprintln(os.Stderr, "usage: bare ADDRESS RESPONSE\n       bare ADDRESS deliveries CERTIFICATE KEY ENDPOINT...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if deliveries {
		err = serveDeliveries(ctx, os.Args[1], os.Args[3], os.Args[4], os.Args[5:])
	} else {
		err = serve(ctx, os.Args[1], os.Args[2])
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address, response string) error {
	const before = `"click_id":"`
	at := strings.Index(response, before) + len(before)
	if at < len(before) || len(response) < at+idLength {
		return fmt.Errorf("no click_id in the response %q", response)
	}
	head, tail := response[:at], response[at+idLength:]

	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/clicks", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id := affiliate.NewID[affiliate.ClickID](time.Now())
		text := make([]byte, 0, len(response))
		text = append(append(append(text, head...), id.String()...), tail...)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(text)
	})
	mux.HandleFunc("GET "+healthPath, health)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		Status string `json:"status"`
	}{"ok"})
}
