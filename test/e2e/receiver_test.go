package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// authority returns the certificate of a certificate authority, and the certificate that
// all receivers use. The authority has signed the certificate of the receivers. Systems
// trust the authority when they send webhooks. The first call creates both certificates.
var authority = sync.OnceValue(func() (a struct {
	pem      []byte
	receiver tls.Certificate
},
) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	sign := func(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		if parentKey == nil { // the certificate signs itself
			parentKey = key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
		must(err)
		return der, key
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, key := sign(root, root, nil)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	leaf, leafKey := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "receiver"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, root, key)
	a.receiver = tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: leafKey}
	return a
})

// authorityFile writes the certificate of the authority to a file and returns its path.
func authorityFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, authority().pem, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// receiver is a merchant's server that receives webhooks. It stores the requests and
// responds with the statuses that the test sets.
type receiver struct {
	url string

	mu       sync.Mutex
	statuses []int
	received []webhookRequest
}

// webhookRequest is one request to a receiver.
type webhookRequest struct {
	path   string
	header http.Header
	body   []byte
}

// startReceiver starts a receiver that stops when the test ends. It responds with 204
// until respondWith is called.
func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewUnstartedServer(r)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{authority().receiver}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	r.url = server.URL + "/hook"
	return r
}

// respondWith sets the statuses of the next responses. The last status applies to all
// later responses.
func (r *receiver) respondWith(statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses = statuses
}

// ServeHTTP stores the request and responds with the next status.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the request was interrupted; the sender sends it again
	}
	r.mu.Lock()
	r.received = append(r.received, webhookRequest{req.URL.RequestURI(), req.Header.Clone(), body})
	status := http.StatusNoContent
	if len(r.statuses) > 0 {
		status = r.statuses[0]
	}
	if len(r.statuses) > 1 {
		r.statuses = r.statuses[1:]
	}
	r.mu.Unlock()
	w.Header().Set("Location", "/elsewhere") // senders must not follow redirects
	w.WriteHeader(status)
}

// requests returns all requests that the receiver has received.
func (r *receiver) requests() []webhookRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.received)
}

// awaitRequests waits until the receiver has received n requests, and returns all
// requests.
func (r *receiver) awaitRequests(t *testing.T, n int) []webhookRequest {
	t.Helper()
	eventually(t, waitTimeout, fmt.Sprintf("the receiver gets %d requests", n), func() error {
		if got := len(r.requests()); got < n {
			return fmt.Errorf("it has received %d", got)
		}
		return nil
	})
	return r.requests()
}

// verify checks that the request follows the Standard Webhooks specification and is
// signed with the secret. It returns the body as a response, so that the test can check
// its fields. It ignores the timestamp, because the system's clock may differ from the
// machine's clock.
func (r webhookRequest) verify(t *testing.T, secret string) response {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifyIgnoringTimestamp(r.body, r.header); err != nil {
		t.Fatalf("the webhook cannot be verified: %v\nheaders %v\nbody %s", err, r.header, r.body)
	}
	event := response{t: t, request: "webhook " + r.id(), status: http.StatusOK, header: r.header, body: string(r.body)}
	if event.text("id") != r.id() || !json.Valid(r.body) {
		t.Errorf("%s has the body %s, want JSON with the same id", event.request, event.body)
	}
	return event
}

// isSignedWith reports whether one of the signatures of the request was created with the
// secret.
func (r webhookRequest) isSignedWith(t *testing.T, secret string) bool {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return verifier.VerifyIgnoringTimestamp(r.body, r.header) == nil
}

func (r webhookRequest) id() string { return r.header.Get("Webhook-Id") }

func (r webhookRequest) signatureCount() int {
	return len(strings.Fields(r.header.Get("Webhook-Signature")))
}

// startUntrustedReceiver starts a receiver with a certificate that the authority has not
// signed. It returns the URL of the receiver.
func startUntrustedReceiver(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/"
}
