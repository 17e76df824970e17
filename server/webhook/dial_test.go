package webhook_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

var (
	public  = netip.MustParseAddr("8.8.8.8")
	public6 = netip.MustParseAddr("2606:4700::1111")
	mapped  = netip.MustParseAddr("::ffff:127.0.0.1") // 127.0.0.1 as an IPv4-mapped IPv6 address
)

func withNameServer(s *nameServer) func(*webhook.ClientConfig) {
	return func(cfg *webhook.ClientConfig) { cfg.Resolver = s.resolver() }
}

func TestSend_DialsNothingIfOneAddressIsNotAllowed(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	for name, addresses := range map[string]nameResponses{
		"loopback":                     answerWith(loopback),
		"public and loopback":          answerWith(public, loopback),
		"loopback and public":          answerWith(loopback, public),
		"IPv6 loopback":                answerWith(netip.IPv6Loopback()),
		"IPv4-mapped loopback":         answerWith(mapped),
		"public, IPv4-mapped loopback": answerWith(public, mapped),
		"public IPv6, metadata":        answerWith(public6, netip.MustParseAddr("169.254.169.254")),
		"public, metadata is fifth":    answerWith(public, public6, netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("169.254.169.254")),
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, withNameServer(startNameServer(t, addresses)))
			checkOutcome(t, client.Send(t.Context(), newRequest(r.url(host))), domain.Outcome{ErrorCode: domain.BlockedAddress})
		})
	}
	if n := r.connections(); n != 0 {
		t.Errorf("%d connections to a blocked address, want none", n)
	}
}

func TestSend_RejectsNameThatChangedAfterTheCheck(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	names := startNameServer(t, func(nth int) []netip.Addr {
		if nth == 0 {
			return []netip.Addr{public}
		}
		return []netip.Addr{loopback}
	})
	client := newClient(t, withNameServer(names))
	if err := client.Check(t.Context(), domain.URL{Text: r.url(host), Host: host, Port: r.port()}); err != nil {
		t.Fatal(err)
	}
	checkOutcome(t, client.Send(t.Context(), newRequest(r.url(host))), domain.Outcome{ErrorCode: domain.BlockedAddress})
	if n := r.connections(); n != 0 {
		t.Errorf("%d connections to a blocked address, want none", n)
	}
}

