package webhook

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseURL_Accepts(t *testing.T) {
	for raw, want := range map[string]URL{
		"https://example.com":                       {Text: "https://example.com/", Host: "example.com", Port: 443},
		"https://example.com/":                      {Text: "https://example.com/", Host: "example.com", Port: 443},
		"HTTPS://Example.COM:443/Hook?A=B":          {Text: "https://example.com/Hook?A=B", Host: "example.com", Port: 443},
		"https://example.com?":                      {Text: "https://example.com/?", Host: "example.com", Port: 443},
		"https://example.com?next=https://x/?y":     {Text: "https://example.com/?next=https://x/?y", Host: "example.com", Port: 443},
		"https://example.com//a/../b":               {Text: "https://example.com//a/../b", Host: "example.com", Port: 443},
		"https://example.com/@me:x":                 {Text: "https://example.com/@me:x", Host: "example.com", Port: 443},
		"https://example.com:8443/hook":             {Text: "https://example.com:8443/hook", Host: "example.com", Port: 8443},
		"https://example.com:1024":                  {Text: "https://example.com:1024/", Host: "example.com", Port: 1024},
		"https://example.com:65535":                 {Text: "https://example.com:65535/", Host: "example.com", Port: 65535},
		"https://localhost:9000":                    {Text: "https://localhost:9000/", Host: "localhost", Port: 9000},
		"https://1.example":                         {Text: "https://1.example/", Host: "1.example", Port: 443},
		"https://0x7f.example":                      {Text: "https://0x7f.example/", Host: "0x7f.example", Port: 443},
		"https://1e3":                               {Text: "https://1e3/", Host: "1e3", Port: 443},
		"https://qa--shop.example":                  {Text: "https://qa--shop.example/", Host: "qa--shop.example", Port: 443},
		"https://" + strings.Repeat("a", 63) + ".b": {Text: "https://" + strings.Repeat("a", 63) + ".b/", Host: strings.Repeat("a", 63) + ".b", Port: 443},

		// Names with characters outside ASCII.
		"https://BÜCHER.example":         {Text: "https://xn--bcher-kva.example/", Host: "xn--bcher-kva.example", Port: 443},
		"https://xn--bcher-kva.example":  {Text: "https://xn--bcher-kva.example/", Host: "xn--bcher-kva.example", Port: 443},
		"https://straße.example":         {Text: "https://xn--strae-oqa.example/", Host: "xn--strae-oqa.example", Port: 443},
		"https://ｅｘａｍｐｌｅ。com":            {Text: "https://example.com/", Host: "example.com", Port: 443},
		"https://exa\u00admple.com/hook": {Text: "https://example.com/hook", Host: "example.com", Port: 443},

		// Percent-encoding is not changed. Characters that are not allowed in a URL are
		// encoded.
		"https://example.com/a%2Fb%2fc%7E~": {Text: "https://example.com/a%2Fb%2fc%7E~", Host: "example.com", Port: 443},
		"https://example.com/%2F|?a%5b]=[%": {Text: "https://example.com/%2F%7C?a%5b]=[%", Host: "example.com", Port: 443},
		`https://example.com/ä"?ö<>`:        {Text: "https://example.com/%C3%A4%22?%C3%B6%3C%3E", Host: "example.com", Port: 443},
		"https://example.com/%00%0d%0a":     {Text: "https://example.com/%00%0d%0a", Host: "example.com", Port: 443},

		// IP addresses. ParseURL does not check whether they may be called.
		"https://192.0.2.1/":           {Text: "https://192.0.2.1/", Host: "192.0.2.1", Port: 443, Literal: netip.MustParseAddr("192.0.2.1")},
		"https://127.0.0.1:8443":       {Text: "https://127.0.0.1:8443/", Host: "127.0.0.1", Port: 8443, Literal: netip.MustParseAddr("127.0.0.1")},
		"https://[2001:DB8:0:0::1]":    {Text: "https://[2001:db8::1]/", Host: "2001:db8::1", Port: 443, Literal: netip.MustParseAddr("2001:db8::1")},
		"https://[::1]:443/x":          {Text: "https://[::1]/x", Host: "::1", Port: 443, Literal: netip.MustParseAddr("::1")},
		"https://[::FFFF:7f00:1]:8443": {Text: "https://[::ffff:127.0.0.1]:8443/", Host: "::ffff:127.0.0.1", Port: 8443, Literal: netip.MustParseAddr("::ffff:127.0.0.1")},

		// URLs with http are accepted, and IsHTTP is set.
		"http://example.com":      {Text: "http://example.com/", Host: "example.com", Port: 80, IsHTTP: true},
		"http://example.com:80/a": {Text: "http://example.com/a", Host: "example.com", Port: 80, IsHTTP: true},
		"http://example.com:443":  {Text: "http://example.com:443/", Host: "example.com", Port: 443, IsHTTP: true},
		"http://example.com:81":   {Text: "http://example.com:81/", Host: "example.com", Port: 81, IsHTTP: true, RestrictedPort: true},

		// Ports that are only allowed for addresses in the allow-list.
		"https://example.com:80":    {Text: "https://example.com:80/", Host: "example.com", Port: 80, RestrictedPort: true},
		"https://example.com:1":     {Text: "https://example.com:1/", Host: "example.com", Port: 1, RestrictedPort: true},
		"https://example.com:1023":  {Text: "https://example.com:1023/", Host: "example.com", Port: 1023, RestrictedPort: true},
		"https://example.com:6379":  {Text: "https://example.com:6379/", Host: "example.com", Port: 6379, RestrictedPort: true},
		"https://example.com:27017": {Text: "https://example.com:27017/", Host: "example.com", Port: 27017, RestrictedPort: true},
	} {
		if got, wrong := ParseURL(raw); got != want || wrong != nil {
			t.Errorf("ParseURL(%q) = %+v, %q; want %+v", raw, got, wrong, want)
		}
	}
}

