package webhook_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

// host is the name of all receivers. The name server of the tests resolves it to
// loopback.
const host = "receiver.test"

var loopback = netip.MustParseAddr("127.0.0.1")

// longTimeout is a time limit that is longer than any test, so no attempt with this limit
// ends with the error code timeout.
const longTimeout = 30 * time.Second

// allowLoopback allows loopback addresses, as an operator with receivers on the same
// machine would do.
func allowLoopback(cfg *webhook.ClientConfig) {
	cfg.Allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// newClient returns a client that trusts the tests' certificate authority and uses a name
// server that resolves host. It allows no private addresses, unless change allows them.
func newClient(t *testing.T, change ...func(*webhook.ClientConfig)) *webhook.Client {
	t.Helper()
	cfg := webhook.ClientConfig{Roots: func() *x509.CertPool { return testAuthority().pool }, Version: "1.2.3"}
	for _, c := range change {
		c(&cfg)
	}
	if cfg.Resolver == nil {
		cfg.Resolver = startNameServer(t, answerWith(loopback)).resolver()
	}
	client := webhook.NewClient(cfg)
	client.SetTimeouts(longTimeout, longTimeout, 50*time.Millisecond)
	t.Cleanup(client.Close)
	return client
}

// newRequest returns a request to the URL.
func newRequest(url string) webhook.Request {
	return webhook.Request{
		URL: url, ID: "evt_019234", Attempt: 1, Body: []byte(`{"type":"commission.created"}`),
		Secrets: []domain.Secret{domain.NewSecret()}, At: time.Now(), Timeout: longTimeout,
	}
}

// checkOutcome reports an error if Send did not return the expected outcome.
func checkOutcome(t *testing.T, got, want domain.Outcome) {
	t.Helper()
	if got != want {
		t.Errorf("Send returned %+v, want %+v", got, want)
	}
}

// certAuthority is a private certificate authority.
type certAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

var testAuthority = sync.OnceValue(newAuthority)

func newAuthority() *certAuthority {
	a := &certAuthority{key: newKey(), pool: x509.NewCertPool()}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := sign(a.certificate, a.certificate, a.key, a.key)
	a.certificate, _ = x509.ParseCertificate(der)
	a.pool.AddCert(a.certificate)
	return a
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func sign(certificate, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, key.Public(), signer)
	if err != nil {
		panic(err)
	}
	return der
}

// leaf returns an unsigned certificate for host and for 127.0.0.1.
func leaf(change ...func(*x509.Certificate)) *x509.Certificate {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host},
		DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// issue signs a leaf certificate and returns the TLS configuration of a receiver with it.
func (a *certAuthority) issue(change ...func(*x509.Certificate)) *tls.Config {
	key := newKey()
	return certificateConfig(sign(leaf(change...), a.certificate, key, a.key), key)
}

// selfSigned returns the TLS configuration of a receiver with a self-signed certificate.
func selfSigned() *tls.Config {
	key := newKey()
	return certificateConfig(sign(leaf(), leaf(), key, key), key)
}

func certificateConfig(certificate []byte, key *ecdsa.PrivateKey) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}
}

var receiverTLS = sync.OnceValue(func() *tls.Config { return testAuthority().issue() })

// receiver accepts connections on loopback and calls handle for each of them. The
// connection is closed when handle returns or when the test ends.
type receiver struct {
	t        *testing.T
	listener net.Listener
	handle   func(net.Conn)

	mu       sync.Mutex
	accepted *sync.Cond
	peers    []string
	open     map[net.Conn]struct{}
	running  sync.WaitGroup
}

func listen(t *testing.T, handle func(net.Conn)) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, listener: listener, handle: handle, open: make(map[net.Conn]struct{})}
	r.accepted = sync.NewCond(&r.mu)
	r.running.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// respondWith starts a receiver with TLS. It reads each request of a connection
