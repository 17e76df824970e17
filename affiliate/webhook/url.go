package webhook

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/tributary-hq/tributary/affiliate"
)

// URL is the address of an endpoint.
type URL struct {
	// Text is the URL in the form that is stored and called. The host is in lower case
	// and punycode, a default port is omitted, the path has at least one slash, and all
	// characters are ASCII.
	Text string
	// Host has no port and no brackets.
	Host string
	Port uint16
	// Literal is the host if it is an IP address; otherwise the zero Addr.
	Literal netip.Addr
	// IsHTTP says that the scheme is http.
	IsHTTP bool
	// RestrictedPort says that the port is only allowed for addresses in the operator's
	// allow-list.
	RestrictedPort bool
}

// maxURLSize is the greatest length of a URL, both as entered and as stored.
const maxURLSize = 2048

// ParseURL parses the URL of an endpoint
// (docs/merchant/webhooks.md#register-an-endpoint). If the URL is not valid, it returns
// all problems. Percent-encoding is not changed. Package net/http understands URL.Text in
// the same way: its request goes to URL.Host and URL.Port, with the same path and query.
func ParseURL(raw string) (URL, []string) {
	var wrong []string
	check := func(ok bool, message string) {
		if !ok {
			wrong = append(wrong, message)
		}
	}
	check(!strings.ContainsFunc(raw, isAmbiguousRune), "must not contain spaces, control characters or backslashes")
	rest, _, fragment := strings.Cut(raw, "#")
	check(!fragment, "must not contain a fragment")
	scheme, rest, found := strings.Cut(rest, "://")
	scheme = strings.ToLower(scheme)
	standard, known := defaultPorts[scheme]
	check(found && known, "must begin with https://")
	if !found {
		return URL{}, append(wrong, sizeProblem(raw)...)
	}

	authority, target := rest, ""
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		authority, target = rest[:at], rest[at:]
	}
	at := strings.LastIndexByte(authority, '@')
	check(at < 0, "must not contain a user")
	hostText, portText, explicit := splitPort(authority[at+1:])
	host, literal, problems := parseHost(hostText)
	wrong = append(wrong, problems...)
	port := standard
	if explicit {
		var ok bool
		port, ok = parsePort(portText)
		check(ok, "must have a port from 1 to 65535")
	}
	path, query, hasQuery := strings.Cut(target, "?")
	_, err := url.PathUnescape(path)
	check(err == nil, "must not contain a bare % in its path")

	u := URL{
		Host: host, Port: port, Literal: literal,
		IsHTTP:         scheme == "http",
		RestrictedPort: port != standard && !portAllowed(port),
	}
	u.Text = scheme + "://" + host
	if literal.Is6() {
		u.Text = scheme + "://[" + host + "]"
	}
	if port != standard {
		u.Text += ":" + strconv.Itoa(int(port))
	}
	if path == "" {
		path = "/"
	}
	u.Text += encode(path)
	if hasQuery {
		u.Text += "?" + encode(query)
	}
	if wrong = append(wrong, sizeProblem(raw, u.Text)...); len(wrong) > 0 {
		return URL{}, wrong
	}
	return u, nil
}

var defaultPorts = map[string]uint16{"https": httpsPort, "http": 80}

func sizeProblem(texts ...string) []string {
	for _, text := range texts {
		if len(text) > maxURLSize {
			return []string{"must have at most " + strconv.Itoa(maxURLSize) + " characters"}
		}
	}
	return nil
}

// isAmbiguousRune reports whether some URL parsers drop the character, or different
// parsers treat it in different ways.
func isAmbiguousRune(r rune) bool {
	return r == '\\' || r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r)
}

// splitPort separates the port, which is the text after the last colon outside
// brackets.
func splitPort(authority string) (host, port string, found bool) {
	colon := strings.LastIndexByte(authority, ':')
	if colon <= strings.LastIndexByte(authority, ']') {
		return authority, "", false
	}
	return authority[:colon], authority[colon+1:], true
}

// parsePort parses a port without leading zeros.
func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0 && text[0] != '0'
}

// hostNames converts internationalized names to ASCII. It has the rules of idna.Lookup,
// except that the third and fourth characters of a label may be hyphens. Preview
// deployments have such names, for example qa--shop.example.
var hostNames = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false))

// parseHost parses a name, an IPv4 address, or an IPv6 address in brackets.
func parseHost(text string) (host string, literal netip.Addr, wrong []string) {
	if text == "" {
		return "", netip.Addr{}, []string{"must have a host"}
	}
	if text, _, found := strings.Cut(text, "%"); found {
		// The text before the % is parsed as well, so that all problems are returned.
		wrong = []string{"must not contain a % in its host"}
		if text == "" || text[0] != '[' {
			return "", netip.Addr{}, wrong
		}
		host, literal, more := parseHost(text + "]")
		return host, literal, append(wrong, more...)
	}
	if text[0] == '[' {
		address, err := netip.ParseAddr(strings.TrimSuffix(text[1:], "]"))
		if err != nil || !address.Is6() || text[len(text)-1] != ']' {
			return "", netip.Addr{}, []string{"must have an IPv6 address between its brackets"}
		}
		return address.String(), address, nil
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
		return text, address, nil
	}
	if len(text) > maxURLSize {
		// The conversion to punycode takes time that is quadratic in the length of a
		// name.
		return "", netip.Addr{}, []string{"must have a host that is a name or an address"}
	}
	name, err := hostNames.ToASCII(text)
	name, dotted := strings.CutSuffix(name, ".")
	if dotted {
		wrong = append(wrong, "must not have a dot at the end of its host")
	}
	host, ok := affiliate.ParseDomain(name)
	switch {
	case endsInNumber(name):
		wrong = append(wrong, "must have an IPv4 address of four decimal numbers")
	case err != nil || !ok:
		wrong = append(wrong, "must have a host that is a name or an address")
	}
	return host, netip.Addr{}, wrong
}

// endsInNumber reports whether the last label of a name is a number. Some resolvers
// treat such a name as an IPv4 address in another notation: octal, hexadecimal, or with
// fewer than four parts.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.HasPrefix(last, "0x") || last != "" && strings.Trim(last, "0123456789") == ""
}

// encode percent-encodes the characters that are not allowed in a path or a query.
// Existing percent-encoding is not changed, because receivers may treat %2F and a slash
// differently.
func encode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			strings.IndexByte("-._~!$&'()*+,;=:@/?[]%", c) >= 0:
			b.WriteByte(c)
		default:
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
