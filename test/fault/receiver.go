package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// The receiver delays some responses by a random time of at most maxDelay. On average
	// it delays one of responsesPerDelay responses.
	responsesPerDelay = 20
	maxDelay          = 300 * time.Millisecond
	// largestBody is the maximum size of a body that the receiver reads. It is larger
	// than the largest event (affiliate.MaxBody).
	largestBody = 1 << 20
)

// endpoint is a webhook endpoint that a merchant has registered.
type endpoint struct {
	id       uuid.UUID
	merchant int
	// workspace is the merchant's workspace.
	workspace uuid.UUID
	// subscriptions contains the endpoint's subscriptions.
	subscriptions []string
	verify        *standardwebhooks.Webhook
}

// subscribesTo reports whether the endpoint subscribes to the event type.
func (e *endpoint) subscribesTo(eventType string) bool {
	noun, _, _ := strings.Cut(eventType, ".")
	return slices.ContainsFunc(e.subscriptions, func(s string) bool { return s == "*" || s == eventType || s == noun+".*" })
}

// arrival is one request that the receiver has received.
type arrival struct {
	// Endpoint is an index in receiver.endpoints, or -1 for an unknown path.
	Endpoint int               `json:"endpoint"`
	ID       string            `json:"webhook_id"`
	Attempt  string            `json:"webhook_attempt"`
	Type     string            `json:"type"`
	Body     [sha256.Size]byte `json:"-"`
	// External is the external transaction id of a conversion.created event.
	External string `json:"external,omitempty"`
	// Forged is the error if the signature is invalid or the body is not JSON.
	Forged string `json:"forged,omitempty"`
	// SenderKilled means that the sender was killed before it got the response.
	SenderKilled bool `json:"-"`
	// At is the time of arrival in Unix milliseconds.
	At int64 `json:"at"`
}

// receiver is an HTTPS server on the loopback interface that receives the webhooks of all
// merchants. It stores all requests and responds with 204. Some responses are delayed. It
// is never stopped during the storm.
type receiver struct {
	server *http.Server
	url    string
	// history receives every arrival after setWorkspaces was called.
	history *recorder

	mu        sync.Mutex
	endpoints []endpoint
	arrivals  []arrival
	// held contains the indexes of the arrivals whose responses are not sent until gate
	// is closed. gate is nil if the receiver does not hold responses.
	held []int
	gate chan struct{}
	// heldSignal receives a value when a response is held.
	heldSignal chan struct{}
}

// startReceiver starts a receiver. It creates a certificate authority and writes the
// certificate of the authority to a file. The receiver uses a certificate that the
// authority has signed.
func startReceiver(ctx context.Context, authorityPath string) (*receiver, error) {
	root, certificate, err := newCertificate()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(authorityPath, root, 0o600); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "https://" + listener.Addr().String() + "/", heldSignal: make(chan struct{}, 1)}
	r.server = &http.Server{
		Handler: r, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), // a sender that is killed closes its connections early
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = r.server.ServeTLS(listener, "", "") }() // ends when the server is closed
	return r, nil
}

// newCertificate creates an authority and a certificate for 127.0.0.1 that the authority
// signed.
func newCertificate() (authority []byte, certificate tls.Certificate, err error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, certificate, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, certificate, err
	}
	from, until := time.Now().Add(-time.Hour), time.Now().Add(7*24*time.Hour)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "storm"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "receiver"}, NotBefore: from, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signedRoot, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return nil, certificate, err
	}
	signedLeaf, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), rootKey)
	if err != nil {
		return nil, certificate, err
	}
	authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signedRoot})
	return authority, tls.Certificate{Certificate: [][]byte{signedLeaf}, PrivateKey: key}, nil
}

// nextURL returns the URL of the next endpoint that addEndpoint adds.
func (r *receiver) nextURL() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.url + strconv.Itoa(len(r.endpoints))
}

// addEndpoint adds an endpoint with its signing secret.
func (r *receiver) addEndpoint(e endpoint, secret string) error {
	verify, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	e.verify = verify
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoints = append(r.endpoints, e)
	return nil
}

// setWorkspaces sets the workspace of each endpoint, and the history to which arrivals
// are written.
func (r *receiver) setWorkspaces(targets []target, history *recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = history
	for n := range r.endpoints {
		for _, t := range targets {
			if t.merchant == r.endpoints[n].merchant {
				r.endpoints[n].workspace = t.workspace
			}
		}
	}
}

// ServeHTTP stores one request. It accepts every request, because the checker reports
// invalid requests.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(io.LimitReader(request.Body, largestBody))
	if err != nil {
		return // the sender was killed before it sent the whole request
	}
	if gate := r.record(request, body); gate != nil {
		<-gate
	} else if mathrand.IntN(responsesPerDelay) == 0 { // #nosec G404 -- not for security
		time.Sleep(mathrand.N(maxDelay)) // #nosec G404 -- not for security
	}
	w.WriteHeader(http.StatusNoContent)
}

// record stores an arrival. If the response must be held, record returns a channel that
// is closed when the response may be sent.
func (r *receiver) record(request *http.Request, body []byte) <-chan struct{} {
	a := arrival{
		Endpoint: -1, ID: request.Header.Get("Webhook-Id"), Attempt: request.Header.Get("Webhook-Attempt"),
		Body: sha256.Sum256(body), At: time.Now().UnixMilli(),
	}
	var event struct {
		Type string `json:"type"`
		Data struct {
			Object struct {
				External string `json:"external_transaction_id"`
			} `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		a.Forged = "body: " + err.Error()
	}
	if a.Type = event.Type; a.Type == conversionCreated {
		a.External = event.Data.Object.External
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, err := strconv.Atoi(strings.TrimPrefix(request.URL.Path, "/")); err == nil && n >= 0 && n < len(r.endpoints) {
		a.Endpoint = n
		if err := r.endpoints[n].verify.Verify(body, request.Header); err != nil {
			a.Forged = err.Error()
		}
	}
	r.arrivals = append(r.arrivals, a)
	if r.history != nil {
		r.history.addArrival(a)
	}
	if r.gate == nil {
		return nil
	}
	r.held = append(r.held, len(r.arrivals)-1)
	select {
	case r.heldSignal <- struct{}{}:
	default:
	}
	return r.gate
}

// hold delays all responses until release is called. The returned channel receives a
// value when a response is held.
func (r *receiver) hold() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
	select {
	case <-r.heldSignal: // a value from an earlier call of hold
	default:
	}
	return r.heldSignal
}

// release sends the held responses. senderKilled reports that the core that waits for
// these responses was killed.
func (r *receiver) release(senderKilled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.held {
		r.arrivals[n].SenderKilled = senderKilled
	}
	close(r.gate)
	r.gate, r.held = nil, nil
}

// received returns the endpoints and all arrivals.
func (r *receiver) received() ([]endpoint, []arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.endpoints), slices.Clone(r.arrivals)
}

// stop closes the receiver.
func (r *receiver) stop() error {
	if r == nil {
		return nil
	}
	if err := r.server.Close(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
