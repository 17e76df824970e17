package clickstream_test

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/test/authority"
)

// localhost replaces the address in a URL by the other name of this host.
func localhost(url string) string { return strings.ReplaceAll(url, "127.0.0.1", "localhost") }

// use sends commands with a new client. On a Cluster, the keys are on all three nodes.
func use(t *testing.T, endpoint clickstream.Endpoint) error {
	t.Helper()
	return set(t, connect(t, endpoint))
}

func set(t *testing.T, client redis.UniversalClient) error {
	t.Helper()
	var errs []error
	for _, key := range []string{"a", "b", "c"} {
		errs = append(errs, client.Set(t.Context(), key, "", 0).Err())
	}
	return errors.Join(errs...)
}

// checkRefused checks that err is about an invalid certificate.
func checkRefused(t *testing.T, name string, err error, reason string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%s: got the error %v, want an error with %q and without the password", name, err, reason)
	}
}

const (
	unknownAuthority = "certificate signed by unknown authority"
	withoutAddress   = "cannot validate certificate for 127.0.0.1"
)

func TestTLS_SingleServer(t *testing.T) {
	t.Parallel()
	ca, other := authority.New(t), authority.New(t)
	server := redistest.StartWith(t, redistest.Config{Authority: ca, Hosts: []string{"localhost"}})
	url := strings.Replace(server.URL, "rediss://", "rediss://default:hunter2@", 1)
	withoutPassword := localhost(server.URL)
	if err := use(t, clickstream.Endpoint{URL: withoutPassword, Roots: ca.Pool}); err != nil {
		t.Error(err)
	}
	checkRefused(t, "another address", use(t, clickstream.Endpoint{URL: url, Roots: ca.Pool}), withoutAddress)
	checkRefused(t, "another authority", use(t, clickstream.Endpoint{URL: localhost(url), Roots: other.Pool}), unknownAuthority)
	checkRefused(t, "authorities of the system", use(t, clickstream.Endpoint{URL: localhost(url)}), unknownAuthority)
	if err := use(t, clickstream.Endpoint{URL: strings.Replace(withoutPassword, "rediss:", "redis:", 1)}); err == nil {
		t.Error("the server accepts connections without TLS")
	}
	server.Renew(ca, "127.0.0.1")
	if err := use(t, clickstream.Endpoint{URL: server.URL, Roots: ca.Pool}); err != nil {
		t.Error("the certificate with the address:", err)
	}
}

// The certificates of the sentinels and of Redis are for different hosts.
func TestTLS_Sentinel(t *testing.T) {
	t.Parallel()
	ca, other := authority.New(t), authority.New(t)
	p := redistest.SentinelsWith(t, redistest.Config{Authority: ca, SentinelHosts: []string{"localhost"}})
	endpoint := func(url string, roots func() *x509.CertPool) clickstream.Endpoint {
		return clickstream.Endpoint{URL: url, Kind: clickstream.Sentinel, Roots: roots}
	}
	if err := use(t, endpoint(localhost(p.URL), ca.Pool)); err != nil {
		t.Error(err)
	}
	// Only the last sentinel has the name that is in its certificate.
	last := localhost(strings.TrimSuffix(strings.TrimPrefix(p.Sentinels[0].URL, "rediss://"), "/0"))
	if err := use(t, endpoint(p.URL+"&addr="+last, ca.Pool)); err != nil {
		t.Error("a URL with one valid sentinel:", err)
	}
	withPassword := p.URL + "&password=hunter2"
	checkRefused(t, "another address", use(t, endpoint(withPassword, ca.Pool)), withoutAddress)
	checkRefused(t, "another authority", use(t, endpoint(localhost(withPassword), other.Pool)), unknownAuthority)
	for _, server := range append(slices.Clone(p.Replicas), p.Master) {
		server.Renew(ca, "localhost")
	}
	checkRefused(t, "a master with another name", use(t, endpoint(localhost(withPassword), ca.Pool)), withoutAddress)
}

// The client connects to the first node with a name and to the others with the address that
// the first node returns.
func TestTLS_Cluster(t *testing.T) {
	t.Parallel()
	ca, other := authority.New(t), authority.New(t)
	c := redistest.ClusterWith(t, redistest.Config{Authority: ca})
	c.Nodes[0].Renew(ca, "localhost", "127.0.0.1")
	url := strings.TrimSuffix(localhost(c.Nodes[0].URL), "/0")
	endpoint := func(url string, roots func() *x509.CertPool) clickstream.Endpoint {
		return clickstream.Endpoint{URL: url, Kind: clickstream.Cluster, Roots: roots}
	}
	if err := use(t, endpoint(url, ca.Pool)); err != nil {
		t.Error(err)
	}
	withPassword := strings.Replace(url, "rediss://", "rediss://default:hunter2@", 1)
	checkRefused(t, "another authority", use(t, endpoint(withPassword, other.Pool)), unknownAuthority)
	c.Nodes[1].Renew(ca, "localhost")
	checkRefused(t, "a node with another name", use(t, endpoint(url, ca.Pool)), withoutAddress)
	c.Nodes[0].Renew(ca, "node.internal")
	checkRefused(t, "another name", use(t, endpoint(withPassword, ca.Pool)), "certificate is valid for node.internal, not localhost")
}

// A client that runs uses authorities that were renewed.
func TestTLS_RenewedAuthority(t *testing.T) {
	t.Parallel()
	first, second := authority.New(t), authority.New(t)
	server := redistest.StartWith(t, redistest.Config{Authority: first})
	var roots atomic.Pointer[x509.CertPool]
	roots.Store(first.Pool())
	client := connect(t, clickstream.Endpoint{URL: server.URL, Roots: roots.Load})
	if err := set(t, client); err != nil {
		t.Fatal(err)
	}
	server.Renew(second, "127.0.0.1")
	if err := set(t, client); err != nil {
		t.Error("a connection from before the renewal:", err)
	}
	server.Restart()
	// The first error may be that of the connection that the restart has closed.
	eventually(t, func() error {
		if err := set(t, client); err == nil || !strings.Contains(err.Error(), unknownAuthority) {
			return errors.Join(errors.New("a certificate of the new authority was not refused"), err)
		}
		return nil
	})
	roots.Store(second.Pool())
	eventually(t, func() error { return set(t, client) })
}
