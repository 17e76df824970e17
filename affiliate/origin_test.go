package affiliate_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestParseOrigin(t *testing.T) {
	for in, want := range map[string]string{
		"https://shop.example.com":        "https://shop.example.com",
		"HTTPS://Shop.Example.COM":        "https://shop.example.com",
		"https://shop.example.com:443":    "https://shop.example.com",
		"http://shop.example.com:443":     "http://shop.example.com:443",
		"http://shop.example.com:80":      "http://shop.example.com",
		"https://shop.example.com:8443":   "https://shop.example.com:8443",
		"https://*.example.com":           "https://*.example.com",
		"https://*.Example.com:8443":      "https://*.example.com:8443",
		"http://localhost:3000":           "http://localhost:3000",
		"http://*.localhost:3000":         "http://*.localhost:3000",
		"http://127.0.0.1:3000":           "http://127.0.0.1:3000",
		"http://[::1]:3000":               "http://[::1]:3000",
		"http://[::1]":                    "http://[::1]",
		"https://[2001:DB8:0:0:0:0:0:1]":  "https://[2001:db8::1]",
		"https://[2001:db8::0:1]:443":     "https://[2001:db8::1]",
		"https://[2001:db8:0::1]:8443":    "https://[2001:db8::1]:8443",
		"https://xn--bcher-kva.example":   "https://xn--bcher-kva.example",
		"https://1und1.example":           "https://1und1.example",
		"":                                "",
		"null":                            "",
		"*":                               "",
		"https://":                        "",
		"https://:443":                    "",
		"ftp://example.com":               "",
		"example.com":                     "",
		"//example.com":                   "",
		"https:/example.com":              "",
		"https://example.com/":            "",
		"https://example.com/shop":        "",
		"https://example.com?a":           "",
		"https://example.com#a":           "",
		"https://a@example.com":           "",
		"https://a:b@example.com":         "",
		"https://example.com:":            "",
		"https://example.com:0":           "",
		"https://example.com:080":         "",
		"https://example.com:+80":         "",
		"https://example.com:65536":       "",
		"https://example.com:https":       "",
		"https://exa mple.com":            "",
		" https://example.com":            "",
		"https://example.com.":            "",
		"https://bücher.example":          "",
		"https://*":                       "",
		"https://*.":                      "",
		"https://*.com":                   "",
		"https://*example.com":            "",
		"https://shop.*.example.com":      "",
		"https://*.*.example.com":         "",
		"https://*.10.0.0.1":              "",
		"https://10.0.0.256":              "",
		"https://10.1":                    "",
		"https://[::1":                    "",
		"https://::1":                     "",
		"https://[fe80::1%25eth0]":        "",
		"https://[127.0.0.1]":             "",
		"https://[::ffff:127.0.0.1]":      "",
		"https://*.[::1]":                 "",
		"https://-a.example":              "",
		"https://a\\b.example":            "",
		"https://example.com:443:443":     "",
		"https://https://www.example.com": "",
	} {
		got, ok := affiliate.ParseOrigin(in)
		if got != want || ok != (want != "") {
			t.Errorf("ParseOrigin(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

func TestOriginAllowed(t *testing.T) {
	list := []string{"https://example.com", "https://*.example.org", "http://*.localhost:3000", "http://[::1]:8080"}
	for origin, want := range map[string]bool{
		"https://example.com":                true,
		"https://Example.com:443":            true,
		"http://example.com":                 false,
		"https://example.com:8443":           false,
		"https://www.example.com":            false,
		"https://shop.example.org":           true,
		"https://a.b.shop.example.org":       true,
		"https://SHOP.example.org:443":       true,
		"https://example.org":                false,
		"https://evilexample.org":            false,
		"https://shop.example.org.evil.test": false,
		"http://shop.example.org":            false,
		"https://shop.example.org:8443":      false,
		"https://*.example.org":              false,
		"http://a.localhost:3000":            true,
		"http://a.localhost":                 false,
		"http://localhost:3000":              false,
		"http://[::1]:8080":                  true,
		"http://[0::1]:8080":                 true,
		"null":                               false,
		"":                                   false,
		"https://.example.org":               false,
		"https://shop.example.org/":          false,
	} {
		if got := affiliate.OriginAllowed(list, origin); got != want {
			t.Errorf("OriginAllowed(%q) = %v, want %v", origin, got, want)
		}
	}
	for _, origin := range []string{"https://anything.test", "null", ""} {
		if !affiliate.OriginAllowed(nil, origin) {
			t.Errorf("OriginAllowed(%q) with an empty list = false", origin)
		}
	}
}

func TestOriginAllowed_DoesNotAllocate(t *testing.T) {
	list := []string{"https://example.com", "https://*.example.org"}
	if n := testing.AllocsPerRun(100, func() { affiliate.OriginAllowed(list, "https://a.example.org") }); n != 0 {
		t.Errorf("OriginAllowed allocates %v times, want 0", n)
	}
}

func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"https://*.Example.com:443", "http://[::1]:3000", "http://localhost", "https://a@b", "null", "https://1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		normal, ok := affiliate.ParseOrigin(s)
		if !ok {
			if normal != "" {
				t.Fatalf("ParseOrigin(%q) = %q, false; want an empty text", s, normal)
			}
			if affiliate.OriginAllowed([]string{s}, s) {
				t.Fatalf("%q is not an origin, but OriginAllowed allows it", s)
			}
			return
		}
		if again, ok := affiliate.ParseOrigin(normal); !ok || again != normal {
			t.Fatalf("ParseOrigin(%q) = %q, %v; want the same origin", normal, again, ok)
		}
		// net/url must also parse the normal form as an origin: a URL with only a
		// scheme, a host and a port.
		concrete := strings.Replace(normal, "*", "any", 1)
		u, err := url.Parse(concrete)
		if err != nil || u.Scheme+"://"+u.Host != concrete || u.Hostname() == "" || u.User != nil {
			t.Fatalf("url.Parse(%q) = %v, %v; want only a scheme, a host and a port", concrete, u, err)
		}
		if !affiliate.OriginAllowed([]string{normal}, concrete) {
			t.Fatalf("the entry %q does not allow the origin %q", normal, concrete)
		}
		if wild := concrete != normal; wild {
			parent := strings.Replace(normal, "*.", "", 1)
			if affiliate.OriginAllowed([]string{normal}, parent) || affiliate.OriginAllowed([]string{normal}, normal) {
				t.Fatalf("the entry %q allows %q or itself, want only subdomains", normal, parent)
			}
		}
	})
}
