package collector

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// placeRecord returns a record in the format of MaxMind's files. Like a real record, it
// also contains names, which the collector does not use.
func placeRecord(country string, subdivisions ...string) mmdbtype.Map {
	names := mmdbtype.Map{}
	for _, language := range []mmdbtype.String{"de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN"} {
		names[language] = "Name in " + language
	}
	record := mmdbtype.Map{
		"city":      mmdbtype.Map{"geoname_id": mmdbtype.Uint32(1), "names": names},
		"continent": mmdbtype.Map{"code": mmdbtype.String("EU"), "names": names},
		"location":  mmdbtype.Map{"latitude": mmdbtype.Float64(47.4), "longitude": mmdbtype.Float64(8.5), "time_zone": mmdbtype.String("Europe/Zurich")},
	}
	if country != "" {
		record["country"] = mmdbtype.Map{"geoname_id": mmdbtype.Uint32(2), "iso_code": mmdbtype.String(country), "names": names}
	}
	var parts mmdbtype.Slice
	for _, code := range subdivisions {
		parts = append(parts, mmdbtype.Map{"geoname_id": mmdbtype.Uint32(3), "iso_code": mmdbtype.String(code), "names": names})
	}
	if parts != nil {
		record["subdivisions"] = parts
	}
	return record
}

// mmdb returns the content of a MaxMind file with the given networks.
func mmdb(t testing.TB, kind string, networks map[string]mmdbtype.Map) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: kind, RecordSize: 28, IncludeReservedNetworks: true})
	check(t, err)
	for text, record := range networks {
		_, network, err := net.ParseCIDR(text)
		check(t, err)
		check(t, tree.Insert(network, record))
	}
	var file bytes.Buffer
	_, err = tree.WriteTo(&file)
	check(t, err)
	return file.Bytes()
}

func countriesWith(t testing.TB, kind string, networks map[string]mmdbtype.Map) *countries {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.mmdb")
	check(t, os.WriteFile(path, mmdb(t, kind, networks), 0o600))
	c, err := openCountries(path, discardLogger())
	check(t, err)
	return c
}

func TestCountries_PlaceOfAddress(t *testing.T) {
	cities := countriesWith(t, "GeoLite2-City", map[string]mmdbtype.Map{
		"203.0.113.0/24":    placeRecord("CH", "ZH"),
		"198.51.100.0/25":   placeRecord("GB", "ENG", "LND"),
		"198.51.100.128/25": placeRecord("", "XX"), // a network without a country
		"2001:db8:1::/48":   placeRecord("DE", "BY"),
		"2001:db8:2::/48":   placeRecord("VA"),
		"192.0.2.0/24":      placeRecord("Switzerland", "ZH"),
		"2001:db8:4::/48":   placeRecord("AT", "Vienna"),
	})
	withoutCities := countriesWith(t, "GeoLite2-Country", map[string]mmdbtype.Map{"203.0.113.0/24": placeRecord("CH")})
	for _, c := range []struct {
		countries             *countries
		addr, country, region string
	}{
		{cities, "203.0.113.9", "CH", "ZH"},
		{cities, "::ffff:203.0.113.9", "CH", "ZH"},
		{cities, "198.51.100.9", "GB", "ENG"},
		{cities, "198.51.100.200", "", ""},
		{cities, "2001:db8:1::9", "DE", "BY"},
		{cities, "192.0.2.1", "", ""},
		{cities, "2001:db8:4::9", "AT", ""},
		{cities, "2001:db8:2::9%eth0", "VA", ""},
		{cities, "2001:db8:3::9", "", ""},
		{cities, "192.168.1.1", "", ""},
		{cities, "127.0.0.1", "", ""},
		{cities, "::1", "", ""},
		{cities, "fe80::1", "", ""},
		{withoutCities, "203.0.113.9", "CH", ""},
		{withoutCities, "203.0.114.9", "", ""},
		{nil, "203.0.113.9", "", ""},
	} {
		want := place{c.country, c.region}
		for range 2 { // The second lookup reads from the cache.
			if got := c.countries.lookup(netip.MustParseAddr(c.addr)); got != want {
				t.Errorf("lookup(%s) = %q, want %q", c.addr, got, want)
			}
		}
	}
	if got := cities.lookup(netip.Addr{}); got != (place{}) {
		t.Errorf("lookup of the zero address = %q, want no place", got)
	}
}

