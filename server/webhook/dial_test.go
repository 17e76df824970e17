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
	"github.com/tributary-hq/tributary/affiliate/webhook"
	server "github.com/tributary-hq/tributary/server/webhook"
)

var (
	public  = netip.MustParseAddr("8.8.8.8")
	public6 = netip.MustParseAddr("2606:4700::1111")
	mapped  = netip.MustParseAddr("::ffff:127.0.0.1")
)

func asking(s *nameServer) func(*server.ClientConfig) {
	return func(cfg *server.ClientConfig) { cfg.Resolver = s.resolver() }
}

func TestNothingIsDialledWhenAnAddressIsRefused(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	for name, z := range map[string]zone{
		"loopback":                  always(loopback),
		"public and loopback":       always(public, loopback),
		"loopback and public":       always(loopback, public),
		"IPv6 loopback":             always(netip.IPv6Loopback()),
		"loopback as IPv6":          always(mapped),
		"public, loopback as IPv6":  always(public, mapped),
		"public IPv6, metadata":     always(public6, netip.MustParseAddr("169.254.169.254")),
		"public, metadata behind 4": always(public, public6, netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("169.254.169.254")),
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, asking(serveNames(t, z)))
			if o := client.Send(t.Context(), attempt(r.url(host))); o != webhook.FailureOutcome(webhook.BlockedAddress) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
	if n := r.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestNameThatIsReboundIsNotCalled(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	names := serveNames(t, func(nth int) []netip.Addr {
		if nth == 0 {
			return []netip.Addr{public}
		}
		return []netip.Addr{loopback}
	})
	client := newClient(t, asking(names))
	if err := client.Check(t.Context(), webhook.URL{Text: r.url(host), Host: host, Port: r.port()}); err != nil {
		t.Fatal(err)
	}
	if o := client.Send(t.Context(), attempt(r.url(host))); o != webhook.FailureOutcome(webhook.BlockedAddress) {
		t.Errorf("outcome %+v", o)
	}
	if n := r.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// What was judged is what is dialled: the name is not looked up a second time.
func TestNameIsLookedUpOncePerConnection(t *testing.T) {
	r := say(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	names := serveNames(t, func(nth int) []netip.Addr {
		if nth == 0 {
			return []netip.Addr{loopback}
		}
		return []netip.Addr{public}
	})
	if o := newClient(t, allowLoopback, asking(names)).Send(t.Context(), attempt(r.url(host))); !o.Succeeded() {
		t.Errorf("outcome %+v", o)
	}
	asked, all := names.questions()
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	for _, name := range all {
		if name != host+"." {
			t.Errorf("asked for %s", name)
		}
	}
}

func TestLastLookIsAtTheAddressThatIsDialled(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	to := netip.AddrPortFrom(loopback, r.port())
	if err := newClient(t).Connect(t.Context(), to); err == nil || !strings.HasPrefix(err.Error(), webhook.BlockedAddress) {
		t.Errorf("error %v", err)
	}
	if n := r.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if err := newClient(t, allowLoopback).Connect(t.Context(), to); err != nil {
		t.Error(err)
	}
	if n := r.connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// Nobody listens on 127.0.0.2 and its like.
func TestUpToFourAddressesAreTriedInTurn(t *testing.T) {
	refusing := []netip.Addr{
		netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.4"), netip.MustParseAddr("127.0.0.5"),
	}
	for name, test := range map[string]struct {
		before int
		want   webhook.Outcome
	}{
		"the first answers":  {0, webhook.Outcome{StatusCode: 200}},
		"the second answers": {1, webhook.Outcome{StatusCode: 200}},
		"the fourth answers": {3, webhook.Outcome{StatusCode: 200}},
		"the fifth would":    {4, webhook.FailureOutcome(webhook.ConnectionRefused)},
	} {
		t.Run(name, func(t *testing.T) {
			r := say(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			names := serveNames(t, always(append(refusing[:test.before:test.before], loopback)...))
			if o := newClient(t, allowLoopback, asking(names)).Send(t.Context(), attempt(r.url(host))); o != test.want {
				t.Errorf("outcome %+v, want %+v", o, test.want)
			}
		})
	}
}

// The time for dialling is what a test can wait for; half of it is the share of each
// of two addresses.
func TestAddressThatSwallowsPacketsLeavesTimeForTheNext(t *testing.T) {
	swallowing := netip.MustParseAddr("127.0.0.2")
	r := say(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	swallow(t, netip.AddrPortFrom(swallowing, r.port()))
	for name, test := range map[string]struct {
		addresses []netip.Addr
		want      webhook.Outcome
	}{
		"the next answers": {[]netip.Addr{swallowing, loopback}, webhook.Outcome{StatusCode: 200}},
		"there is no next": {[]netip.Addr{swallowing}, webhook.FailureOutcome(webhook.Timeout)},
		"the next refuses": {[]netip.Addr{swallowing, netip.MustParseAddr("127.0.0.3")}, webhook.FailureOutcome(webhook.Timeout)},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, allowLoopback, asking(serveNames(t, always(test.addresses...))))
			client.Bound(600*time.Millisecond, ample, ample)
			if o := client.Send(t.Context(), attempt(r.url(host))); o != test.want {
				t.Errorf("outcome %+v, want %+v", o, test.want)
			}
		})
	}
}

// swallow listens and accepts nothing. Once the few connections that the system
// accepts by itself are made, it drops what asks for more.
func swallow(t *testing.T, at netip.AddrPort) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		conn, err := net.DialTimeout("tcp", at.String(), 250*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the system accepts without end")
}

func TestNameThatDoesNotResolve(t *testing.T) {
	for name, test := range map[string]struct {
		zone zone
		dial time.Duration
	}{
		"no such name":          {always(), ample},
		"no addresses":          {always([]netip.Addr{}...), ample},
		"no answer from anyone": {nil, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, asking(serveNames(t, test.zone)))
			client.Bound(test.dial, ample, ample)
			if o := client.Send(t.Context(), attempt(urlOf(host, 443))); o != webhook.FailureOutcome(webhook.DNSError) {
				t.Errorf("outcome %+v", o)
			}
			err := client.Check(t.Context(), webhook.URL{Host: host, Port: 443})
			if !errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookURLUnresolvable)) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestCheckJudgesEveryAddress(t *testing.T) {
	allow := func(prefix string) func(*server.ClientConfig) {
		return func(cfg *server.ClientConfig) { cfg.Allowed = []netip.Prefix{netip.MustParsePrefix(prefix)} }
	}
	const odd = 22
	var (
		none     affiliate.Reason
		private  = affiliate.ReasonWebhookURLPrivateIP
		tenOne   = netip.MustParseAddr("10.1.0.1")
		tenTwo   = netip.MustParseAddr("10.2.0.1")
		someTens = allow("10.1.0.0/16")
	)
	for name, test := range map[string]struct {
		zone   zone
		port   uint16
		allow  func(*server.ClientConfig)
		reason affiliate.Reason
	}{
		"public":                       {always(public, public6), 443, nil, none},
		"public, a high port":          {always(public), 8443, nil, none},
		"loopback":                     {always(loopback), 443, nil, private},
		"public and private":           {always(public, tenOne), 443, nil, private},
		"loopback as IPv6":             {always(mapped), 443, nil, private},
		"unique local IPv6":            {always(public, netip.MustParseAddr("fd00::1")), 443, nil, private},
		"private, allowed":             {always(tenOne), 443, someTens, none},
		"private, one allowed":         {always(tenOne, tenTwo), 443, someTens, private},
		"odd port, allowed":            {always(tenOne), odd, someTens, none},
		"odd port, one allowed":        {always(tenOne, tenTwo), odd, someTens, affiliate.ReasonValidation},
		"odd port, public not allowed": {always(public), odd, someTens, affiliate.ReasonValidation},
		"odd port, no name":            {always(), odd, someTens, affiliate.ReasonWebhookURLUnresolvable},
	} {
		t.Run(name, func(t *testing.T) {
			change := []func(*server.ClientConfig){asking(serveNames(t, test.zone))}
			if test.allow != nil {
				change = append(change, test.allow)
			}
			u := webhook.URL{Host: host, Port: test.port, RestrictedPort: test.port == odd}
			expect(t, newClient(t, change...).Check(t.Context(), u), test.reason)
		})
	}
}

func TestCheckJudgesAnAddressInTheURL(t *testing.T) {
	client := newClient(t, asking(serveNames(t, nil)))
	for text, reason := range map[string]affiliate.Reason{
		"8.8.8.8": "", "2606:4700::1111": "", "127.0.0.1": affiliate.ReasonWebhookURLPrivateIP, "::1": affiliate.ReasonWebhookURLPrivateIP,
		"::ffff:10.0.0.1": affiliate.ReasonWebhookURLPrivateIP,
	} {
		t.Run(text, func(t *testing.T) {
			u := webhook.URL{Host: text, Port: 443, Literal: netip.MustParseAddr(text)}
			expect(t, client.Check(t.Context(), u), reason)
		})
	}
}

// Without an allow-list an odd port is wrong whatever the name means.
func TestOddPortIsRefusedWithoutAskingForTheName(t *testing.T) {
	names := serveNames(t, always(public))
	u := webhook.URL{Host: host, Port: 22, RestrictedPort: true}
	client := newClient(t, asking(names))
	if !client.RefusesPort(u) || client.RefusesPort(webhook.URL{Host: host, Port: 443}) {
		t.Error("the port is judged wrongly")
	}
	if newClient(t, allowLoopback).RefusesPort(u) {
		t.Error("the port is refused before the name is known")
	}
	expect(t, client.Check(t.Context(), u), affiliate.ReasonValidation)
	if asked, _ := names.questions(); asked != 0 {
		t.Errorf("asked %d times", asked)
	}
}

func TestCanceledCheckSaysNothingOfTheName(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newClient(t, asking(serveNames(t, nil))).Check(ctx, webhook.URL{Host: host, Port: 443})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// expect compares an error by its reason; none: there is no error. A violation is one
// of url.
func expect(t *testing.T, err error, reason affiliate.Reason) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Errorf("error %v", err)
		}
		return
	}
	var refused *affiliate.Error
	if !errors.As(err, &refused) || refused.Reason != reason {
		t.Fatalf("error %v, want %s", err, reason)
	}
	if reason == affiliate.ReasonValidation && (len(refused.Violations) != 1 || refused.Violations[0].Field != "url") {
		t.Errorf("violations %v", refused.Violations)
	}
}
