package affiliate

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// wildcardLabel is the first label of an origin that matches any subdomain.
const wildcardLabel = "*."

// ParseOrigin parses an origin from a merchant's list and returns its normal form: http
// or https, a host in lower case (a name in ASCII form, or an IP address), and a port
// unless it is the default port of the scheme.
//
// The first label of a name may be an asterisk, which matches one or more labels. The
// rest of the name must then have at least two labels or be localhost, so that a list
// cannot allow a whole top-level domain. Paths (even a single slash), queries and users
// are rejected, because the origins that browsers send do not have them.
func ParseOrigin(s string) (origin string, ok bool) {
	// Most inputs are already in normal form and are returned without an allocation.
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
	} else if !isOriginHost(host) {
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

// splitAuthority separates the port from the host. The port must be written without
// leading zeros or a sign. The host must not be empty. A host that starts with [
// must end with ].
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

// isOriginHost reports whether a lower-case host is allowed in an origin: a name, a
// wildcard for the subdomains of a name, or an IPv4 address.
func isOriginHost(host string) bool {
	parent, wild := strings.CutPrefix(host, wildcardLabel)
	if _, ok := ParseDomain(parent); !ok {
		return false
	}
	last := parent[strings.LastIndexByte(parent, '.')+1:]
	if last[0] >= '0' && last[0] <= '9' {
		// Browsers treat a name whose last label starts with a digit as an IPv4
		// address.
		address, err := netip.ParseAddr(parent)
		return err == nil && address.Is4() && !wild
	}
	return !wild || last != parent || parent == "localhost"
}

// OriginAllowed reports whether a page with the given origin may send clicks. The list contains
// origins in normal form. An empty list allows every origin. Any other list allows the origins
// that it contains and the origins that match a wildcard in it. The parameter origin is the
// value that a browser sends. If it is malformed, opaque (null) or a wildcard, only an empty
// list allows it.
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

// matchesWildcard reports whether a pattern with a wildcard matches an origin. The
// origin must begin with the scheme and end with the part of the pattern after the
// asterisk, which includes the port.
func matchesWildcard(pattern, origin string) bool {
	at := strings.Index(pattern, wildcardLabel)
	if at < 0 {
		return false
	}
	scheme, parent := pattern[:at], pattern[at+1:]
	return len(origin) > len(scheme)+len(parent) && strings.HasPrefix(origin, scheme) && strings.HasSuffix(origin, parent)
}

// ParseWebURL parses an absolute http or https URL and returns its host in lower case.
// It rejects URLs with a user or password.
func ParseWebURL(s string) (host string, ok bool) {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return "", false
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" {
		return "", false
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", false
		}
	}
	return ParseDomain(u.Hostname())
}

// ParseDomain parses a host name in ASCII form and returns it in lower case.
func ParseDomain(s string) (domain string, ok bool) {
	domain = strings.ToLower(s)
	if domain == "" || len(domain) > 253 {
		return "", false
	}
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return "", false
			}
		}
	}
	return domain, true
}

// ParseAllowedDomain parses an entry of a programme's allowed domains, which is a host name, or
// *. followed by a host name. It returns the entry in lower case.
func ParseAllowedDomain(s string) (domain string, ok bool) {
	parent, wildcard := strings.CutPrefix(s, "*.")
	if domain, ok = ParseDomain(parent); ok && wildcard {
		domain = "*." + domain
	}
	return domain, ok
}
