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
	// Of this many answers one is late, by at most lateBy.
	oneLateOf = 20
	lateBy    = 300 * time.Millisecond
	// largestBody is more than any event has (DECISIONS.md section 9: 20 kB).
	largestBody = 1 << 20
)

// endpoint is one that a merchant has registered at the receiver.
type endpoint struct {
	id       uuid.UUID
	merchant int
	// workspace is the merchant's.
	workspace uuid.UUID
	// follows are its subscriptions.
	follows []string
	verify  *standardwebhooks.Webhook
}

// follow says that events of a type are for the endpoint.
func (e *endpoint) follow(eventType string) bool {
	noun, _, _ := strings.Cut(eventType, ".")
	return slices.ContainsFunc(e.follows, func(to string) bool { return to == "*" || to == eventType || to == noun+".*" })
}

// arrival is one request that the receiver got.
type arrival struct {
	// Endpoint is an index; -1: there is none at that path.
	Endpoint int               `json:"endpoint"`
	ID       string            `json:"webhook_id"`
	Attempt  string            `json:"webhook_attempt"`
	Type     string            `json:"type"`
	Body     [sha256.Size]byte `json:"-"`
	// External is the transaction of a conversion.created.
	External string `json:"external,omitempty"`
	// Forged says what is wrong with the signature.
	Forged string `json:"forged,omitempty"`
	// Unheard: the sender was killed before the answer.
	Unheard bool `json:"-"`
	// At is Unix milliseconds.
	At int64 `json:"at"`
}

// receiver is the webhook receiver of all merchants: HTTPS on the loopback, alive
// all the time. It keeps what it gets and answers 204, now and then late.
type receiver struct {
	server *http.Server
	url    string
	// history is told of every arrival, once there is one.
	history *recorder

	mu        sync.Mutex
	endpoints []endpoint
	arrivals  []arrival
	// held are arrivals that wait for their answer until gate is closed; gate is nil
	// unless the receiver holds.
	held []int
	gate chan struct{}
	// caught is told when something is held.
	caught chan struct{}
}

// startReceiver starts one whose certificate an authority has signed that is made
// for it and written to a file.
func startReceiver(ctx context.Context, authority string) (*receiver, error) {
	root, certificate, err := certify()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(authority, root, 0o600); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "https://" + listener.Addr().String() + "/", caught: make(chan struct{}, 1)}
	r.server = &http.Server{
		Handler: r, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), // killed senders break off
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = r.server.ServeTLS(listener, "", "") }() // until it is closed
	return r, nil
}

// certify makes an authority and a certificate for 127.0.0.1 that it has signed.
func certify() (authority []byte, certificate tls.Certificate, err error) {
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

// next is the URL of the endpoint that open opens next.
func (r *receiver) next() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.url + strconv.Itoa(len(r.endpoints))
}

// open makes an endpoint known, with the secret that signs for it.
func (r *receiver) open(e endpoint, secret string) error {
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

// enroll tells whose endpoints are of which workspace, and where arrivals are
// written.
func (r *receiver) enroll(targets []target, history *recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = history
	for n := range r.endpoints {
		for _, to := range targets {
			if to.merchant == r.endpoints[n].merchant {
				r.endpoints[n].workspace = to.workspace
			}
		}
	}
}

// ServeHTTP takes one request, whatever it is: what is wrong with it is for the
// checker.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(io.LimitReader(request.Body, largestBody))
	if err != nil {
		return // the sender was killed while it sent; it has not told us anything
	}
	if gate := r.note(request, body); gate != nil {
		<-gate
	} else if mathrand.IntN(oneLateOf) == 0 { // #nosec G404 -- who is late
		time.Sleep(mathrand.N(lateBy)) // #nosec G404 -- how late
	}
	w.WriteHeader(http.StatusNoContent)
}

// note writes an arrival down, and returns what its answer has to wait for.
func (r *receiver) note(request *http.Request, body []byte) <-chan struct{} {
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
		a.Forged = "the body: " + err.Error()
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
		r.history.arrived(a)
	}
	if r.gate == nil {
		return nil
	}
	r.held = append(r.held, len(r.arrivals)-1)
	select {
	case r.caught <- struct{}{}:
	default:
	}
	return r.gate
}

// hold lets answers wait until release. The channel tells that some do.
func (r *receiver) hold() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
	select {
	case <-r.caught: // of the time before
	default:
	}
	return r.caught
}

// release gives the answers that wait. Unheard: their sender has been killed.
func (r *receiver) release(unheard bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.held {
		r.arrivals[n].Unheard = unheard
	}
	close(r.gate)
	r.gate, r.held = nil, nil
}

// received is what arrived so far, and where.
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
