package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

// credentials contains a self-signed certificate for 127.0.0.1 that is created for this
// run. The clients of a receiver trust it.
type credentials struct {
	pair tls.Certificate
	pool *x509.CertPool
	// certificate and key are the names of PEM files with the same content.
	certificate, key string
}

func (b *bench) newCredentials() (*credentials, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Tributary make bench"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	c := &credentials{pool: x509.NewCertPool(), certificate: b.file("receiver.pem"), key: b.file("receiver.key")}
	err = errors.Join(
		os.WriteFile(c.certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600),
	)
	if err != nil {
		return nil, err
	}
	if c.pair, err = tls.LoadX509KeyPair(c.certificate, c.key); err != nil {
		return nil, err
	}
	c.pool.AddCert(c.pair.Leaf)
	return c, nil
}

// settings returns the settings with which a core can send to receivers on this machine.
func (c *credentials) settings() []string {
	return []string{"TRIBUTARY_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8", "TRIBUTARY_WEBHOOK_CA_FILE=" + c.certificate}
}

// receiver is the process that receives the deliveries, test/load/bare.
type receiver struct {
	*process
	urls []string
}

// startReceiver starts a receiver with a number of endpoints. Each endpoint has its own
// port, because real endpoints are on different hosts. The sender limits the number of
// persistent connections per host and port, so endpoints with the same port would share
// these connections.
func (b *bench) startReceiver(ctx context.Context, creds *credentials, endpoints int) (*receiver, error) {
	addresses, err := servers.FreeAddresses(1 + endpoints)
	if err != nil {
		return nil, err
	}
	argv := append([]string{b.file("bare"), addresses[0], "deliveries", creds.certificate, creds.key}, addresses[1:]...)
	p, err := b.start(ctx, "receiver", addresses[0], nil, argv...)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, healthPath); err != nil {
		p.stop()
		return nil, err
	}
	r := &receiver{process: p}
	for _, address := range addresses[1:] {
		r.urls = append(r.urls, "https://"+address+"/webhooks")
	}
	return r, nil
}

// arrival is a response of the receiver about one delivery. SinceFirst is the time from
// the first delivery to this delivery. Count is the number of deliveries that had arrived
// when the receiver sent the response.
type arrival struct {
	SinceFirst time.Duration
	Count      int
}

// await returns when n deliveries have arrived.
func (r *receiver) await(ctx context.Context, n int) (a arrival, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	response, err := r.call(ctx, http.MethodGet, "/arrivals/"+strconv.Itoa(n))
	if err != nil {
		return a, fmt.Errorf("delivery %d did not arrive: %w", n, err)
	}
	defer func() { _ = response.Body.Close() }()
	return a, json.NewDecoder(response.Body).Decode(&a)
}

// reset deletes the recorded arrivals, so that the next delivery is the first.
func (r *receiver) reset(ctx context.Context) error {
	response, err := r.call(ctx, http.MethodDelete, "/arrivals")
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (r *receiver) call(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+r.address+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// measure measures the deliveries after the first warmUpCount deliveries, until
// totalCount deliveries have arrived. It returns their rate and the CPU time of the given
// process per delivery.
func (r *receiver) measure(ctx context.Context, pid, warmUpCount, totalCount int) (sample, error) {
	first, err := r.await(ctx, warmUpCount)
	if err != nil {
		return sample{}, err
	}
	before, err := cpuTime(pid)
	if err != nil {
		return sample{}, err
	}
	last, err := r.await(ctx, totalCount)
	if err != nil {
		return sample{}, err
	}
	after, err := cpuTime(pid)
	return sample{
		rate: float64(totalCount-warmUpCount) / (last.SinceFirst - first.SinceFirst).Seconds(),
		cpu:  (after - before) / time.Duration(max(1, last.Count-first.Count)),
	}, err
}