// The client dials the address that it checked. It does not resolve the name a second
// time.
func TestSend_ResolvesTheNameOncePerConnection(t *testing.T) {
	r := respondWithText(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	names := startNameServer(t, func(nth int) []netip.Addr {
		if nth == 0 {
			return []netip.Addr{loopback}
		}
		return []netip.Addr{public}
	})
	if o := newClient(t, allowLoopback, withNameServer(names)).Send(t.Context(), newRequest(r.url(host))); !o.Succeeded() {
		t.Errorf("Send returned %+v, want a success", o)
	}
	count, all := names.queries()
	if count != 1 {
		t.Errorf("the name was resolved %d times, want once", count)
	}
	for _, name := range all {
		if name != host+"." {
			t.Errorf("the client queried the name %s, want %s.", name, host)
		}
	}
}

func TestDialer_ChecksTheAddressBeforeTheConnection(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	address := netip.AddrPortFrom(loopback, r.port())
	if err := newClient(t).Connect(t.Context(), address); err == nil || !strings.HasPrefix(err.Error(), domain.BlockedAddress) {
		t.Errorf("Connect returned the error %v, want %s", err, domain.BlockedAddress)
	}
	if n := r.connections(); n != 0 {
		t.Errorf("%d connections to a blocked address, want none", n)
	}
	if err := newClient(t, allowLoopback).Connect(t.Context(), address); err != nil {
		t.Errorf("Connect to an allowed address returned the error %v, want none", err)
	}
	if n := r.connections(); n != 1 {
		t.Errorf("%d connections to an allowed address, want 1", n)
	}
}

// Connections to 127.0.0.2 to 127.0.0.5 are refused, because no socket listens there.
func TestSend_TriesUpToFourAddresses(t *testing.T) {
	refusingAddresses := []netip.Addr{
		netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.4"), netip.MustParseAddr("127.0.0.5"),
	}
	for name, test := range map[string]struct {
		refusing int // number of refusing addresses before the one that accepts
		want     domain.Outcome
	}{
		"the first accepts":      {0, domain.Outcome{StatusCode: 200}},
		"the second accepts":     {1, domain.Outcome{StatusCode: 200}},
		"the fourth accepts":     {3, domain.Outcome{StatusCode: 200}},
		"the fifth is not tried": {4, domain.Outcome{ErrorCode: domain.ConnectionFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			r := respondWithText(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			names := startNameServer(t, answerWith(append(refusingAddresses[:test.refusing:test.refusing], loopback)...))
			checkOutcome(t, newClient(t, allowLoopback, withNameServer(names)).Send(t.Context(), newRequest(r.url(host))), test.want)
		})
	}
}

// The first of two addresses drops all packets. The client waits for the first address
// only half of the time for dialling, so there is time for the second address. The test
// sets a short time for dialling.
func TestSend_TriesTheNextAddressAfterATimeout(t *testing.T) {
	dropping := netip.MustParseAddr("127.0.0.2")
	r := respondWithText(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	listenWithoutAccept(t, netip.AddrPortFrom(dropping, r.port()))
	for name, test := range map[string]struct {
		addresses []netip.Addr
		want      domain.Outcome
	}{
		"the next accepts": {[]netip.Addr{dropping, loopback}, domain.Outcome{StatusCode: 200}},
		"there is no next": {[]netip.Addr{dropping}, domain.Outcome{ErrorCode: domain.Timeout}},
		"the next refuses": {[]netip.Addr{dropping, netip.MustParseAddr("127.0.0.3")}, domain.Outcome{ErrorCode: domain.Timeout}},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, allowLoopback, withNameServer(startNameServer(t, answerWith(test.addresses...))))
			client.SetTimeouts(600*time.Millisecond, longTimeout, longTimeout)
			checkOutcome(t, client.Send(t.Context(), newRequest(r.url(host))), test.want)
		})
	}
}

// listenWithoutAccept listens at an address without accepting connections. It fills the
// listen backlog, which is the kernel's queue of connections that are not accepted yet.
// The kernel then drops the packets of new connections.
func listenWithoutAccept(t *testing.T, address netip.AddrPort) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		conn, err := net.DialTimeout("tcp", address.String(), 250*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the listen backlog is not full after 16 connections")
}

func TestSendAndCheck_NameThatDoesNotResolve(t *testing.T) {
	for name, test := range map[string]struct {
		addresses nameResponses
		timeout   time.Duration // for resolving and dialling
	}{
		"unknown name": {answerWith(), longTimeout},
		"no addresses": {answerWith([]netip.Addr{}...), longTimeout},
		"no response":  {nil, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, withNameServer(startNameServer(t, test.addresses)))
			client.SetTimeouts(test.timeout, longTimeout, longTimeout)
			checkOutcome(t, client.Send(t.Context(), newRequest(urlOf(host, 443))), domain.Outcome{ErrorCode: domain.DNSError})
			err := client.Check(t.Context(), domain.URL{Host: host, Port: 443})
			pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookURLUnresolvable)
		})
	}
}