const (
	noText     = "must not contain spaces, control characters or backslashes"
	noFragment = "must not contain a fragment"
	noScheme   = "must begin with https://"
	noUser     = "must not contain a user"
	noHost     = "must have a host"
	noName     = "must have a host that is a name or an address"
	noZone     = "must not contain a % in its host"
	noBrackets = "must have an IPv6 address between its brackets"
	noDot      = "must not have a dot at the end of its host"
	noNumber   = "must have an IPv4 address of four decimal numbers"
	noPort     = "must have a port from 1 to 65535"
	noPercent  = "must not contain a bare % in its path"
	noSize     = "must have at most 2048 characters"
)

func TestParseURL_Rejects(t *testing.T) {
	for raw, want := range map[string][]string{
		"":                                    {noScheme},
		"example.com":                         {noScheme},
		"//example.com":                       {noScheme},
		"/hook":                               {noScheme},
		"https:example.com":                   {noScheme},
		"https:/example.com":                  {noScheme},
		"ftp://example.com":                   {noScheme},
		"file:///etc/passwd":                  {noScheme, noHost},
		"gopher://127.0.0.1:6379/_":           {noScheme},
		"javascript:alert(1)":                 {noScheme},
		"https\u017f://example.com":           {noScheme},
		"https://":                            {noHost},
		"https:///hook":                       {noHost},
		"https://?q":                          {noHost},
		"https://:8443":                       {noHost},
		"https://user@example.com":            {noUser},
		"https://u:p@example.com":             {noUser},
		"https://@example.com":                {noUser},
		"https://a@b@example.com":             {noUser},
		"https://good.example@10.0.0.1:6379/": {noUser},
		"https://example.com#":                {noFragment},
		"https://example.com/#a":              {noFragment},
		"https://example.com#@evil.example":   {noFragment},

		// Characters that parsers treat differently.
		" https://example.com":              {noText, noScheme},
		"https://example.com ":              {noText, noName},
		"https://example.com/a b":           {noText},
		"https://example.com/\t":            {noText},
		"https://example.com/\r\nHost: x":   {noText},
		"https://example.com/?\x00":         {noText},
		"https://example.com/\x7f":          {noText},
		"https://example.com/\u0085":        {noText},
		"https://example.com/\u00a0":        {noText},
		"https://example.com/\xff":          {noText},
		`https://example.com\@evil.example`: {noText, noUser},
		`https:\\example.com`:               {noText, noScheme},
		`https://example.com/a\b`:           {noText},

		// A zone, or another % in the host.
		"https://[fe80::1%25eth0]":    {noZone},
		"https://[fe80::1%eth0]:8443": {noZone},
		"https://[fe80::zz%25eth0]":   {noZone, noBrackets},
		"https://fe80::1%25eth0":      {noName, noPort},
		"https://ex%61mple.com":       {noZone},
		"https://b%C3%BCcher.example": {noZone},
		"https://%":                   {noZone},

		// Brackets.
		"https://[::1":          {noBrackets},
		"https://[]":            {noBrackets},
		"https://[":             {noBrackets},
		"https://[127.0.0.1]":   {noBrackets},
		"https://[example.com]": {noBrackets},
		"https://[[::1]]":       {noBrackets},
		"https://[::1]x":        {noBrackets},
		"https://[::1]x:443":    {noBrackets},
		"https://x[::1]":        {noName},
		"https://::1":           {noName},
		"https://2001:db8::1/":  {noName},

		// Names that are not valid.
		"https://example.com.":                             {noDot},
		"https://EXAMPLE.com.:443/":                        {noDot},
		"https://example.com。":                             {noDot},
		"https://example.com..":                            {noDot, noName},
		"https://.":                                        {noDot, noName},
		"https://.example.com":                             {noName},
		"https://a..b":                                     {noName},
		"https://-a.example":                               {noName},
		"https://a-.example":                               {noName},
		"https://a_b.example":                              {noName},
		"https://*.example.com":                            {noName},
		"https://a,b.example":                              {noName},
		"https://xn--.example":                             {noName},
		"https://a\u05d0.example":                          {noName}, // mixes left-to-right and right-to-left characters
		"https://xn--a.example":                            {noName},
		"https://xn--example-.com":                         {noName},
		"https://\u2100.example":                           {noName},
		"https://" + strings.Repeat("a", 64) + ".example":  {noName},
		"https://" + strings.Repeat("a.", 127) + "example": {noName},

		// Numbers that some resolvers treat as IP addresses.
		"https://2130706433":       {noNumber},
		"https://0":                {noNumber},
		"https://127.1":            {noNumber},
		"https://127.0.1":          {noNumber},
		"https://0177.0.0.1":       {noNumber},
		"https://127.0.0.01":       {noNumber},
		"https://017700000001":     {noNumber},
		"https://0x7f000001":       {noNumber},
		"https://0X7F.0.0.0x1":     {noNumber},
		"https://127.0.0.0x1":      {noNumber},
		"https://0x":               {noNumber},
		"https://1.2.3.4.5":        {noNumber},
		"https://256.0.0.1":        {noNumber},
		"https://example.1":        {noNumber},
		"https://１２７.０.０.１":        {noNumber},
		"https://127。0。0。1":        {noNumber},
		"https://①②⑦.0.0.1":        {noNumber},
		"https://127.0.0.1.":       {noDot, noNumber},
		"https://2130706433.:8443": {noDot, noNumber},

		// Ports.
		"https://example.com:":        {noPort},
		"https://example.com:0":       {noPort},
		"https://example.com:0443":    {noPort},
		"https://example.com:65536":   {noPort},
		"https://example.com:+443":    {noPort},
		"https://example.com:-1":      {noPort},
		"https://example.com:443a":    {noPort},
		"https://example.com:https":   {noPort},
		"https://example.com:４４３":     {noPort},
		"https://example.com:443:443": {noName},
		"https://[::1]:":              {noPort},

		"https://example.com/%":   {noPercent},
		"https://example.com/%zz": {noPercent},
		"https://example.com/%2":  {noPercent},

		"https://example.com/" + strings.Repeat("a", 2029): {noSize},
		"https://" + strings.Repeat("ä", 1<<20):            {noName, noSize},
		"https://example.com/" + strings.Repeat("ä", 400):  {noSize},

		// Several problems together.
		`ftp://me@127.1.:0/%` + " \\#x":                           {noText, noFragment, noScheme, noUser, noDot, noNumber, noPort, noPercent},
		"http://u@[::1%251]:x/" + strings.Repeat("a", 2048) + "#": {noFragment, noUser, noZone, noPort, noSize},
	} {
		if got, wrong := ParseURL(raw); got != (URL{}) || !slices.Equal(wrong, want) {
			t.Errorf("ParseURL(%q) = %+v, %q; want %q", raw, got, wrong, want)
		}
	}
	if _, wrong := ParseURL("https://example.com/" + strings.Repeat("a", 2028)); wrong != nil {
		t.Errorf("ParseURL of a URL with 2048 characters: %q, want no problems", wrong)
	}
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"https://example.com", "HTTPS://U:p@Example.com.:0443/a%2Fb|?q=%zz&ä#f", "http://[::ffff:7f00:1]:80/",
		"https://bücher.example:8443/ä", "https://0x7f.1", "https://１２７。0.0.1/", "https://[fe80::1%25eth0]", "https://xn--bcher-kva.example",
		`https://a\@b/`, "https://qa--shop.example?", "https://نامه\u200cای.example/", "https://A--xn--a.xn--0.example", "https://ß.ẞ.ſ.K",
	} {
		f.Add(seed)
	}
	f.Fuzz(checkURL)
}

