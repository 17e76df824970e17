package mailtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/tributary-hq/tributary/mail"
)

// Encryption is the value of tls in an SMTP URL.
type Encryption string

// The kinds of encryption that a Server offers.
const (
	NoTLS       Encryption = "none"
	StartTLS    Encryption = "starttls"
	ImplicitTLS Encryption = "implicit"
)

// Options configures a Server. The zero value is a server without encryption and
// authentication.
type Options struct {
	TLS        Encryption // empty: NoTLS
	Host       string     // the name in the certificate; default 127.0.0.1, as in the URL
	User       string     // empty: no authentication
	Password   string
	Mechanisms []string // of AUTH: PLAIN, LOGIN; default PLAIN
	SMTPUTF8   bool     // accept addresses that are not ASCII
}

// Server is a real SMTP server on 127.0.0.1. It records the mails that it accepts. Its
// methods are safe for concurrent use.
type Server struct {
	// Roots contains the authority that signed the certificate. It is nil without TLS.
	Roots *x509.CertPool

	t       testing.TB
	options Options
	tls     *tls.Config // nil without TLS
	address string

	mu        sync.Mutex
	running   *faultListener // nil after Stop
	rules     map[mail.Phase][]rule
	messages  []Message
	connected int
	changed   chan struct{} // closed and replaced with every message and connection
}

// NewServer starts a Server, which stops when the test ends.
func NewServer(t testing.TB, options Options) *Server {
	t.Helper()
	if options.TLS == "" {
		options.TLS = NoTLS
	}
	if options.Host == "" {
		options.Host = "127.0.0.1"
	}
	if options.Mechanisms == nil {
		options.Mechanisms = []string{"PLAIN"}
	}
	s := &Server{t: t, options: options, address: "127.0.0.1:0", rules: map[mail.Phase][]rule{}, changed: make(chan struct{})}
	if options.TLS != NoTLS {
		var certificate tls.Certificate
		certificate, s.Roots = newCertificate(t, options.Host)
		s.tls = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// URL returns the SMTP URL of the server, with the user and the password. Stop and Start
// do not change it.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := url.URL{Scheme: "smtp", Host: s.address, RawQuery: "tls=" + string(s.options.TLS)}
	if s.options.User != "" {
		u.User = url.UserPassword(s.options.User, s.options.Password)
	}
	return u.String()
}

// Start starts the server again after Stop, at the same address.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.t.Fatal("the server is already running")
	}
	listener, err := net.Listen("tcp", s.address) //nolint:noctx // a loopback address needs no name resolution
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	server := smtp.NewServer(smtp.BackendFunc(s.newSession))
	server.Domain = "mail.test"
	server.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableSMTPUTF8 = s.options.SMTPUTF8
	server.AllowInsecureAuth = s.options.TLS != StartTLS
	if s.options.TLS == StartTLS {
		server.TLSConfig = s.tls
	}
	running := &faultListener{Listener: listener, server: s, smtp: server, served: make(chan struct{})}
	s.running = running
	go func() {
		defer close(running.served)
		_ = server.Serve(running)
	}()
}

// Stop closes the listener and all connections, as a killed server does. The recorded
// mails and the failures remain. Stop has no effect on a stopped server.
func (s *Server) Stop() {
	s.mu.Lock()
	running := s.running
	s.running = nil
	s.mu.Unlock()
	if running != nil {
		running.stop()
	}
}

// Messages returns the accepted mails, oldest first.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.messages...)
}

// Connections returns the number of connections since NewServer.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected
}

// waitLimit is longer than any wait of a test that passes.
const waitLimit = time.Minute

// WaitMessages waits until the server has accepted n mails, and returns all mails. It ends
// the test after a minute.
func (s *Server) WaitMessages(n int) []Message {
	s.t.Helper()
	s.wait(func() bool { return len(s.messages) >= n })
	return s.Messages()
}

// WaitConnections waits until the server has had n connections. It ends the test after a
// minute.
func (s *Server) WaitConnections(n int) {
	s.t.Helper()
	s.wait(func() bool { return s.connected >= n })
}

// wait waits until the given condition is true. It locks s.mu while it calls the function condition.
func (s *Server) wait(condition func() bool) {
	s.t.Helper()
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	for {
		s.mu.Lock()
		done, changed := condition(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			s.t.Fatalf("the mail server has %d mails of %d connections", len(s.Messages()), s.Connections())
		}
	}
}

// change locks s.mu, calls the given function, and wakes the waiting tests.
func (s *Server) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// sameAddress compares mail addresses as most servers do.
func sameAddress(a, b string) bool { return strings.EqualFold(a, b) }

// newCertificate returns a self-signed certificate for the given host, and the roots that a
// client needs to accept the certificate.
func newCertificate(t testing.TB, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots
}