// completely and then calls respond to write the response. If respond returns false,
// the connection is closed.
func respondWith(t *testing.T, respond func(*http.Request, net.Conn) bool) *receiver {
	t.Helper()
	return listen(t, func(tcpConn net.Conn) {
		conn := tls.Server(tcpConn, receiverTLS())
		in := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil || !respond(req, conn) {
				_ = conn.Close()
				return
			}
		}
	})
}

// respondWithText starts a receiver that sends the same bytes in response to every
// request and closes the connection.
func respondWithText(t *testing.T, text string) *receiver {
	t.Helper()
	return respondWith(t, func(_ *http.Request, conn net.Conn) bool {
		_, _ = io.WriteString(conn, text)
		return false
	})
}

// writeRepeatedly writes a text again and again until the other side closes the
// connection.
func writeRepeatedly(conn io.Writer, text []byte) {
	for {
		if _, err := conn.Write(text); err != nil {
			return
		}
	}
}

// writeSlowly writes 200 bytes per second until the other side closes the connection.
func writeSlowly(conn io.Writer) {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for range pace.C {
		if _, err := conn.Write([]byte("x")); err != nil {
			return
		}
	}
}

func (r *receiver) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.peers = append(r.peers, conn.RemoteAddr().String())
		r.open[conn] = struct{}{}
		r.accepted.Broadcast()
		r.mu.Unlock()
		r.running.Go(func() {
			defer conn.Close()
			r.handle(conn)
		})
	}
}

func (r *receiver) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	for conn := range r.open {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

// connections returns the number of connections until now. To count also connections that
// are not accepted yet, it makes another connection and waits until this connection is
// accepted. Connections are accepted in the order in which they were made.
func (r *receiver) connections() int {
	r.t.Helper()
	mark, err := net.Dial("tcp", r.listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer mark.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if at := slices.Index(r.peers, mark.LocalAddr().String()); at >= 0 {
			r.peers = slices.Delete(r.peers, at, at+1)
			return at
		}
		r.accepted.Wait()
	}
}

func (r *receiver) port() uint16 {
	return r.listener.Addr().(*net.TCPAddr).AddrPort().Port() //nolint:forcetypeassert // it listens on TCP
}

// url returns the receiver's URL with the given host name or address.
func (r *receiver) url(host string) string { return urlOf(host, r.port()) }

func urlOf(host string, port uint16) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/hook"
}

// nameResponses returns the addresses for the nth query for IPv4 addresses and for the
// nth query for IPv6 addresses. nth starts at 0. A nil result means that the name does
// not exist.
type nameResponses func(nth int) []netip.Addr

func answerWith(addresses ...netip.Addr) nameResponses {
	return func(int) []netip.Addr { return addresses }
}

// nameServer is a DNS server over UDP. If responses is nil, it does not respond.
type nameServer struct {
	conn      net.PacketConn
	responses nameResponses
	mu        sync.Mutex
	counts    map[dnsmessage.Type]int
	names     []string
}

func startNameServer(t *testing.T, responses nameResponses) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn, responses: responses, counts: make(map[dnsmessage.Type]int)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

// resolver returns a resolver that uses the name server. Go's resolver would wait some
// seconds for a response after the context of the query has ended. Therefore the socket
// is closed when the context ends.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "udp", s.conn.LocalAddr().String())
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}}
}

// queries returns the number of queries for IPv4 addresses, and the names of all queries.
func (s *nameServer) queries() (int, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[dnsmessage.TypeA], s.names
}

func (s *nameServer) serve() {
	packet := make([]byte, 4096)
	for {
		n, from, err := s.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		if reply := s.reply(packet[:n]); reply != nil {
			_, _ = s.conn.WriteTo(reply, from)
		}
	}
}

func (s *nameServer) reply(packet []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	s.mu.Lock()
	nth := s.counts[q.Type]
	s.counts[q.Type]++
	s.names = append(s.names, q.Name.String())
	s.mu.Unlock()
	if s.responses == nil {
		return nil
	}
	out := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: m.Questions,
	}
	addresses := s.responses(nth)
	if addresses == nil {
		out.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	reply, err := out.Pack()
	if err != nil {
		panic(err)
	}
	return reply
}
