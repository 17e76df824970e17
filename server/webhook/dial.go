package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	// dialTimeout is the longest time for resolving a host and connecting to one of its
	// addresses.
	dialTimeout = 3 * time.Second
	// handshakeTimeout is the longest time for the TLS handshake.
	handshakeTimeout = 5 * time.Second
	// maxAddresses is the maximum number of addresses of one host to which the dialer
	// tries to connect.
	maxAddresses = 4

	// portMessage is the message of the violation for a URL whose port is not allowed.
	portMessage = "must have port 443 or a port of at least 1024 that webhooks may use"
)

// RefusesPort reports whether the URL must be rejected because of its port. Some ports
// are restricted (URL.RestrictedPort): they are accepted only for hosts in allowed
// networks (ClientConfig.Allowed). RefusesPort returns true if the port is restricted and
// there are no allowed networks. It does not resolve the host, so it is fast enough for
// the validation of requests.
func (c *Client) RefusesPort(u webhook.URL) bool {
	return u.RestrictedPort && len(c.dialer.allowed) == 0
}

// Check resolves the host of an endpoint and checks whether requests to all its addresses
// are allowed. It waits for a name server, so it should run after all other checks of a
// request. Errors: WEBHOOK_URL_UNRESOLVABLE, WEBHOOK_URL_PRIVATE_IP, VALIDATION_ERROR for
// the field url if the port is accepted only for allowed networks.
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
		// The host is not in an allowed network, and only hosts in these networks may have
		// such a port. So the port is the reason.
		return affiliate.Invalid("url", portMessage)
	default:
		return affiliate.Refuse(affiliate.ReasonWebhookURLPrivateIP)
	}
}

// dialer makes the connections of a Client. It resolves a host name, checks all addresses
// of the host, and then connects to one of the checked addresses. The name is not
// resolved a second time, so a name server cannot return one address for the check and
// another address for the connection.
type dialer struct {
	resolver *net.Resolver
	allowed  []netip.Prefix
	roots    func() *x509.CertPool // nil: the root certificates of the system

	dialTimeout, handshakeTimeout time.Duration
}

func newDialer(cfg ClientConfig) *dialer {
	resolver := cfg.Resolver
	if resolver == nil {
		// PreferGo is set because calls of the C library's resolver cannot be cancelled.
		resolver = &net.Resolver{PreferGo: true}
	}
	return &dialer{
		resolver:    resolver,
		allowed:     slices.Clone(cfg.Allowed),
		roots:       cfg.Roots,
		dialTimeout: dialTimeout, handshakeTimeout: handshakeTimeout,
	}
}

// dialError means that a connection could not be made. code is the error code of the
// attempt.
type dialError struct {
	code string
	err  error
}

func (e *dialError) Error() string { return e.code + ": " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

var errBlocked = errors.New("the address is not allowed")

// dialTLS connects to a host and port and makes the TLS handshake. The certificate must
// be valid for the host's name. The transport does not cancel dialTLS when the attempt
// ends, so dialTLS has its own time limits. Its errors have the type *dialError.
func (d *dialer) dialTLS(ctx context.Context, _, hostPort string) (net.Conn, error) {
	host, port, err := splitHostPort(hostPort)
	if err != nil {
		return nil, &dialError{webhook.BlockedAddress, err}
	}
	conn, err := d.dial(ctx, host, port)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if d.roots != nil {
		cfg.RootCAs = d.roots()
	}
	tlsConn := tls.Client(conn, cfg)
	ctx, cancel := context.WithTimeout(ctx, d.handshakeTimeout)
	defer cancel()
	if err := tlsConn.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &dialError{handshakeErrorCode(err), err}
	}
	return tlsConn, nil
}

// dial connects to a host. If any address of the host is not allowed, dial returns an
// error and makes no connection.
func (d *dialer) dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.dialTimeout)
	defer cancel()
	found, err := d.resolve(ctx, host)
	if err != nil {
		return nil, &dialError{webhook.DNSError, err}
	}
	rules, err := d.rules()
	if err != nil {
		return nil, &dialError{webhook.ConnectionFailed, err}
	}
	if !allAllowed(rules, found, port) {
		return nil, &dialError{webhook.BlockedAddress, errBlocked}
	}
	return d.connect(ctx, rules, found[:min(len(found), maxAddresses)], port)
}

// resolve returns the addresses of a host without duplicates. It converts IPv4 addresses
// in IPv6 form to IPv4. It returns an error if the host has no address.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{literal.Unmap()}, nil
	}
	// With a trailing dot, a name is absolute and the search domains of this machine are
	// not tried. A name without any dot gets no trailing dot, because it can be an entry
	// of the hosts file.
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

// rules returns the rules that decide which addresses are allowed. It reads this
// machine's own addresses in each call, because they can change.
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

// connect tries to connect to the addresses, one after the other. It divides the
// remaining time equally among the remaining addresses. An address that does not respond
// therefore leaves time for the next address.
func (d *dialer) connect(ctx context.Context, rules webhook.Addresses, addrs []netip.Addr, port uint16) (net.Conn, error) {
	nd := net.Dialer{
		// Control checks the address again, directly before the connection is made. This
		// protects against bugs in the first check.
		Control: func(_, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil || !rules.MayCall(netip.AddrPortFrom(target.Addr().Unmap(), target.Port())) {
				return &dialError{webhook.BlockedAddress, errBlocked}
			}
			return nil
		},
	}
	lastErr := &dialError{webhook.ConnectionFailed, errors.New("no address")}
	for i, a := range addrs {
		nd.Timeout = timeShare(ctx, len(addrs)-i)
		conn, err := nd.DialContext(ctx, "tcp", netip.AddrPortFrom(a, port).String())
		if err == nil {
			return conn, nil
		}
		var blocked *dialError
		if errors.As(err, &blocked) {
			return nil, blocked
		}
		// If one address timed out and another refused the connection, the outcome is the
		// timeout.
		if timedOut(err) || lastErr.code != webhook.Timeout {
			lastErr = &dialError{connectErrorCode(err), err}
		}
	}
	return nil, lastErr
}

func timeShare(ctx context.Context, addresses int) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) / time.Duration(addresses)
}

func allAllowed(rules webhook.Addresses, addrs []netip.Addr, port uint16) bool {
	return !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !rules.MayCall(netip.AddrPortFrom(a, port)) })
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
	return webhook.ConnectionFailed
}

// handshakeErrorCode returns the error code of a failed TLS handshake. The cause is a
// timeout, a closed connection, or an error in TLS.
func handshakeErrorCode(err error) string {
	switch {
	case timedOut(err):
		return webhook.Timeout
	case connectionEnded(err):
		return webhook.ConnectionFailed
	default:
		return webhook.TLSError
	}
}

func connectionEnded(err error) bool {
	var system syscall.Errno
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &system)
}

func timedOut(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
