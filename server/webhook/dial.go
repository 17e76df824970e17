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
	// dialTimeout limits the time to resolve a host and to connect to one of its addresses.
	dialTimeout = 3 * time.Second
	// handshakeTimeout limits the TLS handshake.
	handshakeTimeout = 5 * time.Second
	// maxAddresses is the maximum number of addresses of one host that are tried.
	maxAddresses = 4

	// portMessage is the violation of a URL whose port is not allowed.
	portMessage = "must have port 443, or one from 1024 up that is open to webhooks"
)

// RefusesPort reports whether the URL has a port that is accepted only for allowed
// networks (URL.RestrictedPort) and no networks are allowed. It does not resolve the host, so it
// can be used to validate requests.
func (c *Client) RefusesPort(u webhook.URL) bool {
	return u.RestrictedPort && len(c.dialer.allowed) == 0
}

// Check resolves the host of an endpoint and checks all its addresses. Errors:
// WEBHOOK_URL_UNRESOLVABLE, WEBHOOK_URL_PRIVATE_IP, VALIDATION_ERROR on `url` for a port
// that is accepted only for allowed networks. Check must run after all other checks of a
// request, because it waits for a name server.
func (c *Client) Check(ctx context.Context, u webhook.URL) error {
	if c.RefusesPort(u) {
		return affiliate.Invalid("url", portMessage)
	}
	resolveCtx, cancel := context.WithTimeout(ctx, c.dialer.dialTimeout)
	defer cancel()
	found, err := c.dialer.resolve(resolveCtx, u.Host)
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
	case allAllowed(rules, found, u.Port):
		return nil
	case u.RestrictedPort:
		// With such a port only allowed networks can be called, so the port is the reason.
		return affiliate.Invalid("url", portMessage)
	default:
		return affiliate.Refuse(affiliate.ReasonWebhookURLPrivateIP)
	}
}

// dialer makes the connections of a Client. It resolves a name itself, checks all its
// addresses, and dials addresses instead of names. A name server therefore cannot return
// one address for the check and another one for the connection.
type dialer struct {
	resolver *net.Resolver
	allowed  []netip.Prefix
	tls      *tls.Config

	dialTimeout, handshakeTimeout time.Duration
}

func newDialer(cfg ClientConfig) *dialer {
	resolver := cfg.Resolver
	if resolver == nil {
		// A call of the C library's resolver cannot be canceled.
		resolver = &net.Resolver{PreferGo: true}
	}
	return &dialer{
		resolver:    resolver,
		allowed:     slices.Clone(cfg.Allowed),
		tls:         &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
		dialTimeout: dialTimeout, handshakeTimeout: handshakeTimeout,
	}
}

// dialError means that a connection could not be made. It has the error code of the
// attempt.
type dialError struct {
	code string
	err  error
}

func (e *dialError) Error() string { return e.code + ": " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

var errBlocked = errors.New("the address is not allowed")

// dialTLS connects to a host and port and makes the TLS handshake with the host's name.
// The transport does not cancel it when the attempt ends, so it has its own time limits.
// Its errors are *dialError.
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
	tlsConn := tls.Client(conn, cfg)
	ctx, cancel := context.WithTimeout(ctx, d.handshakeTimeout)
	defer cancel()
	if err := tlsConn.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &dialError{handshakeErrorCode(err), err}
	}
	return tlsConn, nil
}

// dial connects to a host. If one of the host's addresses is not allowed, it connects to
// none of them.
func (d *dialer) dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.dialTimeout)
	defer cancel()
	found, err := d.resolve(ctx, host)
	if err != nil {
		return nil, &dialError{webhook.DNSError, err}
	}
	rules, err := d.rules()
	if err != nil {
		return nil, &dialError{webhook.ConnectionRefused, err}
	}
	if !allAllowed(rules, found, port) {
		return nil, &dialError{webhook.BlockedAddress, errBlocked}
	}
	return d.connect(ctx, rules, found[:min(len(found), maxAddresses)], port)
}

// resolve returns the addresses of a host without duplicates. IPv4 addresses in IPv6 form
// are converted to IPv4. It returns an error if there is no address.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{literal.Unmap()}, nil
	}
	// The trailing dot makes the name absolute, so that this machine's search domains are
	// not tried. A name without a dot can be an entry of the hosts file, so it stays as it
	// is.
	if strings.Contains(host, ".") {
		host += "."
	}
	found, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("the name has no addresses")
	}
	unique := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		if a = a.Unmap(); !slices.Contains(unique, a) {
			unique = append(unique, a)
		}
	}
	return unique, nil
}

// rules returns the rules for addresses. It reads this machine's own addresses each time,
// because they can change.
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

// connect tries the addresses one after the other. The remaining time is divided equally
// among the remaining addresses, so that an address that drops all packets does not use
// the time of the next one.
func (d *dialer) connect(ctx context.Context, rules webhook.Addresses, to []netip.Addr, port uint16) (net.Conn, error) {
	nd := net.Dialer{
		// Check the address again directly before the system call, in case of an error in the
		// code before.
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !rules.MayCall(netip.AddrPortFrom(at.Addr().Unmap(), at.Port())) {
				return &dialError{webhook.BlockedAddress, errBlocked}
			}
			return nil
		},
	}
	lastErr := &dialError{webhook.ConnectionRefused, errors.New("no address")}
	for i, a := range to {
		conn, err := dialWithTimeout(ctx, nd, timeShare(ctx, len(to)-i), netip.AddrPortFrom(a, port))
		if err == nil {
			return conn, nil
		}
		var blocked *dialError
		if errors.As(err, &blocked) {
			return nil, blocked
		}
		// If one address timed out and another one refused, the timeout is reported.
		if timedOut(err) || lastErr.code != webhook.Timeout {
			lastErr = &dialError{connectErrorCode(err), err}
		}
	}
	return nil, lastErr
}

// timeShare returns the remaining time divided by the number of addresses.
func timeShare(ctx context.Context, addresses int) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) / time.Duration(addresses)
}

func dialWithTimeout(ctx context.Context, nd net.Dialer, timeout time.Duration, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return nd.DialContext(ctx, "tcp", to.String())
}

func allAllowed(rules webhook.Addresses, to []netip.Addr, port uint16) bool {
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

// handshakeErrorCode returns the error code of a failed handshake. It distinguishes a
// timeout, a connection that ended, and an error in TLS.
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

// connectionEnded reports whether the error means that the connection was closed or
// broken.
func connectionEnded(err error) bool {
	var system syscall.Errno
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &system)
}

func timedOut(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
