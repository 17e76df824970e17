package httpedge

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Origins is the set of web origins whose scripts may read the responses of a server.
type Origins map[string]bool

// ParseOrigins returns the origins as a set. It fails if an origin does not have the form
// that browsers use in the header Origin.
func ParseOrigins(origins []string) (Origins, error) {
	set := make(Origins, len(origins))
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) ||
			u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin || strings.Contains(origin, "*") {
			return nil, fmt.Errorf("%q is not an origin such as https://app.example", origin)
		}
		set[origin] = true
	}
	return set, nil
}