func TestOpenCountries_RejectsInvalidFile(t *testing.T) {
	folder := t.TempDir()
	whole := mmdb(t, "GeoLite2-Country", map[string]mmdbtype.Map{"203.0.113.0/24": placeRecord("CH")})
	redis := redistest.New(t)
	for name, content := range map[string][]byte{
		"missing.mmdb":   nil,
		"empty.mmdb":     {},
		"text.mmdb":      []byte("<html>Not found</html>"),
		"truncated.mmdb": whole[:len(whole)/2],
		"networks.mmdb":  mmdb(t, "GeoLite2-ASN", map[string]mmdbtype.Map{"203.0.113.0/24": {"autonomous_system_number": mmdbtype.Uint32(64500)}}),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder, name)
			if content != nil {
				check(t, os.WriteFile(path, content, 0o600))
			}
			endpoint := clickstream.Endpoint{URL: redis}
			_, err := Open(Config{Stream: endpoint, Cache: endpoint, HashKey: bytes.Repeat([]byte("k"), 32), CountryDB: path}, discardLogger(), newRegistry())
			if err == nil || !strings.HasPrefix(err.Error(), "TRIBUTARY_COUNTRY_DB: ") || strings.Contains(err.Error(), path) {
				t.Errorf("Open: error %v, want an error with the name of the setting and without the path", err)
			}
		})
	}
}

func TestCountries_ReloadReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.mmdb")
	at := time.Now().Truncate(time.Second)
	put := func(content []byte) {
		t.Helper()
		at = at.Add(time.Second)
		check(t, os.WriteFile(path+".new", content, 0o600))
		check(t, os.Chtimes(path+".new", at, at))
		check(t, os.Rename(path+".new", path))
	}
	file := func(country string) []byte {
		return mmdb(t, "GeoLite2-Country", map[string]mmdbtype.Map{"203.0.113.0/24": placeRecord(country)})
	}
	put(file("CH"))
	var log bytes.Buffer
	c, err := openCountries(path, slog.New(slog.NewTextHandler(&log, nil)))
	check(t, err)

	// Look up addresses while the file is replaced.
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := c.lookup(netip.MustParseAddr("203.0.113.9")); len(got.country) != 2 {
					t.Errorf("lookup during a replacement = %q, want a country", got)
					return
				}
			}
		})
	}
	defer func() { close(stop); group.Wait() }()

	step := func(want, logged string) {
		t.Helper()
		for range 2 { // The second call must not log again.
			c.refresh()
		}
		if got := c.lookup(netip.MustParseAddr("203.0.113.9")).country; got != want {
			t.Errorf("country %s, want %s", got, want)
		}
		if got := log.String(); strings.Count(got, "\n") != min(1, len(logged)) || !strings.Contains(got, logged) || strings.Contains(got, path) {
			t.Errorf("logged %q, want one line that contains %q and not the path, or no line if this text is empty", got, logged)
		}
		log.Reset()
	}
	step("CH", "")
	put(file("DE"))
	step("DE", "the country file was replaced")
	put([]byte("damaged"))
	step("DE", "the previous one stays in use")
	put(file("FR"))
	step("FR", "the country file was replaced")
	check(t, os.Remove(path))
	step("FR", "the previous one stays in use")
	put(file("AT"))
	step("AT", "the country file was replaced")
}

// A click record contains the place and the device of its visitor. Without consent it
// contains nothing that is derived from the address.
func TestClick_ContainsPlaceAndDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.mmdb")
	check(t, os.WriteFile(path, mmdb(t, "GeoLite2-City", map[string]mmdbtype.Map{"203.0.113.0/24": placeRecord("CH", "ZH")}), 0o600))
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.CountryDB = path })
	body := func(consent click.Consent) string {
		return `{"referral_code":"anna","url":"https://shop.example/p?gclid=secret#x","screen":"820x1180","consent":"` + string(consent) + `"}`
	}
	for _, click := range []struct {
		consent click.Consent
		headers []string
	}{
		{click.ConsentGranted, []string{"User-Agent", macintosh + "Version/17.3.1 Safari/605.1.15"}},
		{click.ConsentDenied, []string{"User-Agent", macintosh + "Version/17.3.1 Safari/605.1.15"}},
		{click.ConsentUnknown, []string{"User-Agent", "curl/8.5.0"}},
		{click.ConsentUnknown, []string{"User-Agent", windows + "Chrome/121.0.0.0 Safari/537.36", "Sec-Purpose", "prefetch;prerender"}},
	} {
		if got := e.click(body(click.consent), click.headers...); got.status != 201 {
			t.Fatalf("status %d, want 201: %s", got.status, got.text)
		}
	}
	for n, want := range []struct{ country, region, device, browser, os, bot string }{
		{"CH", "ZH", "tablet", "Safari", "iOS", ""},
		{"", "", "tablet", "", "", ""},
		{"CH", "ZH", "", "other", "", "library"},
		{"CH", "ZH", "desktop", "Chrome", "Windows", "prefetch"},
	} {
		got := e.storedClicks()[n]
		if got.Country != want.country || got.Region != want.region || got.Device != want.device || got.Browser != want.browser || got.Os != want.os ||
			got.IsBot != (want.bot != "") || got.BotReason != want.bot || got.PaidPlatform != "google" || strings.Contains(got.String(), "secret") {
			t.Errorf("click %d is stored as %v, want %+v, the platform google and no part of the query", n, got, want)
		}
	}
}