func TestParseURL_GeneratedURLs(t *testing.T) {
	piece := func(values ...string) *rapid.Generator[string] {
		return rapid.OneOf(rapid.SampledFrom(values), rapid.SampledFrom(values), rapid.StringN(0, 6, -1))
	}
	scheme := piece("https://", "http://", "HtTpS://", "https:", "ftp://")
	user := piece("", "", "", "a@", "@")
	host := piece("example.com", "A.b", "bücher.example", "xn--bcher-kva.example", "127.0.0.1", "[::1]", "[::ffff:1.2.3.4]", "0x7f.1", "a.", "１.example")
	port := piece("", "", ":443", ":80", ":8443", ":022", ":")
	target := piece("", "/", "/a%2Fb", "/a|b%2f", "?", "/?ä=%", "/%", "#", "//x")
	rapid.Check(t, func(rt *rapid.T) {
		var raw strings.Builder
		for _, part := range []*rapid.Generator[string]{scheme, user, host, port, target, target} {
			raw.WriteString(part.Draw(rt, "part"))
		}
		checkURL(t, raw.String())
	})
}

// numericHost matches a host that ends in a number, as the WHATWG URL standard defines
// it.
var numericHost = regexp.MustCompile(`(^|\.)([0-9]+|0[xX][0-9A-Fa-f]*)\.?$`)

