package httpedge

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// Origins is the set of web origins whose scripts may read the responses of a server.
type Origins map[string]bool

// defaultPorts are the schemes of origins with the ports that browsers leave out.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// browserForm reports whether a browser can send the scheme and the host of an origin: in
// ASCII and lower case, without a wildcard, an empty port or the default port.
func browserForm(u *url.URL) bool {
	defaultPort, ok := defaultPorts[u.Scheme]
	return ok && u.Port() != defaultPort && !strings.HasSuffix(u.Host, ":") &&
		!strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsUpper(r) || r == '*' })
}

// ParseOrigins returns the origins as a set. It fails if an origin does not have the form
// that browsers use in the header Origin.
func ParseOrigins(origins []string) (Origins, error) {
	set := make(Origins, len(origins))
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || !browserForm(u) {
			return nil, fmt.Errorf("%q is not an origin such as https://app.example", origin)
		}
		set[origin] = true
	}
	return set, nil
}
