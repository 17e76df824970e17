// Command go is an example of a receiver of webhooks: it verifies, answers at once
// and hands on. WEBHOOK_SECRET is the endpoint's signing secret, PORT where it listens
// on 127.0.0.1. TLS is ended by the proxy before it.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// maxBody bounds what is read; an event has 20 kB at most.
const maxBody = 64 << 10

// receiver answers 204 to what the service signed, 400 to all else.
func receiver(secret string, store func(id string, event []byte) error) (http.Handler, error) {
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The bytes as they came: a body that was decoded and encoded again is another.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil || webhook.Verify(body, r.Header) != nil {
			http.Error(w, "not verified", http.StatusBadRequest)
			return
		}
		if err := store(r.Header.Get("webhook-id"), body); err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}), nil
}

func main() {
	// In place of a table with webhook-id as its key: what is there already stays as
	// it is, and a worker takes events from it.
	store := func(id string, event []byte) error {
		_, err := fmt.Println(id, string(event))
		return err
	}
	handler, err := receiver(os.Getenv("WEBHOOK_SECRET"), store)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT")) //nolint:noctx // binds and returns at once
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
