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

// authority is a certificate authority that is created for this run. Systems trust it
// for webhooks, and it signs the certificate of every receiver.
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
	sign := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		if by == nil {
			by = key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
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

// authorityFile writes the authority to a file and returns its name.
func authorityFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, authority().pem, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// receiver is a merchant's server. It stores its requests and returns scripted statuses.
type receiver struct {
	url string

	mu       sync.Mutex
	script   []int
	received []webhookRequest
}

// webhookRequest is one request to a receiver.
type webhookRequest struct {
	path   string
	header http.Header
	body   []byte
}

// startReceiver starts a receiver that stops when the test ends. It returns 204 until
// answer is called.
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

// respondWith sets the statuses of the next responses. The last one applies to all later
// responses.
func (r *receiver) respondWith(statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = statuses
}

// ServeHTTP stores a request and returns the next status.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the request was cut off; the sender repeats it
	}
	r.mu.Lock()
	r.received = append(r.received, webhookRequest{req.URL.RequestURI(), req.Header.Clone(), body})
	status := http.StatusNoContent
	if len(r.script) > 0 {
		status = r.script[0]
	}
	if len(r.script) > 1 {
		r.script = r.script[1:]
	}
	r.mu.Unlock()
	w.Header().Set("Location", "/elsewhere") // a redirect that senders must not follow
	w.WriteHeader(status)
}

// requests returns all requests that the receiver got.
func (r *receiver) requests() []webhookRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.received)
}

// await waits until the receiver has got n requests, and returns them.
func (r *receiver) await(t *testing.T, n int) []webhookRequest {
	t.Helper()
	eventually(t, waitTimeout, fmt.Sprintf("the receiver gets %d requests", n), func() error {
		if got := len(r.requests()); got < n {
			return fmt.Errorf("it got %d", got)
		}
		return nil
	})
	return r.requests()
}

// verify ends the test if the request does not follow Standard Webhooks or is not signed
// with the secret. It ignores the timestamp, because a system's clock may differ from
// the machine's. It returns the body.
func (r webhookRequest) verify(t *testing.T, secret string) response {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifyIgnoringTimestamp(r.body, r.header); err != nil {
		t.Fatalf("%v: %v\n%s", err, r.header, r.body)
	}
	event := response{t: t, request: "webhook " + r.id(), status: http.StatusOK, header: r.header, body: string(r.body)}
	if event.text("id") != r.id() || !json.Valid(r.body) {
		t.Errorf("%s has the body %s", event.request, event.body)
	}
	return event
}

// signedWith reports whether one of the request's signatures was made with the secret.
func (r webhookRequest) signedWith(t *testing.T, secret string) bool {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return verifier.VerifyIgnoringTimestamp(r.body, r.header) == nil
}

func (r webhookRequest) id() string { return r.header.Get("Webhook-Id") }

func (r webhookRequest) signatures() int {
	return len(strings.Fields(r.header.Get("Webhook-Signature")))
}

// startUntrustedReceiver starts a receiver whose certificate is not signed by the
// authority, and returns its URL.
func startUntrustedReceiver(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/"
}
