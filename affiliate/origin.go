package affiliate

import (
	"net/netip"
	"strconv"
	"strings"
)

// wildcardLabel is the first label of an origin that stands for any subdomain.
const wildcardLabel = "*."

// ParseOrigin reads an origin as merchants list them and returns its normal
// form: http or https, a host in lower case (a name in its ASCII form, or an
// address), and a port unless it is the scheme's own. The first label of a name
// may be an asterisk, which stands for one label or more; what follows it has
// two labels at least, or is localhost, so that nobody allows a whole top-level
// domain. A path, even a single slash, a query or a user is refused: a browser
// sends none.
func ParseOrigin(s string) (origin string, ok bool) {
	// Normal forms, which most are, come back without an allocation.
	origin = strings.ToLower(s)
	scheme, authority, found := strings.Cut(origin, "://")
	if !found || scheme != "http" && scheme != "https" {
		return "", false
	}
	host, port, ok := splitAuthority(authority)
	if !ok {
		return "", false
	}
	name := host
	if host[0] == '[' {
		address, err := netip.ParseAddr(host[1 : len(host)-1])
		if err != nil || !address.Is6() || address.Is4In6() || address.Zone() != "" {
			return "", false
		}
		name = "[" + address.String() + "]"
	} else if !originHost(host) {
		return "", false
	}
	if port == defaultPorts[scheme] {
		port = ""
	}
	switch {
	case port == "" && len(scheme)+len("://")+len(name) == len(origin) && name == host:
		return origin, true
	case port == "":
		return scheme + "://" + name, true
	case name == host:
		return origin, true
	}
	return scheme + "://" + name + ":" + port, true
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// splitAuthority takes the port off. A port is written in its shortest form; the
// host is not empty, and one that starts with a bracket ends with one.
func splitAuthority(authority string) (host, port string, ok bool) {
	host = authority
	if at := strings.LastIndexByte(authority, ':'); at > strings.LastIndexByte(authority, ']') {
		host, port = authority[:at], authority[at+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] < '1' || port[0] > '9' {
			return "", "", false
		}
	}
	if host == "" || host[0] == '[' && host[len(host)-1] != ']' {
		return "", "", false
	}
	return host, port, true
}

// originHost reports whether a lower-case host is one of ours: a name, one of
// its subdomains by an asterisk, or an IPv4 address.
func originHost(host string) bool {
	parent, wild := strings.CutPrefix(host, wildcardLabel)
	if _, ok := ParseDomain(parent); !ok {
		return false
	}
	last := parent[strings.LastIndexByte(parent, '.')+1:]
	if last[0] >= '0' && last[0] <= '9' {
		// Browsers take a name that ends in a number for an address.
		address, err := netip.ParseAddr(parent)
		return err == nil && address.Is4() && !wild
	}
	return !wild || last != parent || parent == "localhost"
}

// OriginAllowed reports whether a page of the origin may send clicks: the list,
// of normal forms, is empty, or holds the origin, or holds a wildcard of which
// the origin is a subdomain, however deep. The origin is what a browser sends;
// one that is malformed, opaque (null) or itself a wildcard is only in the empty
// list.
func OriginAllowed(list []string, origin string) bool {
	if len(list) == 0 {
		return true
	}
	normal, ok := ParseOrigin(origin)
	if !ok || strings.Contains(normal, wildcardLabel) {
		return false
	}
	for _, allowed := range list {
		if allowed == normal || matchesWildcard(allowed, normal) {
			return true
		}
	}
	return false
}

// matchesWildcard compares a wildcard's scheme with the beginning and the rest,
// from the dot on, with the end: a port belongs to the end of both.
func matchesWildcard(pattern, origin string) bool {
	at := strings.Index(pattern, wildcardLabel)
	if at < 0 {
		return false
	}
	scheme, parent := pattern[:at], pattern[at+1:]
	return len(origin) > len(scheme)+len(parent) && strings.HasPrefix(origin, scheme) && strings.HasSuffix(origin, parent)
}
