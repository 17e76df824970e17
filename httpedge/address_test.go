package httpedge

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
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

// The first request of a proxy that is not trusted is logged, with the network of the proxy.
func TestRefusedProxies_LogsOnce(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	var refused RefusedProxies
	trusted := proxies(t, "10.0.0.1")
	refused.Log(log, request("192.0.2.9:1234"), trusted)
	refused.Log(log, request("10.0.0.1:1234", "X-Forwarded-Proto", "http"), trusted)
	if out.Len() > 0 {
		t.Errorf("requests without the header or from a trusted proxy are logged: %s", out.String())
	}
	for range 2 {
		refused.Log(log, request("192.0.2.9:1234", "X-Forwarded-Proto", "https"), trusted)
	}
	line := out.String()
	if strings.Count(line, "level=WARN") != 1 || !strings.Contains(line, "setting=TRIBUTARY_TRUSTED_PROXIES network=192.0.2.0/24") || strings.Contains(line, "192.0.2.9") {
		t.Errorf("the log contains %q, want one warning with the setting and the network 192.0.2.0/24", line)
	}
}

func TestAddressPrefix(t *testing.T) {
	for addr, want := range map[string]string{"203.0.113.9": "203.0.113.0/24", "2001:db8:1:2::3": "2001:db8:1::/48"} {
		if got := AddressPrefix(netip.MustParseAddr(addr)); got != want {
			t.Errorf("the prefix of %s is %q, want %q", addr, got, want)
		}
	}
	if got := AddressPrefix(netip.Addr{}); got != "" {
		t.Errorf("the prefix of the zero address is %q, want an empty text", got)
	}
}

func TestClientAddr(t *testing.T) {
	const proxy = "10.0.0.1:5000"
	cases := []struct {
		name, peer, want string
		forwarded        []string
	}{
		{"peer is not a proxy", "198.51.100.7:1", "198.51.100.7", nil},
		{"forged header from a peer that is not a proxy", "198.51.100.7:1", "198.51.100.7", []string{"1.2.3.4"}},
		{"one proxy", proxy, "203.0.113.9", []string{"203.0.113.9"}},
		{"forged entry left of the proxy's entry", proxy, "203.0.113.9", []string{"1.2.3.4, 203.0.113.9"}},
		{"two proxies", proxy, "203.0.113.9", []string{"1.2.3.4, 203.0.113.9, 10.0.0.2"}},
		{"header in two lines", proxy, "203.0.113.9", []string{"1.2.3.4", "203.0.113.9,10.0.0.2"}},
		{"invalid entry from the nearest proxy", proxy, "10.0.0.1", []string{"203.0.113.9, unknown"}},
		{"invalid entry from a farther proxy", proxy, "10.0.0.2", []string{"203.0.113.9, <script>, 10.0.0.2"}},
		{"empty header", proxy, "10.0.0.1", []string{""}},
		{"only proxies", proxy, "10.0.0.3", []string{"10.0.0.3, 10.0.0.2"}},
		{"port appended", proxy, "203.0.113.9", []string{"203.0.113.9:4711"}},
		{"v6 with port", proxy, "2001:db8::1", []string{"[2001:db8::1]:4711"}},
		{"v6 in brackets", proxy, "2001:db8::1", []string{"[2001:db8::1]"}},
		{"IPv4-mapped IPv6", proxy, "203.0.113.9", []string{"::ffff:203.0.113.9"}},
		{"proxy with IPv4-mapped IPv6 address", "[::ffff:10.0.0.1]:1", "203.0.113.9", []string{"203.0.113.9"}},
		{"zone", "[fe80::1%eth0]:1", "fe80::1", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.peer)
			for _, line := range c.forwarded {
				r.Header.Add("X-Forwarded-For", line)
			}
			if got := ClientAddr(r, proxies(t, "10.0.0.0/8")); got.String() != c.want {
				t.Errorf("ClientAddr = %s, want %s", got, c.want)
			}
		})
	}
}

func TestLimitSubject_CountsIPv6PerSubscriber(t *testing.T) {
	for in, want := range map[string]string{
		"203.0.113.9":         "203.0.113.9",
		"2001:db8:1:2:3::4":   "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::": "2001:db8:1:2::/64",
	} {
		if got := LimitSubject(netip.MustParseAddr(in)); got != want {
			t.Errorf("LimitSubject(%s) = %s, want %s", in, got, want)
		}
	}
	if got := LimitSubject(netip.Addr{}); got == "" {
		t.Error("LimitSubject of the zero address returns an empty text")
	}
}

func TestParseProxies(t *testing.T) {
	if got := proxies(t, " 10.1.2.3/8 ,192.0.2.1, ::1"); len(got) != 3 || got[0].String() != "10.0.0.0/8" || got[1].String() != "192.0.2.1/32" || got[2].String() != "::1/128" {
		t.Errorf("ParseProxies returns %v, want 10.0.0.0/8, 192.0.2.1/32 and ::1/128", got)
	}
	if got := proxies(t, ""); got != nil {
		t.Errorf("ParseProxies of an empty list returns %v, want nil", got)
	}
	if _, err := ParseProxies("10.0.0.0/8,invalid"); err == nil {
		t.Error("an invalid list was accepted")
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
		{"forged header", "198.51.100.7:1", []string{"https"}, false, false},
		{"proxy reports https", "10.0.0.1:1", []string{"https"}, false, true},
		{"proxy reports HTTPS", "10.0.0.1:1", []string{"HTTPS"}, false, true},
		{"proxy reports http", "10.0.0.1:1", []string{"http"}, false, false},
		{"client claimed https, proxy appended http", "10.0.0.1:1", []string{"https, http"}, false, false},
		{"client claimed https in a separate line", "10.0.0.1:1", []string{"https", "http"}, false, false},
		{"proxy sends no header", "10.0.0.1:1", nil, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.peer)
			for _, line := range c.proto {
				r.Header.Add("X-Forwarded-Proto", line)
			}
			if got := Secure(r, proxies(t, "10.0.0.0/8"), c.allow); got != c.want {
				t.Errorf("Secure = %v, want %v", got, c.want)
			}
		})
	}
}

// A client must not be able to change the result with its own X-Forwarded-For header.
func FuzzClientAddr(f *testing.F) {
	f.Add("1.2.3.4, 5.6.7.8")
	f.Add("[::1]:99,")
	f.Add(",,,%")
	trusted := proxies(f, "10.0.0.0/8")
	f.Fuzz(func(t *testing.T, claim string) {
		r := request("10.0.0.1:1")
		r.Header["X-Forwarded-For"] = []string{claim + ", 203.0.113.9"}
		if got := ClientAddr(r, trusted).String(); got != "203.0.113.9" {
			t.Fatalf("%q changed the client's address to %s", claim, got)
		}
		r.Header["X-Forwarded-For"] = []string{claim}
		if got := ClientAddr(r, trusted); !got.IsValid() {
			t.Fatalf("ClientAddr returns no address for the header %q", claim)
		}
	})
}
