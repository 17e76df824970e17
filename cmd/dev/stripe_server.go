package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// stripeServerCommand is the hidden command of the process that simulates Stripe. `dev run` does not simulate Stripe
// in its own process, because stripe-mock prints each request to the standard output.
const stripeServerCommand = "stripe-server"

const (
	// stripeListenerFile is the file descriptor of the listener that the process inherits.
	stripeListenerFile = 3
	// maxTriggerBytes is the maximum size of the body of a request to the demo's paths.
	maxTriggerBytes = 16 << 10
)

// The paths of the demo, in addition to the paths of package stripeserver.
const (
	// stripeSecretPath returns the signing secret of the webhook endpoint that has the URL in the request. Stripe
	// shows the secret only once, in the response to the service when the service registers the endpoint.
	stripeSecretPath = "/_demo/secret"
	// stripeTriggerPath makes the objects of a stripeTrigger and returns a stripeEvent.
	stripeTriggerPath = "/_demo/trigger"
)

// serveStripe serves the stand-in for Stripe until ctx ends or the parent process has ended. The reader parent is the
// standard input. The parent process holds the other end of this pipe.
func serveStripe(ctx context.Context, parent io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, parent)
		cancel()
	}()
	file := os.NewFile(stripeListenerFile, "listener")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("only make run uses the command %s: %w", stripeServerCommand, err)
	}
	_ = file.Close() // listener has a copy
	stripe, err := stripeserver.New()
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           &stripeHandler{server: stripe, host: listener.Addr().String()},
		ReadHeaderTimeout: 10 * time.Second,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stripeHandler serves the paths of the demo and, for all other paths, the stand-in for
// Stripe.
type stripeHandler struct {
	server *stripeserver.Server
	host   string // host and port of the listener
}

func (h *stripeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case stripeSecretPath:
		var endpoint struct {
			URL string `json:"url"`
		}
		if h.read(w, r, &endpoint) {
			h.serveSecret(w, endpoint.URL)
		}
	case stripeTriggerPath:
		var trigger stripeTrigger
		if !h.read(w, r, &trigger) {
			return
		}
		event, err := trigger.makeEvent(h.server)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		writeJSON(w, event)
	default:
		h.server.ServeHTTP(w, r)
	}
}

// read decodes the body of a request to a path of the demo. If it returns false, it has written an error response.
// It rejects requests that a website can make a browser send. The content type must be JSON, because a browser sends
// some other types without a preflight request. The Host header must have the address of the listener, because
// with DNS rebinding a browser sends requests for the host of a website to this machine.
func (h *stripeHandler) read(w http.ResponseWriter, r *http.Request, value any) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Host != h.host:
		http.Error(w, "The Host header must be "+h.host+".", http.StatusForbidden)
	case r.Method != http.MethodPost:
		http.Error(w, "The method must be POST.", http.StatusMethodNotAllowed)
	case err != nil || kind != "application/json":
		http.Error(w, "The content type must be application/json.", http.StatusUnsupportedMediaType)
	case json.NewDecoder(http.MaxBytesReader(w, r.Body, maxTriggerBytes)).Decode(value) != nil:
		http.Error(w, "The body is not a valid JSON object.", http.StatusBadRequest)
	default:
		return true
	}
	return false
}

func (h *stripeHandler) serveSecret(w http.ResponseWriter, url string) {
	for _, endpoint := range h.server.Endpoints() {
		if endpoint.URL == url {
			writeJSON(w, stripeSecret{Secret: endpoint.Secret})
			return
		}
	}
	http.Error(w, "No webhook endpoint has this URL.", http.StatusNotFound)
}

// stripeSecret is the response of stripeSecretPath.
type stripeSecret struct {
	Secret string `json:"secret"`
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // an error means that the client has disconnected
}
