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

// URL is where an endpoint is.
type URL struct {
	// Text is the URL in the form that is stored and called: host in lower case and
	// punycode, no default port, a path of one slash at least, all of it ASCII.
	Text string
	// Host is without port and brackets.
	Host string
	Port uint16
	// Literal is the host where it is an address; else the zero Addr.
	Literal netip.Addr
	// Plain: it is http.
	Plain bool
	// OddPort: a port that only an address of the operator's allow-list may have.
	OddPort bool
}

// maxURLSize bounds a URL as it is given and as it is stored.
const maxURLSize = 2048

// ParseURL reads the URL of an endpoint (RELIABILITY.md section 4, point 1), or says
// what is wrong with it: all of it. Percent-encoding stays as it is. What net/http
// makes of Text has the same host and port, and the same path and query go out.
func ParseURL(raw string) (URL, []string) {
	var wrong []string
	check := func(ok bool, message string) {
		if !ok {
			wrong = append(wrong, message)
		}
	}
	check(!strings.ContainsFunc(raw, unfit), "must not contain spaces, control characters or backslashes")
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
	path, query, asks := strings.Cut(target, "?")
	_, err := url.PathUnescape(path)
	check(err == nil, "must not contain a bare % in its path")

	u := URL{
		Host: host, Port: port, Literal: literal,
		Plain:   scheme == "http",
		OddPort: port != standard && !openPort(port),
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
	if asks {
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

// unfit tells what parsers of URLs drop, or read each in its own way.
func unfit(r rune) bool {
	return r == '\\' || r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r)
}

// splitPort takes the port off: what follows the last colon that is not inside
// brackets.
func splitPort(authority string) (host, port string, found bool) {
	colon := strings.LastIndexByte(authority, ':')
	if colon <= strings.LastIndexByte(authority, ']') {
		return authority, "", false
	}
	return authority[:colon], authority[colon+1:], true
}

// parsePort reads a port in its shortest form.
func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0 && text[0] != '0'
}

// hostNames reads internationalized names: idna.Lookup, but that two hyphens may
// stand third and fourth in a label. Hosts of previews have such names
// (qa--shop.example).
var hostNames = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false))

// parseHost reads a name, an IPv4 address or an IPv6 address in brackets.
func parseHost(text string) (host string, literal netip.Addr, wrong []string) {
	if text == "" {
		return "", netip.Addr{}, []string{"must have a host"}
	}
	if text, _, found := strings.Cut(text, "%"); found {
		// An address is still read without its zone.
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
		// Punycode takes time that grows with the square of a name.
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
		wrong = append(wrong, "must have an IPv4 address as four decimal numbers, if it has one")
	case err != nil || !ok:
		wrong = append(wrong, "must have a host that is a name or an address")
	}
	return host, netip.Addr{}, wrong
}

// endsInNumber reports whether some resolvers take a name for an IPv4 address:
// decimal, octal, hexadecimal, or of fewer than four parts.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.HasPrefix(last, "0x") || last != "" && strings.Trim(last, "0123456789") == ""
}

// encode percent-encodes what a path or a query does not hold as it is. What is
// encoded stays so, byte for byte: receivers may tell %2F from a slash.
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
