package httpedge

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func request(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func proxies(t testing.TB, list string) []netip.Prefix {
	t.Helper()
	trusted, err := ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return trusted
}

func TestAddressPrefix(t *testing.T) {
	for addr, want := range map[string]string{"203.0.113.9": "203.0.113.0/24", "2001:db8:1:2::3": "2001:db8:1::/48"} {
		if got := AddressPrefix(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is kept as %q, want %q", addr, got, want)
		}
	}
	if got := AddressPrefix(netip.Addr{}); got != "" {
		t.Errorf("no address is kept as %q", got)
	}
}

func TestClientAddr(t *testing.T) {
	const proxy = "10.0.0.1:5000"
	cases := []struct {
		name, peer, want string
		forwarded        []string
	}{
		{"peer that is no proxy", "198.51.100.7:1", "198.51.100.7", nil},
		{"spoofed header from a peer that is no proxy", "198.51.100.7:1", "198.51.100.7", []string{"1.2.3.4"}},
		{"one proxy", proxy, "203.0.113.9", []string{"203.0.113.9"}},
		{"client's own claim left of the proxy's word", proxy, "203.0.113.9", []string{"1.2.3.4, 203.0.113.9"}},
		{"two proxies", proxy, "203.0.113.9", []string{"1.2.3.4, 203.0.113.9, 10.0.0.2"}},
		{"header in two lines", proxy, "203.0.113.9", []string{"1.2.3.4", "203.0.113.9,10.0.0.2"}},
		{"garbage as the last hop", proxy, "10.0.0.1", []string{"203.0.113.9, unknown"}},
		{"garbage behind a proxy", proxy, "10.0.0.2", []string{"203.0.113.9, <script>, 10.0.0.2"}},
		{"empty header", proxy, "10.0.0.1", []string{""}},
		{"only proxies", proxy, "10.0.0.3", []string{"10.0.0.3, 10.0.0.2"}},
		{"port appended", proxy, "203.0.113.9", []string{"203.0.113.9:4711"}},
		{"v6 with port", proxy, "2001:db8::1", []string{"[2001:db8::1]:4711"}},
		{"v6 in brackets", proxy, "2001:db8::1", []string{"[2001:db8::1]"}},
		{"v4 inside v6", proxy, "203.0.113.9", []string{"::ffff:203.0.113.9"}},
		{"proxy that speaks v4 inside v6", "[::ffff:10.0.0.1]:1", "203.0.113.9", []string{"203.0.113.9"}},
		{"zone", "[fe80::1%eth0]:1", "fe80::1", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.peer)
			for _, line := range c.forwarded {
				r.Header.Add("X-Forwarded-For", line)
			}
			if got := ClientAddr(r, proxies(t, "10.0.0.0/8")); got.String() != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestLimitSubjectTakesAWholeV6Subscriber(t *testing.T) {
	for in, want := range map[string]string{
		"203.0.113.9":         "203.0.113.9",
		"2001:db8:1:2:3::4":   "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::": "2001:db8:1:2::/64",
	} {
		if got := LimitSubject(netip.MustParseAddr(in)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got := LimitSubject(netip.Addr{}); got == "" {
		t.Error("a connection without an address must be counted under some subject")
	}
}

func TestParseProxies(t *testing.T) {
	if got := proxies(t, " 10.1.2.3/8 ,192.0.2.1, ::1"); len(got) != 3 || got[0].String() != "10.0.0.0/8" || got[1].String() != "192.0.2.1/32" || got[2].String() != "::1/128" {
		t.Errorf("got %v", got)
	}
	if got := proxies(t, ""); got != nil {
		t.Errorf("an empty list trusts %v", got)
	}
	if _, err := ParseProxies("10.0.0.0/8,nonsense"); err == nil {
		t.Error("nonsense was accepted")
	}
}

func TestSecure(t *testing.T) {
	cases := []struct {
		name  string
		peer  string
		proto []string
		allow bool
		want  bool
	}{
		{"plain", "198.51.100.7:1", nil, false, false},
		{"plain, development", "198.51.100.7:1", nil, true, true},
		{"spoofed", "198.51.100.7:1", []string{"https"}, false, false},
		{"proxy says https", "10.0.0.1:1", []string{"https"}, false, true},
		{"proxy says HTTPS", "10.0.0.1:1", []string{"HTTPS"}, false, true},
		{"proxy says http", "10.0.0.1:1", []string{"http"}, false, false},
		{"client claimed https, proxy appended http", "10.0.0.1:1", []string{"https, http"}, false, false},
		{"client claimed https in a line of its own", "10.0.0.1:1", []string{"https", "http"}, false, false},
		{"proxy says nothing", "10.0.0.1:1", nil, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.peer)
			for _, line := range c.proto {
				r.Header.Add("X-Forwarded-Proto", line)
			}
			if got := Secure(r, proxies(t, "10.0.0.0/8"), c.allow); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Whatever a client puts into the header, the answer is an address that the
// proxy itself reported: the last entry, or the proxy.
func FuzzClientAddr(f *testing.F) {
	f.Add("1.2.3.4, 5.6.7.8")
	f.Add("[::1]:99,")
	f.Add(",,,%")
	trusted := proxies(f, "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, claim string) {
		r := request("10.0.0.1:1")
		r.Header["X-Forwarded-For"] = []string{claim + ", 203.0.113.9"}
		if got := ClientAddr(r, trusted).String(); got != "203.0.113.9" {
			t.Fatalf("%q moved the client to %s", claim, got)
		}
		r.Header["X-Forwarded-For"] = []string{claim}
		if got := ClientAddr(r, trusted); !got.IsValid() {
			t.Fatalf("%q left no address", claim)
		}
	})
}
