package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

const (
	// dialTime bounds finding a host's addresses and connecting to one of them,
	// handshakeTime the TLS handshake after it.
	dialTime      = 3 * time.Second
	handshakeTime = 5 * time.Second
	// maxDialled bounds the addresses of one host that are tried.
	maxDialled = 4

	// oddPort is what is wrong with a URL.RestrictedPort.
	oddPort = "must have port 443, or one from 1024 up that is open to webhooks"
)

// RefusesPort reports whether a URL has a port that no address can excuse, because
// none is allowed. It needs no resolving: ask it among what makes a request invalid.
func (c *Client) RefusesPort(u webhook.URL) bool {
	return u.RestrictedPort && len(c.dialer.allowed) == 0
}

// Check resolves an endpoint's host and judges every address. Errors:
// WEBHOOK_URL_UNRESOLVABLE, WEBHOOK_URL_PRIVATE_IP, VALIDATION_ERROR on `url` for a
// port that only an allowed address may have. It comes behind all other checks of the
// request: RefusesPort is the part of it that does not wait for a name server.
func (c *Client) Check(ctx context.Context, u webhook.URL) error {
	if c.RefusesPort(u) {
		return affiliate.Invalid("url", oddPort)
	}
	within, cancel := context.WithTimeout(ctx, c.dialer.dialTime)
	defer cancel()
	found, err := c.dialer.resolve(within, u.Host)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return affiliate.Refuse(affiliate.ReasonWebhookURLUnresolvable)
	}
	rules, err := c.dialer.rules()
	if err != nil {
		return err
	}
	switch {
	case mayCallAll(rules, found, u.Port):
		return nil
	case u.RestrictedPort:
		// On such a port only allowed addresses may be called, so it is the port.
		return affiliate.Invalid("url", oddPort)
	default:
		return affiliate.Refuse(affiliate.ReasonWebhookURLPrivateIP)
	}
}

// dialer makes the connections of a Client. It resolves a name itself, judges every
// address and dials addresses only, so that a name cannot be checked as one address
// and dialled as another.
type dialer struct {
	resolver *net.Resolver
	allowed  []netip.Prefix
	tls      *tls.Config

	dialTime, handshakeTime time.Duration
}

func newDialer(cfg ClientConfig) *dialer {
	resolver := cfg.Resolver
	if resolver == nil {
		// The C library's resolver cannot be interrupted.
		resolver = &net.Resolver{PreferGo: true}
	}
	return &dialer{
		resolver: resolver,
		allowed:  slices.Clone(cfg.Allowed),
		tls:      &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
		dialTime: dialTime, handshakeTime: handshakeTime,
	}
}

// dialError is a connection that was not made, with its error code.
type dialError struct {
	code string
	err  error
}

func (e *dialError) Error() string { return e.code + ": " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

var errBlocked = errors.New("an address that may not be called")

// dialTLS connects to a host and port and shakes hands under the host's name. The
// transport lets it outlive the attempt that asked for it, so it has bounds of its
// own. Its errors are *dialError.
func (d *dialer) dialTLS(ctx context.Context, _, hostPort string) (net.Conn, error) {
	host, port, err := splitHostPort(hostPort)
	if err != nil {
		return nil, &dialError{webhook.BlockedAddress, err}
	}
	conn, err := d.dial(ctx, host, port)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName = host
	secured := tls.Client(conn, cfg)
	ctx, cancel := context.WithTimeout(ctx, d.handshakeTime)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &dialError{handshakeErrorCode(err), err}
	}
	return secured, nil
}

// dial connects to a host, and to nothing when one of its addresses is refused.
func (d *dialer) dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.dialTime)
	defer cancel()
	found, err := d.resolve(ctx, host)
	if err != nil {
		return nil, &dialError{webhook.DNSError, err}
	}
	rules, err := d.rules()
	if err != nil {
		return nil, &dialError{webhook.ConnectionRefused, err}
	}
	if !mayCallAll(rules, found, port) {
		return nil, &dialError{webhook.BlockedAddress, errBlocked}
	}
	return d.connect(ctx, rules, found[:min(len(found), maxDialled)], port)
}

// resolve finds a host's addresses, at least one, each once, IPv4 in IPv6 as IPv4.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{literal.Unmap()}, nil
	}
	// A URL's host is a whole name: with a dot at its end it is not also looked for in
	// this machine's search domains. Names without any dot are the hosts file's.
	if strings.Contains(host, ".") {
		host += "."
	}
	found, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("a name without addresses")
	}
	once := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		if a = a.Unmap(); !slices.Contains(once, a) {
			once = append(once, a)
		}
	}
	return once, nil
}

// rules are those of now: this machine's addresses change.
func (d *dialer) rules() (webhook.Addresses, error) {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return webhook.Addresses{}, err
	}
	rules := webhook.Addresses{Allowed: d.allowed, Own: make([]netip.Addr, 0, len(interfaces))}
	for _, i := range interfaces {
		if n, ok := i.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok {
				rules.Own = append(rules.Own, own.Unmap())
			}
		}
	}
	return rules, nil
}

// connect tries addresses in turn. Each has an equal share of the time that is left,
// so that one that swallows packets leaves some to the next.
func (d *dialer) connect(ctx context.Context, rules webhook.Addresses, to []netip.Addr, port uint16) (net.Conn, error) {
	nd := net.Dialer{
		// The last look is at what the system is about to be asked for.
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !rules.MayCall(netip.AddrPortFrom(at.Addr().Unmap(), at.Port())) {
				return &dialError{webhook.BlockedAddress, errBlocked}
			}
			return nil
		},
	}
	failed := &dialError{webhook.ConnectionRefused, errors.New("no address")}
	for i, a := range to {
		conn, err := dialWithin(ctx, nd, share(ctx, len(to)-i), netip.AddrPortFrom(a, port))
		if err == nil {
			return conn, nil
		}
		var blocked *dialError
		if errors.As(err, &blocked) {
			return nil, blocked
		}
		// Of a host that swallows packets at one address and refuses at another, the
		// swallowing is told.
		if timedOut(err) || failed.code != webhook.Timeout {
			failed = &dialError{connectErrorCode(err), err}
		}
	}
	return nil, failed
}

// share is the part of the time left that one of several addresses has.
func share(ctx context.Context, addresses int) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) / time.Duration(addresses)
}

func dialWithin(ctx context.Context, nd net.Dialer, bound time.Duration, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return nd.DialContext(ctx, "tcp", to.String())
}

func mayCallAll(rules webhook.Addresses, to []netip.Addr, port uint16) bool {
	return !slices.ContainsFunc(to, func(a netip.Addr) bool { return !rules.MayCall(netip.AddrPortFrom(a, port)) })
}

func splitHostPort(hostPort string) (string, uint16, error) {
	host, text, err := net.SplitHostPort(hostPort)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return host, uint16(port), err
}

func connectErrorCode(err error) string {
	if timedOut(err) {
		return webhook.Timeout
	}
	return webhook.ConnectionRefused
}

// handshakeErrorCode separates a connection that ended from a receiver that does not
// speak TLS correctly.
func handshakeErrorCode(err error) string {
	switch {
	case timedOut(err):
		return webhook.Timeout
	case connectionEnded(err):
		return webhook.ConnectionRefused
	default:
		return webhook.TLSError
	}
}

// connectionEnded reports whether an error says that the connection is closed or
// broken.
func connectionEnded(err error) bool {
	var system syscall.Errno
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &system)
}

func timedOut(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}