// checkURL checks conditions that must be true for every URL. Parsing the stored form
// again must return the same result. net/http must connect to the parsed host and
// request the parsed path.
func checkURL(t *testing.T, raw string) {
	t.Helper()
	u, wrong := ParseURL(raw)
	if wrong != nil {
		if sorted := slices.Sorted(slices.Values(wrong)); u != (URL{}) || len(slices.Compact(sorted)) != len(wrong) {
			t.Fatalf("ParseURL(%q) = %+v, %q; want an empty URL, and each problem once", raw, u, wrong)
		}
		return
	}
	if again, wrong := ParseURL(u.Text); again != u || wrong != nil {
		t.Fatalf("ParseURL(%q) = %+v, but ParseURL of its text = %+v, %q", raw, u, again, wrong)
	}
	if len(u.Text) > maxURLSize || strings.ContainsFunc(u.Text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Fatalf("ParseURL(%q) has the text %q, want at most %d visible ASCII characters", raw, u.Text, maxURLSize)
	}
	r, err := http.NewRequest(http.MethodPost, u.Text, nil)
	if err != nil {
		t.Fatalf("http.NewRequest(%q): %v", u.Text, err)
	}
	port := r.URL.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[r.URL.Scheme]
	}
	if r.URL.Hostname() != u.Host || port != strconv.Itoa(int(u.Port)) || (r.URL.Scheme == "http") != u.IsHTTP {
		t.Fatalf("ParseURL(%q) = %+v, but net/http has scheme %s, host %q and port %q", raw, u, r.URL.Scheme, r.URL.Hostname(), r.URL.Port())
	}
	if r.URL.User != nil || r.URL.Fragment != "" || r.URL.Opaque != "" || r.URL.String() != u.Text {
		t.Fatalf("ParseURL(%q) = %+v, but net/http has %#v", raw, u, r.URL)
	}
	if _, target, _ := strings.Cut(strings.TrimPrefix(u.Text, r.URL.Scheme+"://"), "/"); r.URL.RequestURI() != "/"+target {
		t.Fatalf("for the URL %q, net/http requests %q, want %q", u.Text, r.URL.RequestURI(), "/"+target)
	}
	// net/http and ParseURL must agree on whether the host is an IP address. A host
	// that is not an IP address must not be a number in another notation.
	address, err := netip.ParseAddr(u.Host)
	if address != u.Literal || (err == nil) != u.Literal.IsValid() || u.Literal.Zone() != "" {
		t.Fatalf("ParseURL(%q) = %+v, but netip.ParseAddr of the host returns %v, error %v", raw, u, address, err)
	}
	if !u.Literal.IsValid() && numericHost.MatchString(u.Host) {
		t.Fatalf("ParseURL(%q) = %+v, but the host ends in a number", raw, u)
	}
	// Existing percent-encoding must not change.
	if before, err := url.Parse(raw); err == nil && before.RawPath != "" && before.EscapedPath() == before.RawPath && before.RawPath != r.URL.EscapedPath() {
		t.Fatalf("ParseURL(%q) changed the path %q to %q", raw, before.RawPath, r.URL.EscapedPath())
	}
}
