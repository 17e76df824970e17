package settings

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Regions holds the settings of the regions. In each region, collectors run near visitors and use the Redis of the
// region. The cores run in the home region, whose Redis is configured by the settings of the type Redis.
type Regions struct {
	// Others are all regions except the home region.
	Others RegionList `env:"TRIBUTARY_REGIONS"`
	// RegionRedis is the kind of the Redis of each region in Others.
	RegionRedis clickstream.Kind `env:"TRIBUTARY_REGION_REDIS" envDefault:"single"`
	// HomeRegion is the name of the home region in metrics and logs.
	HomeRegion string `env:"TRIBUTARY_HOME_REGION" envDefault:"home"`
	// RegionShards is the number of streams in the Redis of each region in Others.
	RegionShards int
}

// Region is a region other than the home region.
type Region struct{ Name, URL string }

// RegionList is a list of regions, `name=URL`, separated by spaces or line ends.
type RegionList []Region

var regionName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

var errRegionName = errors.New("the name of a region must have 1 to 32 lower-case letters, digits or hyphens")

// UnmarshalText reads a list of regions. Its errors do not contain the URLs, because a URL
// may contain a password.
func (l *RegionList) UnmarshalText(text []byte) error {
	var list RegionList
	seen := map[string]bool{}
	for i, field := range strings.Fields(string(text)) {
		name, url, _ := strings.Cut(field, "=")
		switch {
		case !regionName.MatchString(name):
			return fmt.Errorf("region %d: %w", i+1, errRegionName)
		case url == "":
			return fmt.Errorf("region %s: must be name=URL", name)
		case seen[name]:
			return fmt.Errorf("region %s is in the list twice", name)
		case seen[url]:
			return fmt.Errorf("region %s has the same Redis as another region", name)
		}
		seen[name], seen[url] = true, true
		list = append(list, Region{Name: name, URL: url})
	}
	*l = list
	return nil
}

// Region returns the address of the Redis of a region.
func (r *Regions) Region(of Region, roots func() *x509.CertPool) clickstream.Endpoint {
	return clickstream.Endpoint{URL: of.URL, Kind: r.RegionRedis, Roots: roots, Far: true}
}

// faults returns an error for each invalid setting. The parameter home has the URLs of the Redis of the home region.
func (r *Regions) faults(home ...string) error {
	err := require(regionName.MatchString(r.HomeRegion), "TRIBUTARY_HOME_REGION: %w", errRegionName)
	for _, other := range r.Others {
		err = errors.Join(err,
			require(other.Name != r.HomeRegion, "TRIBUTARY_REGIONS: region %s has the name of the home region", other.Name),
			require(!slices.Contains(home, other.URL), "TRIBUTARY_REGIONS: region %s has the Redis of the home region", other.Name),
			checkEndpoint("TRIBUTARY_REGIONS", other.URL, "TRIBUTARY_REGION_REDIS", r.RegionRedis),
		)
	}
	return err
}
