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

	"github.com/tributary-hq/tributary/affiliate/webhook"
	server "github.com/tributary-hq/tributary/server/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is the name of every receiver; the name server of a test leads it to loopback.
const host = "receiver.test"

var loopback = netip.MustParseAddr("127.0.0.1")

// ample is a bound that no test comes near: what is told before it was not told by
// it.
const ample = 30 * time.Second

// allowLoopback is what an operator says who has receivers on the same machine.
func allowLoopback(cfg *server.ClientConfig) {
	cfg.Allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// newClient trusts the tests' authority and asks a name server that knows host. It
// allows no address unless told.
func newClient(t *testing.T, change ...func(*server.ClientConfig)) *server.Client {
	t.Helper()
	cfg := server.ClientConfig{Roots: authority().pool, Version: "1.2.3"}
	for _, c := range change {
		c(&cfg)
	}
	if cfg.Resolver == nil {
		cfg.Resolver = serveNames(t, always(loopback)).resolver()
	}
	client := server.NewClient(cfg)
	client.Bound(ample, ample, 50*time.Millisecond)
	t.Cleanup(client.Close)
	return client
}

// attempt is a request that a test may change.
func attempt(url string) server.Request {
	return server.Request{
		URL: url, ID: "evt_019234", Attempt: 1, Body: []byte(`{"type":"commission.created"}`),
		Secrets: []webhook.Secret{webhook.NewSecret()}, At: time.Now(), Timeout: ample,
	}
}

// ca is a private certification authority.
type ca struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

var authority = sync.OnceValue(newAuthority)

func newAuthority() *ca {
	a := &ca{key: newKey(), pool: x509.NewCertPool()}
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

func sign(certificate, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, key.Public(), by)
	if err != nil {
		panic(err)
	}
	return der
}

// leaf is a certificate for host and for 127.0.0.1, not signed yet.
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

// issue signs a leaf and makes it a receiver's.
func (a *ca) issue(change ...func(*x509.Certificate)) *tls.Config {
	key := newKey()
	return serving(sign(leaf(change...), a.certificate, key, a.key), key)
}

// selfSigned is signed by nobody but itself.
func selfSigned() *tls.Config {
	key := newKey()
	return serving(sign(leaf(), leaf(), key, key), key)
}

func serving(certificate []byte, key *ecdsa.PrivateKey) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}
}

var receiverTLS = sync.OnceValue(func() *tls.Config { return authority().issue() })

// receiver accepts connections on loopback and leaves each to a function, which may
// return when it likes: the connection is closed behind it, or when the test ends.
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

// answer is a receiver that speaks TLS, reads each request of a connection whole and
// leaves what it answers to a function; false ends the connection.
func answer(t *testing.T, with func(*http.Request, net.Conn) bool) *receiver {
	t.Helper()
	return listen(t, func(plain net.Conn) {
		conn := tls.Server(plain, receiverTLS())
		in := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil || !with(req, conn) {
				_ = conn.Close()
				return
			}
		}
	})
}

// say answers every request with the same bytes and ends the connection.
func say(t *testing.T, text string) *receiver {
	t.Helper()
	return answer(t, func(_ *http.Request, conn net.Conn) bool {
		_, _ = io.WriteString(conn, text)
		return false
	})
}

// repeat writes until the other side has had enough.
func repeat(conn io.Writer, text []byte, pause time.Duration) {
	for {
		if _, err := conn.Write(text); err != nil {
			return
		}
		time.Sleep(pause)
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

// connections counts those made until now. A connection of its own marks now:
// connections are accepted in the order in which they were made.
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

// url is the receiver's under a host.
func (r *receiver) url(host string) string { return urlOf(host, r.port()) }

func urlOf(host string, port uint16) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/hook"
}

// zone says what host has addresses of, at the nth question (from 0) of a type. Nil:
// there is no such name.
type zone func(nth int) []netip.Addr

func always(addresses ...netip.Addr) zone {
	return func(int) []netip.Addr { return addresses }
}

// nameServer is a real one, over UDP. Without a zone it hears questions and answers
// none.
type nameServer struct {
	conn  net.PacketConn
	zone  zone
	mu    sync.Mutex
	asked map[dnsmessage.Type]int
	names []string
}

func serveNames(t *testing.T, z zone) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn, zone: z, asked: make(map[dnsmessage.Type]int)}
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

// resolver asks the name server. Go's leaves a question that nobody waits for any more
// open for some seconds; here its end is made known to the socket.
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

// questions counts those for IPv4 addresses, and lists all names asked for.
func (s *nameServer) questions() (int, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[dnsmessage.TypeA], s.names
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
	nth := s.asked[q.Type]
	s.asked[q.Type]++
	s.names = append(s.names, q.Name.String())
	s.mu.Unlock()
	if s.zone == nil {
		return nil
	}
	out := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: m.Questions,
	}
	addresses := s.zone(nth)
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
