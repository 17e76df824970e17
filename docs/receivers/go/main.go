// Command go is an example of a webhook receiver. It verifies a delivery, stores its event
// and responds. The variable WEBHOOK_SECRET is the signing secret of the endpoint. The
// command listens on the port PORT of 127.0.0.1; a proxy in front of it provides TLS.
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

// maxBody is the size of the largest body that is read. An event has at most 20 kB.
const maxBody = 64 << 10

// receiver responds with 204 to genuine deliveries and with 400 to all others. If the event
// cannot be stored it responds with 503, so that the service sends it again.
func receiver(secret string, store func(id string, event []byte) error) (http.Handler, error) {
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	// Replace this by an insert into a table with the unique key webhook-id. An event that
	// exists already is no error. Process events from the table, after the response.
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
