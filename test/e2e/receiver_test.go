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

// authority is a private one of this run: systems trust it for webhooks, and it has
// signed the certificate of every receiver.
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

// authorityFile is where a core finds the authority.
func authorityFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, authority().pem, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// receiver is a merchant's server: it keeps what it gets and answers by a script.
type receiver struct {
	url string

	mu     sync.Mutex
	script []int
	got    []received
}

// received is one request to a receiver.
type received struct {
	path   string
	header http.Header
	body   []byte
}

// receive runs a receiver until the test ends. It answers 204 until it is told
// otherwise.
func receive(t *testing.T) *receiver {
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

// answer lets the next requests be answered with these statuses, one each; the last
// one stands for all that follow.
func (r *receiver) answer(statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = statuses
}

// ServeHTTP is called for each request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // it broke off, and comes again
	}
	r.mu.Lock()
	r.got = append(r.got, received{req.URL.RequestURI(), req.Header.Clone(), body})
	status := http.StatusNoContent
	if len(r.script) > 0 {
		status = r.script[0]
	}
	if len(r.script) > 1 {
		r.script = r.script[1:]
	}
	r.mu.Unlock()
	w.Header().Set("Location", "/elsewhere") // where nobody may come along
	w.WriteHeader(status)
}

// requests are those so far.
func (r *receiver) requests() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// await waits until there are n requests, and returns them.
func (r *receiver) await(t *testing.T, n int) []received {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("the receiver gets %d requests", n), func() error {
		if got := len(r.requests()); got < n {
			return fmt.Errorf("it has %d", got)
		}
		return nil
	})
	return r.requests()
}

// verify ends the test unless the request is one of Standard Webhooks, signed with
// the secret; a system's clock may run ahead of the machine's. It returns the body.
func (r received) verify(t *testing.T, secret string) answer {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifyIgnoringTimestamp(r.body, r.header); err != nil {
		t.Fatalf("%v: %v\n%s", err, r.header, r.body)
	}
	event := answer{t: t, what: "webhook " + r.id(), status: http.StatusOK, header: r.header, body: string(r.body)}
	if event.text("id") != r.id() || !json.Valid(r.body) {
		t.Errorf("%s has the body %s", event.what, event.body)
	}
	return event
}

// signedWith reports whether one of the request's signatures is the secret's.
func (r received) signedWith(t *testing.T, secret string) bool {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return verifier.VerifyIgnoringTimestamp(r.body, r.header) == nil
}

func (r received) id() string { return r.header.Get("Webhook-Id") }

func (r received) signatures() int { return len(strings.Fields(r.header.Get("Webhook-Signature"))) }

// untrusted is the URL of a receiver with a certificate that the authority has not
// signed.
func untrusted(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/"
}