func TestCheck_ChecksEveryAddress(t *testing.T) {
	allow := func(prefix string) func(*webhook.ClientConfig) {
		return func(cfg *webhook.ClientConfig) { cfg.Allowed = []netip.Prefix{netip.MustParsePrefix(prefix)} }
	}
	const restricted = 22 // allowed only at addresses that the operator allows
	var (
		none           affiliate.Reason
		private        = affiliate.ReasonWebhookURLPrivateIP
		allowedPrivate = netip.MustParseAddr("10.1.0.1")
		otherPrivate   = netip.MustParseAddr("10.2.0.1")
		allowOne       = allow("10.1.0.0/16")
	)
	for name, test := range map[string]struct {
		addresses nameResponses
		port      uint16
		allow     func(*webhook.ClientConfig) // nil if no private addresses are allowed
		want      affiliate.Reason
	}{
		"public":                              {answerWith(public, public6), 443, nil, none},
		"public, a high port":                 {answerWith(public), 8443, nil, none},
		"loopback":                            {answerWith(loopback), 443, nil, private},
		"public and private":                  {answerWith(public, allowedPrivate), 443, nil, private},
		"IPv4-mapped loopback":                {answerWith(mapped), 443, nil, private},
		"unique local IPv6":                   {answerWith(public, netip.MustParseAddr("fd00::1")), 443, nil, private},
		"private, allowed":                    {answerWith(allowedPrivate), 443, allowOne, none},
		"private, one allowed":                {answerWith(allowedPrivate, otherPrivate), 443, allowOne, private},
		"restricted port, allowed":            {answerWith(allowedPrivate), restricted, allowOne, none},
		"restricted port, one of two allowed": {answerWith(allowedPrivate, otherPrivate), restricted, allowOne, affiliate.ReasonValidation},
		"restricted port, public not allowed": {answerWith(public), restricted, allowOne, affiliate.ReasonValidation},
		"restricted port, unknown name":       {answerWith(), restricted, allowOne, affiliate.ReasonWebhookURLUnresolvable},
	} {
		t.Run(name, func(t *testing.T) {
			change := []func(*webhook.ClientConfig){withNameServer(startNameServer(t, test.addresses))}
			if test.allow != nil {
				change = append(change, test.allow)
			}
			u := domain.URL{Host: host, Port: test.port, RestrictedPort: test.port == restricted}
			err := newClient(t, change...).Check(t.Context(), u)
			if got := pgtest.ReasonOf(t, err); got != test.want {
				t.Fatalf("Check returned the error %q, want %q", got, test.want)
			}
			if test.want == affiliate.ReasonValidation {
				pgtest.RequireRefusal(t, err, test.want, "url")
			}
		})
	}
}

func TestCheck_ChecksAddressInTheURL(t *testing.T) {
	client := newClient(t, withNameServer(startNameServer(t, nil)))
	for text, want := range map[string]affiliate.Reason{
		"8.8.8.8": "", "2606:4700::1111": "", "127.0.0.1": affiliate.ReasonWebhookURLPrivateIP, "::1": affiliate.ReasonWebhookURLPrivateIP,
		"::ffff:10.0.0.1": affiliate.ReasonWebhookURLPrivateIP,
	} {
		t.Run(text, func(t *testing.T) {
			u := domain.URL{Host: text, Port: 443, Literal: netip.MustParseAddr(text)}
			if got := pgtest.ReasonOf(t, client.Check(t.Context(), u)); got != want {
				t.Errorf("Check returned the error %q, want %q", got, want)
			}
		})
	}
}

// A restricted port is valid only at addresses in networks that the operator allows. If
// there are no such networks, the URL is refused, and the name is not resolved.
func TestRefusesPort_DoesNotResolveTheName(t *testing.T) {
	names := startNameServer(t, answerWith(public))
	u := domain.URL{Host: host, Port: 22, RestrictedPort: true}
	client := newClient(t, withNameServer(names))
	for _, tc := range []struct {
		name   string
		client *webhook.Client
		url    domain.URL
		want   bool
	}{
		{"restricted port", client, u, true},
		{"port 443", client, domain.URL{Host: host, Port: 443}, false},
		{"restricted port, a network is allowed", newClient(t, allowLoopback), u, false},
	} {
		if got := tc.client.RefusesPort(tc.url); got != tc.want {
			t.Errorf("%s: RefusesPort returned %v, want %v", tc.name, got, tc.want)
		}
	}
	pgtest.RequireRefusal(t, client.Check(t.Context(), u), affiliate.ReasonValidation, "url")
	if count, _ := names.queries(); count != 0 {
		t.Errorf("the name was resolved %d times, want never", count)
	}
}

func TestCheck_ReturnsTheContextErrorIfCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newClient(t, withNameServer(startNameServer(t, nil))).Check(ctx, domain.URL{Host: host, Port: 443})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Check returned the error %v, want %v", err, context.Canceled)
	}
}
